//! The kinds of files that have a reader, and what their texts are made of.

/// A kind of file. Its text is a beginning, pieces, and an end.
pub struct Kind {
    pub name: &'static str,
    /// The parts of the file of tests that belong to it too.
    pub parts: &'static str,
    /// The file in an archive that has the text; empty where the file is the text.
    pub archive: &'static str,
    /// Whether other pieces than its own make a file that is refused at once.
    pub is_strict: bool,
    pub begin: &'static str,
    pub pieces: &'static [&'static str],
    pub end: &'static str,
}

pub const PACKAGE: &str = "<package><manifest><item id='a' href='a.xhtml'/></manifest>\
                           <spine><itemref idref='a'/></spine></package>";

const fn text(name: &'static str, parts: &'static str) -> Kind {
    Kind { name, parts, archive: "", is_strict: false, begin: "", pieces: &[], end: "" }
}

const fn data(
    name: &'static str,
    begin: &'static str,
    pieces: &'static [&'static str],
    end: &'static str,
) -> Kind {
    Kind { name, parts: "", archive: "", is_strict: true, begin, pieces, end }
}

pub const KINDS: &[Kind] = &[
    Kind { begin: "Pump notes of a week.\n\n", ..text("a.txt", "txt") },
    Kind { begin: "# Pump\n\nNotes.\n\n", ..text("a.md", "md") },
    Kind { begin: "* Pump\n\nNotes.\n\n", ..text("a.org", "org") },
    Kind {
        begin: ".TH PUMP 1\n.SH NAME\npump \\- moves water\n",
        pieces: &[
            ".SH A\n",
            ".PP\nwords\n",
            ".TP\n",
            ".B a\n",
            "\\fB",
            "\\fR a",
            ".\\\" c\n",
            ".nf\n",
            ".fi\n",
            ".RS\n",
            ".RE\n",
            ".de A\n",
            "..\n",
            "\\(em",
            ".IP a 4\n",
            ".so a\n",
            ".ie n a\n",
            "\\&",
        ],
        ..text("a.1", "")
    },
    Kind {
        begin: "Title\n=====\n\nWords.\n\n",
        pieces: &[
            "A\n=\n",
            ".. note::\n",
            "   a\n",
            "``a",
            "`a <b>`_ ",
            ":a: b\n",
            "* a\n",
            ".. _a:\n",
            "|a| ",
            "a::\n\n",
            "+--+\n",
            "[1]_ ",
        ],
        ..text("b.rst", "")
    },
    Kind { begin: "<html><body><p>Pump.</p>", ..text("a.html", "html") },
    Kind {
        begin: "\\documentclass{article}\\begin{document}Pump words.\n",
        ..text("a.tex", "tex")
    },
    Kind {
        begin: "day,what\n2026-03-02,The pump failed\n",
        pieces: &["2026-03-0%N,The pump\n", "a,b,c\n", "Ana said so,\"yes\"\n"],
        ..text("a.csv", "csv")
    },
    Kind {
        begin: "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Pump\nDTSTART:20260302T100000Z\nEND:VEVENT\n",
        pieces: &[
            "BEGIN:VEVENT\nUID:%N\nSUMMARY:Pump\nDTSTART:20260302T100000Z\nRRULE:FREQ=DAILY\nEND:VEVENT\n",
            "BEGIN:VTODO\nSUMMARY:a\nEND:VTODO\n",
            "EXDATE:20260302T100000Z\n",
            "ATTENDEE;CN=a:mailto:a@b.c\n",
        ],
        ..text("a.ics", "ics")
    },
    Kind {
        begin: "BEGIN:VCARD\nVERSION:3.0\nFN:Ana\nEND:VCARD\n",
        pieces: &["BEGIN:VCARD\nFN:Ana %N\nNOTE:words\nEND:VCARD\n", "NOTE:a\n b\n"],
        ..text("a.vcf", "vcf")
    },
    Kind {
        begin: "1\n00:00:01,000 --> 00:00:02,000\nThe pump failed.\n\n",
        pieces: &["%N\n00:00:01,000 --> 00:00:02,000\nAna: words\n\n"],
        ..text("a.srt", "srt")
    },
    // Texts that a program found in a PDF file.
    Kind {
        begin: "%PDF-1.4\nPump notes.\n",
        pieces: &[
            "\u{c}",
            "words of a line that is long enough\n",
            "a-\n",
            "\n\n",
            "   7\n",
            "- a\n",
            "a    b    c\n",
        ],
        ..text("a.pdf", "txt")
    },
    data(
        "a.json",
        "{\"note\":\"The pump failed on Monday\",\"list\":[",
        &[
            "{\"a\":\"The pump failed\",\"n\":%N},",
            "[[\"a word or two\"]],",
            "\"words of a list\",",
            "{\"id\":\"%N\",\"date\":\"2026-03-02\",\"text\":\"The pump\"},",
            "{\"a\":{\"b\":{\"c\":\"words\"}}},",
        ],
        "\"end\"]}",
    ),
    data(
        "b.json",
        "{\"note\":\"The pump failed on Monday\"",
        &[",\"m%N\":\"words of it\"", ",\"a%N\":{\"b\":1}"],
        "}",
    ),
    data(
        "a.jsonl",
        "{\"text\":\"The pump failed on Monday\"}\n",
        &[
            "{\"text\":\"The pump\",\"id\":\"%N\"}\n",
            "{\"text\":\"again\",\"id\":\"a\"}\n",
            "{\"cut\n",
            "{\"a\":\"b c d\",\"n%N\":1}\n",
        ],
        "",
    ),
    data(
        "a.ipynb",
        "{\"nbformat\":4,\"metadata\":{},\"cells\":[",
        &[
            "{\"cell_type\":\"markdown\",\"source\":[\"# Pump\\n\",\"words\"]},",
            "{\"cell_type\":\"code\",\"source\":\"a = 1\",\"outputs\":[{\"text\":\"1\"}]},",
            "{\"cell_type\":\"markdown\",\"source\":\"```\"},",
        ],
        "{\"cell_type\":\"markdown\",\"source\":\"The end.\"}]}",
    ),
    Kind {
        begin: "From: Ana <a@b.c>\nTo: bo@b.c\nDate: Mon, 2 Mar 2026 10:00:00 +0000\nSubject: Pump\n\
                MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=a\n\n--a\n\nThe pump failed.\n",
        pieces: &[
            "\n--a\nContent-Type: text/plain; name=\"a%N.txt\"\nContent-Disposition: attachment\n\nwords\n",
            "\n--a\nContent-Type: text/html\n\n<p>words\n",
            "\n--a\nContent-Type: message/rfc822\n\nFrom: c@d.e\nSubject: inner\n\nwords\n",
            "\n--a\nContent-Type: multipart/alternative; boundary=b%N\n\n--b%N\n\n",
            "\n> quoted\n",
            "On Mon, Ana wrote:\n> words\n",
            "-- \n",
            "=3D=\n",
        ],
        ..text("a.eml", "eml")
    },
    Kind {
        begin: "From a@b.c Mon Mar  2 10:00:00 2026\nFrom: Ana <a@b.c>\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n\
                Subject: Pump\n\nThe pump failed.\n",
        pieces: &[
            "\nFrom a@b.c Mon Mar  2 10:00:00 2026\nFrom: Ana <a@b.c>\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n\
             Message-ID: <%N@b>\nSubject: Pump\n\nThe pump %N.\n",
            "\nFrom a@b.c Mon Mar  2 10:00:00 2026\nFrom: Ana <a@b.c>\nDate: Mon, 2 Mar 2026 10:00:00 +0000\n\
             Message-ID: <same@b>\nIn-Reply-To: <%P@b>\nSubject: Re: Pump\n\nThe pump %N.\n",
            "\nFrom a\n",
            "\nFrom: a\n\n",
            ">From b\n",
            "\n\n",
        ],
        ..text("a.mbox", "eml")
    },
    data(
        "conversations.json",
        "[",
        &[
            "{\"title\":\"Pump\",\"id\":\"%N\",\"create_time\":1772445600,\"current_node\":\"b\",\"mapping\":{\"a\":{\"id\":\"a\",\
         \"parent\":null,\"children\":[\"b\"]},\"b\":{\"id\":\"b\",\"parent\":\"a\",\"children\":[],\"message\":{\"id\":\
         \"m%N\",\"author\":{\"role\":\"user\"},\"create_time\":1772445600,\"content\":{\"content_type\":\"text\",\
         \"parts\":[\"The pump failed\"]}}}}},",
        ],
        "{\"id\":\"end\",\"mapping\":{},\"current_node\":null}]",
    ),
    // One conversation: a long way, many branches.
    data(
        "conversations.json",
        "[{\"title\":\"Pump\",\"id\":\"c\",\"create_time\":1772445600,\"mapping\":{\"root\":\
         {\"children\":[\"0\"]}",
        &[
            ",\"%N\":{\"parent\":\"%P\",\"children\":[],\"message\":{\"author\":{\"role\":\"user\"},\"create_time\":1772445600,\
         \"content\":{\"content_type\":\"text\",\"parts\":[\"The pump %N\"]}}}",
            ",\"%N\":{\"parent\":\"root\",\"children\":[\"%P\",\"root\"],\"message\":{\"author\":{\"role\":\"assistant\"},\
         \"create_time\":1772445600,\"content\":{\"content_type\":\"text\",\"parts\":[\"words\"]}}}",
        ],
        "}}]",
    ),
    data(
        "conversations.json",
        "[",
        &[
            "{\"uuid\":\"%N\",\"name\":\"Pump\",\"chat_messages\":[{\"uuid\":\"m%N\",\"text\":\"The pump failed\",\"sender\":\
         \"human\",\"created_at\":\"2026-03-02T10:00:00Z\"}]},",
            "{\"uuid\":\"same\",\"name\":\"Pump\",\"chat_messages\":[{\"uuid\":\"m\",\"text\":\"again\",\"sender\":\"human\",\
         \"created_at\":\"2026-03-02T10:00:00Z\"}]},",
        ],
        "{\"uuid\":\"end\",\"chat_messages\":[]}]",
    ),
    data(
        "conversations.json",
        "[{\"uuid\":\"c\",\"name\":\"Pump\",\"chat_messages\":[",
        &[
            "{\"uuid\":\"m%N\",\"parent_message_uuid\":\"m%P\",\"text\":\"words\",\"sender\":\"human\",\
         \"created_at\":\"2026-03-02T10:00:00Z\"},",
            "{\"uuid\":\"m%N\",\"text\":\"\",\"sender\":\"assistant\",\"attachments\":[{\"file_name\":\"a\"}]},",
        ],
        "{\"uuid\":\"end\",\"parent_message_uuid\":\"m0\",\"text\":\"words\",\"sender\":\"human\"}]}]",
    ),
    data(
        "a.jsonl",
        "{\"role\":\"user\",\"content\":\"The pump failed\",\"timestamp\":\"2026-03-02T10:00:00Z\"}\n",
        &[
            "{\"role\":\"user\",\"content\":\"words %N\",\"timestamp\":\"2026-03-02T10:00:00Z\"}\n",
            "{\"role\":\"user\",\"content\":\"words\",\"timestamp\":\"2026-03-02T10:00:00Z\"}\n",
            "{\"id\":\"a\",\"role\":\"user\",\"content\":\"words %N\",\"timestamp\":1772%N}\n",
            "{\"role\":\"user\",\"content\":\"\",\"timestamp\":\"x\"}\n",
            "{\"role\"\n",
        ],
        "",
    ),
    Kind {
        begin: "[02.03.26, 10:00:00] Ana: The pump failed.\n[02.03.26, 10:01:00] Bo: Again?\n",
        pieces: &[
            "[02.03.26, 10:00:00] Ana: words\n",
            "[02.03.26, 10:%N:00] Bo: words\n",
            "03/04/26, 10:01 - Cy: yes\n",
            "more of it\n",
            "[02.03.26, 10:00:00] Ana joined\n",
            "[02.03.26, 10:00:00] Ana: <Media omitted>\n",
            "<Ana> words\n",
            "10:00 Ana: words\n",
        ],
        ..text("chat.txt", "txt")
    },
    data(
        "result.json",
        "{\"name\":\"Pump\",\"type\":\"personal_chat\",\"id\":1,\"messages\":[",
        &[
            "{\"id\":%N,\"type\":\"message\",\"date\":\"2026-03-02T10:00:00\",\"date_unixtime\":\"1772445600\",\
         \"from\":\"Ana\",\"from_id\":\"user1\",\"text\":\"The pump %N\"},",
            "{\"id\":7,\"type\":\"message\",\"date\":\"2026-03-02T10:00:00\",\"from\":\"Bo\",\"from_id\":\"user2\",\
         \"reply_to_message_id\":%P,\"text\":[\"a \",{\"type\":\"bold\",\"text\":\"word\"}]},",
            "{\"id\":%N,\"type\":\"service\",\"date\":\"2026-03-02T10:00:00\",\"actor\":\"Ana\",\"action\":\"x\"},",
        ],
        "{\"id\":0,\"type\":\"message\",\"date\":\"2026-03-02T10:00:00\",\"from\":\"Ana\",\"from_id\":\"user1\",\
        \"text\":\"The end\"}]}",
    ),
    // A channel of Slack.
    data(
        "2026-03-02.json",
        "[{\"type\":\"message\",\"user\":\"U1\",\"text\":\"The pump failed\",\"ts\":\"1772445600.0\"}",
        &[
            ",{\"type\":\"message\",\"user\":\"U%N\",\"text\":\"<@U%P> words\",\"ts\":\"17724456%N.0\"}",
            ",{\"type\":\"message\",\"user\":\"U1\",\"text\":\"words\",\"ts\":\"1772445600.0\",\"thread_ts\":\"1772445600.0\"}",
        ],
        "]",
    ),
    data(
        "feed.xml",
        "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>Pump</title>",
        &[
            "<item><title>Pump %N</title><guid>%N</guid><pubDate>Mon, 02 Mar 2026 10:00:00 GMT</pubDate>\
         <description>&lt;p&gt;words</description></item>",
            "<item><title>Pump</title><link>http://a.b/same</link><description>words %N</description></item>",
            "<item/>",
            "<!-- a -->",
            "<x:a xmlns:x=\"u\"/>",
            "<item><content xmlns=\"u%N\">words</content></item>",
            "&#65;",
        ],
        "</channel></rss>",
    ),
    data(
        "atom.xml",
        "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>Pump</title>",
        &[
            "<entry><id>%N</id><title>Pump</title><updated>2026-03-02T10:00:00Z</updated><content type=\"html\">&lt;b&gt;a\
         </content></entry>",
            "<entry><id>%N</id><updated>2026-03-02T10:00:00Z</updated><content type=\"xhtml\"><div><p>a</p></div></content>\
         </entry>",
        ],
        "</feed>",
    ),
    data(
        "feed.json",
        "{\"version\":\"https://jsonfeed.org/version/1.1\",\"title\":\"Pump\",\"items\":[",
        &[
            "{\"id\":\"%N\",\"title\":\"Pump\",\"content_text\":\"words\",\"date_published\":\"2026-03-02T10:00:00Z\"},",
            "{\"id\":\"same\",\"content_html\":\"<p>words %N\",\"date_published\":\"2026-03-02T10:00:00Z\"},",
            "{\"url\":\"http://a.b\",\"content_text\":\"words\"},",
        ],
        "{\"id\":\"end\",\"content_text\":\"The end\"}]}",
    ),
    Kind {
        archive: "word/document.xml",
        ..data(
            "a.docx",
            "<w:document xmlns:w=\"w\"><w:body>",
            &[
                "<w:p><w:r><w:t>The pump failed.</w:t></w:r></w:p>",
                "<w:p><w:pPr><w:pStyle w:val=\"Heading1\"/></w:pPr><w:r><w:t>Pump</w:t></w:r></w:p>",
                "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl>",
                "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>a</w:t><w:tab/></w:r></w:p>",
                "<w:p/>",
                "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>a</w:t></w:r></w:p>",
                "<w:x xmlns:n%N=\"u\"/>",
            ],
            "</w:body></w:document>",
        )
    },
    Kind { archive: "epub", begin: "<html><body><p>Pump.</p>", ..text("a.epub", "html") },
    Kind {
        archive: "opf",
        ..data(
            "b.epub",
            "<package><manifest><item id='a' href='a.xhtml'/>",
            &[
                "<item id='i%N' href='a.xhtml'/>",
                "<itemref idref='a'/>",
                "<itemref idref='i%P'/>",
                "<subject>a</subject>",
                "<meta name='a' content='b'/>",
            ],
            "</manifest></package>",
        )
    },
];
