//! How often classes are taken for others, of any number of classes: only what happened takes
//! memory.

use std::collections::HashMap;

/// Counts by true class and answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Confusion {
    counts: HashMap<(u32, u32), u64>,
    truths: Vec<u64>,
    answers: Vec<u64>,
}

/// Some classes, and how often each (row) was taken for another (column).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Square {
    /// The classes, in their order.
    pub classes: Vec<usize>,
    /// Other classes, which share the last row and the last column; 0 where there are none.
    pub others: usize,
    /// Row by row.
    pub counts: Vec<Vec<u64>>,
}

impl Confusion {
    /// Of so many classes; nothing is counted yet.
    pub fn new(classes: usize) -> Confusion {
        let (truths, answers) = (vec![0; classes], vec![0; classes]);
        Confusion { counts: HashMap::new(), truths, answers }
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.truths.len()
    }

    /// Counts `count` more of a class that were answered so. Counts of a results file may be any.
    ///
    /// # Panics
    /// If one of them is not below the number of classes.
    pub fn add(&mut self, truth: usize, answer: usize, count: u64) {
        self.truths[truth] = self.truths[truth].saturating_add(count);
        self.answers[answer] = self.answers[answer].saturating_add(count);
        let pair = self.counts.entry((truth as u32, answer as u32)).or_default();
        *pair = pair.saturating_add(count);
    }

    /// How many there are of a class.
    pub fn of_truth(&self, class: usize) -> u64 {
        self.truths[class]
    }

    /// How often a class was answered.
    pub fn of_answer(&self, class: usize) -> u64 {
        self.answers[class]
    }

    /// How many of a class were answered right.
    pub fn right(&self, class: usize) -> u64 {
        self.counts.get(&(class as u32, class as u32)).copied().unwrap_or(0)
    }

    /// The most frequent classes first: by how many there are, then by how often they were
    /// answered.
    pub fn by_frequency(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.classes()).collect();
        all.sort_by_key(|&class| std::cmp::Reverse((self.truths[class], self.answers[class])));
        all
    }

    /// All classes, or the most frequent of them and the others together: at most `max` rows.
    pub fn square(&self, max: usize) -> Square {
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
        for (&(truth, answer), &count) in &self.counts {
            let sum: &mut u64 = &mut counts[place[truth as usize]][place[answer as usize]];
            *sum = sum.saturating_add(count);
        }
        Square { classes, others, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_hold_all_that_was_counted() {
        let mut confusion = Confusion::new(4);
        for (truth, answer, count) in [(0, 0, 2), (2, 2, 5), (2, 3, 1), (3, 0, 3), (1, 1, 1)] {
            confusion.add(truth, answer, count);
        }
        assert_eq!([0, 1, 2, 3].map(|i| confusion.of_truth(i)), [2, 1, 6, 3]);
        assert_eq!([0, 1, 2, 3].map(|i| confusion.of_answer(i)), [5, 1, 5, 1]);
        assert_eq!([0, 1, 2, 3].map(|i| confusion.right(i)), [2, 1, 5, 0]);
        let all = confusion.square(4);
        assert_eq!((all.classes, all.others), (vec![0, 1, 2, 3], 0));
        assert_eq!(all.counts[2], [0, 0, 5, 1]);
        let some = confusion.square(3);
        assert_eq!((some.classes, some.others), (vec![2, 3], 2));
        assert_eq!(some.counts, [[5, 1, 0], [0, 0, 3], [0, 0, 3]]);
        assert_eq!(Confusion::new(0).square(3).counts.len(), 0);
        // A dense square of these would take 80 GB.
        let mut many = Confusion::new(100_000);
        many.add(99_999, 7, 1);
        assert_eq!(many.square(60).counts.iter().flatten().sum::<u64>(), 1);
    }
}
