//! SHA-256 as the contracts write it: bare lowercase hex, and `sha256:` plus hex in the few
//! fields that carry the prefix. Reading accepts both spellings everywhere.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Displays as 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// All zero: the digest of nothing yet, never of any bytes we know.
    pub const ZERO: Digest = Digest([0; 32]);

    /// `sha256:` followed by the hex digits.
    pub fn prefixed(&self) -> String {
        format!("sha256:{self}")
    }

    /// 64 lowercase hex digits.
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(64);
        push_hex(&mut text, &self.0);
        text
    }

    /// The first half: the form random-key indexes are sorted by.
    pub fn head(&self) -> [u8; 16] {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0[..16]);
        half
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The text was not a SHA-256 digest in either spelling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a sha256 digest: expected 64 hex digits, with or without `sha256:`")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return Err(NotADigest);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
            if high | low > 15 {
                return Err(NotADigest);
            }
            *byte = high << 4 | low;
        }
        Ok(Digest(bytes))
    }
}

/// The value of each hex digit; 16 for every other byte.
const VALUES: [u8; 256] = {
    let mut values = [16; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        values[digit as usize] = value;
        values[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    values
};

/// The two digits of a byte.
const PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        let digits = b"0123456789abcdef";
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Appends lowercase hex to `text`.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    let mut digits = [0_u8; 64];
    for some in bytes.chunks(32) {
        for (pair, byte) in digits.chunks_exact_mut(2).zip(some) {
            pair.copy_from_slice(&PAIRS[usize::from(*byte)]);
        }
        // Digits are ASCII.
        text.push_str(std::str::from_utf8(&digits[..some.len() * 2]).unwrap_or_default());
    }
}

/// SHA-256 of some bytes.
pub fn sha256(bytes: impl AsRef<[u8]>) -> Digest {
    Digest(Sha256::digest(bytes.as_ref()).into())
}

/// SHA-256 of bytes that arrive in pieces.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    /// A hasher that has seen nothing.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn update(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.update(bytes.as_ref());
        self
    }

    /// The digest of everything fed so far.
    pub(crate) fn finish(&self) -> Digest {
        Digest(self.0.clone().finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_input_has_the_well_known_digest() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256("").hex(), hex);
        assert_eq!(Hasher::new().finish().hex(), hex);
    }

    #[test]
    fn both_spellings_parse_and_garbage_does_not() {
        let digest = sha256("x");
        assert_eq!(digest.hex().parse::<Digest>(), Ok(digest));
        assert_eq!(digest.prefixed().parse::<Digest>(), Ok(digest));
        assert_eq!(digest.hex().to_uppercase().parse::<Digest>(), Ok(digest));
        assert_eq!("sha256:12".parse::<Digest>(), Err(NotADigest));
        assert_eq!("z".repeat(64).parse::<Digest>(), Err(NotADigest));
        assert_eq!("é".repeat(32).parse::<Digest>(), Err(NotADigest));
    }
}
