//! Ending a call that is under way: its connection is closed, so that its server stops writing.
//!
//! Contract: any thread may end a call, at any time and more than once. A call that waits for its
//! server then returns without delay. A connection belongs to one call at a time: when the call is
//! over, its end closes nothing.
//!
//! See docs/adr/0104-streamed-answers.md.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, NextTimeout, ShutdownHandle, TcpConnector, Transport,
};

/// The connection of a call, as long as it is open.
type Socket = Weak<dyn ShutdownHandle>;

/// The end of a call that another thread may ask for.
#[derive(Default)]
pub struct CallEnd {
    has_come: AtomicBool,
    socket: Mutex<Option<Socket>>,
}

impl fmt::Debug for CallEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallEnd({})", self.has_come())
    }
}

impl CallEnd {
    /// Ends the call; a later one with the same end does not begin.
    pub fn end(&self) {
        self.has_come.store(true, Ordering::SeqCst);
        // The lock is held meanwhile, so that the connection still belongs to this call.
        let socket = self.socket.lock();
        if let Some(socket) = socket.as_ref().and_then(Weak::upgrade) {
            socket.shutdown();
        }
    }

    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::SeqCst)
    }

    /// Notes the connection of the call. False when the call has to end.
    fn uses(&self, socket: &Socket) -> bool {
        let mut own = self.socket.lock();
        if own.as_ref().is_none_or(|own| !own.ptr_eq(socket)) {
            *own = Some(Weak::clone(socket));
        }
        !self.has_come()
    }
}

thread_local! {
    /// The end of the call that this thread makes.
    static OF_CALL: RefCell<Option<Arc<CallEnd>>> = const { RefCell::new(None) };
}

/// Makes a call that may be ended.
pub(super) fn may_end<T>(end: Option<&Arc<CallEnd>>, call: impl FnOnce() -> T) -> T {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            if let Some(end) = OF_CALL.take() {
                *end.socket.lock() = None;
            }
        }
    }
    OF_CALL.set(end.cloned());
    let _over = Over;
    call()
}

/// Opens connections that the end of a call closes.
#[derive(Debug, Default)]
pub(super) struct EndableConnector(TcpConnector);

impl<In: Transport> Connector<In> for EndableConnector {
    type Out = Endable<<TcpConnector as Connector<In>>::Out>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let socket = Arc::new(Mutex::new(None));
        let (seen, register) = (Arc::clone(&socket), Arc::clone(&details.register_shutdown));
        let register_shutdown = Arc::new(move |handle: Socket| {
            *seen.lock() = Some(Weak::clone(&handle));
            register(handle)
        });
        let details = ConnectionDetails {
            uri: details.uri,
            addrs: details.addrs.clone(),
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown,
        };
        let opened = self.0.connect(&details, chained)?;
        let socket = socket.lock().take();
        Ok(opened.map(|inner| Endable { inner, socket }))
    }
}

/// A connection that belongs to the call of the thread that uses it.
pub(super) struct Endable<T> {
    inner: T,
    socket: Option<Socket>,
}

impl<T: fmt::Debug> fmt::Debug for Endable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> Endable<T> {
    fn begin(&self) -> Result<(), ureq::Error> {
        let goes_on = OF_CALL.with_borrow(|end| match (end, &self.socket) {
            (Some(end), Some(socket)) => end.uses(socket),
            _ => true,
        });
        let aborted = || std::io::Error::from(std::io::ErrorKind::ConnectionAborted);
        if goes_on { Ok(()) } else { Err(ureq::Error::Io(aborted())) }
    }
}

impl<T: Transport> Transport for Endable<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.begin()?;
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.begin()?;
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
