//! Which agent types exist. They are the agents of the run, else of a folder above it or above the working
//! directory. An agent is a file `*.md`, and its type is the `name` of its front matter or else the name
//! of the file.
//!
//! Contract: a type that is unknown is an error only where the folder is one of agents for sure: that of
//! the run, `.opencode/agents` or `.claude/agents`, or `agents` at the root of a repository. Any other
//! folder with this name may hold something else, so there the usual names are known too, and an unknown
//! type is no more than a warning.

use std::path::Path;

use super::run_dir::read_bounded;
use crate::markup::markdown::{FrontMatter, front_matter};
use crate::os::Disk;

/// Bytes of an agent in which its name is looked for.
const AGENT_BYTES_MAX: u64 = 1 << 20;

/// The agent types that are usual where research runs are made.
const USUAL: [&str; 5] = [
    "ClaudeResearcher",
    "CodexResearcher",
    "GeminiResearcher",
    "GrokResearcher",
    "PerplexityResearcher",
];
/// Where agents are, in a run or a repository.
const FOLDERS: [&str; 3] = ["agents", ".opencode/agents", ".claude/agents"];
/// What lies at the root of a repository.
const REPOSITORY: &str = ".git";
/// How many folders above are searched.
const ABOVE_MAX: usize = 8;
/// Agents whose name says this are the ones that do research.
const RESEARCHER: &str = "Researcher";

/// The agent types that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTypes {
    pub names: Vec<String>,
    /// Names of their files, where an agent names itself otherwise.
    files: Vec<String>,
    /// Whether these are all that exist. Otherwise an unknown one is only a warning.
    pub complete: bool,
}

impl AgentTypes {
    /// The usual names: others may exist.
    pub fn usual() -> AgentTypes {
        AgentTypes { complete: false, ..AgentTypes::named(USUAL.map(str::to_owned).to_vec()) }
    }

    /// Exactly these.
    pub fn named(names: Vec<String>) -> AgentTypes {
        AgentTypes { names, files: Vec::new(), complete: true }
    }

    /// The agents of a run or its repository, else of the working directory's, else the usual ones.
    pub fn found(disk: &dyn Disk, run: Option<&Path>, working: &Path) -> AgentTypes {
        for place in run.into_iter().chain([working]) {
            for folder in place.ancestors().take(ABOVE_MAX) {
                for name in FOLDERS {
                    let Some(mut found) = agents_in(disk, &folder.join(name)) else { continue };
                    let is_root = || matches!(disk.stat(&folder.join(REPOSITORY)), Ok(Some(_)));
                    let is_sure = name != FOLDERS[0] || run == Some(folder) || is_root();
                    if !is_sure {
                        found.complete = false;
                        USUAL.iter().for_each(|name| found.add((*name).to_owned()));
                    }
                    return found;
                }
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
        self.names.iter().chain(&self.files).any(|known| known == name)
    }

    /// Those to which research is given: the researchers, where agents of other kinds exist too.
    pub(crate) fn researchers(&self) -> Vec<String> {
        let research: Vec<String> =
            self.names.iter().filter(|name| name.contains(RESEARCHER)).cloned().collect();
        if research.is_empty() { self.names.clone() } else { research }
    }
}

fn agents_in(disk: &dyn Disk, folder: &Path) -> Option<AgentTypes> {
    let mut found = AgentTypes::named(Vec::new());
    for file in disk.list(folder).unwrap_or_default() {
        let Some(stem) = file.strip_suffix(".md") else { continue };
        if stem.is_empty() || stem.eq_ignore_ascii_case("readme") {
            continue;
        }
        let text = read_bounded(disk, &folder.join(&file), AGENT_BYTES_MAX).unwrap_or_default();
        let named = name_in(&String::from_utf8_lossy(&text));
        if named.as_deref().is_some_and(|name| name != stem) {
            found.files.push(stem.to_owned());
        }
        found.add(named.unwrap_or_else(|| stem.to_owned()));
    }
    found.names.sort();
    found.files.sort();
    (!found.names.is_empty()).then_some(found)
}

/// The `name` of the front matter, when it is one word.
fn name_in(agent: &str) -> Option<String> {
    let FrontMatter::Yaml(front) = front_matter(agent)? else { return None };
    let name = front.lines().find_map(|line| line.strip_prefix("name:"))?.trim();
    let name = name.trim_matches(['"', '\'']);
    let is_word = !name.is_empty() && !name.contains(char::is_whitespace);
    is_word.then(|| name.to_owned())
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
        let named = dir.path().join("repo/runs/r1/agents/deep-one.md");
        std::fs::write(named, "---\nname: DeepResearcher\ndescription: x\n---\nLook.\n").unwrap();
        assert_eq!(found().names, ["DeepResearcher", "Own"]);
        assert!(found().knows("deep-one") && found().knows("DeepResearcher"));
        assert!(found().complete && !found().knows("ClaudeResearcher"));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
    fn a_folder_that_is_only_called_agents_forbids_no_type() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("work/runs/r1");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::create_dir_all(dir.path().join("work/agents")).unwrap();
        std::fs::write(dir.path().join("work/agents/estate.md"), "# Estate agents\n").unwrap();
        let found = || AgentTypes::found(&HostDisk, Some(&run), dir.path());
        assert!(!found().complete);
        assert!(found().knows("estate") && found().knows("ClaudeResearcher"));
        std::fs::create_dir_all(dir.path().join("work/.git")).unwrap();
        assert!(found().complete && !found().knows("ClaudeResearcher"));
    }
}
