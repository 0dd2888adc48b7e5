//! Sizes, durations and counts as people write them.

/// `1048576`, `64 KiB`, `1 MiB`, `2GB`.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// `5 ms`, `10 s`, `10 min`, `2 h`, `30 d`: milliseconds.
pub(crate) fn parse_duration_ms(text: &str) -> Option<i64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "ms" => 1,
        "s" | "sec" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    i64::try_from(number.checked_mul(factor)?).ok()
}

/// `4096`, `100k`, `2M`.
pub(crate) fn parse_count(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(parse_bytes("1 MiB"), Some(1 << 20));
        assert_eq!(parse_bytes("1_000"), Some(1000));
        assert_eq!(parse_bytes("1 MiBB"), None);
        assert_eq!(parse_duration_ms("10 min"), Some(600_000));
        assert_eq!(parse_duration_ms("10"), None);
        assert_eq!(parse_count("100k"), Some(100_000));
        assert_eq!(parse_count("-1"), None);
        assert_eq!(parse_bytes("99999999999999999999"), None);
        assert_eq!(parse_bytes("18446744073709551615 k"), None);
    }
}
