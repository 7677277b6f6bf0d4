//! Ctrl-C, which asks for an end.

use crate::Failure;
use crate::console::progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Whether Ctrl-C was pressed. Pressed twice it ends the program at once.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on Ctrl-C does no more than to say so, to all who ask.
    pub fn on_ctrl_c() -> Result<Stop, Failure> {
        static STOP: OnceLock<Stop> = OnceLock::new(); // a program can catch it once
        if let Some(stop) = STOP.get() {
            return Ok(stop.clone());
        }
        let stop = STOP.get_or_init(|| Stop(Arc::default())).clone();
        let pressed = stop.clone();
        ctrlc::set_handler(move || {
            if pressed.0.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            progress!("stopping; once more to stop at once");
        })
        .map_err(|e| Failure::Input(format!("Ctrl-C cannot be caught: {e}")))?;
        Ok(stop)
    }

    /// Whether it was.
    pub fn pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
