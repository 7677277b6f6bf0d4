//! The resident memory of a process, sampled every second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Watches until it is dropped.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<f64>>>);

impl Memory {
    /// Watches the process with this id, if one is given.
    pub fn watch(pid: Option<u32>) -> Memory {
        let memory = Memory::default();
        let Some(pid) = pid else { return memory };
        let (seen, path) = (Arc::downgrade(&memory.0), format!("/proc/{pid}/status"));
        tokio::spawn(async move {
            while let Some(seen) = seen.upgrade() {
                if let (Some(now), Ok(mut seen)) = (resident(&path), seen.lock()) {
                    seen.push(now);
                }
                drop(seen);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        memory
    }

    /// Memory after a tenth of the time, at the end, and the maximum.
    pub fn report(&self) -> String {
        let seen = self.0.lock().map(|seen| seen.clone()).unwrap_or_default();
        let (Some(early), Some(last)) = (seen.get(seen.len().div_ceil(10)), seen.last()) else {
            return "not watched (--pid)".into();
        };
        let max = seen.iter().copied().fold(0.0, f64::max);
        format!("{early:.1} MiB early, {last:.1} MiB at the end, {max:.1} MiB at most")
    }
}

/// In MiB.
fn resident(path: &str) -> Option<f64> {
    let status = std::fs::read_to_string(path).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}
