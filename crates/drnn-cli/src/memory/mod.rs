//! The memory that a command will need, compared with what is free before it starts.

mod free;
pub mod usage;

use crate::Failure;
use crate::training::place::Place;
use clap::Args;
use drnn_train::Estimate;
use std::fs::Metadata;
use std::path::Path;

/// Whether to start although memory seems too small.
#[derive(Debug, Clone, Copy, Args)]
pub struct Force {
    /// Start even if more memory is needed than is free; the system may then kill the program
    #[arg(long)]
    force: bool,
}

/// The name of the copies that checkpoints need while they are written.
const CHECKPOINTS: &str = "checkpoints";

/// Bytes that a command will need, by purpose.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs {
    parts: Vec<(&'static str, usize)>,
    /// GPU memory.
    card: usize,
    /// And for a copy of the data there, which concurrent trainings share and which may be left out.
    copy: usize,
}

impl Needs {
    /// For one purpose.
    pub fn new(what: &'static str, bytes: usize) -> Needs {
        Needs::default().and(what, bytes)
    }

    /// Adds bytes for another, or the same, purpose.
    pub fn and(mut self, what: &'static str, bytes: usize) -> Needs {
        match self.parts.iter_mut().find(|(name, _)| *name == what) {
            Some((_, all)) => *all = all.saturating_add(bytes),
            None => self.parts.push((what, bytes)),
        }
        self
    }

    /// Adds GPU memory.
    pub fn and_card(mut self, bytes: usize) -> Needs {
        self.card = self.card.saturating_add(bytes);
        self
    }

    /// Adds GPU memory for a copy of the data.
    pub fn and_copy(mut self, bytes: usize) -> Needs {
        self.copy = self.copy.max(bytes);
        self
    }

    /// The sum of both.
    pub fn join(self, other: Needs) -> Needs {
        let Needs { parts, card, copy } = other;
        let all = parts.into_iter().fold(self, |all, (what, bytes)| all.and(what, bytes));
        all.and_card(card).and_copy(copy)
    }

    /// `count` times as much.
    pub fn times(mut self, count: usize) -> Needs {
        self.parts.iter_mut().for_each(|(_, bytes)| *bytes = bytes.saturating_mul(count));
        self.card = self.card.saturating_mul(count);
        self
    }

    /// For concurrent trainings on `threads` threads: all hold their memory, but at most one
    /// checkpoint per thread is written at a time.
    pub fn side_by_side(all: impl IntoIterator<Item = Needs>, threads: usize) -> Needs {
        let (mut sum, mut count, mut largest) = (Needs::default(), 0, 0);
        for mut needs in all {
            let written = needs.parts.iter().position(|(what, _)| *what == CHECKPOINTS);
            largest = largest.max(written.map_or(0, |at| needs.parts.remove(at).1));
            (sum, count) = (sum.join(needs), count + 1);
        }
        sum.and(CHECKPOINTS, largest.saturating_mul(threads.min(count)))
    }

    /// Without GPU memory.
    pub fn total(&self) -> usize {
        self.parts.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Refuses to start if more is needed than is free. The error has both numbers and `less`, the
    /// options that reduce it.
    pub fn check(&self, force: Force, less: &str) -> Result<(), Failure> {
        self.check_at(force, &Place::Cpu, less)
    }

    /// The same for networks that are trained at `place`.
    pub fn check_at(&self, force: Force, place: &Place, less: &str) -> Result<(), Failure> {
        self.check_sized(force, place, less, None)
    }

    /// The same; the error also names the size that would fit.
    pub fn check_sized(
        &self,
        force: Force,
        place: &Place,
        less: &str,
        smaller: Option<Smaller>,
    ) -> Result<(), Failure> {
        let card = match place {
            // If the driver does not know, the allocation itself may fail later.
            Place::Cuda(device, ..) => device.free_memory().ok(),
            Place::Cpu => None,
        };
        if let Place::Cuda(device, ..) = place
            && !self.copy_fits(card)
        {
            device.without_copies();
        }
        if force.force {
            return Ok(());
        }
        let free = free::free().map(|free| usize::try_from(free).unwrap_or(usize::MAX));
        let fitting = match self.fits(free, card) {
            true => return Ok(()),
            false => smaller.and_then(|smaller| smaller.fitting(free, card)),
        };
        let less = fitting.map_or(less.to_string(), |size| format!("{less} need less, {size}"));
        match self.refusal(free, card, &less) {
            Some(why) => Err(Failure::Input(why)),
            None => Ok(()),
        }
    }

    /// Whether a copy of the data fits next to all that is needed.
    fn copy_fits(&self, card: Option<usize>) -> bool {
        card.is_none_or(|free| self.card.saturating_add(self.copy) <= free)
    }

    /// Whether it is no more than what is free, as far as that is known.
    fn fits(&self, free: Option<usize>, card: Option<usize>) -> bool {
        free.is_none_or(|free| self.total() <= free) && card.is_none_or(|free| self.card <= free)
    }

    fn refusal(&self, free: Option<usize>, card: Option<usize>, less: &str) -> Option<String> {
        let need = if less.contains(" need less") { "" } else { " need less" };
        let try_it = format!("{less}{need}; --force starts anyway");
        if let Some(free) = card.filter(|free| self.card > *free) {
            let (needed, free) = (shown(self.card), shown(free));
            return Some(format!(
                "needs about {needed} of the GPU's memory, of which {free} is free; {try_it}"
            ));
        }
        let free = free.filter(|free| self.total() > *free)?;
        let mut parts = self.parts.clone();
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let parts: Vec<String> =
            parts.iter().map(|(what, bytes)| format!("{what} {}", shown(*bytes))).collect();
        let (needed, free) = (shown(self.total()), shown(free));
        let parts = parts.join(", ");
        Some(format!("needs about {needed} of memory ({parts}), {free} is free; {try_it}"))
    }
}

/// Refuses a model file that is too large for memory: its bytes, its weights, and a copy of them in
/// the kernels' layout. What is no regular file passes.
pub fn check_model_file(path: &Path) -> Result<(), Failure> {
    let length = path.metadata().ok().filter(Metadata::is_file).map_or(0, |file| file.len());
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let needs = Needs::new("the file", length).and("weights", length.saturating_mul(2));
    match free::free().map(|free| usize::try_from(free).unwrap_or(usize::MAX)) {
        Some(free) if needs.total() > free => {
            let (needed, free) = (shown(needs.total()), shown(free));
            let why = "the file, its weights and a copy in the kernels' layout";
            let path = path.display();
            Err(Failure::Input(format!(
                "{path}: needs about {needed} of memory ({why}), {free} is free"
            )))
        }
        _ => Ok(()),
    }
}

/// A smaller size of the same thing.
pub struct Smaller<'a> {
    /// The size that does not fit.
    pub size: usize,
    /// What is needed at another size; None where there is no such thing.
    pub needs: &'a dyn Fn(usize) -> Option<Needs>,
    /// A size in words: `--units 500`.
    pub shown: &'a dyn Fn(usize) -> String,
}

impl Smaller<'_> {
    /// The largest size that fits, to two digits, in words.
    fn fitting(&self, free: Option<usize>, card: Option<usize>) -> Option<String> {
        let fits = |size: usize| (self.needs)(size).is_some_and(|needs| needs.fits(free, card));
        let (mut fitting, mut too_large) = (0, self.size);
        while too_large - fitting > 1 {
            let middle = fitting + (too_large - fitting) / 2;
            match fits(middle) {
                true => fitting = middle,
                false => too_large = middle,
            }
        }
        let digits = 10usize.pow(fitting.checked_ilog10()?.saturating_sub(1));
        Some(format!("{} would fit", (self.shown)(fitting / digits * digits)))
    }
}

impl From<Estimate> for Needs {
    fn from(estimate: Estimate) -> Needs {
        let Estimate { weights, pass, checkpoint } = estimate;
        Needs::new("weights and optimiser", weights)
            .and("passes over batches", pass)
            .and(CHECKPOINTS, checkpoint)
    }
}

/// Bytes as text: `1.5 GB`.
pub fn shown(bytes: usize) -> String {
    const UNITS: [&str; 7] = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let digits = if unit > 0 && value < 9.95 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        let needs = Needs::new("weights", 3 << 30).and("passes", 1 << 30).and("passes", 1 << 30);
        assert_eq!(needs.total(), 5 << 30);
        assert_eq!(needs.refusal(Some(5 << 30), None, "fewer --units"), None);
        assert_eq!(needs.refusal(None, Some(0), "fewer --units"), None);
        assert_eq!(
            needs.refusal(Some(1 << 30), None, "fewer --units").unwrap(),
            "needs about 5.4 GB of memory (weights 3.2 GB, passes 2.1 GB), 1.1 GB is free; fewer \
             --units need less; --force starts anyway"
        );
        let all = needs.clone().join(Needs::new("weights", usize::MAX)).times(3);
        assert_eq!(all.total(), usize::MAX);
        let lane = || needs.clone().and(CHECKPOINTS, 10);
        let lanes = Needs::side_by_side([lane(), lane(), lane().and(CHECKPOINTS, 2)], 2);
        assert_eq!(lanes.total(), (15 << 30) + 24);
        let card = needs.and_card(2 << 30).and_copy(1 << 30).times(2);
        assert!(card.copy_fits(Some(5 << 30)) && !card.copy_fits(Some(4 << 30)));
        let both = card.clone().join(Needs::default().and_copy(2 << 30));
        assert!(both.copy_fits(Some(6 << 30)) && !both.copy_fits(Some(5 << 30)));
        let why = card.refusal(Some(usize::MAX), Some(3 << 30), "a smaller --batch").unwrap();
        assert!(
            why.starts_with("needs about 4.3 GB of the GPU's memory, of which 3.2 GB"),
            "{why}"
        );
    }

    #[test]
    fn the_size_that_would_fit_is_named() {
        let needs = |size: usize| Some(Needs::new("weights", size * size));
        let shown = |size: usize| format!("--units {size}");
        let fitting = |free: usize| {
            let smaller = Smaller { size: 60_000, needs: &needs, shown: &shown };
            smaller.fitting(Some(free), None)
        };
        assert_eq!(fitting(1_000_000_000).unwrap(), "--units 31000 would fit"); // 31,622
        assert_eq!(fitting(49).unwrap(), "--units 7 would fit");
        assert_eq!(fitting(0), None);
    }

    #[test]
    fn bytes_for_people() {
        let all = [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (9_960, "10 kB")];
        let more = [(999_499, "999 kB"), (999_500, "1.0 MB"), (16_000_000_000_000, "16 TB")];
        for (bytes, text) in all.into_iter().chain(more).chain([(usize::MAX, "18 EB")]) {
            assert_eq!(shown(bytes), text);
        }
    }
}
