//! Waking: a thread that waits for word of the shared log, so that a host that follows looks at once.
//!
//! Contract. Word is a hint. What is not told, or told twice, changes only when a host looks; it looks by itself
//! all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::shared_log::SharedLog;
use super::standby::Connect;

/// How long one call waits. So long a thread may go on after its end.
const WAIT: Duration = Duration::from_millis(500);
/// How long the thread rests after an error.
const REST: Duration = Duration::from_secs(1);

pub struct Waking {
    word: Receiver<()>,
    /// Whether word would come.
    hears: Arc<AtomicBool>,
}

impl Waking {
    /// The thread ends some time after this is dropped.
    pub fn start<L: SharedLog + 'static>(connect: Connect<L>) -> std::io::Result<Waking> {
        let (out, word) = bounded(1);
        let hears = Arc::<AtomicBool>::default();
        let told = Arc::clone(&hears);
        let thread = std::thread::Builder::new().name("waking".to_owned());
        thread.spawn(move || listen(&connect, &out, &told))?;
        Ok(Waking { word, hears })
    }

    /// Has something when there is word.
    pub fn word(&self) -> &Receiver<()> {
        &self.word
    }

    pub fn hears(&self) -> bool {
        self.hears.load(Ordering::Acquire)
    }
}

fn listen<L: SharedLog>(connect: &Connect<L>, out: &Sender<()>, hears: &Arc<AtomicBool>) {
    let mut list = None;
    loop {
        let heard = match list.take().map_or_else(|| connect(), Ok) {
            Ok(mut open) => {
                let heard: Result<bool, _> = L::wait_for_word(&mut open, WAIT);
                list = heard.is_ok().then_some(open);
                heard
            }
            Err(error) => Err(error),
        };
        hears.store(heard.is_ok(), Ordering::Release);
        // One word is enough for everything that came meanwhile.
        let sent = match heard {
            Ok(true) => out.try_send(()),
            Ok(false) => Ok(()),
            Err(_) => {
                std::thread::sleep(REST);
                Ok(())
            }
        };
        // The other end holds one as well, as long as somebody listens.
        let is_over = Arc::strong_count(hears) == 1;
        if is_over || matches!(sent, Err(TrySendError::Disconnected(()))) {
            return;
        }
    }
}
