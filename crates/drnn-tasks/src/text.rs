//! Users' text: quoted in messages so that it is safe to print, and parsed as numbers.

use std::fmt::Write;

/// Characters of a quotation; a longer one is cut.
const MAX_QUOTE: usize = 60;

/// Text from a file or request, fit for a terminal: cut if it is long, control characters escaped.
pub fn quote(text: &str) -> String {
    let mut quoted = escape(text.chars().take(MAX_QUOTE));
    if text.chars().nth(MAX_QUOTE).is_some() {
        quoted += "..";
    }
    format!("`{quoted}`")
}

/// Control, bidirectional and invisible characters as `\u{..}`.
pub fn escape(text: impl Iterator<Item = char>) -> String {
    let mut escaped = String::new();
    for c in text {
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if c.is_control() || hides {
            let _ = write!(escaped, "{}", c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Names as a list for an error message; of many, the first twelve and how many more there are.
pub fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let mut shown: Vec<String> = names.take(12).map(quote).collect();
    if count > shown.len() {
        shown.push(format!("and {} more", count - shown.len()));
    }
    shown.join(", ")
}

/// Whether a field is missing: empty, `NA` or `NaN`.
pub fn is_missing(field: &str) -> bool {
    field.is_empty() || ["na", "nan"].iter().any(|name| field.eq_ignore_ascii_case(name))
}

/// Parses a number; empty and `NA` are missing values, returned as NaN.
pub fn number(field: &str) -> Result<f32, String> {
    if field.is_empty() || field.eq_ignore_ascii_case("na") {
        return Ok(f32::NAN);
    }
    match field.parse::<f32>() {
        Ok(number) if number.is_infinite() => {
            Err(format!("{} {}", quote(field), not_finite(field)))
        }
        Ok(number) => Ok(number),
        Err(_) if field.replace(',', ".").parse::<f32>().is_ok() => {
            Err(format!("{} is not a number; write decimals with a point", quote(field)))
        }
        Err(_) => Err(format!("{} is not a number; write NA for a missing one", quote(field))),
    }
}

/// The message for a number that overflows f32.
pub const TOO_LARGE: &str = "is too large; numbers go up to 3.4e38";

/// The message for a field that parses as infinite: too large, or written as infinity.
pub fn not_finite(field: &str) -> &'static str {
    match field.bytes().any(|b| b.is_ascii_digit()) {
        true => TOO_LARGE,
        false => "is not finite",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_are_short_and_steer_no_terminal() {
        assert_eq!(quote("né"), "`né`");
        assert_eq!(quote("a\x1b[2J\tb\u{202e}"), "`a\\u{1b}[2J\\tb\\u{202e}`");
        assert_eq!(quote(&"x".repeat(99)).len(), 2 + 60 + 2);
        let names: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        assert!(listed(names.iter().map(String::as_str)).ends_with("`11`, and 8 more"));
    }
}
