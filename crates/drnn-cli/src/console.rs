//! Messages on stderr: progress, notes and warnings.
//!
//! `--quiet` silences progress and notes. Warnings and errors are always shown, results go to
//! stdout.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Silences progress and notes from now on.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether progress and notes are silenced.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether progress bars are drawn: on a terminal, unless `--quiet` was given.
pub fn draws_bars() -> bool {
    std::io::stderr().is_terminal() && !is_quiet()
}

/// A line on what the program does, not shown with `--quiet`.
macro_rules! progress {
    ($($text:tt)*) => {
        if !$crate::console::is_quiet() {
            eprintln!($($text)*);
        }
    };
}

/// A line on something that the user may not expect, not shown with `--quiet`.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::console::progress!("note: {}", format_args!($($text)*))
    };
}

/// A line on something that went wrong but did not stop the program. Always shown.
macro_rules! warning {
    ($($text:tt)*) => {
        eprintln!("warning: {}", format_args!($($text)*))
    };
}

pub(crate) use {note, progress, warning};
