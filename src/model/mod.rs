//! Models behind one trait: the question, the answer, and what can go wrong.
//!
//! Contract: a [`Provider`] gets one finished conversation and answers once. It never retries, never
//! sleeps and never counts money: rates, budgets, pauses and fallbacks are the same for all providers
//! and live in [`gate`] and [`fallback`]. A provider reads its key from the environment variable that
//! its configuration names. No error, reply or record holds that key.
//!
//! Deliberately not here: prompts and the validation of answers (`flow`), and persistence (a reply is
//! data; the caller stores it).

mod anthropic;
mod budget;
pub mod builtin;
mod call;
mod command;
mod deadline;
mod error;
mod fallback;
mod gate;
mod http;
mod openai;
mod provider;
mod providers;
mod recorded;
mod redact;
mod refusal;
mod reply;
mod secret;

#[cfg(any(test, feature = "internals"))]
pub use self::{anthropic::Anthropic, command::CommandProvider, openai::OpenAi, secret::Secret};
pub use budget::Spent;
pub use call::{Api, CallSettings, Message, ModelCall, ResponseFormat, Role, SourceText};
pub use deadline::Deadline;
pub use error::{ErrorClass, ModelError};
pub use provider::{BUILTIN, Provider};
pub use providers::{ProviderError, Providers, listed_models};
pub use recorded::Recorder;
pub use reply::{Bill, Charge, Evidence, ModelIdentity, ModelReply, Span, StopReason, Usage};
