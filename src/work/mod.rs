//! Attempts: a request becomes a summary item, or a reason why not.
//!
//! `pool` runs attempts on threads and calls a `worker`. `flow_worker` is the worker: it prepares an
//! attempt (`prepared`, `params`), runs its flow with `paid_replies`, and makes the `item` or the
//! `attempt_facts` of a failure. `isolation` runs flows in processes of their own. `batches` sends the questions of
//! scheduled requests together and collects their answers. `data_rules` says what keeps a text on this machine.
//! `other_workers` are those of other hosts. `content_key` makes the keys of requests of our own tools.

mod attempt_facts;
pub(crate) mod batches;
pub(crate) mod content_key;
mod data_rules;
pub(crate) mod flow_worker;
pub(crate) mod isolation;
mod item;
pub mod lead;
pub mod other_hosts;
pub mod other_workers;
mod paid_replies;
pub mod params;
pub mod pool;
mod prepared;
mod replies;
mod task_queue;
mod unquoted;
pub mod worker;
