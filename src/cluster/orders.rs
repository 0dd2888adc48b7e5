//! The way of an order from a host that follows to the leader, and of the answer back.
//!
//! Contract. A host that gives an order learns one of three things: the answer; that the order was not carried
//! out and never will be; or that nobody can say whether it was.
//!
//! See docs/adr/0140-orders-on-any-host.md.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::shared_log::{Member, SharedError};
use super::shared_orders::{GivenOrder, OrderAnswer, OrderStanding, SharedOrders, TAKEN_WITHIN};
use super::standby::Connect;

/// How often the leader looks for orders, and the giver for the answer.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long either waits after an error.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long the giver waits for the answer to an order that was taken.
const ANSWERED_WITHIN: Duration = Duration::from_secs(28);

#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// It was not carried out, and never will be.
    #[error("no host that leads has taken the order, so nothing was changed")]
    NotTaken,
    /// It was carried out, or not, or will be.
    #[error("the host that leads has not answered: the order may have been carried out")]
    NoAnswer,
    #[error(transparent)]
    Shared(SharedError),
}

/// Gives an order, and waits for its answer.
pub fn ask<L: SharedOrders>(
    connect: &Connect<L>,
    me: &Member,
    id: &str,
    order: &[u8],
) -> Result<OrderAnswer, OrderError> {
    let begun = Instant::now();
    let mut asking = Asking { connect, list: None, is_given: false, begun };
    loop {
        match asking.step(me, id, order) {
            Ok(Some(answered)) => return answered,
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(refused @ SharedError::Refused(_)) => return Err(OrderError::Shared(refused)),
            Err(unclear) => {
                asking.list = None;
                if begun.elapsed() >= ANSWERED_WITHIN {
                    return Err(match asking.is_given {
                        true => OrderError::NoAnswer,
                        false => OrderError::Shared(unclear),
                    });
                }
                std::thread::sleep(AGAIN_AFTER);
            }
        }
    }
}

struct Asking<'a, L> {
    connect: &'a Connect<L>,
    list: Option<L>,
    /// Somebody may have taken it.
    is_given: bool,
    begun: Instant,
}

type Answered = Result<OrderAnswer, OrderError>;

impl<L: SharedOrders> Asking<'_, L> {
    /// One look; `None` while there is no answer.
    fn step(
        &mut self,
        me: &Member,
        id: &str,
        order: &[u8],
    ) -> Result<Option<Answered>, SharedError> {
        let list = match &mut self.list {
            Some(list) => list,
            none => none.insert((self.connect)()?),
        };
        if !self.is_given {
            // Without an answer it may be there all the same.
            let given = list.give(me, id, order);
            self.is_given = !matches!(given, Err(SharedError::Refused(_)));
            given?;
        }
        match list.order_standing(id)? {
            OrderStanding::Answered(answer) => {
                list.drop_order(id)?;
                Ok(Some(Ok(answer)))
            }
            OrderStanding::Lost => {
                list.drop_order(id)?;
                Ok(Some(Err(OrderError::NoAnswer)))
            }
            OrderStanding::Waits if self.begun.elapsed() >= TAKEN_WITHIN => {
                Ok(list.withdraw_order(id)?.then_some(Err(OrderError::NotTaken)))
            }
            OrderStanding::Taken if self.begun.elapsed() >= ANSWERED_WITHIN => {
                Ok(Some(Err(OrderError::NoAnswer)))
            }
            OrderStanding::Waits | OrderStanding::Taken => Ok(None),
        }
    }
}

/// Carries out one order.
pub type CarryOut = Box<dyn FnMut(&[u8]) -> OrderAnswer + Send>;

/// The thread of the leader that takes orders of other hosts.
pub struct OrderDesk {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl OrderDesk {
    pub fn start<L: SharedOrders + 'static>(
        connect: Connect<L>,
        me: Member,
        carry_out: CarryOut,
    ) -> std::io::Result<OrderDesk> {
        let (stop, stopped) = bounded(0);
        let mut desk = OrderTaking { me, carry_out, taken: Vec::new(), answered: Vec::new() };
        let thread = std::thread::Builder::new().name("orders".to_owned());
        let thread = thread.spawn(move || desk.run(&connect, &stopped))?;
        Ok(OrderDesk { stop, thread })
    }

    /// Ends once the order under way is answered.
    pub fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct OrderTaking {
    me: Member,
    carry_out: CarryOut,
    /// Not carried out yet, the oldest last.
    taken: Vec<GivenOrder>,
    /// Answers that are not delivered yet.
    answered: Vec<(String, OrderAnswer)>,
}

impl OrderTaking {
    fn run<L: SharedOrders>(&mut self, connect: &Connect<L>, stopped: &Receiver<()>) {
        let (mut list, mut rest) = (None, LOOK_EVERY);
        while stopped.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
            let stepped = list.take().map_or_else(|| connect(), Ok).and_then(|mut open| {
                self.step(&mut open)?;
                Ok(open)
            });
            rest = if stepped.is_ok() { LOOK_EVERY } else { AGAIN_AFTER };
            list = stepped
                .inspect_err(|error| tracing::debug!(%error, "orders of other hosts wait"))
                .ok();
        }
    }

    fn step<L: SharedOrders>(&mut self, list: &mut L) -> Result<(), SharedError> {
        while let Some((id, answer)) = self.answered.first() {
            list.answer_order(&self.me, id, answer)?;
            self.answered.remove(0);
        }
        if self.taken.is_empty() {
            self.taken = list.take_orders(&self.me)?;
            self.taken.reverse();
        }
        while let Some(order) = self.taken.pop() {
            let answer = (self.carry_out)(&order.bytes);
            self.answered.push((order.id, answer));
            let (id, answer) = &self.answered[self.answered.len() - 1];
            list.answer_order(&self.me, id, answer)?;
            self.answered.pop();
        }
        Ok(())
    }
}
