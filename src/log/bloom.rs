//! A Bloom filter over random keys: it answers that a key is absent, or that it may be there.
//!
//! The index of random keys has one for each chunk, the index of upstream ids one for each table.
//! Keys are hashes, so their bits serve as they are.

/// A filter that sets `PROBES` bits for each key, over words that the caller owns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BloomFilter<W, const PROBES: u32>(W);

impl<W: AsRef<[u64]>, const PROBES: u32> BloomFilter<W, PROBES> {
    pub(crate) fn of(words: W) -> BloomFilter<W, PROBES> {
        BloomFilter(words)
    }

    pub(crate) fn words(&self) -> &[u64] {
        self.0.as_ref()
    }

    /// Whether the key may have been added. A filter without words holds no key.
    pub(crate) fn may_hold(&self, key: u128) -> bool {
        let words = self.words();
        !words.is_empty()
            && Self::bits(words.len(), key).all(|bit| words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// The bits of a key. The high half of the key is nearly equal inside a chunk of sorted keys, so
    /// only the low half counts.
    fn bits(words: usize, key: u128) -> impl Iterator<Item = usize> {
        let low = key as u64;
        let (start, step) = (low as u32, (low >> 32) as u32 | 1);
        (0..PROBES).map(move |probe| {
            let spread = u64::from(start.wrapping_add(probe.wrapping_mul(step)));
            // Multiplying and shifting spreads 32 bits over any range, without a division.
            ((spread * (words as u64 * 64)) >> 32) as usize
        })
    }
}

impl<W: AsRef<[u64]> + AsMut<[u64]>, const PROBES: u32> BloomFilter<W, PROBES> {
    /// Adds a key. There must be at least one word.
    pub(crate) fn add(&mut self, key: u128) {
        let words = self.0.as_mut();
        for bit in Self::bits(words.len(), key) {
            words[bit / 64] |= 1 << (bit % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;

    fn key(number: u64) -> u128 {
        u128::from_be_bytes(sha256(number.to_le_bytes()).head())
    }

    #[test]
    fn a_filter_holds_what_was_added_and_little_else() {
        for bits in [8_u64, 10] {
            let mut filter: BloomFilter<Vec<u64>, 5> =
                BloomFilter::of(vec![0; (1000 * bits / 64) as usize]);
            (0..1000).for_each(|number| filter.add(key(number)));
            assert!((0..1000).all(|number| filter.may_hold(key(number))));
            let wrong = (10_000..110_000).filter(|number| filter.may_hold(key(*number))).count();
            assert!(wrong < 3_500, "{wrong} false answers of 100000 with {bits} bits a key");
        }
    }

    #[test]
    fn a_filter_without_words_holds_no_key() {
        assert!(!BloomFilter::<Vec<u64>, 4>::default().may_hold(key(1)));
    }
}
