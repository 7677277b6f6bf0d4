//! Confusion counts of any number of classes: only pairs that occur take memory.

use std::collections::HashMap;

/// Counts by true and predicted class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Confusion {
    counts: HashMap<(u32, u32), u64>,
    support: Vec<u64>,
    predicted: Vec<u64>,
}

/// A dense confusion matrix of some classes: true class by row, predicted class by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfusionMatrix {
    /// The classes, in their order.
    pub classes: Vec<usize>,
    /// Number of other classes, which share the last row and the last column.
    pub others: usize,
    /// Row by row.
    pub counts: Vec<Vec<u64>>,
}

impl Confusion {
    /// Zero counts of so many classes.
    pub fn new(classes: usize) -> Confusion {
        let (support, predicted) = (vec![0; classes], vec![0; classes]);
        Confusion { counts: HashMap::new(), support, predicted }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.support.len()
    }

    /// Adds `count` elements of class `truth` that were predicted to be `predicted`. Sums saturate,
    /// because counts may come from a file.
    ///
    /// # Panics
    /// If one of them is not below the number of classes.
    pub fn add(&mut self, truth: usize, predicted: usize, count: u64) {
        self.support[truth] = self.support[truth].saturating_add(count);
        self.predicted[predicted] = self.predicted[predicted].saturating_add(count);
        let pair = self.counts.entry((truth as u32, predicted as u32)).or_default();
        *pair = pair.saturating_add(count);
    }

    /// Elements of a class.
    pub fn support(&self, class: usize) -> u64 {
        self.support[class]
    }

    /// Elements that were predicted to be of a class.
    pub fn predicted(&self, class: usize) -> u64 {
        self.predicted[class]
    }

    /// Elements of a class that were predicted correctly.
    pub fn correct(&self, class: usize) -> u64 {
        self.counts.get(&(class as u32, class as u32)).copied().unwrap_or(0)
    }

    /// Share of a class's elements that were predicted correctly; None where there are none.
    pub fn recall(&self, class: usize) -> Option<f64> {
        share(self.correct(class), self.support[class])
    }

    /// Share of the predictions of a class that were correct; None where there are none.
    pub fn precision(&self, class: usize) -> Option<f64> {
        share(self.correct(class), self.predicted[class])
    }

    /// All classes, the most frequent first: by support, then by number of predictions.
    pub fn by_frequency(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.classes()).collect();
        all.sort_by_key(|&class| std::cmp::Reverse((self.support[class], self.predicted[class])));
        all
    }

    /// All classes, or the most frequent of them and the others together: at most `max` rows.
    pub fn matrix(&self, max: usize) -> ConfusionMatrix {
        let all = self.classes();
        let mut classes = self.by_frequency();
        if all > max {
            classes.truncate(max.saturating_sub(1));
        }
        classes.sort_unstable();
        let others = all - classes.len();
        let size = classes.len() + usize::from(others > 0);
        let mut place = vec![size.saturating_sub(1); all];
        classes.iter().enumerate().for_each(|(at, &class)| place[class] = at);
        let mut counts = vec![vec![0; size]; size];
        for (&(truth, predicted), &count) in &self.counts {
            let sum: &mut u64 = &mut counts[place[truth as usize]][place[predicted as usize]];
            *sum = sum.saturating_add(count);
        }
        ConfusionMatrix { classes, others, counts }
    }
}

fn share(correct: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| correct as f64 / of as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_hold_all_counts() {
        let mut confusion = Confusion::new(4);
        for (truth, predicted, count) in [(0, 0, 2), (2, 2, 5), (2, 3, 1), (3, 0, 3), (1, 1, 1)] {
            confusion.add(truth, predicted, count);
        }
        assert_eq!([0, 1, 2, 3].map(|i| confusion.support(i)), [2, 1, 6, 3]);
        assert_eq!([0, 1, 2, 3].map(|i| confusion.predicted(i)), [5, 1, 5, 1]);
        assert_eq!([0, 1, 2, 3].map(|i| confusion.correct(i)), [2, 1, 5, 0]);
        assert_eq!([confusion.recall(2), confusion.precision(2)], [Some(5.0 / 6.0), Some(1.0)]);
        assert_eq!([confusion.recall(3), Confusion::new(1).precision(0)], [Some(0.0), None]);
        let all = confusion.matrix(4);
        assert_eq!((all.classes, all.others), (vec![0, 1, 2, 3], 0));
        assert_eq!(all.counts[2], [0, 0, 5, 1]);
        let some = confusion.matrix(3);
        assert_eq!((some.classes, some.others), (vec![2, 3], 2));
        assert_eq!(some.counts, [[5, 1, 0], [0, 0, 3], [0, 0, 3]]);
        assert_eq!(Confusion::new(0).matrix(3).counts.len(), 0);
        // A dense matrix of these would take 80 GB.
        let mut many = Confusion::new(100_000);
        many.add(99_999, 7, 1);
        assert_eq!(many.matrix(60).counts.iter().flatten().sum::<u64>(), 1);
    }
}
