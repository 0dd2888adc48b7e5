//! The way of an order from a host that follows to the leader, and of the answer back.
//!
//! Contract. A host that gives an order learns one of three things: the answer; that the order was not carried
//! out and never will be; or that nobody can say whether it was. Whatever gets lost, doubled or late, an order is
//! carried out once at most.
//!
//! See docs/adr/0140-orders-on-any-host.md.

use std::collections::VecDeque;
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
    /// It was not given.
    #[error("{0}; nothing was changed")]
    NotGiven(SharedError),
}

/// Gives an order, and waits for its answer.
pub fn ask<L: SharedOrders>(
    connect: &Connect<L>,
    me: &Member,
    id: &str,
    order: &[u8],
) -> Result<OrderAnswer, OrderError> {
    let begun = Instant::now();
    let (mut asking, mut list) = (Asking::new(me, id, order), None);
    loop {
        let stepped = list.take().map_or_else(|| connect(), Ok).and_then(|mut open| {
            let answered = asking.step(&mut open, begun.elapsed())?;
            Ok((open, answered))
        });
        match stepped {
            Ok((_, Some(answered))) => return answered,
            Ok((open, None)) => {
                list = Some(open);
                std::thread::sleep(LOOK_EVERY);
            }
            Err(error) => match asking.failed(error, begun.elapsed()) {
                Some(told) => return Err(told),
                None => std::thread::sleep(AGAIN_AFTER),
            },
        }
    }
}

/// An order on its way.
pub struct Asking<'a> {
    me: &'a Member,
    id: &'a str,
    order: &'a [u8],
    /// Somebody may have taken it.
    may_be_given: bool,
    /// It is there, or was.
    is_given: bool,
}

pub type Answered = Result<OrderAnswer, OrderError>;

impl<'a> Asking<'a> {
    pub fn new(me: &'a Member, id: &'a str, order: &'a [u8]) -> Asking<'a> {
        Asking { me, id, order, may_be_given: false, is_given: false }
    }

    /// One look, so long after the beginning; `None` while there is no answer.
    pub fn step<L: SharedOrders>(
        &mut self,
        list: &mut L,
        after: Duration,
    ) -> Result<Option<Answered>, SharedError> {
        if !self.is_given {
            // A database that is out of reach was given nothing, so this is asked first.
            list.order_standing(self.id)?;
            // Without an answer it may be there all the same. Under the same id it can be given again.
            let given = list.give(self.me, self.id, self.order);
            self.may_be_given |= !matches!(given, Err(SharedError::Refused(_)));
            given?;
            self.is_given = true;
        }
        match list.order_standing(self.id)? {
            OrderStanding::Answered(answer) => {
                // The answer counts, whatever becomes of the row.
                let _ = list.drop_order(self.id);
                Ok(Some(Ok(answer)))
            }
            OrderStanding::Lost => {
                list.drop_order(self.id)?;
                Ok(Some(Err(OrderError::NoAnswer)))
            }
            OrderStanding::Waits if after >= TAKEN_WITHIN => {
                Ok(list.withdraw_order(self.id)?.then_some(Err(OrderError::NotTaken)))
            }
            OrderStanding::Taken if after >= ANSWERED_WITHIN => Ok(Some(Err(OrderError::NoAnswer))),
            OrderStanding::Waits | OrderStanding::Taken => Ok(None),
        }
    }

    /// What an error means for the order; `None` when it is tried again.
    pub fn failed(&self, error: SharedError, after: Duration) -> Option<OrderError> {
        match error {
            SharedError::Refused(_) if self.may_be_given => Some(OrderError::NoAnswer),
            refused @ SharedError::Refused(_) => Some(OrderError::NotGiven(refused)),
            SharedError::Unclear(_) if self.may_be_given => {
                (after >= ANSWERED_WITHIN).then_some(OrderError::NoAnswer)
            }
            unclear @ SharedError::Unclear(_) => {
                (after >= TAKEN_WITHIN).then_some(OrderError::NotGiven(unclear))
            }
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
        let mut desk = OrderTaking::new(me, carry_out);
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

/// The leader's side of orders.
pub struct OrderTaking {
    me: Member,
    carry_out: CarryOut,
    /// Not carried out yet, the oldest last.
    taken: Vec<GivenOrder>,
    /// Answers that are not delivered yet.
    answered: Vec<(String, OrderAnswer)>,
    /// Orders that were carried out, the newest last.
    had: VecDeque<String>,
}

/// Most orders that are remembered. What was given before them is taken by nobody.
const HAD_MAX: usize = 1000;

impl OrderTaking {
    pub fn new(me: Member, carry_out: CarryOut) -> OrderTaking {
        let (taken, answered, had) = (Vec::new(), Vec::new(), VecDeque::new());
        OrderTaking { me, carry_out, taken, answered, had }
    }

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

    /// Takes what waits, carries it out, and delivers the answers. After an error it is repeated.
    pub fn step<L: SharedOrders>(&mut self, list: &mut L) -> Result<(), SharedError> {
        while let Some((id, answer)) = self.answered.first() {
            list.answer_order(&self.me, id, answer)?;
            self.answered.remove(0);
        }
        if self.taken.is_empty() {
            self.taken = list.take_orders(&self.me)?;
            self.taken.retain(|order| !self.had.contains(&order.id));
            self.taken.reverse();
        }
        while let Some(order) = self.taken.pop() {
            let answer = (self.carry_out)(&order.bytes);
            self.had.push_back(order.id.clone());
            if self.had.len() > HAD_MAX {
                self.had.pop_front();
            }
            self.answered.push((order.id, answer));
            let (id, answer) = &self.answered[self.answered.len() - 1];
            list.answer_order(&self.me, id, answer)?;
            self.answered.pop();
        }
        Ok(())
    }
}
