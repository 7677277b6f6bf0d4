//! Training passes with dropout: equal to the oracle with the same factors, on any number of threads.

#[path = "common/random.rs"]
mod random;

use drnn::random::Rng;
use drnn::reference;
use drnn::{Cell, Cpu, Dropout, InputSpec, InstructionSet, NetSpec, Padding, Plan, Tape};
use random::{Found, Sample, close, train, train_with};

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

/// A network without blocks, and data.
fn sample(seed: u64) -> Sample {
    let mut rng = Rng::new(seed);
    loop {
        let spec = random::spec(&mut rng, false);
        if spec.blocks().is_none() {
            let (steps, rows) = (1 + rng.below(7), 1 + rng.below(9));
            return Sample::of(spec, steps, rows, &mut rng);
        }
    }
}

fn dropped(cpu: &Cpu, s: &Sample, dropout: Dropout) -> Found {
    train_with(cpu, &[s], Some(&[dropout])).remove(0)
}

#[test]
fn passes_equal_the_oracle_with_the_same_factors() {
    for seed in 0..24 {
        let s = sample(seed);
        let isas = InstructionSet::available();
        let isa = isas[seed as usize % isas.len()];
        let cpu = Cpu::with_instruction_set(isa, 1 + seed as usize % 3).unwrap();
        let dropout = Dropout::new(0.1 + 0.2 * (seed % 4) as f32, seed).unwrap();
        let between = seed % 3 == 0;
        let dropout = if between { dropout.between_layers() } else { dropout };
        let found = dropped(&cpu, &s, dropout);
        let params = wide(&s.params);
        let mut d_params = vec![0.0; params.len()];
        for row in 0..s.rows {
            let (sequence, start) = (s.sequence(row), s.row_state(&s.start, row));
            let factors = |place: (usize, usize), step: usize, units: usize| match between
                && place.0 + 1 == s.spec.layers()
            {
                true => vec![1.0; units],
                false => dropout.factors(place, (step, row, s.rows), units),
            };
            let (d_outputs, d_last) = (s.d_outputs(row), s.row_state(&s.d_last, row));
            let factors: Option<&reference::Factors> = Some(&factors);
            let run = reference::run_with_factors(&s.spec, &params, &sequence, &start, factors);
            let m = s.spec.output_width();
            for (slot, expected) in s.answer_slots(row).zip(&run.outputs) {
                close("outputs", wide(&found.outputs[slot * m..][..m]), expected, 1e-5);
            }
            let last = s.row_state(&found.last, row);
            for (f, e) in last.h.iter().zip(&run.last.h).chain(last.c.iter().zip(&run.last.c)) {
                close("last", f.iter().copied(), e, 1e-5);
            }
            let upstream = (d_outputs.as_slice(), &d_last);
            let oracle = reference::gradient_with_factors(
                &s.spec, &params, &sequence, &start, upstream, factors,
            );
            d_params.iter_mut().zip(&oracle.params).for_each(|(a, b)| *a += b);
            let d_start = s.row_state(&found.d_start, row);
            let pairs = d_start.h.iter().zip(&oracle.start.h);
            for (f, e) in pairs.chain(d_start.c.iter().zip(&oracle.start.c)) {
                close("d_start", f.iter().copied(), e, 1e-5);
            }
            if let InputSpec::Dense(q) = s.spec.input() {
                for (t, expected) in oracle.input.iter().enumerate() {
                    let slot = (t * s.rows + row) * q;
                    close("d_input", wide(&found.d_input[slot..][..q]), expected, 1e-5);
                }
            }
        }
        close(&format!("{} d_params", s.spec), wide(&found.d_params), &d_params, 1e-5);
    }
}

#[test]
fn threads_plans_and_lanes_do_not_change_a_bit() {
    for isa in InstructionSet::available() {
        for seed in 0..20 {
            let s = sample(500 + seed);
            let dropout = Dropout::new(0.4, seed).unwrap();
            let alone = dropped(&Cpu::with_instruction_set(isa, 1).unwrap(), &s, dropout);
            for threads in [2, 3, 5] {
                for plan in [Plan::Auto, Plan::Wavefront] {
                    let cpu = Cpu::with_instruction_set(isa, threads).unwrap().plan(plan);
                    assert_eq!(alone, dropped(&cpu, &s, dropout), "{} on {threads}", s.spec);
                }
            }
            let others = [Dropout::new(0.4, seed + 1).unwrap(), dropout];
            let lanes = train_with(&Cpu::new(2), &[&s, &s], Some(&others));
            assert_eq!(lanes[1], dropped(&Cpu::new(2), &s, dropout), "{}", s.spec);
        }
    }
}

/// Columns of a step shared among threads, several blocks of rows, and outputs that are selected.
#[test]
fn large_layers_and_selected_outputs() {
    let mut rng = Rng::new(5);
    let builder = NetSpec::builder(Cell::Lstm).dense(3).units([192, 160]).outputs(2);
    let spec = builder.delay(1, Padding::Null).build().unwrap();
    let mut s = Sample::of(spec, 150, 2, &mut rng);
    s.lengths = vec![150, 120];
    let m = s.spec.output_width();
    let slots: Vec<u32> = (0..240).step_by(7).collect();
    s.d_outputs = slots.iter().flat_map(|_| vec![rng.symmetric(1.0); m]).collect();
    s.selected = Some(slots);
    let dropout = Dropout::new(0.5, 9).unwrap();
    assert_eq!(dropped(&Cpu::new(1), &s, dropout), dropped(&Cpu::new(3), &s, dropout));
}

#[test]
fn without_a_rate_nothing_changes_and_a_tape_forgets_dropout() {
    let cpu = Cpu::new(2);
    for seed in 0..20 {
        let s = sample(900 + seed);
        let plain = train(&cpu, &[&s]).remove(0);
        assert_eq!(plain, dropped(&cpu, &s, Dropout::new(0.0, seed).unwrap()), "{}", s.spec);
        let mut tape = Tape::on(&cpu, &s.spec);
        let lanes = [s.lane()];
        let dropout = [Dropout::new(0.5, seed).unwrap()];
        let _ = tape.forward_with_dropout(&lanes, &dropout).unwrap();
        assert_eq!(tape.forward(&lanes).unwrap().outputs(0), plain.outputs, "{}", s.spec);
    }
}

#[test]
fn blocks_and_other_numbers_of_lanes_are_refused() {
    let mut rng = Rng::new(3);
    let spec = NetSpec::builder(Cell::Lstm).dense(2).blocks(drnn::Blocks::new([3, 3]));
    let s = Sample::of(spec.delay(1, Padding::Null).build().unwrap(), 4, 2, &mut rng);
    let dropout = Dropout::new(0.5, 1).unwrap();
    let mut tape = Tape::new(&s.spec).unwrap();
    let lanes = [s.lane()];
    let error = tape.forward_with_dropout(&lanes, &[dropout]).err().unwrap().to_string();
    assert!(error.contains("blocks"), "{error}");
    let error = tape.forward_with_dropout(&lanes, &[dropout; 2]).err().unwrap().to_string();
    assert!(error.contains("`dropout` has"), "{error}");
}
