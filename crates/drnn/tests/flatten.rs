//! A flattened stack is its stack: answers, states, gradients, streams, and unflattening.

#[path = "common/random.rs"]
mod random;

use drnn::flatten::{flat_params, flat_spec};
use drnn::random::Rng;
use drnn::reference::{self, RefState, Sequence};
use drnn::{
    Batch, Blocks, Cell, Connections, Cpu, Element, Error, InputSpec, InstructionSet, Lane, Model,
    NetSpec, Padding, Rows, StartState, States, Steps, Stream, Tape, compare,
};
use random::{Sample, close, train};

/// A stack of 1 to 5 layers with some of everything.
fn stack(rng: &mut Rng) -> NetSpec {
    let layers = 1 + rng.below(5);
    let units: Vec<usize> = (0..layers).map(|_| 1 + rng.below(21)).collect();
    let mut builder = NetSpec::builder(Cell::ALL[rng.below(4)]).units(units);
    let tokens = rng.below(2) == 0;
    builder = if tokens { builder.tokens(5, 3) } else { builder.dense(1 + rng.below(7)) };
    if rng.below(3) > 0 {
        builder = builder.outputs(1 + rng.below(19));
    }
    let padding = match rng.below(3) {
        0 if tokens => Padding::Symbol(2),
        1 => Padding::LookAhead,
        _ => Padding::Null,
    };
    builder.delay(rng.below(4), padding).build().unwrap()
}

/// The same data for the flattened form.
fn flattened(s: &Sample) -> Sample {
    let flat = Model::from_params(&s.spec, s.params.clone()).unwrap();
    let flat = flat.flatten(StartState::Held).unwrap();
    Sample { spec: flat.spec().clone(), params: flat.into_params(), ..s.clone() }
}

#[test]
fn a_flattened_stack_is_its_stack_to_the_bit() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let spec = stack(&mut rng);
        let s = Sample::of(spec, 1 + rng.below(12), 1 + rng.below(9), &mut rng);
        let isas = InstructionSet::available();
        let cpu =
            Cpu::with_instruction_set(isas[seed as usize % isas.len()], 1 + seed as usize % 3)
                .unwrap();
        let (stack, flat) = (s.model(&cpu), flattened(&s).model(&cpu));
        let difference = compare(&stack, &flat, &s.batch(), Some(&s.start)).unwrap();
        assert_eq!(difference.largest(), 0.0, "{}: {difference:?}", s.spec);
        let back = flat.unflatten(None).unwrap();
        assert_eq!((back.spec(), back.params()), (stack.spec(), stack.params()));
    }
}

#[test]
fn gradients_are_the_stacks_and_zero_elsewhere() {
    for seed in 0..60 {
        let mut rng = Rng::new(500 + seed);
        let spec = stack(&mut rng);
        let s = Sample::of(spec, 1 + rng.below(12), 1 + rng.below(9), &mut rng);
        let flat = flattened(&s);
        let cpu = Cpu::new(1 + seed as usize % 3);
        let (a, b) = (train(&cpu, &[&s]).remove(0), train(&cpu, &[&flat]).remove(0));
        assert_eq!((&a.outputs, &a.last), (&b.outputs, &b.last), "{}", s.spec);
        let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let expected = flat_params(&s.spec, &flat.spec, &a.d_params);
        close(&format!("{} d_params", s.spec), wide(&b.d_params), &wide(&expected), 1e-5);
        close("d_start.h", wide(&b.d_start.h), &wide(&a.d_start.h), 1e-5);
        close("d_start.c", wide(&b.d_start.c), &wide(&a.d_start.c), 1e-5);
        close("d_input", wide(&b.d_input), &wide(&a.d_input), 1e-5);
        let outside = (0..flat.params.len()).filter(|&i| flat.is_outside(i));
        assert!(outside.into_iter().all(|i| b.d_params[i] == 0.0));
    }
}

#[test]
fn the_theorem_holds_in_double_precision() {
    for seed in 0..40 {
        let mut rng = Rng::new(900 + seed);
        let spec = stack(&mut rng);
        let s = Sample::of(spec, 12, 2, &mut rng);
        let flat = flat_spec(&s.spec, StartState::Held).unwrap();
        let params: Vec<f64> = s.params.iter().map(|&p| p.into()).collect();
        let flat_params = flat_params(&s.spec, &flat, &params);
        for row in 0..s.rows {
            let (x, start) = (s.sequence(row), s.row_state(&s.start, row));
            let a = reference::run(&s.spec, &params, &x, &start);
            let b = reference::run(&flat, &flat_params, &x, &start);
            for (a, b) in a.outputs.iter().zip(&b.outputs) {
                close("outputs", b.iter().copied(), a, 1e-12);
            }
            let states = |r: &reference::RefRun<f64>| {
                let steps = r.steps.h.iter().chain(&r.steps.c).flatten().flatten();
                steps.chain(r.last.h.iter().chain(&r.last.c).flatten()).copied().collect::<Vec<_>>()
            };
            close("states", states(&b), &states(&a), 1e-12);
        }
    }
}

#[test]
fn a_flattened_stack_streams_as_its_stack_does_only_later() {
    for seed in 0..40 {
        let mut rng = Rng::new(1300 + seed);
        let s = Sample::of(stack(&mut rng), 9, 1, &mut rng);
        let models = [&s, &flattened(&s)].map(|s| s.model(&Cpu::new(1)));
        let [a, b] = models.each_ref().map(|model| {
            let mut stream = Stream::new(model).unwrap();
            let mut outputs = Vec::new();
            for t in 0..s.steps {
                let element = match s.spec.input() {
                    InputSpec::Dense(q) => Element::Dense(&s.x[t * q..][..q]),
                    InputSpec::Tokens { .. } => Element::Token(s.tokens[t]),
                };
                outputs.extend(stream.push(element).unwrap().map(<[f32]>::to_vec));
            }
            outputs.extend(stream.finish());
            outputs
        });
        assert_eq!(a, b, "{}", s.spec);
    }
}

fn spec(cell: Cell, units: &[usize]) -> NetSpec {
    NetSpec::builder(cell).dense(2).units(units).outputs(3).build().unwrap()
}

#[test]
fn what_cannot_be_converted_is_refused_with_the_reason() {
    let both = NetSpec::builder(Cell::Lstm).dense(2).units([3, 3]).bidirectional().build().unwrap();
    let error = Model::init(&both, 1).unwrap().flatten(StartState::Held).unwrap_err().to_string();
    assert!(error.contains("reads the sequence's end before it answers its beginning"), "{error}");

    let flat =
        Model::init(&spec(Cell::Lstm, &[4, 3, 2]), 1).unwrap().flatten(StartState::Held).unwrap();
    assert!(flat.flatten(StartState::Held).unwrap_err().to_string().contains("one layer already"));
    // Weights outside: the block is named, whether its widths are given or stated.
    let lower = flat.relax(Connections::Lower).unwrap();
    let mut params = lower.params().to_vec();
    let w_hh = lower.layout().find("weight_hh_l0").unwrap().range.start;
    params[w_hh + (9 + 8) * 9 + 1] = 0.25; // forget gate of unit 8 (block 2), from unit 1 (block 0)
    let full = Model::from_params(lower.spec(), params.clone()).unwrap();
    let error = full.unflatten(None).unwrap_err().to_string();
    let wanted = "`weight_hh_l0`: block (2, 0), from block 0 to block 2, holds 0.25, but `stacked`";
    assert!(error.contains(wanted), "{error}");
    let error = Model::from_params(flat.spec(), params).unwrap_err().to_string();
    assert!(error.contains(wanted), "{error}");
    // Blocks that begin one after another are layers of their own widths: joined they would begin too early.
    let error = flat.unflatten(Some(&[4, 5])).unwrap_err().to_string();
    assert!(error.contains("[4, 5] units, but blocks of [4, 3, 2] begin one after"), "{error}");

    // One plain layer: no blocks to be seen; a plain GRU never is a stack.
    let plain = |cell| {
        Model::init(&NetSpec::builder(cell).dense(2).units([6]).build().unwrap(), 1).unwrap()
    };
    let projected = NetSpec::builder(Cell::Lstm).dense(2).units([5, 4]).projection(3);
    let projected = Model::init(&projected.build().unwrap(), 1).unwrap();
    for refused in [projected.flatten(StartState::Held), projected.unflatten(None)] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("projected to 3") || error.contains("not one forward"), "{error}");
    }
    let late = projected.delayed(2, Padding::Null).unwrap();
    assert_eq!((late.spec().delay(), late.spec().projection()), (2, Some(3)));
    let error = plain(Cell::Lstm).unflatten(None).unwrap_err().to_string();
    assert!(error.contains("no blocks are to be seen"), "{error}");
    let error = plain(Cell::Gru).unflatten(None).unwrap_err().to_string();
    assert!(error.contains("no stack of GRUs"), "{error}");
}

#[test]
fn blocks_are_found_in_a_plain_layer() {
    let stack = Model::init(&spec(Cell::Lstm, &[4, 3, 2]), 1).unwrap();
    let flat = stack.flatten(StartState::Held).unwrap();
    let plain = |delay: usize| {
        let spec = NetSpec::builder(Cell::Lstm).dense(2).units([9]).outputs(3);
        let spec = spec.delay(delay, Padding::Null).build().unwrap();
        Model::from_params(&spec, flat.params().to_vec()).unwrap()
    };
    let error = plain(2).unflatten(Some(&[5, 4])).map(|m| m.spec().clone());
    assert!(matches!(error, Err(Error::Outside { .. })), "{error:?}");
    let error = plain(2).unflatten(Some(&[5, 5])).unwrap_err().to_string();
    assert!(error.contains("[5, 5] units for a layer of 9"), "{error}");
    let back = plain(2).unflatten(None).unwrap();
    assert_eq!((back.spec(), back.params()), (stack.spec(), stack.params()));
    assert_eq!(plain(5).unflatten(Some(&[4, 3, 2])).unwrap().spec().delay(), 3);
    let error = plain(1).unflatten(None).unwrap_err().to_string();
    assert!(error.contains("would be read 2 steps late"), "{error}");
}

#[test]
fn a_relaxed_stack_begins_as_it_was_and_learns_new_connections() {
    for cell in Cell::ALL {
        let stack = Model::init(&spec(cell, &[4, 3, 2]), 1).unwrap();
        let flat = stack.flatten(StartState::Held).unwrap();
        for connections in [Connections::Lower, Connections::Upper, Connections::All] {
            let relaxed = flat.relax(connections).unwrap();
            let x: Vec<f32> = (0..14).map(|i| (i as f32).sin()).collect();
            let batch = Batch::dense(&x, Steps(7), Rows(1));
            let difference = compare(&stack, &relaxed, &batch, None).unwrap();
            assert!(difference.largest() < 1e-6, "{difference:?}");
            assert!(relaxed.spec().free_parameters() > flat.spec().free_parameters());

            let lanes = [Lane { params: relaxed.params().into(), batch, start: None }];
            let mut tape = Tape::new(relaxed.spec()).unwrap();
            let pass = tape.forward(&lanes).unwrap();
            let ones = vec![1.0; pass.outputs(0).len()];
            let mut gradient = vec![0.0; relaxed.params().len()];
            let params = gradient.as_mut_slice();
            let up =
                drnn::Gradient { outputs: &ones, last: None, params, input: None, start: None };
            pass.backward(&mut [up]).unwrap();
            let zero = relaxed.params().iter().zip(&gradient);
            assert!(
                zero.filter(|(p, _)| **p == 0.0).any(|(_, g)| *g != 0.0),
                "nothing new is learned"
            );
        }
    }
}

#[test]
fn solved_starts_lead_to_the_stacks_states() {
    for (cell, seeds) in [(Cell::RnnTanh, 0..20), (Cell::Lstm, 0..20)] {
        for seed in seeds {
            let mut rng = Rng::new(seed);
            let spec = spec(cell, &[1 + rng.below(9), 1 + rng.below(9)]);
            let stack = Model::init(&spec, seed).unwrap();
            let Ok(flat) = stack.flatten(StartState::Solved) else {
                panic!("{spec}: zeros can be reached");
            };
            // A state that the network was really in.
            let x: Vec<f32> = (0..20).map(|_| rng.symmetric(1.0)).collect();
            let start = stack.run(&Batch::dense(&x, Steps(5), Rows(2)), None).unwrap().last;
            for start in [None, Some(&start)] {
                let difference =
                    compare(&stack, &flat, &Batch::dense(&x, Steps(5), Rows(2)), start);
                let difference = difference.unwrap();
                assert!(difference.largest() <= 1e-5, "{spec} {difference:?}");
            }
            let mut stream = Stream::new(&flat).unwrap();
            let mut outputs: Vec<f32> = Vec::new();
            for x in x.chunks_exact(2) {
                outputs.extend(stream.push(x).unwrap().unwrap_or(&[]));
            }
            outputs.extend(stream.finish().concat());
            assert_eq!(
                outputs,
                flat.run(&Batch::dense(&x, Steps(10), Rows(1)), None).unwrap().values
            );
        }
    }
    let blocks = Blocks::new([2, 2]).start(StartState::Solved);
    let gru = NetSpec::builder(Cell::Gru).dense(1).blocks(blocks).delay(1, Padding::Null).build();
    assert!(gru.unwrap_err().to_string().contains("cannot be inverted in closed form"));
}

#[test]
fn a_sequence_that_does_not_run_keeps_its_state_and_needs_no_solution() {
    let stack = Model::init(&spec(Cell::RnnTanh, &[3, 3]), 1).unwrap();
    let flat = stack.flatten(StartState::Solved).unwrap();
    let x = vec![0.5; 4 * 2 * 2];
    let batch = Batch::dense(&x, Steps(4), Rows(2)).lengths(&[4, 0]);
    // 1.5 is outside tanh's range: of a sequence of no elements that does not matter.
    let start =
        States { h: vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.2, 0.3, 1.5, 1.5, 1.5], c: vec![] };
    let difference = compare(&stack, &flat, &batch, Some(&start)).unwrap();
    assert!(difference.largest() <= 1e-5, "{difference:?}");
    let batch = Batch::dense(&x, Steps(4), Rows(2)).lengths(&[4, 1]);
    let error = flat.run(&batch, Some(&start)).unwrap_err();
    assert!(matches!(error, Error::Unsolvable { row: 1, block: 1, .. }), "{error}");
}

#[test]
fn a_layer_that_runs_away_does_not_reach_answers_that_do_not_read_it() {
    // relu: layer 0 grows past all bounds, layer 1 reads a tiny part of it.
    let stack = NetSpec::builder(Cell::RnnRelu).dense(1).units([1, 1]).outputs(1).build().unwrap();
    let params = vec![1.0, 1e10, 0.0, 0.0, 1e-20, 0.0, 0.0, 0.0, 1.0, 0.0];
    let stack = Model::from_params(&stack, params).unwrap();
    let flat = stack.flatten(StartState::Held).unwrap();
    let batch = Batch::dense(&[1.0; 5], Steps(5), Rows(1));
    let [a, b] = [&stack, &flat].map(|model| model.run(&batch, None).unwrap().values);
    assert_eq!(a, b);
    assert_eq!(a.last(), Some(&f32::INFINITY));
}

#[test]
fn a_solved_start_says_where_it_does_not_exist() {
    // From the third layer on a state in between must be in range: three units of tanh, hard driven.
    let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([1, 1, 1]).build().unwrap();
    let params = vec![1.0, 0.5, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 1.0, 0.1, 0.0, 0.0];
    let flat = Model::from_params(&spec, params).unwrap().flatten(StartState::Solved).unwrap();
    let start = States { h: vec![0.0, 0.0, 0.5], c: vec![] };
    match drnn::solve_start(&flat, &start, 1) {
        Err(Error::Unsolvable { row: 0, block: 2, step: 1, reason }) => {
            assert!(reason.contains("outside (-1, 1) by 4.49"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let error = Tape::new(flat.spec()).unwrap().forward(&[]).err().unwrap().to_string();
    assert!(error.contains("a solved start has no gradient"), "{error}");
}

#[test]
fn the_reference_itself_holds_blocks() {
    // Two units, each adding what it reads: block 1 begins one step late, from its own start.
    let spec = NetSpec::builder(Cell::RnnRelu).dense(1).units([1, 1]).build().unwrap();
    let flat = flat_spec(&spec, StartState::Held).unwrap();
    let params = flat_params(&spec, &flat, &[1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    let x = Sequence::Dense(vec![vec![1.0], vec![2.0]]);
    let start = RefState { h: vec![vec![10.0], vec![100.0]], c: vec![] };
    let run = reference::run(&flat, &params, &x, &start);
    assert_eq!(run.steps.h, [[[11.0], [13.0]], [[111.0], [124.0]]]);
    assert_eq!(
        (run.outputs, run.last.h),
        (vec![vec![111.0], vec![124.0]], vec![vec![13.0], vec![124.0]])
    );
}
