//! Which file of `src` uses which, read from the text of what ships.
//!
//! It starts at `src/lib.rs` and follows `mod` declarations, so that files which only tests use do
//! not appear. A name that a file takes from a folder is followed through the folder's `mod.rs` to
//! the file that defines it. What a module takes from its own children does not count as a use, so
//! a module and its child may use each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

/// What one file takes from another: from each file to each file the names.
pub type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A module's path below the crate: `log::store` is `["log", "store"]`, `lib.rs` is empty.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    imports: Vec<Import>,
    /// Items that the file defines, inner functions and methods included.
    defines: BTreeSet<String>,
    /// Paths in the code outside `use` declarations, with the module in which they stand.
    paths: Vec<(ModulePath, Vec<String>)>,
    /// All identifiers outside `use` declarations.
    words: BTreeSet<String>,
}

struct Import {
    public: bool,
    module: ModulePath,
    path: Vec<String>,
    /// The name it gets here; `*` for all names.
    name: String,
}

/// What a path leads to.
enum Target {
    Module,
    Item { module: ModulePath, name: String },
}

/// Reads the crate whose root is `src/lib.rs` below `root`.
pub fn uses(root: &Path) -> Uses {
    Crate::read(root).uses()
}

/// Groups in which each member reaches each other by its uses; single members are left out.
pub fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|from| (from, reachable(edges, from))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for from in edges.keys() {
        if seen.contains(from) || !reach[from].contains(from) {
            continue;
        }
        let group: Vec<String> = reach[from]
            .iter()
            .filter(|to| reach.get(*to).is_some_and(|back| back.contains(from)))
            .map(|member| (*member).clone())
            .collect();
        seen.extend(group.iter().cloned());
        if group.len() > 1 {
            found.push(group);
        }
    }
    found
}

fn reachable<'a>(
    edges: &'a BTreeMap<String, BTreeSet<String>>,
    from: &String,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut waiting: VecDeque<&String> = edges.get(from).into_iter().flatten().collect();
    while let Some(next) = waiting.pop_front() {
        if reached.insert(next) {
            waiting.extend(edges.get(next).into_iter().flatten());
        }
    }
    reached
}

struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    fn read(root: &Path) -> Self {
        let mut modules = BTreeMap::new();
        let mut waiting = VecDeque::from([(Vec::new(), "src/lib.rs".to_owned())]);
        while let Some((path, file)) = waiting.pop_front() {
            let text = fs::read_to_string(root.join(&file)).unwrap();
            let module = Parser::new(&text, path.clone(), file.clone()).parse();
            for child in &module.children {
                if let Some(found) = file_of_child(root, &file, child) {
                    let inside = path.iter().chain([child]).cloned().collect();
                    waiting.push_back((inside, found));
                }
            }
            modules.insert(path, module);
        }
        Self { modules }
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (path, module) in &self.modules {
            let mut note = |target: Option<Target>| {
                let Some(Target::Item { module: to, name }) = target else { return };
                let file = &self.modules[&to].file;
                if *file != module.file && !to.starts_with(path) {
                    let from = uses.entry(module.file.clone()).or_default();
                    from.entry(file.clone()).or_default().insert(name);
                }
            };
            for (inside, segments) in &module.paths {
                note(self.absolute(path, inside, segments).and_then(|to| self.resolve(&to, 0)));
            }
            for import in &module.imports {
                let target = self.absolute(path, &import.module, &import.path);
                let Some(target) = target else { continue };
                if import.name == "*" {
                    let Some(other) = self.modules.get(&target) else { continue };
                    for name in other.defines.intersection(&module.words) {
                        // Functions and methods of one name count as one.
                        if name.starts_with(char::is_uppercase) {
                            note(Some(Target::Item { module: target.clone(), name: name.clone() }));
                        }
                    }
                    continue;
                }
                let only_passed_on = (import.public || !module.children.is_empty())
                    && !module.words.contains(&import.name);
                if !only_passed_on {
                    note(self.resolve(&target, 0));
                }
            }
        }
        uses
    }

    /// A path as it is written in a module, from the crate's root; none if it leads outside.
    fn absolute(
        &self,
        file: &ModulePath,
        inside: &ModulePath,
        segments: &[String],
    ) -> Option<ModulePath> {
        let (first, rest) = segments.split_first()?;
        let join = |start: &[String], rest: &[String]| Some([start, rest].concat());
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => join(inside, rest),
            "super" => {
                let mut start = inside.clone();
                start.pop()?;
                let mut rest = rest;
                while rest.first().is_some_and(|next| next == "super") {
                    start.pop()?;
                    rest = &rest[1..];
                }
                join(&start, rest)
            }
            name => {
                let module = &self.modules[file];
                if module.children.contains(name) {
                    return join(file, segments);
                }
                let import = module.imports.iter().find(|import| import.name == name)?;
                // A name that is imported from itself is an outside crate.
                if import.path.first() == Some(first) {
                    return None;
                }
                let target = self.absolute(file, &import.module, &import.path)?;
                join(&target, rest)
            }
        }
    }

    /// Follows a path from the crate's root through modules and re-exports.
    fn resolve(&self, path: &[String], depth: usize) -> Option<Target> {
        let mut at: ModulePath = Vec::new();
        for (index, segment) in path.iter().enumerate() {
            let below: ModulePath = at.iter().chain([segment]).cloned().collect();
            if self.modules.contains_key(&below) {
                at = below;
                continue;
            }
            let module = self.modules.get(&at)?;
            let here = || Some(Target::Item { module: at.clone(), name: segment.clone() });
            if depth > 16 || module.defines.contains(segment) {
                return here();
            }
            let named = module.imports.iter().filter(|import| import.name == *segment);
            let globs = module.imports.iter().filter(|import| import.name == "*");
            for import in named.chain(globs) {
                let Some(mut target) = self.absolute(&at, &import.module, &import.path) else {
                    continue;
                };
                let all = import.name == "*";
                if all && !self.modules.get(&target)?.defines.contains(segment) {
                    continue;
                }
                target.extend(path.iter().skip(if all { index } else { index + 1 }).cloned());
                return self.resolve(&target, depth + 1);
            }
            return here();
        }
        Some(Target::Module)
    }
}

fn file_of_child(root: &Path, parent: &str, child: &str) -> Option<String> {
    let (folder, name) = parent.rsplit_once('/')?;
    let folder = match name {
        "lib.rs" | "mod.rs" => folder.to_owned(),
        name => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    [format!("{folder}/{child}.rs"), format!("{folder}/{child}/mod.rs")]
        .into_iter()
        .find(|file| root.join(file).exists())
}

/// Reads one file, token by token.
struct Parser {
    tokens: Vec<String>,
    at: usize,
    path: ModulePath,
    /// Modules written out in the file, with the depth of their braces.
    inline: Vec<(usize, String)>,
    depth: usize,
    module: Module,
}

impl Parser {
    fn new(text: &str, path: ModulePath, file: String) -> Self {
        let module = Module { file, ..Module::default() };
        Self { tokens: tokens(text), at: 0, path, inline: Vec::new(), depth: 0, module }
    }

    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn parse(mut self) -> Module {
        while self.at < self.tokens.len() {
            match self.token(0) {
                "#" if self.token(1) == "[" || self.token(2) == "[" => self.attribute(),
                "mod" if is_name(self.token(1)) => self.module_declared(),
                "use" if self.token(1) != "<" => self.import(),
                "{" => {
                    self.depth += 1;
                    self.at += 1;
                }
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.inline.last().is_some_and(|(depth, _)| *depth == self.depth) {
                        self.inline.pop();
                    }
                    self.at += 1;
                }
                token if is_name(token) => self.name(),
                _ => self.at += 1,
            }
        }
        self.module
    }

    /// Passes over an attribute, and over the item below it if only tests have that item.
    fn attribute(&mut self) {
        let text = self.bracketed();
        let gate = text.contains("[cfg(") && !text.contains("not(");
        if gate && (text.contains("test") || text.contains("\"internals\"")) {
            while self.token(0) == "#" {
                self.bracketed();
            }
            self.item();
        }
    }

    /// The text of `#[…]` or `#![…]`; stands behind it afterwards.
    fn bracketed(&mut self) -> String {
        let (from, mut open) = (self.at, 0_usize);
        while self.at < self.tokens.len() {
            match self.token(0) {
                "[" => open += 1,
                "]" => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 && self.at > from + 2 {
                break;
            }
        }
        self.tokens[from..self.at].concat()
    }

    /// Passes over one item: to its `;`, to the end of its block, or, of a field, to its comma.
    fn item(&mut self) {
        let block = (0..8).find_map(|ahead| match self.token(ahead) {
            "fn" | "impl" | "mod" | "struct" | "enum" | "trait" | "union" | "macro_rules" => {
                Some(true)
            }
            "use" | "const" | "static" | "type" | "let" => Some(false),
            _ => None,
        });
        let mut open = 0_usize;
        while self.at < self.tokens.len() {
            match self.token(0) {
                "{" | "(" | "[" => open += 1,
                "}" | ")" | "]" => {
                    if open == 0 {
                        return;
                    }
                    open -= 1;
                    if open == 0 && self.token(0) == "}" && block != Some(false) {
                        self.at += 1;
                        return;
                    }
                }
                ";" if open == 0 => {
                    self.at += 1;
                    return;
                }
                "," if open == 0 && block.is_none() => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn module_declared(&mut self) {
        let name = self.token(1).to_owned();
        match self.token(2) {
            "{" => {
                self.inline.push((self.depth, name));
                self.depth += 1;
            }
            _ => drop(self.module.children.insert(name)),
        }
        self.at += 3;
    }

    fn inside(&self) -> ModulePath {
        self.path.iter().chain(self.inline.iter().map(|(_, name)| name)).cloned().collect()
    }

    fn import(&mut self) {
        let before = self.at.checked_sub(1).map_or("", |at| self.tokens[at].as_str());
        let public = matches!(before, "pub" | ")");
        self.at += 1;
        let mut found = Vec::new();
        self.tree(&[], &mut found);
        let module = self.inside();
        for (path, name) in found {
            self.module.imports.push(Import { public, module: module.clone(), path, name });
        }
    }

    /// One branch of a `use` declaration.
    fn tree(&mut self, prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
        let mut path = prefix.to_vec();
        loop {
            match self.token(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.token(0), "}" | "") {
                        self.tree(&path, found);
                        if self.token(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    found.push((path, "*".to_owned()));
                    return;
                }
                "::" => self.at += 1,
                name if is_name(name) => {
                    path.push(name.to_owned());
                    self.at += 1;
                    if self.token(0) == "::" {
                        continue;
                    }
                    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                        path.pop();
                    }
                    let mut name = path.last().cloned().unwrap_or_default();
                    if self.token(0) == "as" {
                        name = self.token(1).to_owned();
                        self.at += 2;
                    }
                    found.push((path, name));
                    return;
                }
                _ => {
                    self.at += 1;
                    return;
                }
            }
        }
    }

    fn name(&mut self) {
        let defines = matches!(
            self.token(0),
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
        );
        if defines && is_name(self.token(1)) {
            let name = self.token(1).to_owned();
            self.module.defines.insert(name);
            self.at += 2;
            return;
        }
        if self.token(0) == "macro_rules" {
            let name = self.token(2).to_owned();
            self.module.defines.insert(name);
        }
        let mut path = vec![self.token(0).to_owned()];
        self.at += 1;
        while self.token(0) == "::" && is_name(self.token(1)) {
            path.push(self.token(1).to_owned());
            self.at += 2;
        }
        self.module.words.extend(path.iter().cloned());
        if path.len() > 1 {
            let inside = self.inside();
            self.module.paths.push((inside, path));
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, whole strings and single signs; comments, characters and lifetimes are left out.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let next = chars.get(at + 1).copied().unwrap_or(' ');
        match c {
            '/' if next == '/' => at = find(&chars, at, "\n"),
            '/' if next == '*' => at = find(&chars, at + 2, "*/") + 2,
            '"' => {
                let end = string_end(&chars, at + 1);
                found.push(chars[at..end].iter().collect());
                at = end;
            }
            '\'' => at = after_quote(&chars, at),
            ':' if next == ':' => {
                found.push("::".to_owned());
                at += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = (at..chars.len())
                    .find(|end| !(chars[*end].is_alphanumeric() || chars[*end] == '_'))
                    .unwrap_or(chars.len());
                let word: String = chars[at..end].iter().collect();
                at = end;
                if matches!(word.as_str(), "r" | "br") && matches!(chars.get(at), Some('"' | '#')) {
                    let signs = chars[at..].iter().take_while(|c| **c == '#').count();
                    let close: String = std::iter::once('"').chain(vec!['#'; signs]).collect();
                    at = find(&chars, at + signs + 1, &close) + close.len();
                } else {
                    found.push(word);
                }
            }
            c => {
                if !c.is_whitespace() {
                    found.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    found
}

fn find(chars: &[char], from: usize, what: &str) -> usize {
    let what: Vec<char> = what.chars().collect();
    (from..chars.len()).find(|at| chars[*at..].starts_with(&what)).unwrap_or(chars.len())
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// Behind a character literal, or behind the quote of a lifetime.
fn after_quote(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => find(chars, at + 3, "'") + 1,
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}
