//! Ctrl-C as a request to stop.

use crate::Failure;
use crate::console::progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Whether Ctrl-C was pressed. Pressed a second time, it ends the program at once.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Catches Ctrl-C from now on: it only sets a flag, which every clone shares.
    pub fn on_ctrl_c() -> Result<Stop, Failure> {
        static STOP: OnceLock<Stop> = OnceLock::new(); // a handler can be set only once
        if let Some(stop) = STOP.get() {
            return Ok(stop.clone());
        }
        let stop = STOP.get_or_init(|| Stop(Arc::default())).clone();
        let pressed = stop.clone();
        ctrlc::set_handler(move || {
            if pressed.0.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            progress!("stopping; press Ctrl-C again to stop at once");
        })
        .map_err(|e| Failure::Input(format!("Ctrl-C cannot be caught: {e}")))?;
        Ok(stop)
    }

    pub fn pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
