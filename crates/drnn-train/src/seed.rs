//! Seeds that follow from other seeds.
//!
//! ```text
//! derive(s, [a, b, ..])    s <- first number of Rng(s), xor a; then the same with b, ..
//! of_repetition(s, i)      1000 s + i
//! of_part(s, i)               4 s + i
//! of_dropout(s)            derive(s, [0x64726f70])
//! of_training(s, i)        s for i = 0, else the upper half of derive(s, [0x74726169, i, 0])
//! ```
//!
//! Results name the seed they come from and must be reproducible, so none of these formulas may ever
//! change. [`derive`](derive()) mixes: seeds of different numbers, or of the same numbers in another order, have
//! nothing in common. The two sums are those of the first experiments: they keep apart the
//! repetitions (below 1,000) and the parts (below 4) of one seed, and seeds that are small. New code
//! takes [`derive`](derive()).

use drnn::random::Rng;

/// The seed that follows from `seed` and `numbers`, one after the other.
pub fn derive(seed: u64, numbers: &[u64]) -> u64 {
    numbers.iter().fold(seed, |seed, number| Rng::new(seed).bits() ^ number)
}

/// The seed of what epoch `epoch`, counted from 0, draws: the order of its sequences.
pub fn of_epoch(seed: u64, epoch: usize) -> u64 {
    derive(seed, &[epoch as u64])
}

/// The seed of repetition `repetition`, counted from 0, of an experiment: first parameters and orders.
pub fn of_repetition(seed: u64, repetition: usize) -> u64 {
    seed.wrapping_mul(1000).wrapping_add(repetition as u64)
}

/// The seed of a part of a synthetic data set: 1 for training, 2 for validation, 3 for the test.
pub fn of_part(seed: u64, part: u64) -> u64 {
    seed.wrapping_mul(4).wrapping_add(part)
}

/// The seed of a training's dropout; each step derives its own from it.
pub fn of_dropout(seed: u64) -> u64 {
    derive(seed, &[0x6472_6f70])
}

/// The seed of training `i`, counted from 0, of several that repeat a training with seed `seed`. The
/// first is that training; the others have seeds of 32 bits, which JSON holds exactly and people can
/// type.
pub fn of_training(seed: u64, i: usize) -> u64 {
    if i == 0 { seed } else { derive(seed, &[0x7472_6169, i as u64, 0]) >> 32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_seeds_depend_on_every_number_and_its_place() {
        let seeds = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [1, 2, 4], [0, 0, 0]];
        let mut found: Vec<u64> = seeds.iter().map(|numbers| derive(7, numbers)).collect();
        found.push(derive(8, &seeds[0]));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn formulas_never_change() {
        assert_eq!(derive(1, &[]), 1);
        assert_eq!(derive(0, &[5]), 0xE220_A839_7B1D_CDAF ^ 5);
        assert_eq!(of_epoch(0, 5), 0xE220_A839_7B1D_CDAF ^ 5);
        assert_eq!(
            [of_repetition(3, 2), of_repetition(u64::MAX, 0)],
            [3002, 1000u64.wrapping_neg()]
        );
        assert_eq!(of_dropout(0), 0xE220_A839_7B1D_CDAF ^ 0x6472_6f70);
        assert_eq!(of_training(7, 0), 7);
        assert_eq!(of_training(0, 2), derive(0xE220_A839_7B1D_CDAF ^ 0x7472_6169, &[2, 0]) >> 32);
        assert_eq!([of_part(3, 2), of_part(u64::MAX, 1)], [14, 3u64.wrapping_neg()]);
    }
}
