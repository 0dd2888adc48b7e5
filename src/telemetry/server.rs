//! What is known of a server of a model without asking it.

use super::span::SpanKind;
use crate::config::{ProviderConfig, Reach, ServerAddress};

/// What the configuration says of who answers.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerFacts {
    /// As the conventions spell it.
    pub provider_name: &'static str,
    pub address: Option<(String, u16)>,
    is_inside: bool,
}

impl ServerFacts {
    pub(super) fn of(section: &ProviderConfig) -> ServerFacts {
        let address = section.address().and_then(ServerAddress::parse);
        let host = address.as_ref().map(ServerAddress::host).unwrap_or_default();
        ServerFacts {
            provider_name: section.kind.maker(host),
            is_inside: section.kind.reach() == Reach::Inside,
            address: address.map(|address| (address.host().to_owned(), address.port())),
        }
    }

    pub(super) fn inside() -> ServerFacts {
        ServerFacts { provider_name: "summarizer", address: None, is_inside: true }
    }

    pub(super) fn kind(&self) -> SpanKind {
        if self.is_inside { SpanKind::Internal } else { SpanKind::Client }
    }
}
