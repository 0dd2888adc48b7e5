//! Orders that were given on hosts that follow, until the leader has carried them out.
//!
//! Contract. Each call either answers, or its outcome is unclear, as in [`super::shared_log`]. An order is taken
//! once at most, by the host that leads. What an order changes stands in the log; here is only what was asked,
//! and what the leader answered.

use std::time::Duration;

use super::shared_log::{Member, SharedError};
use crate::contract::ids::Seq;

/// For how long after it was given an order may be taken.
pub const TAKEN_WITHIN: Duration = Duration::from_secs(20);

/// An order that the leader took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenOrder {
    pub id: String,
    pub bytes: Vec<u8>,
}

/// What the leader answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderAnswer {
    pub bytes: Vec<u8>,
    /// The last record of the log then.
    pub seq: Seq,
}

/// How an order stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderStanding {
    /// No leader has taken it.
    Waits,
    /// The host that leads has it.
    Taken,
    Answered(OrderAnswer),
    /// A host that leads no more took it, and did not answer; or nothing is known of it.
    Lost,
}

/// The orders of one log.
pub trait SharedOrders: Send {
    /// Gives an order under an id that no other order has. Twice is as good as once, for an hour: also when it was taken,
    /// answered or withdrawn meanwhile, because a call without an answer may be carried out late.
    fn give(&mut self, me: &Member, id: &str, order: &[u8]) -> Result<(), SharedError>;

    fn order_standing(&mut self, id: &str) -> Result<OrderStanding, SharedError>;

    /// Takes an order back that nobody has taken. False when somebody has.
    fn withdraw_order(&mut self, id: &str) -> Result<bool, SharedError>;

    /// Nobody asks any more for an order that was answered or is lost.
    fn drop_order(&mut self, id: &str) -> Result<(), SharedError>;

    /// Takes the orders that wait, the oldest first, and tells those again that this start took and did not answer: it may
    /// not know of them. None for a host that does not lead.
    fn take_orders(&mut self, me: &Member) -> Result<Vec<GivenOrder>, SharedError>;

    /// Answers an order that this start took.
    fn answer_order(
        &mut self,
        me: &Member,
        id: &str,
        answer: &OrderAnswer,
    ) -> Result<(), SharedError>;
}
