//! Flows that overflow the stack, use up the memory or do not end, beside flows that do their work: the bad ones
//! fail after their attempts with the cause, the good ones complete, and the service stays.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes packs"
)]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use flow_home::{ENDLESS, FLOW, FREE, Home, MEMORY, QUICK, STACK, config, good, wait_until};
use running::workers;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use server::{Act, Server, chat};

/// Drains until every request has ended.
fn drain(home: &Home, ids: &[String]) {
    wait_until("the end of every request", || {
        home.ok(&["drain"]);
        let open = |id: &String| {
            let ack = home.acks(id).pop();
            ack.is_none_or(|ack| ack["status"] == "accepted" || ack["status"] == "failed_transient")
        };
        !ids.iter().any(open)
    });
}

fn causes(home: &Home, id: &str) -> Vec<Value> {
    let acks = home.acks(id).into_iter().filter(|ack| ack["status"] != "accepted");
    acks.map(|ack| ack["cause"].clone()).collect()
}

#[test]
fn bad_flows_fail_with_their_cause_and_all_others_complete() {
    let template = "outline.jinja2";
    let mut packs = vec![
        ("bad.stack.v1", template, STACK.to_owned()),
        ("bad.yaml.v1", "flow.dag.yaml", format!("\nx:\n  {}", "- ".repeat(100_000))),
        (
            "bad.list.v1",
            template,
            format!("{{{{ {}1{} }}}}", "[".repeat(50_000), "]".repeat(50_000)),
        ),
        ("bad.endless.v1", template, ENDLESS.to_owned()),
    ];
    let names = ["bad.join.v1", "bad.replace.v1", "bad.tilde.v1", "bad.format.v1"];
    packs.extend(names.iter().zip(MEMORY).map(|(id, text)| (*id, template, text.to_owned())));
    let settings =
        format!("{QUICK}[workers]\ncount = 2\nmemory = \"192 MiB\"\nattempt_timeout = \"6 s\"\n");
    let home = Home::with_packs(&settings, &packs);
    let mut ids = Vec::new();
    for (number, (flow, ..)) in packs.iter().enumerate() {
        for (kind, flow) in [("bad", *flow), ("good", FREE)] {
            let id = format!("{kind}-{number}");
            home.ask(&id, flow, &format!("A note number {number} of {kind} words. It ends here."));
            ids.push(id);
        }
    }
    drain(&home, &ids);
    for (number, (flow, ..)) in packs.iter().enumerate() {
        assert_eq!(home.last_ack(&format!("good-{number}"))["status"], "completed");
        let ack = home.last_ack(&format!("bad-{number}"));
        assert_eq!(ack["status"], "failed_permanent", "{flow}: {ack}");
    }
    let cause = |flow: &str| {
        let number = packs.iter().position(|(id, ..)| *id == flow).unwrap();
        causes(&home, &format!("bad-{number}"))
    };
    let twice = |cause: &str| vec![json!(cause), json!(cause)];
    assert_eq!(cause("bad.stack.v1"), twice("worker_crashed"));
    assert_eq!(cause("bad.endless.v1"), twice("timeout"));
    for name in names {
        assert_eq!(cause(name), twice("out_of_memory"), "{name}");
    }
    let shown = home.ok(&["show", "bad-0"]);
    assert!(shown.contains("worker_crashed") || shown.contains("stack"), "{shown}");
    home.ok(&["verify"]);
    home.ok(&["replay", "--verify"]);
}

/// A flow of a person's own choice ends its process, and never the command.
#[test]
fn a_bad_flow_is_an_error_of_a_command_and_not_its_end() {
    let template = "outline.jinja2";
    let packs = [
        ("bad.stack.v1", template, STACK.to_owned(), "overflow"),
        ("bad.join.v1", template, MEMORY[0].to_owned(), "workers.memory"),
        ("bad.endless.v1", template, ENDLESS.to_owned(), "killed"),
        (
            "bad.yaml.v1",
            "flow.dag.yaml",
            format!("\nx:\n  {}", "- ".repeat(100_000)),
            "bad.yaml.v1",
        ),
    ];
    let settings = "[workers]\nmemory = \"192 MiB\"\nattempt_timeout = \"6 s\"\n\
                    [provider.files]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n";
    let of_home: Vec<_> =
        packs.iter().map(|(id, file, text, _)| (*id, *file, text.clone())).collect();
    let home = Home::with_packs(settings, &of_home);
    std::fs::write(home.path("note.txt"), "A note of some words. It ends here.").unwrap();
    let line = json!({"brief": "A note of some words."});
    std::fs::write(home.path("lines.jsonl"), format!("{line}\n{line}\n")).unwrap();
    let path = |name: &str| home.path(name).to_str().unwrap().to_owned();
    let (note, lines, page) = (path("note.txt"), path("lines.jsonl"), path("page.html"));
    for (flow, _, _, why) in &packs {
        let batch = path(flow);
        let commands = [
            (1, vec!["sum", &note, "--flow", flow]),
            (1, vec!["flow", "run", flow, "--input", &note]),
            (1, vec!["flow", "run", flow, "--input", &lines, "--lines"]),
            (
                1,
                vec![
                    "flow",
                    "batch",
                    "export",
                    flow,
                    "--input",
                    &note,
                    "--into",
                    &batch,
                    "--provider",
                    "files",
                ],
            ),
            (0, vec!["flow", "compare", flow, "--packs", FREE, "--inputs", &note, "--out", &page]),
        ];
        // One way to fail shows every command, and every way to fail two of them.
        let shown = if *why == "overflow" { &commands[..] } else { &commands[..2] };
        for (exit, command) in shown {
            let ended = home.run(command);
            let exit = if *flow == "bad.yaml.v1" { 3 } else { *exit };
            let mut said = String::from_utf8_lossy(&ended.stderr).into_owned();
            said.push_str(&String::from_utf8_lossy(&ended.stdout));
            assert_eq!(ended.status.code(), Some(exit), "{command:?}: {said}");
            if command[1] == "compare" {
                said = std::fs::read_to_string(&page).unwrap();
            }
            assert!(said.contains(why), "{command:?}: {said}");
        }
    }
    home.ok(&["sum", &note, "--flow", FREE]);
    home.ok(&["flow", "run", FREE, "--input", &note]);
}

/// `explain --verify` and `--show-prompts` run the flow again.
#[test]
fn a_flow_that_does_not_end_when_it_is_explained_does_not_hold_up_the_service() {
    let limits = "[workers]\ncount = 1\nattempt_timeout = \"4 s\"\n";
    let home = Home::new(&format!("{QUICK}{limits}"));
    let service = home.serve();
    let is_done = |id: &str| home.acks(id).last().is_some_and(|ack| ack["status"] == "completed");
    home.ask("first", FREE, "A first note. It ends here.");
    wait_until("the first summary", || is_done("first"));
    // It need not be published yet, so the command may exit with 1.
    let explained = || {
        let explained = home.run(&["--json", "explain", "first", "--verify"]).stdout;
        String::from_utf8_lossy(&explained).into_owned()
    };
    let said = explained();
    assert!(said.contains("the flow gives the same outputs"), "{said}");
    let [worker] = workers(service.0.id())[..] else { panic!("one worker") };
    kill_process(worker, Signal::STOP).unwrap();
    let said = explained();
    assert!(said.contains("did not end within 4 s and was killed"), "{said}");
    home.ask("second", FREE, "A second note. It ends here.");
    wait_until("the second summary", || is_done("second"));
    assert_eq!(causes(&home, "second"), [Value::Null]);
    assert_eq!(service.terminate(), Some(0));
}

/// After an interrupt nobody waits for a flow that costs nothing.
#[test]
fn an_interrupt_ends_sum_while_a_flow_runs() {
    let home = Home::with_packs(QUICK, &[("bad.endless.v1", "outline.jinja2", ENDLESS.to_owned())]);
    std::fs::write(home.path("note.txt"), "A note of some words. It ends here.").unwrap();
    let note = home.path("note.txt");
    let mut sum = home.command(&["sum", note.to_str().unwrap(), "--flow", "bad.endless.v1"]);
    let mut sum = sum.stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_until("the worker", || !workers(sum.id()).is_empty());
    let pid = Pid::from_raw(i32::try_from(sum.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let mut code = None;
    wait_until("the end of sum", || {
        code = sum.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(130));
}

fn is_gone(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // Its number stays until somebody waits for it.
    state.map_or(true, |state| state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

#[test]
fn a_worker_that_is_killed_costs_one_attempt_of_its_own_flow() {
    let home = Home::new(&format!("{QUICK}[workers]\ncount = 1\n"));
    let service = home.serve();
    home.ask("first", FREE, "A first note. It ends here.");
    wait_until("the first summary", || {
        home.acks("first").last().is_some_and(|ack| ack["status"] == "completed")
    });
    let [worker] = workers(service.0.id())[..] else { panic!("one worker") };
    // A stopped process takes the next flow and does nothing with it.
    kill_process(worker, Signal::STOP).unwrap();
    home.ask("second", FREE, "A second note. It ends here.");
    wait_until("the attempt", || home.status()["requests"]["running"] == 1);
    // Nothing says from outside that the stopped process has its order.
    std::thread::sleep(std::time::Duration::from_millis(1_000));
    kill_process(worker, Signal::KILL).unwrap();
    wait_until("the second summary", || {
        home.acks("second").last().is_some_and(|ack| ack["status"] == "completed")
    });
    assert_eq!(causes(&home, "second"), [json!("worker_crashed"), Value::Null]);
    let ack = &home.acks("second")[1];
    assert!(ack["message"].as_str().unwrap().contains("signal 9"), "{ack}");
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn no_worker_outlives_its_service_and_a_hanging_flow_does_not_hold_up_its_end() {
    let packs = [("bad.endless.v1", "outline.jinja2", ENDLESS.to_owned())];
    let settings = "[workers]\ncount = 2\ngrace_on_shutdown = \"200 ms\"\n";
    for ends_by_itself in [true, false] {
        let home = Home::with_packs(settings, &packs);
        let service = home.serve();
        home.ask("bad", "bad.endless.v1", "A note. It ends here.");
        home.ask("good", FREE, "Another note. It ends here.");
        wait_until("the good summary", || {
            home.acks("good").last().is_some_and(|ack| ack["status"] == "completed")
        });
        let left = workers(service.0.id());
        assert!(!left.is_empty());
        match ends_by_itself {
            true => assert_eq!(service.terminate(), Some(0)),
            false => service.kill(),
        }
        wait_until("the end of the workers", || left.iter().copied().all(is_gone));
    }
}

/// How many threads of the attempts of a service there are.
fn attempt_threads(service: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{service}/task")).unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let is_one = |name: &String| name.starts_with("paid-") || name.starts_with("worker-starter");
    names.filter(is_one).count()
}

/// A forgetting ends a session and begins the next one in the same process.
#[test]
fn no_thread_outlives_its_session_when_a_service_forgets_while_a_flow_hangs() {
    let packs = [("bad.endless.v1", "outline.jinja2", ENDLESS.to_owned())];
    let settings = format!(
        "{QUICK}[workers]\ncount = 2\ngrace_on_shutdown = \"200 ms\"\nattempt_timeout = \"5 s\"\n"
    );
    let home = Home::with_packs(&settings, &packs);
    let service = home.serve();
    let completes = |id: &str| {
        home.ask(id, FREE, &format!("The note {id} is short. It ends here."));
        wait_until("the good summary", || {
            home.acks(id).last().is_some_and(|ack| ack["status"] == "completed")
        });
    };
    completes("first");
    let before = attempt_threads(service.0.id());
    assert!(before > 1, "{before}");
    for id in ["first", "second", "third"] {
        home.ask(&format!("bad-{id}"), "bad.endless.v1", "A note. It ends here.");
        wait_until("a flow that hangs", || home.status()["requests"]["running"].as_u64() > Some(0));
        home.ok(&["forget", &format!("{id}.txt")]);
        completes(match id {
            "first" => "second",
            "second" => "third",
            _ => "last",
        });
    }
    wait_until("the end of the threads of earlier sessions", || {
        attempt_threads(service.0.id()) == before
    });
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn a_model_is_asked_by_the_service_and_its_key_stays_there() {
    let server = Server::start(vec![good()]);
    let home = Home::new(&config(&server, "", QUICK));
    let service = home.serve();
    for number in 0..6 {
        home.ask(&format!("n{number}"), FLOW, &format!("An idea number {number} for a template."));
    }
    wait_until("the summaries", || {
        let done =
            |id: &String| home.acks(id).last().is_some_and(|ack| ack["status"] == "completed");
        (0..6).map(|number| format!("n{number}")).all(|id| done(&id))
    });
    assert_eq!(server.seen().len(), 6);
    for worker in workers(service.0.id()) {
        let path = format!("/proc/{}/environ", worker.as_raw_nonzero());
        // Only the superuser may read the environment of such a process.
        let Ok(environment) = std::fs::read(path) else { continue };
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(environment.contains("PATH="), "{environment}");
        assert!(!environment.contains("LOOP_KEY"), "{environment}");
    }
    assert_eq!(service.terminate(), Some(0));
}

/// What a home made: items without what differs between two homes, and what was paid.
fn made(home: &Home) -> (Vec<Value>, Vec<Value>, usize) {
    let mut items = home.items();
    for item in &mut items {
        item["producer"]["run_id"] = Value::Null;
    }
    items.sort_by_key(|item| item["summary_id"].to_string());
    let mut facts = home.facts_of_items();
    facts.sort_by_key(Value::to_string);
    (items, facts, home.responses())
}

#[test]
fn processes_and_threads_make_the_same_from_the_same_answers() {
    // One answer that must be repaired, one that names a number with many digits, one fallback.
    let broken = chat("{\"category\": 3");
    let numbers = Act::With(std::sync::Arc::new(|_| {
        flow_home::good_answer().replace("0.7", "0.30000000000000004")
    }));
    let homes = ["thread", "process"].map(|isolation| {
        let server = Server::start(vec![broken.clone(), good(), numbers.clone(), good()]);
        let more = format!("{QUICK}[workers]\ncount = 1\nisolation = \"{isolation}\"\n");
        let home = Home::new(&config(&server, "", &more));
        for number in 0..4 {
            home.ask(&format!("n{number}"), FLOW, &format!("An idea number {number}. It ends."));
            home.ok(&["drain"]);
        }
        home.ask("long", FREE, &"A long text of many words. ".repeat(4_000));
        home.ok(&["drain"]);
        (made(&home), server.seen().len())
    });
    let [((items, facts, responses), asked), ((other, of_other, kept), also_asked)] = &homes;
    assert_eq!((responses, asked), (&5, &5), "one answer was repaired");
    assert_eq!((kept, also_asked), (responses, asked));
    assert!(items.iter().any(|item| item["outputs"]["confidence"] != 0.7), "{items:?}");
    assert!(items == other, "the items differ");
    assert!(facts == of_other, "the facts differ");
}

#[test]
fn the_embedded_summarizer_stands_in_from_a_process() {
    let server = Server::start(vec![server::status(500, &[], "no")]);
    let homes = ["thread", "process"].map(|isolation| {
        let more = format!("{QUICK}[workers]\nisolation = \"{isolation}\"\n");
        let provider = "fallback = [\"builtin\"]\n";
        let home = Home::new(&config(&server, provider, &more));
        home.ask("one", FLOW, "An idea for a template. Ana wants it by Friday.");
        home.ok(&["drain"]);
        assert_eq!(home.last_ack("one")["status"], "completed", "{}", home.last_ack("one"));
        made(&home)
    });
    assert!(homes[0] == homes[1], "the homes differ");
}

/// A thread takes address space, and so do the pipes of a program where threads serve them.
#[test]
fn python_nodes_that_run_at_the_same_time_fit_in_the_smallest_worker() {
    let home = Home::new("[workers]\nmemory = \"128 MiB\"\n[python]\nallow = true\n");
    let folder = home.path("wide");
    std::fs::create_dir(&folder).unwrap();
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let node = |name: &String, reads: String| {
        format!(
            "- name: {name}\n  type: python\n  source: {{type: code, path: n.py}}\n  inputs:\n{reads}\n"
        )
    };
    let wide: String =
        names.iter().map(|name| node(name, "    text: ${inputs.text}".into())).collect();
    let all: Vec<String> = names.iter().map(|name| format!("{name}: ${{{name}.output}}")).collect();
    let flow = format!(
        "inputs:\n  text: {{type: string}}\noutputs:\n  summary_text:\n    type: string\n    reference: ${{all.output}}\n\
         nodes:\n{wide}{}",
        node(&"all".to_owned(), format!("    text: ${{inputs.text}}\n    {}", all.join("\n    ")))
    );
    std::fs::write(folder.join("flow.dag.yaml"), flow).unwrap();
    let code = "import time\nfrom promptflow.core import tool\n@tool\ndef f(text: str, **others) -> str:\n    \
                time.sleep(0.3)\n    return text + ' ' + ' '.join(others.values())\n";
    std::fs::write(folder.join("n.py"), code).unwrap();
    home.ok(&["init", "--with-registry"]);
    home.ok(&["registry", "add", folder.to_str().unwrap(), "--flow-id", "my.wide.v1"]);
    let ids: Vec<String> = (0..3).map(|number| format!("r{number}")).collect();
    ids.iter().for_each(|id| home.ask(id, "my.wide.v1", "The tea is ready."));
    home.ok(&["drain"]);
    for id in ids {
        let acks = home.acks(&id);
        assert_eq!(acks.last().unwrap()["status"], "completed", "{acks:?}");
        assert!(acks.iter().all(|ack| ack["status"] != "failed_transient"), "{acks:?}");
    }
}

/// Each question would be another one, asked and paid for again, until the time of the attempt is over.
#[test]
fn a_flow_whose_prompt_differs_each_time_pays_once_and_is_told_why() {
    let server = Server::start(vec![chat("The tea is ready.")]);
    let own = format!("[python]\nallow = true\n{QUICK}");
    let flow_settings = "[flow.\"my.salted.v1\"]\nprovider = \"loop\"\n";
    let home = Home::new(&(config(&server, "", &own) + flow_settings));
    let folder = home.path("salted");
    std::fs::create_dir(&folder).unwrap();
    let flow = "inputs:\n  text: {type: string}\noutputs:\n  summary_text:\n    type: string\n    \
                reference: ${told.output}\nnodes:\n- name: salt\n  type: python\n  source: {type: code, path: n.py}\n  \
                inputs:\n    text: ${inputs.text}\n- name: told\n  type: llm\n  source: {type: code, path: told.jinja2}\n  \
                inputs:\n    deployment_name: loop\n    text: ${salt.output}\n  connection: loop\n  api: chat\n";
    let code = "import uuid\nfrom promptflow.core import tool\n@tool\ndef f(text: str) -> str:\n    \
                return text + ' ' + uuid.uuid4().hex\n";
    std::fs::write(folder.join("flow.dag.yaml"), flow).unwrap();
    std::fs::write(folder.join("n.py"), code).unwrap();
    std::fs::write(folder.join("told.jinja2"), "system:\nSay it.\nuser:\n{{text}}\n").unwrap();
    home.ok(&["init", "--with-registry"]);
    home.ok(&["registry", "add", folder.to_str().unwrap(), "--flow-id", "my.salted.v1"]);
    home.ask("r", "my.salted.v1", "The tea is ready.");
    home.ok(&["drain"]);
    let ack = home.acks("r").pop().unwrap();
    assert_eq!(ack["status"], "failed_permanent", "{ack}");
    assert!(ack.to_string().contains("its prompt differs each time"), "{ack}");
    assert_eq!((server.seen().len(), home.responses()), (1, 1), "{ack}");
}
