//! What must hold for every network: checked on random ones.

#[path = "common/random.rs"]
mod random;

use drnn::random::Rng;
use drnn::reference::{self, RefState};
use drnn::{
    Batch, Cell, Cpu, InputSpec, InstructionSet, Model, NetSpec, Padding, Plan, Rows, States,
    Steps, Stream,
};
use random::{Found, Sample, close, element, train};

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

#[test]
fn runs_and_gradients_equal_the_oracle() {
    for seed in 0..120 {
        let s = Sample::new(seed);
        let isas = InstructionSet::available();
        let cpu =
            Cpu::with_instruction_set(isas[seed as usize % isas.len()], 1 + seed as usize % 3)
                .unwrap();
        let found = train(&cpu, &[&s]).remove(0);
        let run = s.model(&cpu).run(&s.batch(), Some(&s.start)).unwrap();
        assert_eq!((&run.values, &run.last), (&found.outputs, &found.last), "{}", s.spec);

        let params = wide(&s.params);
        let mut d_params = vec![0.0; params.len()];
        for row in 0..s.rows {
            let (sequence, start) = (s.sequence(row), s.row_state(&s.start, row));
            let oracle = reference::run(&s.spec, &params, &sequence, &start);
            let m = s.spec.output_width();
            for (slot, expected) in s.answer_slots(row).zip(&oracle.outputs) {
                close(
                    &format!("{} answers", s.spec),
                    wide(&found.outputs[slot * m..][..m]),
                    expected,
                    1e-5,
                );
            }
            check_states(&s, "last", &found.last, row, &oracle.last);
            let d_last = s.row_state(&s.d_last, row);
            let oracle = reference::gradient(
                &s.spec,
                &params,
                &sequence,
                &start,
                &s.d_outputs(row),
                &d_last,
            );
            d_params.iter_mut().zip(&oracle.params).for_each(|(a, b)| *a += b);
            check_states(&s, "d_start", &found.d_start, row, &oracle.start);
            if let InputSpec::Dense(q) = s.spec.input() {
                for t in 0..s.steps {
                    let slot = (t * s.rows + row) * q;
                    let zeros = vec![0.0; q];
                    let expected = oracle.input.get(t).unwrap_or(&zeros);
                    close("d_input", wide(&found.d_input[slot..][..q]), expected, 1e-5);
                }
            }
        }
        s.without_outside(&mut d_params);
        close(&format!("{} d_params", s.spec), wide(&found.d_params), &d_params, 1e-5);
    }
}

fn check_states(s: &Sample, what: &str, found: &States, row: usize, expected: &RefState<f64>) {
    let found = s.row_state(found, row);
    for (f, e) in found.h.iter().zip(&expected.h).chain(found.c.iter().zip(&expected.c)) {
        close(&format!("{} {what}", s.spec), f.iter().copied(), e, 1e-5);
    }
}

#[test]
fn gradients_equal_finite_differences() {
    for seed in 0..60 {
        // Without relu, whose kinks a difference may straddle.
        let s = Sample::new(1000 + seed);
        if s.spec.cell() == Cell::RnnRelu {
            continue;
        }
        let found = train(&Cpu::new(2), &[&s]).remove(0);
        let params = wide(&s.params);
        let mut rng = Rng::new(seed);
        let (mut analytic, mut numeric) = (Vec::new(), Vec::new());
        for _ in 0..12 {
            let i = rng.below(params.len());
            if s.is_outside(i) {
                assert_eq!(found.d_params[i], 0.0, "{}", s.spec);
                continue;
            }
            let at = |delta: f64| {
                let mut moved = params.clone();
                moved[i] += delta;
                s.loss(&moved)
            };
            let h = 1e-5;
            numeric.push((at(h) - at(-h)) / (2.0 * h));
            analytic.push(f64::from(found.d_params[i]));
        }
        let scale = numeric.iter().fold(1e-3f64, |a, x| a.max(x.abs()));
        for (a, n) in analytic.iter().zip(&numeric) {
            assert!((a - n).abs() <= 1e-4 * scale, "{}: {a}, by differences {n}", s.spec);
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    for isa in InstructionSet::available() {
        for seed in 0..40 {
            let s = Sample::new(2000 + seed);
            let alone = train(&Cpu::with_instruction_set(isa, 1).unwrap(), &[&s]);
            for threads in [2, 3, 5] {
                let team = train(&Cpu::with_instruction_set(isa, threads).unwrap(), &[&s]);
                assert_eq!(alone, team, "{} on {threads} threads of {isa}", s.spec);
            }
        }
    }
}

#[test]
fn the_plan_of_a_stack_does_not_change_a_bit() {
    for seed in 0..40 {
        let mut rng = Rng::new(7000 + seed);
        let units: Vec<usize> = (0..2 + rng.below(5)).map(|_| 1 + rng.below(40)).collect();
        let builder = NetSpec::builder(Cell::ALL[seed as usize % Cell::ALL.len()]).units(units);
        let builder = if rng.below(2) == 0 { builder.dense(3) } else { builder.tokens(5, 3) };
        let spec = builder.delay(rng.below(3), Padding::Null).outputs(2).build().unwrap();
        let s = Sample::of(spec, 1 + rng.below(90), 1 + rng.below(7), &mut rng);
        let alone = train(&Cpu::new(1), &[&s]);
        let cpu = Cpu::new(2 + seed as usize % 3);
        for plan in [Plan::Wavefront, Plan::LayerByLayer, Plan::Auto] {
            let cpu = cpu.clone().plan(plan);
            assert_eq!(alone, train(&cpu, &[&s]), "{} {plan:?}", s.spec);
            let run = s.model(&cpu).run(&s.batch(), Some(&s.start)).unwrap();
            assert_eq!((&run.values, &run.last), (&alone[0].outputs, &alone[0].last));
        }
    }
}

#[test]
fn denormals_are_zero_on_every_path() {
    let mut rng = Rng::new(12);
    let spec = NetSpec::builder(Cell::RnnRelu).dense(3).units([20]).outputs(2).build().unwrap();
    let mut s = Sample::of(spec, 5, 9, &mut rng);
    s.lengths = vec![5; 9];
    s.start = States::zeros(&s.spec, 9);
    // Inputs times weights are just normal numbers, states times output weights are not.
    for tensor in drnn::params::Layout::new(&s.spec).tensors() {
        let scale = match tensor.name.as_str() {
            "weight_ih_l0" => 1e-18,
            "output.weight" => 1e-4,
            _ => 0.0,
        };
        s.params[tensor.range.clone()].iter_mut().for_each(|p| *p *= scale);
    }
    s.x.iter_mut().for_each(|x| *x *= 1e-18);
    let alone = train(&Cpu::new(1), &[&s]).remove(0);
    assert!(alone.last.h.iter().any(|&h| h != 0.0));
    assert!(alone.outputs.iter().all(|&y| y == 0.0), "1e-36 times 1e-5");
    assert_eq!(alone, train(&Cpu::new(3), &[&s]).remove(0));
    assert_eq!(vec![alone.clone(); 4], train(&Cpu::new(2), &[&s; 4]));
    for threads in [1, 3] {
        let model = s.model(&Cpu::new(threads));
        assert_eq!(model.run(&s.batch(), None).unwrap().values, alone.outputs);
        let mut stream = Stream::new(&model).unwrap();
        for t in 0..5 {
            let output = stream.push(element(&s, t, 4)).unwrap().unwrap();
            assert_eq!(output, &alone.outputs[(t * 9 + 4) * 2..][..2]);
        }
    }
}

#[test]
fn large_single_sequences_share_columns_among_threads() {
    // Wide and few: the case in which all threads share each step. Dense, tokens, GRU's odd group.
    let mut rng = Rng::new(5);
    for cell in Cell::ALL {
        for tokens in [false, true] {
            let builder = NetSpec::builder(cell).units([170, 165]).outputs(3);
            let builder = if tokens { builder.tokens(9, 4) } else { builder.dense(3) };
            let n = if cell.gates() == 1 { vec![330, 330] } else { vec![170, 165] };
            let spec = builder.units(n).build().unwrap();
            let s = Sample::of(spec, 150, 2, &mut rng);
            let alone = train(&Cpu::new(1), &[&s]);
            assert_eq!(alone, train(&Cpu::new(3), &[&s]), "{}", s.spec);
            let run = s.model(&Cpu::new(3)).run(&s.batch(), Some(&s.start)).unwrap();
            assert_eq!(run.values, alone[0].outputs, "{}", s.spec);
        }
    }
}

#[test]
fn batches_on_large_weights_share_columns_among_threads() {
    // Weights larger than a core's cache: more rows than a tile, of different lengths, share columns, with
    // x hoisted for a few steps and not at all.
    let mut rng = Rng::new(6);
    for (cell, n, rows) in [(Cell::Lstm, 330, 13), (Cell::Gru, 380, 13), (Cell::Lstm, 1030, 50)] {
        let spec = NetSpec::builder(cell).dense(40).units([n]).build().unwrap();
        let s = Sample::of(spec, 7, rows, &mut rng);
        let alone = train(&Cpu::new(1), &[&s]);
        for threads in [2, 3] {
            let cpu = Cpu::new(threads);
            assert_eq!(alone, train(&cpu, &[&s]), "{} on {threads} threads", s.spec);
            let run = s.model(&cpu).run(&s.batch(), Some(&s.start)).unwrap();
            assert_eq!(run.values, alone[0].outputs, "{} on {threads} threads", s.spec);
        }
    }
}

#[test]
fn long_batches_cross_every_block() {
    // More packed rows than a block of the weights' gradients, more symbols too, and more steps than
    // are hoisted at once.
    let mut rng = Rng::new(77);
    for cell in Cell::ALL {
        for (kind, steps, rows) in [(0, 45, 20), (1, 45, 20), (2, 45, 20), (0, 300, 2), (1, 300, 2)]
        {
            let builder = NetSpec::builder(cell).units([3, 2]).outputs(2);
            let builder = match kind {
                0 => builder.dense(2).delay(3, Padding::Null),
                1 => builder.tokens(400, 2).delay(3, Padding::Null),
                _ => builder.dense(2).bidirectional(),
            };
            let s = Sample::of(builder.build().unwrap(), steps, rows, &mut rng);
            let alone = train(&Cpu::new(1), &[&s]).remove(0);
            for threads in [2, 3] {
                assert_eq!(alone, train(&Cpu::new(threads), &[&s]).remove(0), "{}", s.spec);
            }
            assert_eq!(vec![alone.clone(); 4], train(&Cpu::new(2), &[&s; 4]), "{}", s.spec);
            if kind == 1 {
                continue; // 400 symbols are too many for the oracle, and blocks of them are below
            }
            let d_params = oracle_gradient(&s);
            close(&format!("{} d_params", s.spec), wide(&alone.d_params), &d_params, 1e-5);
        }
    }
    // Tokens against the same vectors as dense input: embeddings' gradients are sums of inputs'.
    let spec = NetSpec::builder(Cell::Gru).tokens(400, 2).units([3]).build().unwrap();
    let s = Sample::of(spec, 45, 20, &mut rng);
    let e = &s.params[..800];
    let x: Vec<f32> = s.tokens.iter().flat_map(|&t| e[t as usize * 2..][..2].to_vec()).collect();
    let spec = NetSpec::builder(Cell::Gru).dense(2).units([3]).build().unwrap();
    let mut dense = Sample::of(spec, 45, 20, &mut rng);
    (dense.params, dense.x) = (s.params[800..].to_vec(), x);
    (dense.lengths, dense.start) = (s.lengths.clone(), s.start.clone());
    (dense.d_outputs, dense.d_last) = (s.d_outputs.clone(), s.d_last.clone());
    let (tokens, dense) = (train(&Cpu::new(2), &[&s]), train(&Cpu::new(2), &[&dense]));
    let mut d_embedding = vec![0.0; 800];
    for (slot, &token) in s.tokens.iter().enumerate() {
        for i in 0..2 {
            d_embedding[token as usize * 2 + i] += f64::from(dense[0].d_input[slot * 2 + i]);
        }
    }
    close("embedding", wide(&tokens[0].d_params[..800]), &d_embedding, 1e-5);
    close("rest", wide(&tokens[0].d_params[800..]), &wide(&dense[0].d_params), 1e-5);
}

#[test]
fn projected_states_on_every_path() {
    let mut rng = Rng::new(78);
    let lstm = |units: &[usize], p: usize| NetSpec::builder(Cell::Lstm).units(units).projection(p);
    let cases = [
        // Threads share columns; layers run side by side; more rows than a block of gradients, few at a
        // time and many.
        (lstm(&[400, 390], 120).dense(3).outputs(3), 40, 2, false),
        (lstm(&[400], 120).tokens(9, 4), 40, 2, false),
        (lstm(&[12, 9, 11, 7], 5).dense(3).delay(2, Padding::Null).outputs(2), 60, 3, true),
        (lstm(&[5, 4], 2).dense(2).bidirectional().outputs(2), 45, 20, true),
        (lstm(&[4], 3).dense(2), 300, 2, true),
    ];
    for (builder, steps, rows, oracle) in cases {
        let s = Sample::of(builder.build().unwrap(), steps, rows, &mut rng);
        let alone = train(&Cpu::new(1), &[&s]).remove(0);
        for threads in [2, 3] {
            for plan in [Plan::Wavefront, Plan::LayerByLayer, Plan::Auto] {
                let cpu = Cpu::new(threads).plan(plan);
                assert_eq!(alone, train(&cpu, &[&s]).remove(0), "{} {plan:?}", s.spec);
                let run = s.model(&cpu).run(&s.batch(), Some(&s.start)).unwrap();
                assert_eq!((&run.values, &run.last), (&alone.outputs, &alone.last), "{}", s.spec);
            }
        }
        assert_eq!(vec![alone.clone(); 4], train(&Cpu::new(2), &[&s; 4]), "{}", s.spec);
        if oracle {
            let d_params = oracle_gradient(&s);
            close(&format!("{} d_params", s.spec), wide(&alone.d_params), &d_params, 1e-5);
        }
    }
}

/// Gradient of the parameters, by the oracle, rows summed.
fn oracle_gradient(s: &Sample) -> Vec<f64> {
    let params = wide(&s.params);
    let mut sum = vec![0.0; params.len()];
    for row in 0..s.rows {
        let (sequence, start) = (s.sequence(row), s.row_state(&s.start, row));
        let (d_outputs, d_last) = (s.d_outputs(row), s.row_state(&s.d_last, row));
        let found = reference::gradient(&s.spec, &params, &sequence, &start, &d_outputs, &d_last);
        sum.iter_mut().zip(&found.params).for_each(|(a, b)| *a += b);
    }
    sum
}

#[test]
fn lanes_do_not_touch_each_other() {
    for seed in 0..30 {
        let mut rng = Rng::new(3000 + seed);
        let spec = random::spec(&mut rng, false);
        // Own weights, own data, own shapes, too.
        let samples: Vec<Sample> = (0..4)
            .map(|_| {
                let (steps, rows) = (rng.below(8), 1 + rng.below(9));
                Sample::of(spec.clone(), steps, rows, &mut rng)
            })
            .collect();
        let cpu = Cpu::new(2);
        let alone: Vec<Found> = samples.iter().map(|s| train(&cpu, &[s]).remove(0)).collect();
        let together = train(&cpu, &samples.iter().collect::<Vec<_>>());
        assert_eq!(alone, together, "{spec}");
    }
}

#[test]
fn a_tape_remembers_nothing() {
    let cpu = Cpu::new(2);
    let mut rng = Rng::new(17);
    for tokens in [false, true] {
        let builder = NetSpec::builder(Cell::Lstm).units([9, 5]).outputs(2);
        let builder = if tokens { builder.tokens(7, 3) } else { builder.dense(3) };
        let spec = builder.delay(2, Padding::Null).build().unwrap();
        let samples = [(6, 7), (3, 12), (8, 2), (6, 7), (0, 3), (7, 7)]
            .map(|(steps, rows)| Sample::of(spec.clone(), steps, rows, &mut rng));
        let mut tape = drnn::Tape::on(&cpu, &spec);
        let mut last = States { h: vec![f32::NAN; 9], c: vec![] };
        for round in 0..12 {
            // One lane, two, one .. with and without gradients of input and start.
            let lanes = 1 + round % 2;
            let used: Vec<&Sample> = (0..lanes).map(|i| &samples[(round + i) % 6]).collect();
            let (input, start) = (round % 3 == 0 && !tokens, round % 4 < 2);
            let fresh = train(&cpu, &used);
            let lanes: Vec<_> = used.iter().map(|s| s.lane()).collect();
            let pass = tape.forward(&lanes).unwrap();
            let mut params = vec![vec![f32::NAN; spec.parameters()]; lanes.len()];
            let mut inputs: Vec<_> = used.iter().map(|s| vec![f32::NAN; s.x.len()]).collect();
            let mut starts: Vec<_> = used.iter().map(|s| States::zeros(&spec, s.rows)).collect();
            let mut gradients = Vec::new();
            let outs = params.iter_mut().zip(&mut inputs).zip(&mut starts);
            for (i, ((params, d_input), d_start)) in outs.enumerate() {
                assert_eq!(pass.outputs(i), fresh[i].outputs);
                pass.last_into(i, &mut last);
                assert_eq!(last, fresh[i].last);
                gradients.push(drnn::Gradient {
                    outputs: &used[i].d_outputs,
                    last: Some(&used[i].d_last),
                    params,
                    input: input.then_some(d_input),
                    start: start.then_some(d_start),
                });
            }
            pass.backward(&mut gradients).unwrap();
            for (i, fresh) in fresh.iter().enumerate() {
                assert_eq!(params[i], fresh.d_params, "round {round}");
                assert!(!input || inputs[i] == fresh.d_input, "round {round}");
                assert!(!start || starts[i] == fresh.d_start, "round {round}");
            }
        }
    }
}

#[test]
fn values_after_the_end_and_the_order_of_rows_do_not_matter() {
    for seed in 0..40 {
        let s = Sample::new(4000 + seed);
        let cpu = Cpu::new(2);
        let model = s.model(&cpu);
        let expected = model.run(&s.batch(), Some(&s.start)).unwrap();

        let q = if s.x.is_empty() { 0 } else { s.spec.input().width() };
        let (mut x, mut tokens) = (s.x.clone(), s.tokens.clone());
        for slot in 0..s.steps * s.rows {
            if slot / s.rows >= s.lengths[slot % s.rows] {
                x[slot * q..][..q].fill(f32::NAN);
                tokens.iter_mut().skip(slot).take(1).for_each(|t| *t = u32::MAX);
            }
        }
        let dirty = match s.spec.input() {
            InputSpec::Dense(_) => Batch::dense(&x, Steps(s.steps), Rows(s.rows)),
            InputSpec::Tokens { .. } => Batch::tokens(&tokens, Steps(s.steps), Rows(s.rows)),
        };
        let found = model.run(&dirty.lengths(&s.lengths), Some(&s.start)).unwrap();
        assert_eq!(found, expected, "{}", s.spec);

        // One row alone is what it was among the others.
        let row = seed as usize % s.rows;
        let slots = (0..s.lengths[row]).map(|t| t * s.rows + row);
        let x: Vec<f32> = slots.clone().flat_map(|slot| s.x[slot * q..][..q].to_vec()).collect();
        let tokens: Vec<u32> = slots.filter_map(|slot| s.tokens.get(slot).copied()).collect();
        let alone = match s.spec.input() {
            InputSpec::Dense(_) => Batch::dense(&x, Steps(s.lengths[row]), Rows(1)),
            InputSpec::Tokens { .. } => Batch::tokens(&tokens, Steps(s.lengths[row]), Rows(1)),
        };
        let state = s.row_state(&s.start, row);
        let narrow = |v: &[Vec<f64>]| v.iter().flatten().map(|&x| x as f32).collect();
        let start = States { h: narrow(&state.h), c: narrow(&state.c) };
        let found = model.run(&alone, Some(&start)).unwrap();
        for (t, slot) in s.answer_slots(row).enumerate() {
            assert_eq!(found.at(t, 0), expected.at(slot / s.rows, row), "{}", s.spec);
        }
    }
}

#[test]
fn chunks_do_not_matter_without_a_delay() {
    let mut rng = Rng::new(9);
    for cell in Cell::ALL {
        let spec = NetSpec::builder(cell).dense(3).units([7, 4]).outputs(2).build().unwrap();
        let mut s = Sample::of(spec, 11, 3, &mut rng);
        s.lengths = vec![11; 3];
        let model = s.model(&Cpu::new(2));
        let whole = model.run(&s.batch(), Some(&s.start)).unwrap();
        let (mut values, mut states) = (Vec::new(), s.start.clone());
        for chunk in s.x.chunks(4 * 3 * 3) {
            let steps = chunk.len() / 9;
            let part =
                model.run(&Batch::dense(chunk, Steps(steps), Rows(3)), Some(&states)).unwrap();
            values.extend(part.values);
            states = part.last;
        }
        assert_eq!((values, states), (whole.values, whole.last), "{cell:?}");
    }
}

#[test]
fn a_delay_is_a_shift_of_a_longer_run() {
    let mut rng = Rng::new(10);
    for cell in Cell::ALL {
        for delay in [1, 3, 9] {
            let net = |d| {
                let b = NetSpec::builder(cell).dense(2).units([6, 5]).outputs(3);
                b.delay(d, Padding::Null).build().unwrap()
            };
            let mut s = Sample::of(net(delay), 5, 4, &mut rng);
            s.lengths = vec![5; 4]; // also shorter than a delay of 9
            let late = s.model(&Cpu::new(2)).run(&s.batch(), Some(&s.start)).unwrap();
            let mut longer = s.x.clone();
            longer.resize((5 + delay) * 4 * 2, 0.0);
            let prompt = Model::from_params(&net(0), s.params.clone()).unwrap();
            let all = prompt
                .run(&Batch::dense(&longer, Steps(5 + delay), Rows(4)), Some(&s.start))
                .unwrap();
            assert_eq!(late.values, all.values[delay * 4 * 3..], "{}", s.spec);
            assert_eq!(late.last, all.last);
        }
    }
}

#[test]
fn tokens_are_rows_of_the_embedding() {
    let mut rng = Rng::new(11);
    for cell in Cell::ALL {
        let tokens = NetSpec::builder(cell).tokens(6, 4).units([7]).outputs(2).build().unwrap();
        let dense = NetSpec::builder(cell).dense(4).units([7]).outputs(2).build().unwrap();
        let s = Sample::of(tokens, 6, 5, &mut rng);
        let e = s.model(&Cpu::new(1)).tensor("embedding.weight").unwrap().to_vec();
        let x: Vec<f32> =
            s.tokens.iter().flat_map(|&t| e[t as usize * 4..][..4].to_vec()).collect();
        let other = Model::from_params(&dense, s.params[24..].to_vec()).unwrap();
        let expected =
            other.run(&Batch::dense(&x, Steps(6), Rows(5)).lengths(&s.lengths), Some(&s.start));
        let found = s.model(&Cpu::new(1)).run(&s.batch(), Some(&s.start));
        assert_eq!(found, expected);
    }
}
