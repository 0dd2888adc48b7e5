//! Keys of records, all derived from one secret, each of which can be destroyed alone.
//!
//! # The tree
//!
//! A node has 32 bytes and four children: `child = sha256(node ‖ u8 number)`. The root stands for every
//! sequence number; thirty-two steps down, two bits of the number at a time and the highest first, a leaf
//! is the key of one record. Nobody can come from a node to its parent or to its neighbours.
//!
//! To destroy a key, the nodes above it are replaced by their other children. What remains derives
//! every other key and can never derive this one again. So the keys of a log take 32 bytes until
//! something is forgotten, and then about two kilobytes for each record that lies alone.
//!
//! See docs/adr/0130-sealed-bodies.md.

use std::collections::BTreeMap;

use crate::contract::hash::Hasher;
use crate::contract::ids::Seq;

/// Steps from the root to a leaf.
const HEIGHT: u8 = 32;
/// Children of a node.
const CHILDREN: u8 = 4;

/// The bytes of a node, or of a leaf: a key.
pub(crate) type Secret = [u8; 32];

/// What is left of the tree.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyTree {
    /// By the first sequence number that a node stands for; no two stand for the same.
    nodes: BTreeMap<u64, Node>,
    /// Changes whenever a key is destroyed.
    version: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    /// Steps down to its leaves.
    pub height: u8,
    pub secret: Secret,
}

/// The number of the child below a node of this height that leads to a record.
fn digit(seq: u64, height: u8) -> u8 {
    (seq >> (2 * (u32::from(height) - 1))) as u8 & (CHILDREN - 1)
}

/// How many records a node of this height stands for; `None` when that is more than a number holds.
fn width(height: u8) -> Option<u64> {
    1u64.checked_shl(2 * u32::from(height))
}

fn child(secret: &Secret, number: u8) -> Secret {
    let mut hasher = Hasher::new();
    hasher.update(secret);
    hasher.update([number]);
    hasher.finish().0
}

impl KeyTree {
    /// A tree from which nothing was destroyed.
    pub(crate) fn whole(secret: Secret) -> KeyTree {
        KeyTree { nodes: BTreeMap::from([(0, Node { height: HEIGHT, secret })]), version: 0 }
    }

    /// A tree of these nodes; `None` when they cannot be the rest of one.
    pub(crate) fn of(nodes: impl IntoIterator<Item = (u64, Node)>) -> Option<KeyTree> {
        let mut kept = BTreeMap::new();
        let mut free = Some(0);
        for (first, node) in nodes {
            let width = width(node.height).filter(|_| node.height < HEIGHT);
            let fits = match width {
                Some(width) => first.is_multiple_of(width),
                None => node.height == HEIGHT && first == 0,
            };
            if !fits || free.is_none_or(|free| first < free) {
                return None;
            }
            free = width.and_then(|width| first.checked_add(width));
            kept.insert(first, node);
        }
        Some(KeyTree { nodes: kept, version: 0 })
    }

    /// Its nodes, in order.
    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = (u64, Node)> {
        self.nodes.iter().map(|(first, node)| (*first, *node))
    }

    /// Whether nothing was ever destroyed: the root is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.nodes.first_key_value().is_some_and(|(_, node)| node.height == HEIGHT)
    }

    /// The numbers up to this one whose keys were destroyed.
    pub(crate) fn destroyed(&self, until: Seq) -> Vec<Seq> {
        let (mut gone, mut from) = (Vec::new(), Some(0));
        for (first, node) in self.nodes.range(..=until.0) {
            gone.extend((from.unwrap_or(*first)..*first).map(Seq));
            from = width(node.height).and_then(|width| first.checked_add(width));
        }
        gone.extend(from.into_iter().flat_map(|from| from..=until.0).map(Seq));
        gone
    }

    /// The node above a record.
    fn node_of(&self, seq: u64) -> Option<(u64, Node)> {
        let (first, node) = self.nodes.range(..=seq).next_back()?;
        let is_within = width(node.height).is_none_or(|width| seq - first < width);
        is_within.then_some((*first, *node))
    }

    /// Whether the key of a record can be derived.
    pub(crate) fn has(&self, seq: Seq) -> bool {
        self.node_of(seq.0).is_some()
    }

    /// Gives new keys to all records from one on that have none, derived from a secret of their own. Returns how
    /// many nodes that took.
    pub(crate) fn renew(&mut self, from: u64, secret: &Secret) -> usize {
        let end = u128::from(u64::MAX) + 1;
        let size = |height: u8| 1u128 << (2 * u32::from(height));
        let mut at = match self.node_of(from) {
            Some((first, node)) => u128::from(first) + size(node.height),
            None => u128::from(from),
        };
        let mut added = BTreeMap::new();
        for (first, node) in self.nodes.range(from..) {
            fill(&mut added, &mut at, u128::from(*first), secret);
            at = u128::from(*first) + size(node.height);
        }
        fill(&mut added, &mut at, end, secret);
        let count = added.len();
        self.nodes.extend(added);
        self.version += u64::from(count > 0);
        count
    }

    /// Destroys the keys of these records. Keys that are destroyed already stay so.
    pub(crate) fn destroy(&mut self, seqs: impl IntoIterator<Item = Seq>) {
        for Seq(seq) in seqs {
            let Some((first, mut node)) = self.node_of(seq) else { continue };
            self.nodes.remove(&first);
            self.version += 1;
            let mut start = first;
            while node.height > 0 {
                let taken = digit(seq, node.height);
                let height = node.height - 1;
                let step = width(height).expect("a child stands for a part of all numbers");
                for number in (0..CHILDREN).filter(|number| *number != taken) {
                    let secret = child(&node.secret, number);
                    self.nodes.insert(start + u64::from(number) * step, Node { height, secret });
                }
                start += u64::from(taken) * step;
                node = Node { height, secret: child(&node.secret, taken) };
            }
        }
    }
}

/// Adds the fewest nodes that stand for the records from `at` to before `end`.
fn fill(nodes: &mut BTreeMap<u64, Node>, at: &mut u128, end: u128, secret: &Secret) {
    let size = |height: u8| 1u128 << (2 * u32::from(height));
    while *at < end {
        let fits = |height: &u8| at.is_multiple_of(size(*height)) && *at + size(*height) <= end;
        let height = (0..=HEIGHT).rev().find(fits).unwrap_or(0);
        let first = *at as u64;
        let mut hasher = Hasher::new();
        hasher.update(b"renewed").update(secret).update(first.to_le_bytes());
        nodes.insert(first, Node { height, secret: hasher.finish().0 });
        *at += size(height);
    }
}

/// The way down to the key derived last: the next record shares nearly all of it.
pub(crate) struct KeyPath {
    /// The record whose key was derived last, in which version of the tree.
    last: Option<(u64, u64)>,
    /// The height of the node the way begins at.
    from: u8,
    /// The secrets on the way, by height.
    secrets: [Secret; HEIGHT as usize + 1],
}

impl Default for KeyPath {
    fn default() -> KeyPath {
        KeyPath { last: None, from: 0, secrets: [[0; 32]; HEIGHT as usize + 1] }
    }
}

impl KeyPath {
    /// The key of a record; `None` when it was destroyed.
    pub(crate) fn key(&mut self, tree: &KeyTree, seq: Seq) -> Option<Secret> {
        let Seq(seq) = seq;
        let mut height = match self.last {
            Some((last, version)) if version == tree.version => shared_height(last, seq),
            _ => HEIGHT + 1,
        };
        if height > self.from || self.last.is_none() {
            let (_, node) = tree.node_of(seq)?;
            self.from = node.height;
            self.secrets[usize::from(node.height)] = node.secret;
            height = node.height;
        }
        while height > 0 {
            let below = child(&self.secrets[usize::from(height)], digit(seq, height));
            height -= 1;
            self.secrets[usize::from(height)] = below;
        }
        self.last = Some((seq, tree.version));
        Some(self.secrets[0])
    }
}

/// The height of the lowest node above two records.
fn shared_height(a: u64, b: u64) -> u8 {
    let differing_bits = u64::BITS - (a ^ b).leading_zeros();
    differing_bits.div_ceil(2) as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(tree: &KeyTree, seq: u64) -> Option<Secret> {
        KeyPath::default().key(tree, Seq(seq))
    }

    /// The definition, without any shortcut.
    fn derived(root: Secret, seq: u64) -> Secret {
        (1..=HEIGHT).rev().fold(root, |node, height| child(&node, digit(seq, height)))
    }

    #[test]
    fn keys_are_those_of_the_definition() {
        let tree = KeyTree::whole([7; 32]);
        for seq in [0, 1, 4, 1 << 20, u64::MAX] {
            assert_eq!(key(&tree, seq), Some(derived([7; 32], seq)), "{seq}");
        }
        // Computed by another program: the bytes are a part of the format.
        assert_eq!(key(&tree, 1).expect("nothing was destroyed")[..4], [5, 236, 168, 127]);
    }

    #[test]
    fn records_that_a_log_does_not_have_get_new_keys_and_no_other_key_changes() {
        let whole = KeyTree::whole([7; 32]);
        let gone = [2, 5, 100, 101, 4095, u64::MAX];
        for from in [0, 3, 5, 6, 100, 4096, u64::MAX] {
            let mut tree = whole.clone();
            tree.destroy(gone.map(Seq));
            let renewed = gone.iter().filter(|seq| **seq >= from).count();
            assert!(tree.renew(from, &[9; 32]) >= usize::from(renewed > 0), "{from}");
            let read = KeyTree::of(tree.nodes()).expect("it is a tree");
            for seq in gone.into_iter().chain([0, 3, 99, 102, 4094, 4096, u64::MAX - 1]) {
                let (before, now) = (key(&whole, seq), key(&read, seq));
                match (gone.contains(&seq), seq >= from) {
                    (false, _) => assert_eq!(now, before, "{from} {seq}"),
                    (true, false) => assert_eq!(now, None, "{from} {seq}"),
                    (true, true) => assert!(now.is_some() && now != before, "{from} {seq}"),
                }
            }
            assert_eq!(tree.renew(from, &[8; 32]), 0);
        }
    }

    #[test]
    fn nodes_that_overlap_or_lie_askew_are_no_tree() {
        let node = |height| Node { height, secret: [1; 32] };
        for nodes in [
            vec![(0, node(HEIGHT)), (4, node(0))],
            vec![(1, node(1))],
            vec![(4, node(1)), (5, node(0))],
            vec![(4, node(0)), (4, node(0))],
            vec![(8, node(0)), (4, node(0))],
            vec![(0, node(HEIGHT + 1))],
            vec![(4, node(HEIGHT))],
        ] {
            assert!(KeyTree::of(nodes).is_none());
        }
        assert!(KeyTree::of([]).is_some());
        assert!(KeyTree::of([(0, node(1)), (4, node(0)), (8, node(1))]).is_some());
    }

    proptest! {
        #[test]
        fn a_destroyed_key_is_gone_and_every_other_key_stays(
            destroyed in prop::collection::vec(0u64..200, 0..40),
            far in prop::collection::vec(any::<u64>(), 0..4),
            asked in prop::collection::vec(prop_oneof![0u64..200, any::<u64>()], 0..40),
        ) {
            let root = [3; 32];
            let mut tree = KeyTree::whole(root);
            let all: Vec<u64> = destroyed.into_iter().chain(far).collect();
            let (early, late) = all.split_at(all.len() / 2);
            let mut path = KeyPath::default();
            tree.destroy(early.iter().map(|seq| Seq(*seq)));
            for seq in &asked {
                let expected = (!early.contains(seq)).then(|| derived(root, *seq));
                prop_assert_eq!(path.key(&tree, Seq(*seq)), expected);
            }
            tree.destroy(late.iter().map(|seq| Seq(*seq)));
            let again = KeyTree::of(tree.nodes()).expect("what is left is a tree");
            let until = asked.first().map_or(100, |seq| seq % 200);
            let gone: Vec<u64> = again.destroyed(Seq(until)).iter().map(|seq| seq.0).collect();
            let expected: Vec<u64> = (0..=until).filter(|seq| all.contains(seq)).collect();
            prop_assert_eq!(gone, expected);
            for seq in asked.iter().chain(&all) {
                let expected = (!all.contains(seq)).then(|| derived(root, *seq));
                prop_assert_eq!(path.key(&tree, Seq(*seq)), expected);
                prop_assert_eq!(key(&again, *seq), expected);
            }
        }
    }
}
