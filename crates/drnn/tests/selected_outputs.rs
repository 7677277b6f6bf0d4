//! Selected outputs and their gradients have the bits of a batch without a selection in which the
//! other outputs have zero gradients.

#[path = "common/random.rs"]
mod random;

use drnn::random::Rng;
use drnn::{Cell, Cpu, InstructionSet, NetSpec, Padding, Plan, StartState, States};
use random::{Found, Sample, train};

/// Two forms of one training pass: all outputs, most with zero gradients, and the others selected. The
/// selection is empty, a few, many or all.
fn two_forms(mut all: Sample, rng: &mut Rng) -> (Sample, Sample) {
    let (m, often) = (all.spec.output_width(), [0, 1, 3, 4][rng.below(4)]);
    let mut slots: Vec<u32> =
        (0..all.rows).flat_map(|row| all.answer_slots(row)).map(|slot| slot as u32).collect();
    slots.retain(|_| rng.below(4) < often);
    slots.sort_unstable();
    let of = |values: &[f32], slot: u32| values[slot as usize * m..][..m].to_vec();
    let d_selected = slots.iter().flat_map(|&slot| of(&all.d_outputs, slot)).collect();
    for (slot, d) in all.d_outputs.chunks_exact_mut(m).enumerate() {
        if slots.binary_search(&(slot as u32)).is_err() {
            d.fill(0.0);
        }
    }
    let some = Sample { selected: Some(slots), d_outputs: d_selected, ..all.clone() };
    (all, some)
}

/// The results of a pass over all outputs, reduced to those that `some` selects.
fn only(some: &Sample, mut found: Found) -> Found {
    let m = some.spec.output_width();
    let slots = some.selected.iter().flatten();
    let selected = slots.flat_map(|&slot| &found.outputs[slot as usize * m..][..m]);
    found.outputs = selected.copied().collect();
    found
}

/// So that -0 is not 0.
fn bits(found: &Found) -> Vec<u32> {
    let Found { outputs, last, d_params, d_input, d_start } = found;
    let arrays = [outputs, &last.h, &last.c, d_params, d_input, &d_start.h, &d_start.c];
    arrays.iter().flat_map(|values| values.iter().map(|x| x.to_bits())).collect()
}

fn check(cpu: &Cpu, sample: Sample, rng: &mut Rng) {
    let (all, some) = two_forms(sample, rng);
    let expected = only(&some, train(cpu, &[&all]).remove(0));
    let found = train(cpu, &[&some]).remove(0);
    assert_eq!(bits(&found), bits(&expected), "{}", some.spec);
    let run = some.model(cpu).run(&some.batch(), Some(&some.start)).unwrap();
    assert_eq!((&run.values, &run.last), (&found.outputs, &found.last), "{}", some.spec);
    let selected = some.selected.iter().flatten().count();
    assert_eq!(run.shape(), [selected, 1, some.spec.output_width()]);
}

#[test]
fn of_random_networks() {
    let isas = InstructionSet::available();
    for seed in 0..300 {
        let cpu =
            Cpu::with_instruction_set(isas[seed as usize % isas.len()], 1 + seed as usize / 7 % 3)
                .unwrap();
        check(&cpu, Sample::new(11_000 + seed), &mut Rng::new(seed));
    }
}

#[test]
fn of_stacks_in_waves() {
    for seed in 0..30 {
        let mut rng = Rng::new(12_000 + seed);
        let units: Vec<usize> = (0..2 + rng.below(4)).map(|_| 1 + rng.below(30)).collect();
        let builder =
            NetSpec::builder(Cell::ALL[seed as usize % Cell::ALL.len()]).units(units).outputs(2);
        let spec = builder.dense(3).delay(rng.below(3), Padding::LookAhead).build().unwrap();
        let sample = Sample::of(spec, 1 + rng.below(90), 1 + rng.below(7), &mut rng);
        check(&Cpu::new(3).plan(Plan::Wavefront), sample, &mut rng);
    }
}

#[test]
fn of_wide_networks_that_share_columns() {
    let mut rng = Rng::new(13);
    for cell in [Cell::Lstm, Cell::Gru] {
        for tokens in [false, true] {
            let builder = NetSpec::builder(cell).units([170, 165]).outputs(7);
            let builder = if tokens { builder.tokens(9, 4) } else { builder.dense(3) };
            let sample = Sample::of(builder.build().unwrap(), 40, 2, &mut rng);
            check(&Cpu::new(3), sample, &mut rng);
        }
    }
}

#[test]
fn of_batches_that_cross_blocks() {
    // More packed rows than a block of the output layer's gradient.
    let mut rng = Rng::new(14);
    for both in [false, true] {
        let builder = NetSpec::builder(Cell::Gru).dense(2).units([5]).outputs(6);
        let builder = if both { builder.bidirectional() } else { builder.delay(3, Padding::Null) };
        for _ in 0..4 {
            let sample = Sample::of(builder.clone().build().unwrap(), 60, 25, &mut rng);
            check(&Cpu::new(2), sample, &mut rng);
        }
    }
}

#[test]
fn of_lanes_each_its_own() {
    for seed in 0..30 {
        let mut rng = Rng::new(15_000 + seed);
        let spec = random::spec(&mut rng, false);
        let (mut lanes, mut expected) = (Vec::new(), Vec::new());
        for lane in 0..5 {
            let (steps, rows) = (rng.below(8), 1 + rng.below(9));
            let (all, some) = two_forms(Sample::of(spec.clone(), steps, rows, &mut rng), &mut rng);
            let found = train(&Cpu::new(1), &[&all]).remove(0);
            // One lane in five has no selection.
            expected.push(if lane == 2 { found } else { only(&some, found) });
            lanes.push(if lane == 2 { all } else { some });
        }
        for count in [5, 4] {
            let lanes: Vec<&Sample> = lanes[..count].iter().collect();
            assert_eq!(train(&Cpu::new(2), &lanes), expected[..count], "{spec}");
        }
    }
}

#[test]
fn of_a_tape_that_had_another_selection_before() {
    let mut rng = Rng::new(16);
    let spec = NetSpec::builder(Cell::Lstm).tokens(7, 3).units([9]).outputs(5);
    let spec = spec.delay(2, Padding::LookAhead).build().unwrap();
    let cpu = Cpu::new(2);
    let mut tape = drnn::Tape::on(&cpu, &spec);
    for _ in 0..10 {
        let (all, some) = two_forms(Sample::of(spec.clone(), 9, 8, &mut rng), &mut rng);
        for sample in [&all, &some] {
            let fresh = train(&cpu, &[sample]).remove(0);
            let lanes = [sample.lane()];
            let pass = tape.forward(&lanes).unwrap();
            assert_eq!(pass.outputs(0), fresh.outputs);
            let mut params = vec![f32::NAN; spec.parameters()];
            let mut start = States::zeros(&spec, sample.rows);
            pass.backward(&mut [drnn::Gradient {
                outputs: &sample.d_outputs,
                last: Some(&sample.d_last),
                params: &mut params,
                input: None,
                start: Some(&mut start),
            }])
            .unwrap();
            assert_eq!((params, start), (fresh.d_params, fresh.d_start));
        }
    }
}

#[test]
fn of_a_flattened_stack_with_a_solved_start() {
    let mut rng = Rng::new(17);
    for _ in 0..10 {
        let spec = NetSpec::builder(Cell::RnnTanh).dense(3).units([4, 4]).outputs(6);
        let sample = Sample::of(spec.delay(1, Padding::Null).build().unwrap(), 7, 5, &mut rng);
        let (all, some) = two_forms(sample, &mut rng);
        let model = all.model(&Cpu::new(2)).flatten(StartState::Solved).unwrap();
        let expected = model.run(&all.batch(), None).unwrap();
        let found = model.run(&some.batch(), None).unwrap();
        let slots = some.selected.iter().flatten().map(|&slot| slot as usize);
        let selected: Vec<&[f32]> = slots.map(|slot| expected.at(slot / 5, slot % 5)).collect();
        assert_eq!((found.values, found.last), (selected.concat(), expected.last));
    }
}
