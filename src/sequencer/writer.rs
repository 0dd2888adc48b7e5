//! The threads that make batches durable while the sequencer decides what comes next.
//!
//! Contract. Events are handed over as they are decided, and are hashed and compressed by one thread
//! while their batch is still being filled; when it is sealed, another writes and syncs it. Batches
//! are written one at a time, in the order they were sealed, and each is answered once: with the
//! hashes of its records, or with the error after which nothing more is written. So the sequencer
//! waits for neither a hash nor a sync as long as it has something else to do: a checkpoint takes as
//! long as many batches, and that many may wait behind it.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use crate::contract::time::Timestamp;
use crate::log::{Appended, Checkpoint, LogError, Packed, Packing, Part, Store, codec};
use crate::state::event::Event;

/// Payload bytes after which a page goes to the packer.
const PAGE_BYTES: usize = 128 << 10;
/// Pages that may wait for the packer.
const PAGES: usize = 16;
/// Most batches that are sealed and not answered.
pub(crate) const BATCHES: usize = 8;

/// What became of a batch.
pub type Written = Result<Appended, LogError>;

/// Consecutive events, encoded one behind another.
#[derive(Default)]
struct Page {
    records: Vec<Encoded>,
    payloads: Vec<u8>,
}

impl Page {
    /// One that does not have to grow.
    fn roomy() -> Page {
        Page { records: Vec::new(), payloads: Vec::with_capacity(PAGE_BYTES + PAGE_BYTES / 8) }
    }
}

struct Encoded {
    at: Timestamp,
    tag: u16,
    version: u32,
    /// Where its payload ends in the page.
    end: usize,
    body: Option<Vec<u8>>,
}

/// What closes a batch.
struct Seal {
    mark: Vec<u8>,
    checkpoint: Option<Checkpoint>,
}

enum Order {
    Pack(Page),
    Seal(Seal),
}

/// The threads, and the store they write to.
pub(crate) struct Writer {
    store: Arc<Mutex<Store>>,
    /// The page that is being filled.
    page: Page,
    spare: Receiver<Page>,
    orders: Option<Sender<Order>>,
    written: Receiver<Written>,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Starts writing to a store.
    pub fn start(store: Store) -> Result<Writer, StartError> {
        let packing = store.packing()?;
        let store = Arc::new(Mutex::new(store));
        let (orders, inbox) = bounded(PAGES);
        let (used, spare) = bounded(PAGES);
        let (packed, batches) = bounded(BATCHES);
        let (answers, written) = bounded(BATCHES);
        let packer = std::thread::Builder::new().name("packer".to_owned());
        let packer = packer.spawn(move || pack(packing, &inbox, &used, &packed))?;
        let shared = Arc::clone(&store);
        let writer = std::thread::Builder::new().name("writer".to_owned());
        let writer = writer.spawn(move || write(&shared, &batches, &answers))?;
        let (orders, threads) = (Some(orders), vec![packer, writer]);
        Ok(Writer { store, page: Page::default(), spare, orders, written, threads })
    }

    /// Hands over the next event of the batch, and what is stored beside it.
    pub fn add(
        &mut self,
        at: Timestamp,
        event: &Event,
        body: Option<Vec<u8>>,
    ) -> Result<(), LogError> {
        let page = &mut self.page;
        let (tag, version) = codec::encode_into(event, &mut page.payloads);
        let end = page.payloads.len();
        page.records.push(Encoded { at, tag, version, end, body });
        if end < PAGE_BYTES {
            return Ok(());
        }
        self.turn()
    }

    /// The batch is complete: it is written, and answered.
    pub fn seal(&mut self, mark: Vec<u8>, checkpoint: Option<Checkpoint>) -> Result<(), LogError> {
        self.turn()?;
        self.send(Order::Seal(Seal { mark, checkpoint }))
    }

    fn turn(&mut self) -> Result<(), LogError> {
        if self.page.records.is_empty() {
            return Ok(());
        }
        let fresh = self.spare.try_recv().unwrap_or_else(|_| Page::roomy());
        let full = std::mem::replace(&mut self.page, fresh);
        self.send(Order::Pack(full))
    }

    fn send(&self, order: Order) -> Result<(), LogError> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { Err(LogError::Poisoned) }
    }

    /// Where the answer to each batch arrives.
    pub fn written(&self) -> &Receiver<Written> {
        &self.written
    }

    /// The store, once the write under way is done.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    /// Ends the threads and closes the store in order.
    pub fn close(self) -> Result<(), LogError> {
        let store = Arc::clone(&self.store);
        drop(self);
        Arc::into_inner(store).map_or(Err(LogError::Poisoned), |store| store.into_inner().close())
    }
}

impl Drop for Writer {
    /// Whoever opens the store next must find it closed.
    fn drop(&mut self) {
        self.orders = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Why writing could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A thread.
    #[error("start a thread")]
    Thread(#[from] std::io::Error),
    /// What comes before the store.
    #[error("prepare to write")]
    Log(#[from] LogError),
}

/// A batch as the packer hands it on.
struct Batch {
    packed: Result<Packed, LogError>,
    seal: Seal,
}

fn pack(
    mut packing: Packing,
    inbox: &Receiver<Order>,
    used: &Sender<Page>,
    batches: &Sender<Batch>,
) {
    let mut failed = None;
    for order in inbox {
        match order {
            Order::Pack(mut page) => {
                if failed.is_none() {
                    failed = pack_page(&mut packing, &page).err();
                }
                page.records.clear();
                page.payloads.clear();
                page.payloads.shrink_to(2 * PAGE_BYTES);
                // Full when the sequencer was idle for long: then there are pages enough.
                let _ = used.try_send(page);
            }
            Order::Seal(seal) => {
                let packed = match failed.take() {
                    Some(error) => Err(error),
                    None => packing.end(&seal.mark),
                };
                // Nobody is left to write it only when the writer is gone, and then nobody waits.
                let _ = batches.send(Batch { packed, seal });
            }
        }
    }
}

fn pack_page(packing: &mut Packing, page: &Page) -> Result<(), LogError> {
    let mut start = 0;
    for Encoded { at, tag, version, end, body } in &page.records {
        let payload = &page.payloads[start..*end];
        let (at, tag, version, has_body) = (*at, *tag, *version, body.is_some());
        packing.add(&Part { at, tag, version, payload, has_body }, body.as_deref())?;
        start = *end;
    }
    Ok(())
}

fn write(store: &Mutex<Store>, batches: &Receiver<Batch>, answers: &Sender<Written>) {
    for Batch { packed, seal } in batches {
        let Seal { mark, checkpoint } = seal;
        let written =
            packed.and_then(|packed| store.lock().append_packed(packed, &mark, checkpoint));
        // Nobody is left to hear it only when the engine was dropped with a batch under way.
        let _ = answers.send(written);
    }
}
