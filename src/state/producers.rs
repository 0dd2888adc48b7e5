//! The producers that take turns: a small table of names with the time each last started work.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::ids::Seq;

/// Above this many names, a producer without open requests is forgotten immediately; it then counts as
/// one that never started, which only brings its next request forward.
const REMEMBERED: usize = 4096;

#[derive(Debug, Clone, Default)]
struct Producer {
    name: String,
    last_start: Seq,
    open: usize,
}

/// Names by index, indexes by name.
#[derive(Debug, Default)]
pub(super) struct Producers {
    slots: Vec<Option<Producer>>,
    by_name: BTreeMap<String, u32>,
    /// Lowest first, so that a restored table gives out the same indexes.
    free: BTreeSet<u32>,
}

impl Producers {
    /// The index of a name, made on first use.
    pub(super) fn index_of(&mut self, name: &str) -> u32 {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let producer = Producer { name: name.to_owned(), ..Producer::default() };
        let index = match self.free.pop_first() {
            Some(index) => {
                self.slots[index as usize] = Some(producer);
                index
            }
            None => {
                self.slots.push(Some(producer));
                (self.slots.len() - 1) as u32
            }
        };
        self.by_name.insert(name.to_owned(), index);
        index
    }

    /// The name of an index.
    #[cfg(test)]
    pub(super) fn name(&self, index: u32) -> &str {
        self.get(index).map_or("", |producer| &producer.name)
    }

    /// When a producer last started work.
    pub(super) fn last_start(&self, index: u32) -> Seq {
        self.get(index).map_or(Seq(0), |producer| producer.last_start)
    }

    /// Notes a start and returns the one before.
    pub(super) fn started(&mut self, index: u32, at: Seq) -> Seq {
        match self.slots.get_mut(index as usize) {
            Some(Some(producer)) => std::mem::replace(&mut producer.last_start, at),
            _ => Seq(0),
        }
    }

    /// One more open request.
    pub(super) fn opened(&mut self, index: u32) {
        if let Some(Some(producer)) = self.slots.get_mut(index as usize) {
            producer.open += 1;
        }
    }

    /// One open request less.
    pub(super) fn closed(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(producer) = slot else { return };
        producer.open = producer.open.saturating_sub(1);
        if producer.open == 0 && self.by_name.len() > REMEMBERED {
            self.by_name.remove(&producer.name);
            *slot = None;
            self.free.insert(index);
        }
    }

    /// Everything worth storing.
    pub(super) fn list(&self) -> Vec<(u32, String, Seq)> {
        let known = self.slots.iter().enumerate();
        known
            .filter_map(|(index, slot)| {
                slot.as_ref().map(|p| (index as u32, p.name.clone(), p.last_start))
            })
            .collect()
    }

    /// The table a list stands for.
    pub(super) fn from_list(list: Vec<(u32, String, Seq)>) -> Producers {
        let mut producers = Producers::default();
        for (index, name, last_start) in list {
            let slots = index as usize + 1;
            if producers.slots.len() < slots {
                producers.slots.resize(slots, None);
            }
            producers.by_name.insert(name.clone(), index);
            producers.slots[index as usize] = Some(Producer { name, last_start, open: 0 });
        }
        let empty =
            |(index, slot): (usize, &Option<Producer>)| slot.is_none().then_some(index as u32);
        producers.free = producers.slots.iter().enumerate().filter_map(empty).collect();
        producers
    }

    fn get(&self, index: u32) -> Option<&Producer> {
        self.slots.get(index as usize)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_brings_back_the_same_table() {
        let mut producers = Producers::default();
        let (a, b) = (producers.index_of("a"), producers.index_of("b"));
        assert_eq!(producers.index_of("a"), a);
        assert_eq!(producers.started(b, Seq(7)), Seq(0));
        let back = Producers::from_list(producers.list());
        assert_eq!((back.name(a), back.last_start(a)), ("a", Seq(0)));
        assert_eq!((back.name(b), back.last_start(b)), ("b", Seq(7)));
    }

    #[test]
    fn many_names_do_not_pile_up() {
        let mut producers = Producers::default();
        for number in 0..20_000 {
            let index = producers.index_of(&format!("repo{number}"));
            producers.opened(index);
            producers.closed(index);
        }
        assert!(producers.slots.len() <= REMEMBERED + 1);
        assert_eq!(producers.by_name.len(), producers.list().len());
    }
}
