//! Masked characters by how frequent they are in the training part: alone, and after the character
//! before.

use super::Baseline;
use crate::chars::Masked;
use crate::data::{Dataset, Gathered, Inputs, TargetData};

/// The largest alphabet of which pairs are counted: a table of 4 million.
const MAX_PAIRS: usize = 2000;
/// Windows at a time.
const ROWS: u32 = 64;
/// Characters that the estimate for a single character counts as, when pairs are estimated.
const BACK_OFF: f64 = 5.0;

/// Counts of characters, and of characters after others.
struct Counts {
    single: Vec<u64>,
    total: u64,
    /// (before, character), empty where there would be too many.
    pairs: Vec<u32>,
    /// Pairs that begin with a character.
    begins: Vec<u64>,
}

impl Counts {
    fn new(train: &Masked) -> Counts {
        let symbols = train.symbols();
        let pairs = if symbols <= MAX_PAIRS { symbols * symbols } else { 0 };
        let (single, begins) = (vec![0; symbols], vec![0; symbols]);
        let mut counts = Counts { single, total: 0, pairs: vec![0; pairs], begins };
        let mut before = None;
        train.each_symbol(|symbol| {
            let symbol = Some(symbol as usize).filter(|symbol| *symbol < symbols);
            if let Some(symbol) = symbol {
                counts.single[symbol] += 1;
                counts.total += 1;
                if let (Some(before), false) = (before, counts.pairs.is_empty()) {
                    let pair: &mut u32 = &mut counts.pairs[before * symbols + symbol];
                    *pair = pair.saturating_add(1);
                    counts.begins[before] += 1;
                }
            }
            before = symbol;
        });
        counts
    }

    /// The probability of a character: one is added to every count.
    fn single(&self, symbol: usize) -> f64 {
        (self.single[symbol] + 1) as f64 / (self.total + self.single.len() as u64) as f64
    }

    /// Its probability after another, or alone where that is masked or unknown.
    fn after(&self, before: Option<usize>, symbol: usize) -> f64 {
        let single = self.single(symbol);
        let Some(before) = before.filter(|before| *before < self.single.len()) else {
            return single;
        };
        let pair = f64::from(self.pairs[before * self.single.len() + symbol]);
        (pair + BACK_OFF * single) / (self.begins[before] as f64 + BACK_OFF)
    }
}

/// Bits per masked character of the frequencies in the training part, on the masks of the others.
pub fn character_baselines(train: &Masked, valid: &Masked, test: Option<&Masked>) -> Vec<Baseline> {
    let counts = Counts::new(train);
    let (valid, test) = (bits(&counts, valid), test.map(|test| bits(&counts, test)));
    let baseline = |at: usize, name: &str, what: &str| Baseline {
        name: name.into(),
        what: what.into(),
        valid: valid[at],
        test: test.as_ref().and_then(|test| test[at]),
    };
    let mut all = vec![baseline(0, "unigram", "frequency of the character")];
    if !counts.pairs.is_empty() {
        all.push(baseline(1, "bigram", "frequency of the character after the one before"));
    }
    all
}

/// Mean bits by single characters and by pairs, over the masks of the first epoch, on which networks
/// are scored.
fn bits(counts: &Counts, data: &Masked) -> [Option<f64>; 2] {
    let (mut sums, mut count) = ([0.0; 2], 0u64);
    let mut gathered = Gathered::default();
    let all: Vec<u32> = (0..data.len() as u32).collect();
    for chosen in all.chunks(ROWS as usize) {
        gathered.look_ahead = 0;
        data.gather(0, chosen, &mut gathered);
        let (Inputs::Tokens(tokens), TargetData::Classes(truth), Some(selected)) =
            (&gathered.inputs, &gathered.targets, &gathered.selected)
        else {
            continue;
        };
        for (&slot, &symbol) in selected.iter().zip(truth) {
            let before = (slot as usize).checked_sub(gathered.rows);
            let before = before.map(|before| tokens[before] as usize);
            sums[0] -= counts.single(symbol as usize).log2();
            if !counts.pairs.is_empty() {
                sums[1] -= counts.after(before, symbol as usize).log2();
            }
            count += 1;
        }
    }
    sums.map(|sum| (count > 0).then(|| sum / count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chars::Masking;
    use crate::read::Symbols;
    use std::sync::Arc;

    /// In a text of "ab" repeated, the character before says all; characters alone say one bit.
    #[test]
    fn entropies_of_a_text_that_alternates() {
        let text = "ab".repeat(3000);
        let source = crate::read::Source::from_bytes("t", text.into_bytes()).unwrap();
        let alphabet = drnn_tasks::chars::Alphabet::new(vec!['a', 'b']).unwrap();
        let text = Arc::new(Symbols::read(source, &alphabet).unwrap());
        let masking = Masking { window: 50, share: 0.1, mask: 2, seed: 1 };
        let part = |range| Masked::new("t", text.clone(), range, masking).unwrap();
        let found = character_baselines(&part(0..4000), &part(4000..5000), Some(&part(5000..6000)));
        assert_eq!(found.len(), 2);
        let (unigram, bigram) = (found[0].valid.unwrap(), found[1].valid.unwrap());
        assert!((unigram - 1.0).abs() < 1e-3, "{unigram}");
        // Only where the character before is masked, or there is none, is it uncertain.
        assert!(bigram < 0.25 && bigram > 0.0, "{bigram}");
        assert!((found[0].test.unwrap() - 1.0).abs() < 1e-3);
    }
}
