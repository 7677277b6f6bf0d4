//! Logs on stderr: events, never the contents of requests.

use super::log_limit::LimitedStderr;
use crate::console;
use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Nothing
    Off,
    Error,
    Warn,
    /// Start and end of the server and of every stream
    Info,
    /// Every request
    Debug,
}

/// Starts logging.
pub fn begin(level: Level, json: bool) {
    let level = match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let level = if console::is_quiet() { level.min(LevelFilter::WARN) } else { level };
    let stderr = LimitedStderr::new(json);
    let logs = tracing_subscriber::fmt().with_writer(stderr).with_max_level(level);
    match json {
        true => logs.json().init(),
        false => logs.with_target(false).with_ansi(false).init(),
    }
    // A panic's message may contain what a client sent.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "internal error; the request or stream is closed");
    }));
}
