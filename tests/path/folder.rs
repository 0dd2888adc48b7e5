//! A folder such as a person has: forty files of every kind that is read, and some that are not.

use std::fs;
use std::path::Path;

/// Writes the folder. What is in it is made up for this test.
pub fn write(root: &Path) {
    let put = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    put("notes/bike-repair.md", BIKE.as_bytes());
    put(
        "notes/garden.md",
        b"# Garden\n\nThe tomatoes need a trellis before the end of May. Last year the plants fell \
          over in the first storm.\n\nBuy twelve poles and jute string. Ana lends us her drill on Saturday.\n",
    );
    put(
        "notes/private.md",
        b"---\npublish: false\n---\n# Health\n\nThe appointment with the doctor is on Monday at 9:30. \
          Bring the blood test and the old prescription.\n",
    );
    put(
        "notes/compra.txt",
        b"Hay que comprar arroz, dos calabazas y queso para la cena del s\xe1bado. \
          Marta trae el vino y el postre. La mesa se arma en el patio si no llueve.",
    );
    put("notes/empty.txt", b"");
    put(
        "notes/heating.org",
        b"* TODO Call the landlord\nThe heating in the small room stays cold. The landlord promised \
          to send somebody in January.\n",
    );
    put(
        "web/volume.html",
        b"<!DOCTYPE html><html><head><title>Volume full</title></head><body><h1>When the volume is \
          full</h1><p>First stop the import. Then move the archive to another disk and start the \
          import again.</p><script>bad()</script></body></html>",
    );
    put(
        "papers/sorting.tex",
        b"\\documentclass{article}\\title{On sorting}\\begin{document}\\maketitle\n\\section{Results}\n\
          On a million records the method was 1.7 times faster. It needs twice the memory.\n\\end{document}\n",
    );
    let mails = [
        mail("Kitchen quote", "Mon, 9 Feb 2026 08:12:00 +0000", KITCHEN),
        mail(
            "Trip to the lake",
            "Wed, 11 Feb 2026 18:40:00 +0100",
            "I booked the hut from 3 to 6 April. It has four beds and a stove.\nThe deposit of 80 EUR is paid.\n",
        ),
    ];
    let mailbox = mails.map(|one| format!("From x@x Mon Feb  9 10:00:00 2026\n{one}\n")).concat();
    put("mail/inbox.mbox", mailbox.as_bytes());
    put(
        "mail/lease.eml",
        mail(
            "Lease renewal",
            "Thu, 12 Feb 2026 09:00:00 +0000",
            "The lease ends on 31 March. I offer to renew it for two years at 720 EUR a month.\n\
         The heating will be repaired in February. Send me the signed copy before 1 March.\n",
        )
        .as_bytes(),
    );
    put("chats/conversations.json", CHATGPT.as_bytes());
    put("chats/claude.json", CLAUDE.as_bytes());
    put("feeds/town.xml", RSS.as_bytes());
    put("feeds/blog.atom", ATOM.as_bytes());
    put("feeds/feed.json", JSON_FEED.as_bytes());
    put(
        "tables/expenses.csv",
        b"day,what,amount\n2026-02-01,Rent,700\n2026-02-03,Chain for the bike,32\n",
    );
    put("tables/contacts.json",
        br#"[{"name": "Ana Ruiz", "note": "Lends the drill on Saturday."}, {"name": "Bo", "note": "Booked the hut."}]"#);
    put("office/roof-offer.docx", &zip(&[("word/document.xml", DOCX)]));
    put(
        "books/island.epub",
        &zip(&[
            ("mimetype", "application/epub+zip"),
            (
                "META-INF/container.xml",
                r#"<container><rootfiles><rootfile full-path="p.opf"/></rootfiles></container>"#,
            ),
            (
                "p.opf",
                r#"<package><manifest><item id="a" href="1.xhtml"/></manifest><spine><itemref idref="a"/></spine></package>"#,
            ),
            (
                "1.xhtml",
                "<html><body><h1>Landing</h1><p>The boat reached the island before dawn. Nobody had expected lights on the hill. The captain sent two men ahead.</p></body></html>",
            ),
        ]),
    );
    put("office/invoice.pdf", &pdf("The repair of the washing machine costs 85 EUR."));
    put("office/deed.rtf", br"{\rtf1\ansi The lawyer wants the deed before 20 March.\par}");
    put("office/~$roof-offer.docx", b"\x03Ana");
    put("pictures/lake.png", b"\x89PNG\r\n\x1a\n\0\0\0\0");
    put("pictures/hut.jpg", b"\xff\xd8\xff\xe0\0\0\0\0");
    put("office/slides.key", b"PK\x03\x04\0\0\0\0");
    put("office/~lock.docx.tmp", b"\0\x01\x02\x03\0\x01\x02\x03");
    put("code/build.py", b"import os\n");
    for day in 1..=13 {
        let text = format!(
            "# Day {day}\n\nToday I walked {} kilometres along the river and met Ana near the old mill. \
             We talked about the plan for the summer house. In the evening I read {} pages.\n",
            day + 3,
            day * 10
        );
        put(&format!("journal/2026-01-{day:02}.md"), text.as_bytes());
    }
}

fn mail(subject: &str, date: &str, body: &str) -> String {
    let id = subject.replace(' ', "");
    format!(
        "From: Ana Ruiz <ana@example.org>\nTo: me@example.org\nSubject: {subject}\nDate: {date}\n\
         Message-ID: <{id}@x>\n\n{body}"
    )
}

const BIKE: &str = "---\ntitle: Bike repair\ndate: 2026-02-11\n---\n# Bike repair\n\nThe chain slips on the \
big gear. The shop on the corner has the right chain for 32 EUR. They can fit it on Thursday afternoon.\n\n## \
Brakes\n\nThe rear cable is frayed and must be replaced before the trip to the lake.\n";

const KITCHEN: &str = "Hello,\n\nthe carpenter can build the kitchen for 4,200 EUR. The price includes the\n\
worktop but not the sink. Please answer by Friday so that I can sign the\ncontract on Monday.\n\nBest\nAna\n";

const CHATGPT: &str = r#"[{"title": "Mendoza with kids", "create_time": 1770753600.0, "conversation_id": "c-mendoza",
"current_node": "d", "mapping": {
"r": {"id": "r", "parent": null, "children": ["a"], "message": null},
"a": {"id": "a", "parent": "r", "children": ["b", "b2"], "message": {"id": "m-a", "author": {"role": "user"}, "create_time": 1770753610.0, "content": {"content_type": "text", "parts": ["I want to go to Mendoza for four days in April with two kids. Is it better to rent a car or to book excursions?"]}}},
"b": {"id": "b", "parent": "a", "children": [], "message": {"id": "m-b", "author": {"role": "assistant"}, "create_time": 1770753620.0, "content": {"content_type": "text", "parts": ["Take the bus everywhere, whatever it costs."]}}},
"b2": {"id": "b2", "parent": "a", "children": ["d"], "message": {"id": "m-b2", "author": {"role": "assistant"}, "create_time": 1770753630.0, "content": {"content_type": "text", "parts": ["With two kids a rented car is better, because the wineries and the dam are far apart. Book the car with a child seat before March."]}}},
"d": {"id": "d", "parent": "b2", "children": [], "message": {"id": "m-d", "author": {"role": "user"}, "create_time": 1770753700.0, "content": {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "Good. I will book the car on Monday and look for a cabin near Potrerillos."]}, "metadata": {"attachments": [{"name": "map.pdf"}]}}}}}]"#;

const CLAUDE: &str = r#"[{"uuid": "u1", "name": "SQL index", "created_at": "2026-02-12T10:00:00Z", "chat_messages": [
{"uuid": "1", "sender": "human", "text": "", "content": [{"type": "text", "text": "Why is my query slow? It filters by date."}], "created_at": "2026-02-12T10:00:00Z", "attachments": [{"file_name": "q.sql", "extracted_content": "select * from orders"}], "files": []},
{"uuid": "2", "sender": "assistant", "text": "", "content": [{"type": "text", "text": "The table has no index on the day column, so every row is read. Create an index on day and select only the columns that you need."}], "created_at": "2026-02-12T10:01:00Z", "attachments": [], "files": []}]}]"#;

const RSS: &str = r#"<?xml version="1.0"?><rss version="2.0"><channel><title>Town news</title>
<item><title>Bridge opens on Friday</title><link>https://t.example/1</link><guid>t1</guid><pubDate>Wed, 11 Feb 2026 10:00:00 +0000</pubDate><description>&lt;p&gt;The new bridge opens on Friday at noon. Cars may use it from Monday.&lt;/p&gt;</description></item>
<item><title>Library closes early</title><guid>t2</guid><pubDate>Thu, 12 Feb 2026 10:00:00 +0000</pubDate><description>The library closes at 16:00 until the heating is repaired.</description></item></channel></rss>"#;

const ATOM: &str = r#"<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title><entry><title>Solid state disks</title><id>b1</id><updated>2026-02-10T10:00:00Z</updated><content type="html">&lt;p&gt;Solid state disks lose data when they are without power for years.&lt;/p&gt;</content></entry></feed>"#;

const JSON_FEED: &str = r#"{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "j1", "title": "Trees", "url": "https://j.example/1", "date_published": "2026-02-09T10:00:00Z", "content_text": "The council plants 1,200 trees in two years."}]}"#;

const DOCX: &str = r#"<w:document xmlns:w="w"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Offer</w:t></w:r></w:p>
<w:p><w:r><w:t>The repair of the roof costs 900 EUR without tax. The work takes two days and can start on 2 March. Half of the price is due before the work starts.</w:t></w:r></w:p></w:body></w:document>"#;

/// A PDF of one page with one line of text.
fn pdf(line: &str) -> Vec<u8> {
    let content = format!("BT /F1 12 Tf 72 720 Td ({line}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    let (mut out, mut table) = ("%PDF-1.4\n".to_owned(), String::new());
    for (at, object) in objects.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", out.len()));
        out.push_str(&format!("{} 0 obj\n{object}\nendobj\n", at + 1));
    }
    let start = out.len();
    out.push_str(&format!(
        "xref\n0 6\n0000000000 65535 f \n{table}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    ));
    out.into_bytes()
}

/// A zip archive whose entries are stored as they are.
pub fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, text) in files {
        let mut fields = Vec::new();
        fields.extend([20, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        fields.extend(crc32(text.as_bytes()).to_le_bytes());
        fields.extend((text.len() as u32).to_le_bytes());
        fields.extend((text.len() as u32).to_le_bytes());
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0, 0]);
        let at = out.len() as u32;
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(name.as_bytes());
        out.extend(text.as_bytes());
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (out.len() as u32, (files.len() as u16).to_le_bytes());
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count);
    out.extend(count);
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = !0_u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}
