//! A provider for commands that have no later retry: it asks again after a failure that may pass.
//!
//! Contract: a call that failed for a passing reason is made again a few times, after a pause that the
//! server asked for or that grows. After an interrupt no call begins, and a pause ends. Answers to earlier
//! questions of the flow are kept meanwhile: only the call is made again. When all of it was in vain, later
//! calls are made once each, until one is answered. A provider that is left alone after many failures is not
//! waited for: the call fails with the failure that the provider met last, so that the order of calls that
//! are under way together does not change what a person reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ui::Ui;
use crate::contract::vocabulary::FailureCause;
use crate::facts::dialect::LearnedDialect;
use crate::model::{
    Bill, Charge, ErrorClass, ModelCall, ModelError, ModelIdentity, ModelReply, Provider,
};
use crate::service::StopSignal;

/// Pauses that a server or a limit may ask for.
const PAUSES_MAX: usize = 10;
/// Calls that are made again after a failure.
const RETRIES_MAX: u32 = 3;
/// The pause before the first of them; each one after it takes three times as long.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A longer pause is an error: somebody waits for this command.
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// A shorter wait before a call is not told.
const TOLD_MIN: Duration = Duration::from_secs(2);
/// When the same wait is told again.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// How often a pause looks for an interrupt.
const STEP: Duration = Duration::from_millis(50);

pub(super) struct Patient {
    pub inner: Arc<dyn Provider>,
    pub ui: Ui,
    pub stop: StopSignal,
    pub failures: Arc<Mutex<FailuresMet>>,
}

/// What went wrong since a call was answered last.
#[derive(Default)]
pub(super) struct FailuresMet {
    last: Option<ModelError>,
    /// Whether a call failed as often as it may.
    in_vain: bool,
    /// The wait that was told last, and when.
    told: Option<(String, Instant)>,
}

/// Tells that a call waits before it is sent.
struct TellingBill<'a> {
    to: Option<&'a dyn Bill>,
    patient: &'a Patient,
}

impl Bill for TellingBill<'_> {
    fn charge(&self, charge: Charge) {
        if let Some(to) = self.to {
            to.charge(charge);
        }
    }

    fn passed_over(&self, failed: &ModelIdentity, error: &ModelError, answered_by: &str) {
        if let Some(to) = self.to {
            to.passed_over(failed, error, answered_by);
        }
    }

    fn learned(&self, learned: LearnedDialect) {
        if let Some(to) = self.to {
            to.learned(learned);
        }
    }

    fn waits(&self, why: &ModelError, time: Duration) {
        let why = why.to_string();
        let told = &mut self.patient.failures.lock().told;
        let is_known = |(last, at): &(String, Instant)| *last == why && at.elapsed() < TOLD_AGAIN;
        if time < TOLD_MIN || told.as_ref().is_some_and(is_known) {
            return;
        }
        let seconds = time.as_secs_f64().ceil();
        self.patient.ui.talk(format!("{why}; the next call goes out in {seconds} s"));
        *told = Some((why, Instant::now()));
    }
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
            reason: "an interrupt came before this call".into(),
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
        let bill = TellingBill { to: call.bill, patient: self };
        loop {
            if self.stop.is_raised() {
                return Err(self.interrupted());
            }
            let bill: Option<&dyn Bill> = Some(&bill);
            let error = match self.inner.call(&ModelCall { bill, ..call.clone() }) {
                Ok(reply) => {
                    let mut failures = self.failures.lock();
                    (failures.last, failures.in_vain) = (None, false);
                    drop(failures);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let in_vain = {
                let mut failures = self.failures.lock();
                if error.is_of_a_provider_left_alone() {
                    return Err(failures.last.clone().unwrap_or(error));
                }
                if error.class() == ErrorClass::Transient {
                    failures.last = Some(error.clone());
                }
                failures.in_vain
            };
            let asked = error.retry_after();
            let pause = match (&error, error.class()) {
                (_, ErrorClass::Pause) if error.keeps_to_a_limit() && pauses < PAUSES_MAX => {
                    pauses += 1;
                    asked
                }
                (ModelError::Transient { .. }, _) if retries < RETRIES_MAX && !in_vain => {
                    let grown = RETRY_PAUSE.saturating_mul(3_u32.saturating_pow(retries));
                    retries += 1;
                    Some(asked.unwrap_or(grown))
                }
                _ => None,
            };
            let Some(pause) = pause.filter(|pause| *pause <= PAUSE_MAX) else {
                if retries == RETRIES_MAX {
                    self.failures.lock().in_vain = true;
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

    /// A server that fails always, and asks for a pause. After some calls it is left alone.
    struct Down {
        calls: AtomicUsize,
        pause: Duration,
        left_alone_after: usize,
    }

    impl Provider for Down {
        fn identity(&self) -> ModelIdentity {
            ModelIdentity::default()
        }

        fn context_tokens(&self) -> usize {
            1_000
        }

        fn call(&self, _: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
            let (provider, cause) = ("down".to_owned(), FailureCause::ServerError);
            Err(match self.calls.fetch_add(1, Ordering::SeqCst) < self.left_alone_after {
                true => ModelError::Transient {
                    provider,
                    reason: "busy".into(),
                    retry_after: Some(self.pause),
                    cause,
                },
                false => ModelError::Paused {
                    provider,
                    reason: "it failed 5 times in a row and is left alone".into(),
                    retry_after: Duration::from_secs(30),
                    cause,
                },
            })
        }
    }

    fn down(pause: Duration, left_alone_after: usize) -> Arc<Down> {
        Arc::new(Down { calls: AtomicUsize::new(0), pause, left_alone_after })
    }

    fn patient(down: &Arc<Down>, stop: StopSignal) -> Patient {
        let ui = Ui { quiet: true, ..Ui::default() };
        Patient { inner: Arc::<Down>::clone(down), ui, stop, failures: Arc::default() }
    }

    fn ask(patient: &Patient) -> ModelError {
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
        patient.call(&call).unwrap_err()
    }

    #[test]
    fn an_interrupt_ends_a_pause_and_lets_no_call_begin() {
        let (down, stop) = (down(Duration::from_secs(60), usize::MAX), StopSignal::default());
        let patient = patient(&down, stop.clone());
        std::thread::scope(|scope| {
            scope.spawn(|| ask(&patient));
            while down.calls.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(STEP);
            }
            stop.raise();
        });
        assert!(ask(&patient).to_string().contains("an interrupt came"));
        assert_eq!(down.calls.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn calls_fail_alike_wherever_in_a_row_of_failures_they_stand() {
        for left_alone_after in 1..=6 {
            let patient = patient(&down(Duration::ZERO, left_alone_after), StopSignal::default());
            let errors: Vec<String> = (0..4).map(|_| ask(&patient).to_string()).collect();
            assert!(errors.iter().all(|error| error == "reach down: busy"), "{errors:?}");
        }
    }
}
