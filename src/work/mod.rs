//! Attempts: a request becomes a summary item, or a reason why not.

pub mod flow_facts;
pub mod flow_item;
pub mod flow_worker;
pub mod pool;
mod replies;
pub mod worker;
