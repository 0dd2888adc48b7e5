//! The time zone of the machine beside that of a home.

use crate::config::{Config, Origin};

/// The zone of this machine, where the settings name none and days begin elsewhere.
pub(super) fn other_zone(config: &Config) -> Option<String> {
    // Where `TZ` is set, it is what this user's programs go by.
    let of_user = std::env::var("TZ").ok().map(|zone| zone.trim_start_matches(':').to_owned());
    let here = of_user.filter(|zone| !zone.is_empty()).or_else(|| {
        let target = std::fs::read_link("/etc/localtime").ok()?.to_string_lossy().into_owned();
        target.split_once("zoneinfo/").map(|(_, zone)| zone.to_owned())
    });
    let is_chosen = config
        .settings()
        .iter()
        .any(|setting| setting.key == "timezone" && setting.origin != Origin::Default);
    let utc = |zone: &str| matches!(zone, "UTC" | "Etc/UTC" | "Etc/UCT" | "UCT" | "Zulu" | "GMT");
    here.filter(|zone| !is_chosen && !utc(zone))
}
