//! The real process, killed at each stage of a batch: every answer arrives, and each is paid once.

use serde_json::json;

use super::batch_server::Hold;
use super::flow_home::wait_until;
use super::scene_with;

const fn at(method: &'static str, path: &'static str, after: bool) -> Option<Hold> {
    Some(Hold { method, path, after })
}

#[test]
fn a_kill_at_any_stage_of_a_batch_loses_nothing_and_pays_nothing_twice() {
    let stages = [
        ("the intent is logged, the file is being sent", at("POST", "/files", false)),
        ("the file is there, its answer is lost", at("POST", "/files", true)),
        ("the order is being sent", at("POST", "/batches", false)),
        ("the order is carried out, its answer is lost", at("POST", "/batches", true)),
        ("the batch is at the server", at("GET", "/batches/batch_", true)),
        ("the answers are being sent", at("GET", "/files/file-output", true)),
        ("the answers are in the log, the files are not removed", at("DELETE", "/files/", false)),
    ];
    for (stage, hold) in stages {
        let s = scene_with("batch_wait = \"10 ms\"\nbatch_poll = \"20 ms\"");
        s.ask("one", "scheduled");
        s.ask("two", "scheduled");
        let is_late =
            hold.is_some_and(|hold| hold.method == "DELETE" || hold.path.contains("output"));
        s.with(|shelf| {
            shelf.hold = hold;
            shelf.is_working = is_late;
        });
        let service = s.home.serve();
        wait_until(stage, || s.shelf.lock().unwrap().is_held);
        service.kill();
        s.with(|shelf| (shelf.hold, shelf.is_working) = (None, true));
        wait_until(stage, || {
            s.home.ok(&["drain"]);
            ["one", "two"].iter().all(|id| s.home.last_ack(id)["status"] == "completed")
        });
        let asked: usize = s.sizes().iter().sum();
        assert_eq!(asked, 2, "{stage}: each question stands in one batch: {:?}", s.sizes());
        assert_eq!(s.shelf.lock().unwrap().direct, 0, "{stage}");
        assert_eq!(s.home.charges().len(), 2, "{stage}");
        let status = s.home.status();
        assert_eq!(status["batches"], json!([]), "{stage}");
        let finished = &status["finished_batches"];
        assert_eq!(
            (&finished["answered"], &finished["saved"]),
            (&json!(2), &json!(0.004)),
            "{stage}"
        );
        s.home.ok(&["replay", "--verify"]);
    }
}
