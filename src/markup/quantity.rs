//! Numbers with units, as papers write them in the commands of the package siunitx.
//!
//! `docs/source-text-hash.md` specifies it.

/// Prefixes and units by the names of their commands. Any other command is a unit with its own name.
const SYMBOLS: &[(&str, &str)] = &[
    ("metre", "m"),
    ("meter", "m"),
    ("gram", "g"),
    ("second", "s"),
    ("ampere", "A"),
    ("kelvin", "K"),
    ("mole", "mol"),
    ("candela", "cd"),
    ("becquerel", "Bq"),
    ("celsius", "°C"),
    ("degreeCelsius", "°C"),
    ("coulomb", "C"),
    ("farad", "F"),
    ("gray", "Gy"),
    ("hertz", "Hz"),
    ("henry", "H"),
    ("joule", "J"),
    ("lumen", "lm"),
    ("lux", "lx"),
    ("newton", "N"),
    ("ohm", "Ω"),
    ("pascal", "Pa"),
    ("radian", "rad"),
    ("siemens", "S"),
    ("sievert", "Sv"),
    ("steradian", "sr"),
    ("tesla", "T"),
    ("volt", "V"),
    ("watt", "W"),
    ("weber", "Wb"),
    ("hectare", "ha"),
    ("litre", "L"),
    ("liter", "L"),
    ("tonne", "t"),
    ("day", "d"),
    ("hour", "h"),
    ("minute", "min"),
    ("degree", "°"),
    ("arcminute", "′"),
    ("arcsecond", "″"),
    ("electronvolt", "eV"),
    ("dalton", "Da"),
    ("decibel", "dB"),
    ("bar", "bar"),
    ("byte", "B"),
    ("bit", "bit"),
    ("percent", "%"),
    ("angstrom", "Å"),
];

const PREFIXES: &[(&str, &str)] = &[
    ("atto", "a"),
    ("femto", "f"),
    ("pico", "p"),
    ("nano", "n"),
    ("micro", "µ"),
    ("milli", "m"),
    ("centi", "c"),
    ("deci", "d"),
    ("deca", "da"),
    ("hecto", "h"),
    ("kilo", "k"),
    ("mega", "M"),
    ("giga", "G"),
    ("tera", "T"),
    ("peta", "P"),
    ("exa", "E"),
    ("kibi", "Ki"),
    ("mebi", "Mi"),
    ("gibi", "Gi"),
    ("tebi", "Ti"),
];

fn named(name: &str, among: &[(&str, &'static str)]) -> Option<&'static str> {
    among.iter().find(|(known, _)| *known == name).map(|(_, symbol)| *symbol)
}

/// A number with its unit. Signs of angles stand directly behind it.
pub(super) fn quantity(number: &str, units: &str) -> String {
    let unit = unit(units);
    let gap =
        if unit.is_empty() || unit.starts_with(['′', '″']) || unit == "°" { "" } else { " " };
    format!("{}{gap}{unit}", number.trim())
}

/// Degrees, minutes and seconds, with `;` between them.
pub(super) fn angle(angle: &str) -> String {
    let parts = angle.split(';').map(str::trim).zip(['°', '′', '″']);
    parts.filter(|(part, _)| !part.is_empty()).map(|(part, sign)| format!("{part}{sign}")).collect()
}

/// Units as they are printed: `\kilo\gram\per\cubic\metre` is `kg/m³`.
pub(super) fn unit(source: &str) -> String {
    let (mut out, mut prefix, mut power) = (String::new(), "", "");
    let mut divides = false;
    let mut rest = source.trim();
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let name = match first {
            '\\' => letters_of(after),
            _ => "",
        };
        if name.is_empty() {
            // A unit that is written in letters.
            rest = after;
            match first {
                '.' | '~' => out.push(' '),
                '{' | '}' | '\\' => {}
                first if first.is_whitespace() => {}
                first => out.push(first),
            }
            continue;
        }
        rest = after[name.len()..].trim_start();
        match name {
            "per" => divides = true,
            "square" => power = "²",
            "cubic" => power = "³",
            "squared" => out.push('²'),
            "cubed" => out.push('³'),
            "tothe" | "raiseto" => {
                let exponent = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let Some((exponent, after)) = exponent else { continue };
                out.push('^');
                out.push_str(exponent.trim());
                rest = after;
            }
            _ if named(name, PREFIXES).is_some() => prefix = named(name, PREFIXES).unwrap_or(""),
            _ => {
                match (out.is_empty(), divides) {
                    (true, true) => out.push_str("1/"),
                    (false, true) => out.push('/'),
                    (false, false) => out.push(' '),
                    (true, false) => {}
                }
                out.extend([prefix, named(name, SYMBOLS).unwrap_or(name), power]);
                (prefix, power, divides) = ("", "", false);
            }
        }
    }
    out
}

/// The letters that a text begins with: the name of a command.
pub(super) fn letters_of(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_alphabetic).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_printed_with_their_prefixes_and_powers() {
        for (source, printed) in [
            (r"\kilo\gram\per\cubic\metre", "kg/m³"),
            (r"\metre\per\second\squared", "m/s²"),
            (r"\newton\meter", "N m"),
            (r"\per\second", "1/s"),
            (r"\km\per\hour", "km/h"),
            (r"\milli\metre\tothe{4}", "mm^4"),
            (r"\micro\ohm", "µΩ"),
            ("kg.m/s^{2}", "kg m/s^2"),
            (r"\%", "%"),
            ("", ""),
            (r"\kilo", ""),
        ] {
            assert_eq!(unit(source), printed, "{source}");
        }
        assert_eq!(quantity(" 12.5 ", r"\celsius"), "12.5 °C");
        assert_eq!(quantity("45", r"\degree"), "45°");
        assert_eq!(angle("12;30;"), "12°30′");
    }
}
