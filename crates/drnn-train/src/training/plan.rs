//! Batch size and epochs that suit the size of the data: what counts is how many updates a training
//! takes, not how many epochs.

/// What the caller gives; the rest follows from the data.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given {
    /// Sequences per batch.
    pub batch: Option<u32>,
    /// Maximum number of epochs.
    pub epochs: Option<u32>,
}

/// How large trainings of a task should be.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Updates that a training takes at least, small data or not.
    pub updates: usize,
    /// Epochs over data that are large enough.
    pub epochs: usize,
    /// Epochs at most, over the smallest data.
    pub max_epochs: usize,
    /// The largest batch.
    pub batch: usize,
    /// The smallest one.
    pub min_batch: usize,
}

impl Plan {
    /// Batch size and epochs over `sequences` sequences: smaller batches first, then more epochs.
    pub fn batch_and_epochs(&self, sequences: usize, given: Given) -> (usize, usize) {
        let sequences = sequences.max(1);
        let batch = sequences.saturating_mul(self.epochs) / self.updates;
        let batch = batch.clamp(self.min_batch, self.batch).min(sequences);
        let batch = given.batch.map_or(batch, |n| n as usize);
        let enough = self.updates.div_ceil(sequences.div_ceil(batch.max(1)));
        let epochs = self.epochs.max(enough.min(self.max_epochs));
        (batch, given.epochs.map_or(epochs, |n| n as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_data_have_smaller_batches_then_more_epochs() {
        let plan = Plan { updates: 4000, epochs: 20, max_epochs: 1000, batch: 128, min_batch: 8 };
        let of = |sequences| plan.batch_and_epochs(sequences, Given::default());
        assert_eq!(of(400_000), (128, 20));
        assert_eq!(of(25_000), (125, 20));
        assert_eq!(of(5_000), (25, 20));
        assert_eq!(of(1_250), (8, 26));
        assert_eq!(of(250), (8, 125));
        assert_eq!(of(3), (3, 1000));
        for sequences in 1..3000 {
            let (batch, epochs) = of(sequences);
            let updates = sequences.div_ceil(batch) * epochs;
            assert!(updates >= 4000 || epochs == 1000, "{sequences}: {updates}");
            assert!(updates <= 8100, "{sequences}: {updates}");
        }
    }

    #[test]
    fn what_is_given_stays_and_the_rest_follows() {
        let plan = Plan { updates: 4000, epochs: 20, max_epochs: 1000, batch: 128, min_batch: 8 };
        let of = |batch, epochs| plan.batch_and_epochs(1_250, Given { batch, epochs });
        assert_eq!(of(Some(128), None), (128, 400));
        assert_eq!(of(None, Some(100)), (8, 100));
        assert_eq!(of(Some(50), Some(3)), (50, 3));
    }
}
