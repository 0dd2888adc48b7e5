//! Building packs.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use summarizer::contract::schema;
use summarizer::os::real::HostDisk;
use summarizer::synthesis::agents::AgentTypes;
use summarizer::synthesis::build::{BuildOptions, SummarizeInput, build};
use summarizer::synthesis::finding::Code;
use summarizer::synthesis::run_dir::RunDir;

use crate::home::{DEAD_CID, FIRST_CID, Home, citation, errors, golden, perspectives};

#[test]
fn the_worked_example_comes_out_byte_for_byte() {
    let home = Home::demo();
    let built = home.build();
    assert!(built.pack.is_some(), "{:?}", built.findings);
    for name in ["p1.summary.md", "p2.summary.md", "summary-pack.json"] {
        let expected = fs::read_to_string(golden(&format!("expected/{name}"))).unwrap();
        assert_eq!(home.text(&format!("summaries/{name}")), expected, "{name}");
    }
    let meta = home.value("summaries/summary-pack.meta.json");
    assert_eq!(
        meta["inputs_digest"],
        "sha256:57e56967c1bfa6efa100ea18443afbaa285b15663d527ee5838d771d67fb4d3d"
    );
    assert_eq!(
        meta["outputs_digest"],
        "sha256:2b1ddc4f641961266f568b128d266d31be5d0dff0e24ec528259e3d7d5333805"
    );
    assert_eq!(
        meta["pack_sha256"],
        "bff987ef2f6043625df99e94407ae737e821109c1ec3f60347f3f266f8e927f5"
    );
    assert_eq!(meta["entries"][0]["dropped"]["uncited"], 1);
    assert_eq!(meta["entries"][1]["confidence_basis"], json!(["stated"]));
    let receipt = json!(built.receipt);
    assert_eq!(receipt["inputs_digest"], meta["inputs_digest"]);
    assert_eq!(receipt["verdict"], "pass");
}

#[test]
fn building_twice_changes_no_byte_and_moves_no_file() {
    let home = Home::demo();
    home.build();
    let before = home.snapshot();
    let modified = || fs::metadata(home.path("summaries/p1.summary.md")).unwrap().modified();
    let stamp = modified().unwrap();
    home.build();
    assert_eq!(home.snapshot(), before);
    assert_eq!(modified().unwrap(), stamp);
}

#[test]
fn digests_follow_content_and_nothing_else() {
    let digest = |change: &dyn Fn(&Home)| {
        let home = Home::demo();
        change(&home);
        let built = home.build();
        built.receipt.inputs_digest.unwrap_or_else(|| panic!("{:?}", built.findings))
    };
    let plain = digest(&|_| ());
    // Order of keys and of rows, the time of the manifest, letter for letter the same content.
    assert_eq!(
        plain,
        digest(&|home| home.edit("perspectives.json", |value| {
            let list = value["perspectives"].as_array_mut().unwrap();
            list.reverse();
            let contract = list[0]["prompt_contract"].take();
            list[0].as_object_mut().unwrap().shift_remove("prompt_contract");
            list[0]["prompt_contract"] = contract;
        }))
    );
    assert_eq!(
        plain,
        digest(&|home| {
            let mut rows: Vec<String> =
                home.text("citations/citations.jsonl").lines().map(str::to_owned).collect();
            rows.reverse();
            home.write("citations/citations.jsonl", rows.join("\n"));
        })
    );
    assert_eq!(
        plain,
        digest(&|home| home.edit("manifest.json", |value| value["revision"] = json!(8)))
    );
    // One byte of an output, one status, one limit.
    let output = home_output();
    for index in [0, output.len() / 2, output.len() - 1] {
        let mut changed = output.clone();
        changed[index] = if changed[index] == b' ' { b'_' } else { b' ' };
        assert_ne!(plain, digest(&|home| home.write("wave-1/p1.md", &changed)), "byte {index}");
    }
    assert_ne!(
        plain,
        digest(&|home| {
            let rows = home.text("citations/citations.jsonl").replace("paywalled", "valid");
            home.write("citations/citations.jsonl", rows);
        })
    );
    assert_ne!(plain, digest(&|home| home.limits(json!(5), json!(61))));
}

fn home_output() -> Vec<u8> {
    fs::read(golden("wave-1/p1.md")).unwrap()
}

/// A run of one perspective whose only claim makes a summary of exactly `bytes`, with a short id.
fn run_with_summary_of(bytes: usize) -> Home {
    let home = Home::demo();
    home.json("perspectives.json", &perspectives(&["p1"]));
    home.write(
        "citations/citations.jsonl",
        format!("{}\n", json!({"cid": "cid_a", "status": "valid"})),
    );
    let room = bytes - "## Findings\n- ".len() - " [@cid_a]\n".len();
    let text = format!("{}{}", "\u{10400}".repeat(room / 4), "x".repeat(room % 4));
    home.write("wave-1/p1.md", format!("## Findings\n- {text} [@cid_a]\n"));
    home
}

#[test]
fn a_summary_may_be_5120_bytes_and_not_5121() {
    for (bytes, kept) in [(5119, 1), (5120, 1), (5121, 0)] {
        let home = run_with_summary_of(bytes);
        assert!(home.build().pack.is_some());
        let (pack, meta) = (home.pack(), home.meta());
        assert_eq!(pack.summaries[0].key_claims.len(), kept, "{bytes}");
        assert_eq!(meta["entries"][0]["dropped"]["oversize"], 1 - kept, "{bytes}");
        if kept == 1 {
            assert_eq!(meta["entries"][0]["summary_bytes"], bytes);
        }
        assert!(home.check().findings.passes(), "{bytes}");
    }
}

fn summed(meta: &Value) -> u64 {
    let entries = meta["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["summary_bytes"].as_u64().unwrap()).sum()
}

#[test]
fn the_total_limit_holds_to_the_byte() {
    let home = Home::demo();
    home.limits(json!(5), json!(594.0 / 1024.0));
    assert!(home.build().pack.is_some());
    let (pack, meta) = (home.pack(), home.meta());
    assert_eq!(summed(&meta), 594);
    assert_eq!(pack.summaries[0].key_claims.len(), 2);
    home.limits(json!(5), json!(593.0 / 1024.0));
    assert!(home.build().pack.is_some());
    let (pack, meta) = (home.pack(), home.meta());
    assert!(summed(&meta) <= 593);
    assert_eq!(pack.summaries[0].key_claims.len(), 1, "the larger file gives first");
    assert_eq!(pack.summaries[1].key_claims.len(), 1);
    assert!(home.check().findings.passes());
}

#[test]
fn limits_too_small_for_an_empty_summary_are_an_error() {
    for (each, total) in [(json!(0.01), json!(60)), (json!(5), json!(0.01))] {
        let home = Home::demo();
        home.limits(each, total);
        let built = home.build();
        assert_eq!(errors(&built.findings), ["SIZE_CAP_EXCEEDED"]);
        assert!(built.pack.is_none() && !home.path("summaries").exists());
    }
    for bad in [json!(0), json!(-1)] {
        let home = Home::demo();
        home.limits(bad, json!(60));
        assert_eq!(errors(&home.build().findings), ["INVALID_STATE"]);
    }
}

#[test]
fn ids_sort_by_bytes() {
    let home = Home::demo();
    home.json("perspectives.json", &perspectives(&["p10", "p2", "Q1", "p_1", "p-1"]));
    for id in ["p10", "p2", "Q1", "p_1", "p-1"] {
        home.write(&format!("wave-1/{id}.md"), format!("## Findings\n- {id} [@{FIRST_CID}]\n"));
    }
    assert!(home.build().pack.is_some());
    let pack = home.pack();
    let ids: Vec<&str> = pack.summaries.iter().map(|entry| &*entry.perspective_id).collect();
    assert_eq!(ids, ["Q1", "p-1", "p10", "p2", "p_1"]);
}

#[test]
fn wave_two_is_summarized_and_counted() {
    let home = Home::demo();
    home.json("wave-2/wave2-perspectives.json", &perspectives(&["p2-gap-1"]));
    home.write("wave-2/p2-gap-1.md", format!("## Findings\n- gap filled [@{FIRST_CID}]\n"));
    assert!(home.build().pack.is_some());
    let pack = home.pack();
    let entry = &pack.summaries[2];
    assert_eq!(
        (&*entry.perspective_id, &*entry.source_artifact),
        ("p2-gap-1", "wave-2/p2-gap-1.md")
    );
    let report = home.check().report.unwrap();
    assert_eq!(
        (&report.metrics["expected_count"], &report.metrics["summary_count"]),
        (&json!(3), &json!(3))
    );
    home.json("wave-2/wave2-perspectives.json", &perspectives(&["P1"]));
    assert_eq!(errors(&home.build().findings), ["DUPLICATE_PERSPECTIVE_ID"]);
}

#[test]
fn no_citation_is_ever_invented() {
    let home = Home::demo();
    home.write("wave-1/p1.md", "## Findings\n- nothing to show for it\n");
    let built = home.build();
    assert!(built.findings.has(Code::NoCitedClaims));
    assert!(built.pack.is_some());
    let pack = home.pack();
    assert!(pack.summaries[0].key_claims.is_empty());
    assert_eq!(
        home.text("summaries/p1.summary.md"),
        "## Findings\n\n## Omitted\n- 1 finding without a validated citation\n"
    );
    assert!(home.check().findings.passes());
    assert_eq!(errors(&home.check_with(false, true).findings), ["NO_CITED_CLAIMS"]);
    assert_eq!(errors(&home.build_with(true).findings), ["NO_CITED_CLAIMS"]);
}

#[test]
fn a_pool_without_usable_citations_gives_no_claims() {
    for rows in [String::new(), format!("{}\n", json!({"cid": DEAD_CID, "status": "invalid"}))] {
        let home = Home::demo();
        home.write("citations/citations.jsonl", rows);
        assert!(home.build().pack.is_some());
        let pack = home.pack();
        assert!(pack.summaries.iter().all(|entry| entry.key_claims.is_empty()));
    }
    let home = Home::demo();
    fs::remove_file(home.path("citations/citations.jsonl")).unwrap();
    assert_eq!(errors(&home.build().findings), ["NOT_FOUND"]);
}

#[test]
fn a_draft_is_summarized_instead_of_the_output() {
    let home = Home::demo();
    home.write("summaries/p1.md", format!("## Findings\r\n- from the draft [@{FIRST_CID}]\r\n"));
    let built = home.build();
    assert!(built.findings.has(Code::DraftPreferred));
    assert!(built.pack.is_some());
    let pack = home.pack();
    assert_eq!(pack.summaries[0].source_artifact, "summaries/p1.md");
    assert_eq!(pack.summaries[0].key_claims[0].claim, "from the draft");
    assert!(home.check().findings.passes());
    assert_eq!(home.check().report.unwrap().metrics["orphan_summaries"], 0);
}

#[test]
fn all_missing_files_are_reported_at_once() {
    let home = Home::demo();
    fs::remove_file(home.path("wave-1/p1.md")).unwrap();
    home.write("wave-1/p2.md", [0xff, 0xfe]);
    let built = home.build();
    assert_eq!(errors(&built.findings), ["NOT_UTF8", "OUTPUT_NOT_FOUND"]);
    assert!(!home.has_pack());
    for (name, code) in [("manifest.json", "NOT_FOUND"), ("perspectives.json", "NOT_FOUND")] {
        let home = Home::demo();
        fs::remove_file(home.path(name)).unwrap();
        assert_eq!(errors(&home.build().findings), [code], "{name}");
        home.write(name, "{");
        assert_eq!(errors(&home.build().findings), ["INVALID_JSON"], "{name}");
    }
}

#[test]
fn hostile_names_and_links_reach_nothing_outside() {
    let outside = tempfile::tempdir().unwrap();
    crate::home::put(&outside.path().join("secret.md"), b"## Findings\n- secret\n");
    for id in ["../x", "a/b", "..", "", "p 1", "\u{e9}"] {
        let home = Home::demo();
        home.edit("perspectives.json", |value| value["perspectives"][0]["id"] = json!(id));
        let found = errors(&home.build().findings);
        assert!(found.contains(&"INVALID_ID".to_owned()), "{id:?} {found:?}");
    }
    for path in ["/etc/passwd", "../secret.md", "wave-1/../../x", "wave-1//p1.md"] {
        let home = Home::demo();
        home.edit("perspectives.json", |value| {
            value["perspectives"][0]["source_artifact"] = json!(path);
        });
        assert!(errors(&home.build().findings).contains(&"PATH_TRAVERSAL".to_owned()), "{path}");
        let home = Home::demo();
        home.edit("manifest.json", |value| {
            value["artifacts"]["paths"]["summaries_dir"] = json!(path);
        });
        assert!(errors(&home.build().findings).contains(&"PATH_TRAVERSAL".to_owned()), "{path}");
    }
    let home = Home::demo();
    fs::remove_file(home.path("wave-1/p1.md")).unwrap();
    symlink(outside.path().join("secret.md"), home.path("wave-1/p1.md")).unwrap();
    assert_eq!(errors(&home.build().findings), ["PATH_TRAVERSAL"]);

    // A summaries directory that leads out is refused before anything is written there.
    let home = Home::demo();
    symlink(outside.path(), home.path("summaries")).unwrap();
    let agent_types = AgentTypes::usual();
    let options = BuildOptions {
        agent_types: &agent_types,
        generated_at: None,
        strict: false,
        summarize: None,
        progress: &|| (),
    };
    assert!(build(&RunDir::open(&HostDisk, home.root()).unwrap(), &options).is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn other_runs_are_refused() {
    let home = Home::demo();
    home.edit("perspectives.json", |value| value["run_id"] = json!("dr_other"));
    assert_eq!(errors(&home.build().findings), ["RUN_ID_MISMATCH"]);
}

#[test]
fn fences_sub_headings_and_windows_line_ends_change_nothing() {
    let home = Home::demo();
    home.write(
        "citations/citations.jsonl",
        format!("{}\n", citation("https://a.example/x", "valid")),
    );
    home.json("perspectives.json", &perspectives(&["p1"]));
    home.write(
        "wave-1/p1.md",
        "# Report\r\n## Findings\r\n### First\r\n- one [1]\r\n\r\n```md\r\n## Sources\r\n- https://b.example/\r\n```\r\n### Second\r\n- two (https://a.example/x)\r\n## Sources\r\n- https://a.example/x?utm_source=q\r\n",
    );
    assert!(home.build().pack.is_some());
    let pack = home.pack();
    let claims: Vec<&str> = pack.summaries[0].key_claims.iter().map(|c| &*c.claim).collect();
    assert_eq!(claims, ["one", "two"]);
}

#[test]
fn a_crash_before_the_pack_leaves_a_stale_pack_that_a_build_repairs() {
    let home = Home::demo();
    home.build();
    let old_pack = home.text("summaries/summary-pack.json");
    let old_meta = home.text("summaries/summary-pack.meta.json");
    home.write("wave-1/p1.md", home.text("wave-1/p1.md").replace("40 ms", "41 ms"));
    home.build();
    let (pack, meta) =
        (home.text("summaries/summary-pack.json"), home.text("summaries/summary-pack.meta.json"));
    let check = |pack: &str, meta: &str| {
        home.write("summaries/summary-pack.json", pack);
        home.write("summaries/summary-pack.meta.json", meta);
        errors(&home.check().findings)
    };
    // The states a crash can leave: new summaries with the old records, then the new sidecar too.
    assert_eq!(check(&old_pack, &old_meta), ["STALE_PACK"]);
    assert_eq!(check(&old_pack, &meta), ["STALE_PACK"]);
    assert!(check(&pack, &meta).is_empty());
    home.write("summaries/summary-pack.json", &old_pack);
    home.write("summaries/.p1.summary.md.tmp", "half");
    home.build();
    assert_eq!(home.text("summaries/summary-pack.json"), pack);
    assert!(home.check().findings.passes());
}

#[test]
fn a_model_is_held_to_the_citations_of_its_source() {
    let home = Home::demo();
    let agent_types = AgentTypes::usual();
    let model = |input: SummarizeInput<'_>| -> Result<String, String> {
        assert!(input.max_bytes == 5120 && input.markdown.contains("## Findings"));
        match input.citation_cids.iter().any(|cid| cid == FIRST_CID) {
            true => Ok(format!(
                "## Findings\n- short [@{FIRST_CID}] https://evil.example\n- made up [@{DEAD_CID}] [@cid_cd58a66e56b485398cc7c807e31ad98e5e8b75fb6e4b7ab00a0dc46dd6fc2acd]\n"
            )),
            false => Err("overloaded".to_owned()),
        }
    };
    let options = BuildOptions {
        agent_types: &agent_types,
        generated_at: None,
        strict: false,
        summarize: Some(&model),
        progress: &|| (),
    };
    let built = build(&home.run(), &options).unwrap();
    assert!(built.findings.has(Code::CitationNotInSource));
    assert!(built.findings.has(Code::ModelSummaryRejected));
    assert!(built.pack.is_some());
    let (pack, meta) = (home.pack(), home.meta());
    let claims: Vec<&str> = pack.summaries[0].key_claims.iter().map(|c| &*c.claim).collect();
    assert_eq!(claims, ["short"]);
    assert_eq!(pack.summaries[1].key_claims.len(), 1, "extracted instead");
    assert_eq!((&meta["mode"], &meta["algo"]), (&json!("provider"), &json!("provider.v1")));
    assert!(home.check().findings.passes());
}

#[test]
fn unknown_fields_survive_and_are_mentioned() {
    let home = Home::demo();
    home.edit("perspectives.json", |value: &mut Value| {
        value["perspectives"][0]["mood"] = json!("curious");
    });
    let built = home.build();
    assert!(built.pack.is_some() && built.findings.has(Code::UnknownField));
}

#[test]
fn a_summary_of_another_pack_is_no_draft_of_an_agent() {
    let home = Home::demo();
    let template = "## Findings\n\n- Stock text of a template [@";
    home.write("summaries/p1.md", format!("{template}{FIRST_CID}]\n"));
    home.write(
        "summaries/summary-pack.json",
        json!({"schema_version": "summary_pack.v1", "run_id": "dr_demo_001",
            "summaries": [{"perspective_id": "p1", "summary_md": "summaries/p1.md"}]})
        .to_string(),
    );
    for _ in 0..2 {
        let built = home.build();
        assert!(built.findings.has(Code::DraftIsOutput), "{:?}", built.findings);
        let pack = home.value("summaries/summary-pack.json");
        assert_eq!(pack["summaries"][0]["source_artifact"], "wave-1/p1.md");
        assert!(!pack.to_string().contains("Stock text"));
        let checked = home.check();
        assert!(checked.findings.passes(), "{:?}", checked.findings);
        // The pack remembers it without its sidecar.
        std::fs::remove_file(home.path("summaries/summary-pack.meta.json")).unwrap();
    }
    assert_eq!(schema::check("summary_pack.v1", &home.value("summaries/summary-pack.json")), []);
    // An agent writes another text there: that is a draft.
    home.write("summaries/p1.md", format!("## Findings\n\n- An agent found it [@{FIRST_CID}]\n"));
    let built = home.build();
    assert!(built.findings.has(Code::DraftPreferred), "{:?}", built.findings);
    let pack = home.value("summaries/summary-pack.json");
    assert_eq!(pack["summaries"][0]["source_artifact"], "summaries/p1.md");
    assert!(home.check().findings.passes());
}

/// However another tool writes the path of its summary, and whatever the shape of its pack is.
#[test]
fn every_way_to_list_a_summary_is_known() {
    let stock = format!("## Findings\n\n- Stock text of a template [@{FIRST_CID}]\n");
    let listed = |member: &str, path: &str| {
        json!({"run_id": "dr_demo_001", "summaries": [{"perspective_id": "p1", member: path,
            "source_artifact": "wave-1/p1.md"}]})
        .to_string()
    };
    let plain = listed("summary_md", "summaries/p1.md");
    let mut packs = vec![
        listed("path", "summaries/p1.md"),
        listed("summary_md", "p1.md"),
        listed("summary_md", "/moved/since/run/summaries/p1.md"),
        listed("summary_md", "file:///moved/since/run/summaries/p1.md"),
        listed("summary_md", "runs/one/summaries/p1.md"),
        listed("summary_md", "../one/summaries/p1.md"),
        listed("summary_md", "summaries/p%31.md"),
        listed("summary_md", "C:\\runs\\one\\summaries\\p1.MD"),
        json!({"summaries": {"p1": {"file": "summaries/p1.md"}}}).to_string(),
        json!({"summaries": {"summaries/p1.md": "p1"}}).to_string(),
        json!({"files": ["summaries/p1.md"]}).to_string(),
        format!("\u{feff}{plain}"),
        plain[..plain.len() - 2].to_owned(),
        plain.replace('/', "\\/"),
    ];
    // A copy of a listed file, also with other line ends.
    packs.push(listed("summary_md", "summaries/own.md"));
    for pack in packs {
        let home = Home::demo();
        home.write("summaries/p1.md", &stock);
        home.write("summaries/own.md", stock.replace('\n', "\r\n"));
        home.write("summaries/summary-pack.json", &pack);
        for _ in 0..2 {
            let built = home.build();
            assert!(built.findings.has(Code::DraftIsOutput), "{pack}: {:?}", built.findings);
            let made = home.value("summaries/summary-pack.json");
            assert_eq!(made["summaries"][0]["source_artifact"], "wave-1/p1.md", "{pack}");
        }
    }
    // What a pack names as its source is a draft of an agent.
    for member in ["source_artifact", "draft_path", "input"] {
        let home = Home::demo();
        home.write("summaries/p1.md", &stock);
        let pack = json!({"summaries": [{"perspective_id": "p1", member: "summaries/p1.md"}]});
        home.write("summaries/summary-pack.json", pack.to_string());
        assert!(home.build().findings.has(Code::DraftPreferred), "{member}");
    }
}

#[test]
fn dropped_findings_are_listed_with_the_reason() {
    let home = Home::demo();
    let long = "long ".repeat(1_200);
    home.write(
        "wave-1/p1.md",
        format!(
            "## Findings\n\n- It is so. [@{FIRST_CID}]\n- it is so [@{FIRST_CID}]\n- Nobody knows.\n- {long} \
             [@{FIRST_CID}]\n- [@{FIRST_CID}]\n## Sources\n\n- https://bench.example.org/replay\n## Gaps\n"
        ),
    );
    let built = home.build();
    let left_out = built.pack.unwrap().left_out;
    let meta = home.value("summaries/summary-pack.meta.json");
    let listed = meta["entries"][0]["left_out"].as_array().unwrap();
    let why: Vec<&str> = listed.iter().map(|one| one["why"].as_str().unwrap()).collect();
    assert_eq!(why, ["duplicate", "uncited", "empty", "summary_limit"], "{listed:?}");
    assert_eq!(listed[1]["finding"], "Nobody knows.");
    assert_eq!(left_out, 5, "and one of the other perspective");
}

#[test]
fn a_total_limit_that_leaves_no_claim_is_named() {
    let home = Home::demo();
    home.edit("manifest.json", |value| {
        value["limits"]["max_total_summary_kb"] = json!(0.2);
    });
    let built = home.build();
    let told = format!("{:?}", built.findings);
    assert!(told.contains("max_total_summary_kb"), "{told}");
    assert!(!built.findings.has(Code::NoCitedClaims), "{told}");
}

/// Pieces of Markdown that took each other apart once, or could.
const PIECES: &[&str] = &[
    "([report](",
    "[x](https://a.example",
    ")",
    "[@",
    "]",
    "- ",
    "\n",
    "\n\n",
    "## Findings\n",
    "### Sub\n",
    "## Gaps\n",
    "## Sources\n",
    "```",
    "<a@b.c>",
    "www.",
    "ht[1]tp://",
    "(confidence: 70)",
    "word ",
    "é ",
    "\u{2028}",
    "\0",
    "![i](",
    "](",
    "[[",
    "1. ",
    "> ",
    "| a | b |\n",
    "(paywalled)",
    "https://bench.example.org/replay ",
];

#[test]
fn a_built_pack_passes_its_own_check() {
    for seed in 0..60_u64 {
        let home = Home::demo();
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut pick = |most: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % most as u64) as usize
        };
        for name in ["wave-1/p1.md", "wave-1/p2.md"] {
            let mut text = String::from("## Findings\n\n- The first ");
            for _ in 0..40 {
                match pick(5) {
                    0 => text.push_str(&format!("[@{FIRST_CID}]")),
                    _ => text.push_str(PIECES[pick(PIECES.len())]),
                }
            }
            home.write(name, &text);
        }
        let built = home.build();
        if built.pack.is_some() {
            let checked = home.check();
            let errors = errors(&checked.findings);
            assert!(
                checked.findings.passes(),
                "seed {seed}: {errors:?}\n{}",
                home.text("wave-1/p1.md")
            );
        }
    }
}
