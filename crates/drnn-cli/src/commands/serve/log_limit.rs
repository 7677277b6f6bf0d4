//! Limits the rate of log lines: clients can cause them, and must not fill a disk.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Maximum lines of each level per second.
const MAX_LINES: u64 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Standard error with a rate limit.
pub struct LimitedStderr {
    json: bool,
    levels: [Mutex<Window>; 5],
}

/// The lines of the current second.
struct Window {
    begun: Instant,
    lines: u64,
}

impl LimitedStderr {
    /// With `json`, notices are JSON objects.
    pub fn new(json: bool) -> LimitedStderr {
        let window = || Mutex::new(Window { begun: Instant::now(), lines: 0 });
        LimitedStderr { json, levels: std::array::from_fn(|_| window()) }
    }

    fn window(&self, level: &Level) -> &Mutex<Window> {
        let number = match *level {
            Level::ERROR => 0,
            Level::WARN => 1,
            Level::INFO => 2,
            Level::DEBUG => 3,
            Level::TRACE => 4,
        };
        &self.levels[number]
    }

    /// The notice on lines that were left out.
    fn notice(&self, level: &Level, left_out: u64) -> String {
        let message = format!("{left_out} lines of this level were left out: too many in a second");
        match self.json {
            true => format!("{{\"level\":\"{level}\",\"fields\":{{\"message\":\"{message}\"}}}}\n"),
            false => format!("{level} {message}\n"),
        }
    }
}

impl Window {
    /// Counts a line: whether it is written, and how many were left out before it.
    fn count(&mut self, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if now.saturating_duration_since(self.begun) >= SECOND {
            left_out = self.lines.saturating_sub(MAX_LINES);
            *self = Window { begun: now, lines: 0 };
        }
        self.lines += 1;
        (self.lines <= MAX_LINES, left_out)
    }
}

/// Standard error, or nothing.
pub struct Line(Option<io::Stderr>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(bytes.len()), |stderr| stderr.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<'a> MakeWriter<'a> for LimitedStderr {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Some(io::stderr()))
    }

    fn make_writer_for(&'a self, metadata: &Metadata) -> Line {
        let level = metadata.level();
        let mut window = self.window(level).lock().unwrap_or_else(PoisonError::into_inner);
        let (written, left_out) = window.count(Instant::now());
        drop(window);
        if left_out > 0 {
            let _ = io::stderr().write_all(self.notice(level, left_out).as_bytes());
        }
        Line(written.then(io::stderr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let begun = Instant::now();
        let mut window = Window { begun, lines: 0 };
        let written = |window: &mut Window, at| (0..1000).filter(|_| window.count(at).0).count();
        assert_eq!(written(&mut window, begun), MAX_LINES as usize);
        assert_eq!(written(&mut window, begun + SECOND / 2), 0);
        assert_eq!(window.count(begun + SECOND), (true, 2000 - MAX_LINES));
        assert_eq!(window.count(begun + SECOND), (true, 0));
        let notice = LimitedStderr::new(true).notice(&Level::INFO, 7);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&notice).unwrap()["level"], "INFO");
    }
}
