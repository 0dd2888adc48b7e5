//! A posting's requirements held against a profile.
//!
//! A requirement is a list item under a heading that announces requirements, or a sentence that asks for
//! experience. It is met when at least half of its content words stand in the profile; without a profile
//! nothing is said about meeting it. This is a comparison of words, and says so by its confidence.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::text::words::{fold, for_each_token};
use super::super::text::{Kind, stopwords};
use super::filled::Filled;
use super::hints::RequirementPart;
use super::scene::{Focus, Scene};

/// Most requirements read.
const REQUIREMENTS_MAX: usize = 15;

/// What the law asks for is no skill.
const FORMAL: [&str; 8] = [
    "visa",
    "visas",
    "right to work",
    "work authorization",
    "work permit",
    "permiso de trabajo",
    "arbeitserlaubnis",
    "permis de travail",
];
const HEADINGS: [&str; 26] = [
    "requirement*",
    "qualification*",
    "must have",
    "you have",
    "what you bring",
    "what we look",
    "we are looking for",
    "skills",
    "who you are",
    "your profile",
    "requisito*",
    "perfil",
    "que buscamos",
    "buscamos",
    "experiencia requerida",
    "excluyente*",
    "about you",
    "lo que necesitas",
    "was du mitbringst",
    "was sie mitbringen",
    "ihr profil",
    "dein profil",
    "anforderungen",
    "profil recherche",
    "votre profil",
    "competences",
];
const ASKS: [&str; 22] = [
    "experience",
    "years of",
    "required",
    "must have",
    "degree",
    "proficien*",
    "knowledge of",
    "fluent",
    "experiencia",
    "anos de",
    "requisito*",
    "conocimiento*",
    "dominio",
    "titulo",
    "indispensable",
    "manejo de",
    "erfahrung",
    "kenntnisse",
    "berufserfahrung",
    "ans d'experience",
    "annees d'experience",
    "maitrise",
];
const GENERIC: &str = " experience years year strong good excellent knowledge skills ability required must plus solid proven working understanding \
experiencia anos ano conocimientos conocimiento dominio manejo nivel buen buena fuerte capacidad minimo least ideally preferred desirable deseable erfahrung kenntnisse jahre mit gute ans d'experience annees maitrise exige avec courant ";

/// One of several would do.
const ALTERNATIVES: [&str; 5] = ["or", "similar", "equivalent", "o", "equivalente"];

struct Requirement {
    sentence: usize,
    met: Option<bool>,
}

/// One result of the comparison.
pub fn requirements(
    scene: &Scene<'_, '_>,
    give: RequirementPart,
    profile: &str,
    focus: &Focus,
) -> Filled {
    let known = words(&affirmed(&scene.input_text(profile, focus).unwrap_or_default()));
    let found = find(scene, focus, &known);
    let judged = found.iter().filter(|requirement| requirement.met.is_some()).count();
    let met = found.iter().filter(|requirement| requirement.met == Some(true)).count();
    match give {
        RequirementPart::List => {
            Filled::List(found.iter().map(|requirement| entry(scene, requirement)).collect())
        }
        RequirementPart::Gaps => {
            let gaps = found.iter().filter(|requirement| requirement.met == Some(false));
            Filled::List(
                gaps.map(|requirement| Filled::quoted(scene.quote(requirement.sentence, 160)))
                    .collect(),
            )
        }
        RequirementPart::Score if judged == 0 => Filled::Nothing,
        RequirementPart::Score => Filled::Value(json!(100 * met / judged)),
        RequirementPart::Verdict => Filled::text(verdict(met, judged)),
        RequirementPart::Apply if judged == 0 => Filled::Nothing,
        RequirementPart::Apply => Filled::text(if met * 2 >= judged { "Yes" } else { "No" }),
        RequirementPart::Reasons => reasons(scene, &found),
    }
}

fn verdict(met: usize, judged: usize) -> &'static str {
    match (met, judged) {
        (_, 0) => "Maybe",
        (met, judged) if met * 10 >= judged * 6 => "Yes",
        (met, judged) if judged >= 3 && met * 10 < judged * 3 => "No",
        _ => "Maybe",
    }
}

fn entry(scene: &Scene<'_, '_>, requirement: &Requirement) -> Filled {
    Filled::Object(vec![
        ("skill".into(), Filled::quoted(scene.quote(requirement.sentence, 160))),
        ("met".into(), Filled::Value(requirement.met.map_or(Value::Null, Value::Bool))),
        ("evidence".into(), Filled::quoted(scene.quote(requirement.sentence, 400))),
    ])
}

fn reasons(scene: &Scene<'_, '_>, found: &[Requirement]) -> Filled {
    let of =
        |met: bool| found.iter().filter(move |requirement| requirement.met == Some(met)).take(3);
    let said = |requirement: &Requirement, label: &str| {
        let mut quoted = super::super::rank::select::Quoted::plain(label);
        quoted.push(&scene.quote(requirement.sentence, 160));
        Filled::quoted(quoted)
    };
    let for_it = of(true).map(|requirement| said(requirement, "Met: "));
    let against = of(false).map(|requirement| said(requirement, "Not met: "));
    Filled::List(for_it.chain(against).collect())
}

fn find(scene: &Scene<'_, '_>, focus: &Focus, known: &BTreeSet<String>) -> Vec<Requirement> {
    let cues = |list: &[&str]| list.iter().map(|cue| cue.to_string()).collect::<Vec<_>>();
    let headings: Vec<(usize, usize)> = scene
        .saying(&cues(&HEADINGS), focus)
        .into_iter()
        .map(|at| scene.text.block_of(at))
        .filter(|block| matches!(block.kind, Kind::Heading(_)))
        .map(|block| (block.part, block.section))
        .collect();
    let listed = focus.sentences.iter().copied().filter(|&at| {
        let block = scene.text.block_of(at);
        block.kind == Kind::Item && headings.contains(&(block.part, block.section))
    });
    let mut sentences: Vec<usize> = listed.collect();
    if sentences.is_empty() {
        sentences = scene.saying(&cues(&ASKS), focus);
        sentences
            .retain(|&at| !matches!(scene.text.block_of(at).kind, Kind::Heading(_) | Kind::Header));
    }
    let formal = scene.saying(&cues(&FORMAL), focus);
    sentences.retain(|at| !formal.contains(at));
    sentences.truncate(REQUIREMENTS_MAX);
    sentences
        .into_iter()
        .map(|sentence| Requirement { sentence, met: met(scene.text.sentence(sentence), known) })
        .collect()
}

fn met(requirement: &str, known: &BTreeSet<String>) -> Option<bool> {
    let asked = words(requirement);
    if known.is_empty() || asked.is_empty() {
        return None;
    }
    let shared = asked.iter().filter(|word| known.contains(*word)).count();
    let alternatives = fold(requirement)
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| ALTERNATIVES.contains(&word));
    Some(shared * 2 >= asked.len() || (alternatives && shared > 0))
}

/// The profile without the clauses that deny something.
fn affirmed(profile: &str) -> String {
    const DENIALS: [&str; 9] =
        ["no", "not", "without", "never", "sin", "nunca", "ningun", "ninguna", "lack"];
    let denies = |clause: &&str| {
        fold(clause).split(|c: char| !c.is_alphanumeric()).any(|word| DENIALS.contains(&word))
    };
    profile
        .split(['.', ';', '\n', ','])
        .filter(|clause| !denies(clause))
        .collect::<Vec<_>>()
        .join(". ")
}

/// Content words, folded, plural endings off.
fn words(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for_each_token(text, |start, end| {
        let word = fold(&text[start..end]);
        let content = !stopwords::is_stop_word(&word)
            && !GENERIC.contains(&format!(" {word} "))
            && word.chars().any(char::is_alphabetic);
        if content && word.len() > 1 {
            let bare = if word.len() > 4 { word.trim_end_matches('s') } else { &word };
            found.insert(bare.to_string());
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_met_by_words_and_unknown_without_a_profile() {
        let known = words("Python developer, pipelines in SQL and Airflow");
        assert_eq!(met("3+ years of experience with Python", &known), Some(true));
        assert_eq!(met("Kubernetes and Terraform", &known), Some(false));
        assert_eq!(met("Python", &BTreeSet::new()), None);
        assert_eq!(verdict(0, 0), "Maybe");
    }
}
