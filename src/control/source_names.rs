//! The names that people know the sources of a request by, before there is a summary that has them.
//!
//! Contract: a name is help for a reader. A source that cannot be found has none, and that is no error.

use std::sync::Arc;

use chrono_tz::Tz;

use crate::contract::request::{Input, Request};
use crate::control::reply::QuestionContext;
use crate::upstream::context::context_of;
use crate::upstream::{InputSpec, Options, Upstream, resolve};

/// Looks up names on the buses of a home.
pub(super) struct SourceNames {
    upstream: Upstream,
    zone: Tz,
}

impl SourceNames {
    pub(super) fn of(around: &QuestionContext<'_>) -> SourceNames {
        let disk = Arc::clone(&around.machine.disk);
        let upstream = Upstream::new(disk, &around.home.buses, Arc::clone(around.index));
        SourceNames { upstream, zone: around.config.timezone }
    }

    /// The name of what a line of the queue asks about: the file, the subject, the title of the chat.
    pub(super) fn name(&self, line: &[u8]) -> Option<String> {
        let request = Request::parse_stored(line).ok()?;
        let Input::Ids { bus, ids } = request.input else { return None };
        // One of many is enough for a name, and costs less.
        let input = InputSpec::Ids { bus, ids: vec![ids.first()?.clone()] };
        let options = Options { title_as_text: true, zone: Some(self.zone), ..Options::default() };
        let found = resolve(&self.upstream, &input, request.work.kind, &options).ok()?;
        let name = context_of(&found, &self.upstream, self.zone).ok()??.name()?;
        Some(match ids.len() {
            1 => name,
            many => format!("{name} and {} more", many - 1),
        })
    }
}
