//! Which agent types exist. They are the names of the files `agents/*.md` of the run, else of a folder
//! above it or above the working directory, where `agents/` and `.opencode/agents/` count. Without such
//! files only the usual names are known, and an unknown one is no more than a warning.

use std::path::Path;

use crate::os::Disk;

/// The agent types that are usual where research runs are made.
const USUAL: [&str; 5] = [
    "ClaudeResearcher",
    "CodexResearcher",
    "GeminiResearcher",
    "GrokResearcher",
    "PerplexityResearcher",
];
/// Where agents are, in a run or a repository.
const FOLDERS: [&str; 2] = ["agents", ".opencode/agents"];
/// How many folders above are searched.
const ABOVE_MAX: usize = 8;
/// Agents whose name says this are the ones that do research.
const RESEARCHER: &str = "Researcher";

/// The agent types that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTypes {
    pub names: Vec<String>,
    /// Whether these are all that exist. Otherwise an unknown one is only a warning.
    pub complete: bool,
}

impl AgentTypes {
    /// The usual names: others may exist.
    pub fn usual() -> AgentTypes {
        AgentTypes { names: USUAL.map(str::to_owned).to_vec(), complete: false }
    }

    /// Exactly these.
    pub fn named(names: Vec<String>) -> AgentTypes {
        AgentTypes { names, complete: true }
    }

    /// The agents of a run or its repository, else of the working directory's, else the usual ones.
    pub fn found(disk: &dyn Disk, run: Option<&Path>, working: &Path) -> AgentTypes {
        let folders = run.into_iter().chain([working]).flat_map(|place| {
            place
                .ancestors()
                .take(ABOVE_MAX)
                .flat_map(|folder| FOLDERS.map(|name| folder.join(name)))
        });
        for folder in folders {
            let names = agents_in(disk, &folder);
            if !names.is_empty() {
                return AgentTypes::named(names);
            }
        }
        AgentTypes::usual()
    }

    pub fn add(&mut self, name: String) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Those to which research is given: the researchers, where agents of other kinds exist too.
    pub(crate) fn researchers(&self) -> Vec<String> {
        let research: Vec<String> =
            self.names.iter().filter(|name| name.contains(RESEARCHER)).cloned().collect();
        if research.is_empty() { self.names.clone() } else { research }
    }
}

fn agents_in(disk: &dyn Disk, folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = disk
        .list(folder)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("readme"))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
    fn agents_come_from_the_run_then_from_its_repository() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("repo/runs/r1");
        std::fs::create_dir_all(&run).unwrap();
        let found = || AgentTypes::found(&HostDisk, Some(&run), dir.path());
        assert!(!found().complete);
        let put = |place: &str| {
            let path = dir.path().join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "# Agent\n").unwrap();
        };
        put("repo/.opencode/agents/Intern.md");
        put("repo/.opencode/agents/DeepResearcher.md");
        put("repo/.opencode/agents/README.md");
        assert_eq!(found(), AgentTypes::named(vec!["DeepResearcher".into(), "Intern".into()]));
        assert_eq!(found().researchers(), ["DeepResearcher"]);
        put("repo/runs/r1/agents/Own.md");
        assert_eq!(found().names, ["Own"]);
        assert_eq!(found().researchers(), ["Own"]);
    }
}
