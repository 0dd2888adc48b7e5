//! A provider for commands that have no later retry: it asks again after a failure that may pass.
//!
//! Contract: a call that failed for a passing reason is made again a few times, after a pause that the
//! server asked for or that grows. After an interrupt no call begins, and a pause ends. Answers to earlier
//! questions of the flow are kept meanwhile: only the call is made again. When all of it was in vain, later
//! calls are made once each, until one is answered. A provider that is left alone after many failures is not
//! waited for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::ui::Ui;
use crate::contract::vocabulary::FailureCause;
use crate::model::{ErrorClass, ModelCall, ModelError, ModelIdentity, ModelReply, Provider};
use crate::service::StopSignal;

/// Pauses that a server or a limit may ask for.
const PAUSES_MAX: usize = 10;
/// Calls that are made again after a failure.
const RETRIES_MAX: u32 = 3;
/// The pause before the first of them; each one after it takes three times as long.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A longer pause is an error: somebody waits for this command.
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// How often a pause looks for an interrupt.
const STEP: Duration = Duration::from_millis(50);

pub(super) struct Patient {
    pub inner: Arc<dyn Provider>,
    pub ui: Ui,
    pub stop: StopSignal,
    /// Whether a call failed as often as it may, and none was answered since.
    pub failing: Arc<AtomicBool>,
}

impl Patient {
    /// Waits, unless an interrupt comes first.
    fn pause(&self, pause: Duration) -> bool {
        let begun = Instant::now();
        while !self.stop.is_raised() {
            match pause.checked_sub(begun.elapsed()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(STEP)),
                _ => return true,
            }
        }
        false
    }

    fn interrupted(&self) -> ModelError {
        ModelError::Permanent {
            provider: self.identity().provider,
            reason: "an interrupt came before this call".to_owned(),
            cause: FailureCause::Program,
        }
    }
}

impl Provider for Patient {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let (mut pauses, mut retries) = (0, 0_u32);
        loop {
            if self.stop.is_raised() {
                return Err(self.interrupted());
            }
            let error = match self.inner.call(call) {
                Ok(reply) => {
                    self.failing.store(false, Relaxed);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let asked = error.retry_after();
            let pause = match (&error, error.class()) {
                (_, ErrorClass::Pause) if error.keeps_to_a_limit() && pauses < PAUSES_MAX => {
                    pauses += 1;
                    asked
                }
                (ModelError::Transient { .. }, _)
                    if retries < RETRIES_MAX && !self.failing.load(Relaxed) =>
                {
                    let grown = RETRY_PAUSE.saturating_mul(3_u32.saturating_pow(retries));
                    retries += 1;
                    Some(asked.unwrap_or(grown))
                }
                _ => None,
            };
            let Some(pause) = pause.filter(|pause| *pause <= PAUSE_MAX) else {
                if retries == RETRIES_MAX {
                    self.failing.store(true, Relaxed);
                }
                return Err(error);
            };
            let seconds = (pause.as_secs_f64() * 10.0).ceil() / 10.0;
            self.ui.talk(format!("{error}; asking again in {seconds} s"));
            if !self.pause(pause) {
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::model::{CallSettings, Message, Role};

    /// A server that fails always, and asks for a long pause.
    #[derive(Default)]
    struct Down(AtomicUsize);

    impl Provider for Down {
        fn identity(&self) -> ModelIdentity {
            ModelIdentity::default()
        }

        fn context_tokens(&self) -> usize {
            1_000
        }

        fn call(&self, _: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(ModelError::Transient {
                provider: "down".into(),
                reason: "busy".into(),
                retry_after: Some(Duration::from_secs(60)),
                cause: FailureCause::ServerError,
            })
        }
    }

    #[test]
    fn an_interrupt_ends_a_pause_and_lets_no_call_begin() {
        let down = Arc::new(Down::default());
        let stop = StopSignal::default();
        let ui = Ui { quiet: true, ..Ui::default() };
        let failing = Arc::default();
        let patient = Patient { inner: Arc::<Down>::clone(&down), ui, stop: stop.clone(), failing };
        let (messages, inputs) = ([Message::new(Role::User, "Hello")], serde_json::Map::new());
        let call = ModelCall {
            flow_id: "f",
            variant: None,
            node: "n",
            messages: &messages,
            inputs: &inputs,
            sources: &[],
            schema: None,
            validator: None,
            hints: None,
            settings: CallSettings::default(),
            timeout: Duration::from_secs(300),
            bill: None,
            listener: None,
            model: None,
            apart: false,
            speakers: None,
            kept_as: "",
        };
        std::thread::scope(|scope| {
            scope.spawn(|| patient.call(&call).unwrap_err());
            while down.0.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(STEP);
            }
            stop.raise();
        });
        assert!(patient.call(&call).unwrap_err().to_string().contains("an interrupt came"));
        assert_eq!(down.0.load(Ordering::SeqCst), 1);
    }
}
