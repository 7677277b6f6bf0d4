//! Bytes and times on the command line.

use std::time::Duration;

/// `500`, `64K`, `1M`.
pub fn bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let number = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(unit));
    match number {
        Some(bytes @ 1..=1_073_741_824) => Ok(bytes),
        _ => Err("expected a number of bytes from 1 to 1024M, like 500, 64K or 1M".into()),
    }
}

/// `1ms`, `10s`, `5m`; at most a year.
pub fn time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time <= Duration::from_secs(365 * 24 * 60 * 60) => Ok(time),
        Ok(_) => Err("more than a year".into()),
        Err(e) => Err(format!("{e}; expected a time like 1ms, 10s or 5m")),
    }
}
