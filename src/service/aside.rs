//! Orders that need the whole home: the loop ends for them, and begins again afterwards.
//!
//! Contract. The loop takes an order and gives a ticket. Who runs the loop carries the order out once the loop has
//! ended, says what came of it, and runs the loop again. The answer waits for its asker, and can be asked for again:
//! a host that follows asks for a person, and starts its process anew meanwhile.
//!
//! See docs/adr/0133-forgetting-while-the-service-runs.md.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::control::question::{Answer, ForgetOrder};

/// Answers that are kept for their askers, who may have gone away.
const KEPT_MAX: usize = 16;

/// Says whether the loop can begin again with the settings as they are now, or why not.
pub(crate) type MayBeginAgain = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the loop was asked to make room for.
#[derive(Clone)]
pub(crate) struct Aside {
    orders: Arc<Mutex<AsideOrders>>,
    may_begin_again: MayBeginAgain,
}

#[derive(Default)]
struct AsideOrders {
    given: u64,
    asked: Vec<(u64, ForgetOrder)>,
    answers: BTreeMap<u64, Value>,
}

impl Aside {
    /// Tickets are counted from `first`. Hosts of one log begin at places of their own, so that nobody gets the answer
    /// to an order that another leader took.
    pub(crate) fn new(may_begin_again: MayBeginAgain, first: u64) -> Aside {
        let orders = AsideOrders { given: first, ..AsideOrders::default() };
        Aside { orders: Arc::new(Mutex::new(orders)), may_begin_again }
    }

    /// Takes an order, or says why the loop cannot end for it.
    pub(super) fn leave(&self, order: ForgetOrder) -> Answer {
        if let Err(why) = (self.may_begin_again)() {
            let what = "the service could not begin again, so nothing was forgotten";
            return Answer::Refused(format!("{what}: {why}"));
        }
        let mut orders = self.orders.lock();
        orders.given += 1;
        let ticket = orders.given;
        orders.asked.push((ticket, order));
        Answer::Ok(json!({"ticket": ticket}))
    }

    /// The answer to an order, or its ticket while it is not carried out.
    pub(super) fn fetch(&self, ticket: u64) -> Answer {
        let orders = self.orders.lock();
        match orders.answers.get(&ticket) {
            Some(answer) => Answer::Ok(answer.clone()),
            None if orders.asked.iter().any(|(asked, _)| *asked == ticket) => {
                Answer::Ok(json!({"ticket": ticket}))
            }
            None => Answer::NotFound(format!("no order to forget has the ticket {ticket}")),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.orders.lock().asked.is_empty()
    }

    /// The orders to carry out now.
    pub(crate) fn orders(&self) -> Vec<(u64, ForgetOrder)> {
        self.orders.lock().asked.clone()
    }

    /// Keeps the answer to an order for its asker.
    pub(crate) fn answer(&self, ticket: u64, answer: Value) {
        let mut orders = self.orders.lock();
        orders.asked.retain(|(asked, _)| *asked != ticket);
        orders.answers.insert(ticket, answer);
        while orders.answers.len() > KEPT_MAX {
            orders.answers.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_can_be_asked_for_again_and_no_ticket_is_of_another_leader() {
        let of = |first| Aside::new(Arc::new(|| Ok(())), first);
        let (one, other) = (of(100), of(7000));
        let Answer::Ok(left) = one.leave(ForgetOrder::default()) else { panic!("it is refused") };
        let ticket = left["ticket"].as_u64().unwrap();
        assert_eq!(one.fetch(ticket), Answer::Ok(json!({"ticket": ticket})));
        other.leave(ForgetOrder::default());
        assert!(matches!(other.fetch(ticket), Answer::NotFound(_)));
        one.answer(ticket, json!({"done": true}));
        for _ in 0..2 {
            assert_eq!(one.fetch(ticket), Answer::Ok(json!({"done": true})));
        }
        for later in 0..KEPT_MAX as u64 {
            one.answer(ticket + 1 + later, Value::Null);
        }
        assert!(matches!(one.fetch(ticket), Answer::NotFound(_)), "not for ever");
    }
}
