//! Models behind one trait: the question, the answer, and what can go wrong.
//!
//! Contract: a [`Provider`] gets one finished conversation and answers once. It never retries, never
//! sleeps and never counts money: rates, budgets, pauses and fallbacks are the same for all providers
//! and live in [`gate`] and [`fallback`]. A provider reads its key from the environment variable that
//! its configuration names. No error, reply or record holds that key.
//!
//! Deliberately not here: prompts and the validation of answers (`flow`), and persistence (a reply is
//! data; the caller stores it).

mod addresses;
mod anthropic;
mod anthropic_batch;
mod anthropic_tools;
mod batch_api;
mod batch_lane;
mod budget;
pub mod builtin;
mod call;
mod command;
mod connections;
mod context;
mod deadline;
mod dialect;
mod ending;
mod error;
mod fallback;
mod form;
mod gate;
mod health;
mod http;
mod learned_rate;
mod openai;
mod openai_batch;
mod provider;
mod providers;
mod question_keeper;
mod recorded;
pub(crate) mod redact;
mod refusal;
mod reply;
mod secret;
mod server_error;
mod speed;
mod stream;
pub(crate) mod thoughts;
mod tls;

#[cfg(any(test, feature = "internals"))]
pub use self::{anthropic::Anthropic, command::CommandProvider, openai::OpenAi, secret::Secret};
pub(crate) use batch_api::{AskedModel, BatchAnswer, BatchApi, FoundBatch};
pub(crate) use batch_lane::{BatchLane, BatchPrice, QueuedQuestion, RefusedBatch};
pub(crate) use budget::Spent;
pub use call::{
    Api, CallSettings, Listener, Message, ModelCall, ResponseFormat, RightOfWay, Role, SourceText,
    Speaker, Speakers,
};
pub(crate) use context::{MORE_CONTEXT, names_model, was_cut};
pub(crate) use deadline::Deadline;
pub use ending::CallEnd;
pub use error::{ErrorClass, ModelError};
pub(crate) use gate::calls_under_way;
pub(crate) use http::delivery::{Delivered, Delivery};
pub(crate) use provider::BUILTIN;
pub use provider::{Provider, Resting};
pub(crate) use providers::ProviderError;
pub(crate) use providers::Providers;
pub(crate) use providers::{PROBE_TOKENS, Probed, listed_models, probed};
pub(crate) use question_keeper::{KeptQuestion, KnownModel, QuestionKeeper};
pub(crate) use recorded::Recorder;
pub(crate) use redact::REDACTED;
pub(crate) use reply::Bill;
pub(crate) use reply::SourceSpan;
pub use reply::{Charge, Evidence, ModelIdentity, ModelReply, StopReason, Usage};
