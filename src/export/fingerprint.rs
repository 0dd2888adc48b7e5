//! A cheap 128-bit fingerprint that shows whether two streams of bytes are the same.
//!
//! Contract: the same bytes give the same fingerprint however they are cut into pieces, and bytes
//! that differ by accident do not. It proves nothing to anybody who means harm, is never written
//! down, and stands beside SHA-256, which names the bytes: here it only tells that what lies in a
//! file is what was hashed.

/// What 16 bytes are multiplied with: odd, without a pattern.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
const BLOCK: usize = 16;

/// Takes bytes and tells what they come to.
#[derive(Debug, Clone, Default)]
pub struct Fingerprint {
    lanes: [u64; 2],
    /// Bytes that do not fill a block yet.
    rest: [u8; BLOCK],
    rest_len: usize,
    len: u64,
}

impl Fingerprint {
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if self.rest_len > 0 {
            let taken = bytes.len().min(BLOCK - self.rest_len);
            self.rest[self.rest_len..self.rest_len + taken].copy_from_slice(&bytes[..taken]);
            self.rest_len += taken;
            bytes = &bytes[taken..];
            if self.rest_len < BLOCK {
                return;
            }
            self.lanes = mixed(self.lanes, &self.rest);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        self.lanes = blocks.iter().fold(self.lanes, mixed);
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
    }

    /// What all bytes so far come to, and how many they are.
    pub fn finish(&self) -> ([u64; 2], u64) {
        let mut last = [0; BLOCK];
        last[..self.rest_len].copy_from_slice(&self.rest[..self.rest_len]);
        (mixed(self.lanes, &last), self.len)
    }
}

/// Every step can be undone, so a difference never gets lost on the way.
fn mixed(lanes: [u64; 2], block: &[u8; BLOCK]) -> [u64; 2] {
    let mut halves = [0_u64; 2];
    for (half, bytes) in halves.iter_mut().zip(block.as_chunks::<8>().0) {
        *half = u64::from_le_bytes(*bytes);
    }
    let mix =
        |lane: u64, half: u64, factor: u64| (lane ^ half).wrapping_mul(factor).rotate_left(29);
    [mix(lanes[0], halves[0], FACTORS[0]), mix(lanes[1], halves[1], FACTORS[1])]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&[u8]]) -> ([u64; 2], u64) {
        let mut fingerprint = Fingerprint::default();
        pieces.iter().for_each(|piece| fingerprint.update(piece));
        fingerprint.finish()
    }

    #[test]
    fn cuts_do_not_matter_and_bytes_do() {
        let bytes: Vec<u8> = (0..200_u32).map(|number| (number * 7 % 251) as u8).collect();
        let whole = of(&[&bytes]);
        for cut in 0..bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(of(&[left, right]), whole, "{cut}");
            let (middle, end) = right.split_at(right.len().min(5));
            assert_eq!(of(&[left, middle, &[], end]), whole, "{cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_ne!(of(&[&other]).0, whole.0, "{at} {bit}");
            }
            let mut swapped = bytes.clone();
            swapped.swap(at, (at + 16) % bytes.len());
            assert_ne!(of(&[&swapped]).0, whole.0, "{at}");
        }
        assert_ne!(of(&[&bytes[..199]]), whole);
        // The length is hashed too, so that different numbers of zeros at the end differ.
        assert_ne!(of(&[&[0; 3]]), of(&[&[0; 4]]));
    }
}
