//! A look at a server before anything is asked of it: whether it is there, lets us in, and knows the
//! model. No text is sent, and nothing is paid.

use std::time::Duration;

use serde_json::Value;

use super::http::Endpoint;
use super::{ModelError, anthropic, openai, providers};
use crate::config::ProviderConfig;

/// The models a server lists; `None` where it lists none, or is of a kind that has no list.
pub fn models(
    name: &str,
    config: &ProviderConfig,
    within: Duration,
) -> Result<Option<Vec<String>>, ModelError> {
    let key = providers::key_of(config);
    let (endpoint, headers) = match config.kind.as_str() {
        "openai" => {
            let endpoint = Endpoint::new(name, config, openai::BASE, "/models", key);
            let headers = endpoint.bearer();
            (endpoint, headers)
        }
        "anthropic" => {
            let path = anthropic::path_of("models", config);
            let endpoint = Endpoint::new(name, config, anthropic::BASE, path, key);
            let headers = anthropic::headers(&endpoint);
            (endpoint, headers)
        }
        _ => return Ok(None),
    };
    let model = config.model.as_deref().unwrap_or_default();
    match endpoint.get(&headers, within)? {
        Ok(list) => Ok(ids(&list)),
        // A list is no duty: what counts is whether it would let us ask.
        Err(refusal) if matches!(refusal.status, 404 | 405 | 501) => Ok(None),
        Err(refusal) => Err(endpoint.judge(&refusal, model)),
    }
}

fn ids(list: &Value) -> Option<Vec<String>> {
    let entries = list.get("data")?.as_array()?;
    let ids = entries.iter().filter_map(|entry| entry.get("id")?.as_str());
    let ids: Vec<String> = ids.map(|id| id.chars().take(100).collect()).collect();
    (!ids.is_empty()).then_some(ids)
}
