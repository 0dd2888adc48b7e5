//! Power lost at every write and every sync of a build.

use std::fs;
use std::path::Path;

use summarizer::os::Disk;
use summarizer::os::sim::{Faults, SimDisk};
use summarizer::synthesis::agents::AgentTypes;
use summarizer::synthesis::build::{BuildOptions, build};
use summarizer::synthesis::gate::{CheckOptions, check};
use summarizer::synthesis::run_dir::RunDir;

use crate::home::{Home, errors};

const ROOT: &str = "/run";

/// The run of a home on a disk that can fail.
fn carried(home: &Home) -> SimDisk {
    let sim = SimDisk::new();
    let disk: &dyn Disk = &sim;
    for (name, bytes) in home.snapshot() {
        let path = Path::new(ROOT).join(&name);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.replace(&path, &bytes, 0o640).unwrap();
    }
    sim
}

fn built_on(disk: &dyn Disk) -> bool {
    let Ok(run) = RunDir::open(disk, Path::new(ROOT)) else { return false };
    let agent_types = AgentTypes::usual();
    let options = BuildOptions {
        agent_types: &agent_types,
        generated_at: None,
        strict: false,
        summarize: None,
        progress: &|| (),
    };
    build(&run, &options).is_ok_and(|built| built.pack.is_some())
}

fn found_on(disk: &dyn Disk) -> Vec<String> {
    let run = RunDir::open(disk, Path::new(ROOT)).unwrap();
    let agent_types = AgentTypes::usual();
    let options = CheckOptions { agent_types: &agent_types, compat: false, strict: false };
    errors(&check(&run, &options).unwrap().findings)
}

/// What is in the folder of the summaries.
fn summaries(disk: &dyn Disk) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(ROOT).join("summaries");
    let names = disk.list(&folder).unwrap();
    names.into_iter().map(|name| (name.clone(), disk.read(&folder.join(name)).unwrap())).collect()
}

#[test]
fn power_loss_leaves_a_valid_pack_or_a_stale_one() {
    let home = Home::demo();
    home.build();
    // The second build changes one summary, the pack and the sidecar.
    home.write("wave-1/p1.md", home.text("wave-1/p1.md").replace("40 ms", "41 ms"));
    let clean = carried(&home);
    let old = summaries(&clean);
    clean.reset_counts();
    assert!(built_on(&clean));
    let (counts, new) = (clean.counts(), summaries(&clean));
    assert_ne!(old, new);
    assert_eq!(new.iter().filter(|(name, _)| name.ends_with(".tmp")).count(), 0);
    let syncs =
        (0..=counts.syncs).map(|at| Faults { crash_at_sync: Some(at), ..Faults::default() });
    let writes =
        (0..=counts.writes).map(|at| Faults { crash_at_write: Some(at), ..Faults::default() });
    let (mut stale, mut held) = (0, 0);
    for faults in syncs.chain(writes) {
        let sim = carried(&home);
        sim.reset_counts();
        sim.set_faults(faults);
        let done = built_on(&sim);
        assert!(done || sim.has_crashed(), "{faults:?}");
        let after = sim.reboot();
        match found_on(&after).as_slice() {
            [] => {
                // Only the new pack fits the source as it is now.
                let pack = |files: &[(String, Vec<u8>)]| {
                    files.iter().find(|(name, _)| name == "summary-pack.json").cloned()
                };
                assert_eq!(pack(&summaries(&after)), pack(&new), "{faults:?}");
                held += 1;
            }
            [code] if code == "STALE_PACK" => stale += 1,
            other => panic!("{faults:?}: {other:?}"),
        }
        assert!(built_on(&after), "{faults:?}");
        assert_eq!(summaries(&after), new, "{faults:?}");
    }
    assert!(stale > 3 && held > 0, "{stale} stale, {held} held");
}

#[test]
fn a_full_disk_or_a_failed_write_changes_no_pack() {
    let home = Home::demo();
    home.build();
    home.write("wave-1/p1.md", home.text("wave-1/p1.md").replace("40 ms", "41 ms"));
    let count = {
        let sim = carried(&home);
        sim.reset_counts();
        built_on(&sim);
        sim.counts()
    };
    for at in 0..count.writes {
        let sim = carried(&home);
        let before = summaries(&sim);
        sim.reset_counts();
        sim.set_faults(Faults { fail_write: Some(at), ..Faults::default() });
        if built_on(&sim) {
            continue;
        }
        sim.set_faults(Faults::default());
        let of = |files: Vec<(String, Vec<u8>)>| -> Vec<_> {
            files.into_iter().filter(|(name, _)| !name.ends_with(".tmp")).collect()
        };
        assert_eq!(of(summaries(&sim)), of(before), "every write comes before every rename: {at}");
        assert!(built_on(&sim));
    }
}

/// A build that fails leaves no trace, nor does one that was killed once the next one is through.
#[test]
fn a_build_leaves_no_temporary_files() {
    let home = Home::demo();
    fs::remove_file(home.path("wave-1/p2.md")).unwrap();
    assert!(home.build().pack.is_none());
    assert!(!home.path("summaries").exists());
    home.write("summaries/p1.md", "## Findings\n");
    let before = home.snapshot();
    assert!(home.build().pack.is_none());
    assert_eq!(home.snapshot(), before);
    home.write("wave-1/p2.md", "## Findings\n");
    home.write("summaries/.summary-pack.spill.tmp", "left behind");
    assert!(home.build().pack.is_some());
    assert!(!home.path("summaries/.summary-pack.spill.tmp").exists());
}
