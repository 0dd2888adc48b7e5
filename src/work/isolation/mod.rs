//! Flows in processes of their own: a flow that overflows its stack, uses up its memory or does not end takes
//! down a process of this pool, and nothing else.
//!
//! `processes` is the pool. `message` is what goes over the pipes. `rounds` runs one flow: it sends it to a
//! process, asks the models that the flow needs, and sends it again with their answers. `inside` is the other
//! side, with `replayed` as its model. `alone` runs flows of commands that have no log.
//!
//! Contract. A process holds no secret, reads no configuration and asks no model. It works on one flow at a
//! time, so that an end of the process has one cause. A flow that needs an answer ends and runs again with the
//! answers so far: it is a function of its input and of these answers.
//!
//! See docs/adr/0120-flows-in-processes.md.

pub(crate) mod alone;
pub(crate) mod inside;
pub(super) mod message;
pub(super) mod pack;
pub(crate) mod processes;
mod replayed;
pub(super) mod rounds;
