//! Kinds of word lists: how a language file writes them, and how they are looked up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Deref;

use serde::Deserialize;

use super::super::text::hash::Fast;

/// Lists of several languages put together.
pub(crate) trait Merge {
    fn add_all(&mut self, other: Self);
}

impl<T> Merge for Vec<T> {
    fn add_all(&mut self, other: Self) {
        self.extend(other);
    }
}

impl Merge for BTreeMap<String, String> {
    fn add_all(&mut self, other: Self) {
        self.extend(other);
    }
}

impl<K: Ord> Merge for BTreeMap<K, Vec<String>> {
    fn add_all(&mut self, other: Self) {
        for (name, list) in other {
            self.entry(name).or_default().extend(list);
        }
    }
}

/// Words to be looked up: in a file one string, or a list where some hold a space.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Written")]
pub struct Words(HashSet<Box<str>, Fast>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    List(Vec<String>),
}

impl From<Written> for Words {
    fn from(written: Written) -> Words {
        Words(match written {
            Written::Text(text) => text.split_whitespace().map(Box::from).collect(),
            Written::List(list) => list.into_iter().map(String::into_boxed_str).collect(),
        })
    }
}

impl Deref for Words {
    type Target = HashSet<Box<str>, Fast>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Merge for Words {
    fn add_all(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Phrases by their first word.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Vec<String>")]
pub(crate) struct Phrases(HashMap<Box<str>, Vec<Vec<Box<str>>>, Fast>);

impl From<Vec<String>> for Phrases {
    fn from(list: Vec<String>) -> Phrases {
        let mut phrases = Phrases::default();
        for phrase in list {
            let mut words = phrase.split_whitespace().map(Box::from);
            if let Some(first) = words.next() {
                phrases.0.entry(first).or_default().push(words.collect());
            }
        }
        phrases
    }
}

impl Phrases {
    /// How many words of `word(0)`, `word(1)`, … make the longest phrase that stands there.
    pub(crate) fn starts<'w>(&self, word: impl Fn(usize) -> &'w str) -> Option<usize> {
        let said = |rest: &&Vec<Box<str>>| {
            rest.iter().enumerate().all(|(at, expected)| word(at + 1) == &**expected)
        };
        let found = self.0.get(word(0))?.iter().filter(said);
        found.map(|rest| rest.len() + 1).max()
    }
}

impl Merge for Phrases {
    fn add_all(&mut self, other: Self) {
        for (first, mut rests) in other.0 {
            self.0.entry(first).or_default().append(&mut rests);
        }
    }
}

/// Words that stand for numbers from 1: months, weekdays. In a file the words of a number are one string.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Vec<String>")]
pub(crate) struct Numbered(HashMap<Box<str>, u32, Fast>);

impl From<Vec<String>> for Numbered {
    fn from(list: Vec<String>) -> Numbered {
        let words = list.iter().zip(1..).flat_map(|(words, number)| {
            words.split_whitespace().map(move |word| (Box::from(word), number))
        });
        Numbered(words.collect())
    }
}

impl Numbered {
    pub(crate) fn number(&self, word: &str) -> Option<u32> {
        self.0.get(word).copied()
    }
}

impl Merge for Numbered {
    fn add_all(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}
