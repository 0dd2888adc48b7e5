//! The threads that make batches durable while the engine decides what comes next.
//!
//! Contract. Events are handed over as they are decided. The packer thread hashes and compresses them
//! while their batch is still being filled; once it is sealed, the writer thread writes and syncs it.
//! Batches are written one at a time, in the order they were sealed. Each is answered once: with the
//! hashes of its records, or with the error after which nothing more is written.
//!
//! A batch is written here only after the hosts that share the log have agreed to it; a single host
//! agrees at once.
//!
//! So the engine waits for neither a hash nor a sync as long as it has other work. A checkpoint takes
//! as long as many batches; as many may wait behind it.
//!
//! See docs/adr/0075-overlapped-commits.md.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use crate::contract::time::Timestamp;
use crate::log::{Appended, Checkpoint, LogError, Packed, Packing, Part, Store, codec};
use crate::state::event::Event;

/// Payload bytes after which a page goes to the packer. Larger pages would leave the packer idle,
/// smaller ones would cost a channel operation for every few events.
const PAGE_BYTES: usize = 128 << 10;
/// Pages that may wait for the packer.
const PAGES: usize = 16;
/// Most batches that are sealed and not answered.
pub(crate) const BATCHES: usize = 8;

/// The writer's answer to a batch.
pub(crate) type Written = Result<Appended, LogError>;

/// Who has a say before a packed batch is written to the log of this host.
pub trait Agreement: Send {
    /// Returns once the batch is part of the shared log. After an error it is not written here, and
    /// nothing more is.
    fn agree(&mut self, packed: &Packed, mark: &[u8]) -> Result<(), LogError>;
}

/// A single host, which asks nobody.
pub(crate) struct Alone;

impl Agreement for Alone {
    fn agree(&mut self, _: &Packed, _: &[u8]) -> Result<(), LogError> {
        Ok(())
    }
}

/// Who has a say in what a command writes that holds the home itself.
pub(crate) fn agreement_of_commands(is_shared: bool) -> Box<dyn Agreement> {
    #[cfg(feature = "cluster")]
    if is_shared {
        return Box::new(Onlooker);
    }
    // Settings that share a log are refused without the feature.
    let _ = is_shared;
    Box::new(Alone)
}

/// A command on a host that shares its log: only the service of the host that leads writes.
#[cfg(feature = "cluster")]
struct Onlooker;

#[cfg(feature = "cluster")]
#[derive(Debug, thiserror::Error)]
#[error(
    "this home shares its log with other hosts, and only the service of the host that leads writes to it; a command \
     can read here, and ask that service"
)]
struct NotLeading;

#[cfg(feature = "cluster")]
impl Agreement for Onlooker {
    fn agree(&mut self, _: &Packed, _: &[u8]) -> Result<(), LogError> {
        Err(LogError::Shared(Box::new(NotLeading)))
    }
}

/// Consecutive events, encoded one behind another.
#[derive(Default)]
struct Page {
    records: Vec<Encoded>,
    payloads: Vec<u8>,
}

impl Page {
    /// A page that does not have to grow.
    fn roomy() -> Page {
        Page { records: Vec::new(), payloads: Vec::with_capacity(PAGE_BYTES + PAGE_BYTES / 8) }
    }
}

struct Encoded {
    at: Timestamp,
    tag: u16,
    version: u32,
    /// The end of its payload in the page.
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
    pub(crate) fn start(
        store: Store,
        mut agreement: Box<dyn Agreement>,
    ) -> Result<Writer, StartError> {
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
        let writer = writer.spawn(move || write(&shared, &mut *agreement, &batches, &answers))?;
        let (orders, threads) = (Some(orders), vec![packer, writer]);
        Ok(Writer { store, page: Page::default(), spare, orders, written, threads })
    }

    /// Hands over the next event of the batch, and its body.
    pub(crate) fn add(
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
        self.hand_over_page()
    }

    /// Closes the batch, which is then written and answered.
    pub(crate) fn seal(
        &mut self,
        mark: Vec<u8>,
        checkpoint: Option<Checkpoint>,
    ) -> Result<(), LogError> {
        self.hand_over_page()?;
        self.send(Order::Seal(Seal { mark, checkpoint }))
    }

    fn hand_over_page(&mut self) -> Result<(), LogError> {
        if self.page.records.is_empty() {
            return Ok(());
        }
        // Pages come back from the packer, so that steady work allocates nothing.
        let fresh = self.spare.try_recv().unwrap_or_else(|_| Page::roomy());
        let full = std::mem::replace(&mut self.page, fresh);
        self.send(Order::Pack(full))
    }

    fn send(&self, order: Order) -> Result<(), LogError> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { Err(LogError::Poisoned) }
    }

    /// Receiver that yields one answer for each sealed batch, oldest first.
    pub(crate) fn written(&self) -> &Receiver<Written> {
        &self.written
    }

    /// The store, once the write under way is done.
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    /// Ends the threads and closes the store in order.
    pub(crate) fn close(self) -> Result<(), LogError> {
        let store = Arc::clone(&self.store);
        drop(self);
        Arc::into_inner(store).map_or(Err(LogError::Poisoned), |store| store.into_inner().close())
    }
}

impl Drop for Writer {
    /// Waits for the threads, so that the store is closed when the next process opens it.
    fn drop(&mut self) {
        self.orders = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("start a thread that writes the log")]
    Thread(#[from] std::io::Error),
    #[error("read the end of the log")]
    Log(#[from] LogError),
}

/// A packed batch that the writer thread has not yet taken.
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
                // The channel is full when enough spare pages exist already.
                let _ = used.try_send(page);
            }
            Order::Seal(seal) => {
                let packed = match failed.take() {
                    Some(error) => Err(error),
                    None => packing.end(&seal.mark),
                };
                // This fails only when the writer thread is gone, and then no caller waits for an answer.
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

fn write(
    store: &Mutex<Store>,
    agreement: &mut dyn Agreement,
    batches: &Receiver<Batch>,
    answers: &Sender<Written>,
) {
    for Batch { packed, seal } in batches {
        let Seal { mark, checkpoint } = seal;
        let written = packed.and_then(|packed| {
            agreement.agree(&packed, &mark)?;
            // The lock is held for one write: retention and archiving take the store between batches.
            store.lock().append_packed(packed, &mark, checkpoint)
        });
        // This fails only when the engine was dropped while a batch was under way.
        let _ = answers.send(written);
    }
}
