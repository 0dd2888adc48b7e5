//! A log of made-up records: each commit is one, and says which it continues.

use summarizer::cluster::following::Replica;
use summarizer::cluster::shared_log::Outgoing;
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;

/// The end of an empty log.
pub const GENESIS: Digest = Digest([7; 32]);

#[derive(Debug, Clone, Default)]
pub struct Plain {
    pub hashes: Vec<Digest>,
}

impl Plain {
    pub fn next(&self, content: &[u8]) -> Outgoing {
        let (seq, before) = self.head();
        let mut shipped = before.0.to_vec();
        shipped.extend_from_slice(content);
        let hash = sha256(&shipped);
        Outgoing { from: (seq, before), last: seq.next(), hash, shipped }
    }
}

impl Replica for Plain {
    type Error = std::convert::Infallible;

    fn head(&self) -> (Seq, Digest) {
        (Seq(self.hashes.len() as u64), self.hashes.last().copied().unwrap_or(GENESIS))
    }

    fn take(&mut self, shipped: &[u8]) -> Result<(), Self::Error> {
        assert_eq!(
            shipped[..32],
            self.head().1.0,
            "a commit is applied where it continues the log"
        );
        self.hashes.push(sha256(shipped));
        Ok(())
    }
}
