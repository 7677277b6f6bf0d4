//! drnn computes what PyTorch computes: outputs, states and gradients of `golden/torch.json`.

#[path = "common/golden.rs"]
mod golden;

use drnn::reference::{RefState, Sequence, gradient, run};
use drnn::{
    Batch, Cell, Cpu, Gradient, InputSpec, InstructionSet, Lane, Model, Rows, States, Steps, Tape,
};
use golden::{Case, Results, cases};

#[test]
fn the_file_holds_every_cell_depth_and_direction() {
    let cases = cases();
    for cell in Cell::ALL {
        for layers in [1, 2] {
            for directions in [1, 2] {
                let same = |case: &Case| {
                    let spec = &case.spec;
                    let shape = (spec.layers(), spec.direction().count());
                    spec.cell() == cell && shape == (layers, directions)
                };
                assert!(cases.iter().any(same), "{cell:?}, {layers} layers, {directions} ways");
            }
        }
    }
}

#[test]
fn reference_agrees_with_pytorch() {
    for case in cases() {
        case.check(&by_reference(&case), 1e-8);
    }
}

/// The oracle takes one row at a time; parameter gradients of the rows add up.
fn by_reference(case: &Case) -> Results {
    let (spec, params, rows) = (&case.spec, case.params(), case.rows());
    let mut found = Results {
        outputs: vec![0.0; case.d_outputs.len()],
        hn: vec![0.0; case.h0.len()],
        cn: vec![0.0; case.c0.len()],
        d_params: vec![0.0; params.len()],
        d_inputs: vec![0.0; case.inputs.len()],
        d_h0: vec![0.0; case.h0.len()],
        d_c0: vec![0.0; case.c0.len()],
    };
    for (row, &length) in case.lengths.iter().enumerate() {
        let take = |values: &[f64], width, count| {
            row_of(values, rows, width, row).take(count).map(<[f64]>::to_vec).collect::<Vec<_>>()
        };
        let (n, p, m) = (spec.units()[0], spec.hidden(0), spec.output_width());
        let lanes = spec.layers() * spec.direction().count();
        let state = |h, c| RefState { h: take(h, p, lanes), c: take(c, n, lanes) };
        let elements = case.elements()[row];
        let (q, sequence) = match spec.input() {
            InputSpec::Dense(q) => (q, Sequence::Dense(take(&case.inputs, q, elements))),
            InputSpec::Tokens { .. } => {
                let tokens = case.tokens.iter().skip(row).step_by(rows).take(elements);
                (1, Sequence::Tokens(tokens.copied().collect()))
            }
        };
        let start = state(&case.h0, &case.c0);
        let outputs = run(spec, &params, &sequence, &start);
        let d_outputs = take(&case.d_outputs, m, length);
        let d_last = state(&case.d_hn, &case.d_cn);
        let slopes = gradient(spec, &params, &sequence, &start, &d_outputs, &d_last);

        assert_eq!(outputs.outputs.len(), length, "{}: answers of row {row}", case.name);
        put(&mut found.outputs, rows, row, m, &outputs.outputs);
        put(&mut found.hn, rows, row, p, &outputs.last.h);
        put(&mut found.cn, rows, row, n, &outputs.last.c);
        put(&mut found.d_inputs, rows, row, q, &slopes.input);
        put(&mut found.d_h0, rows, row, p, &slopes.start.h);
        put(&mut found.d_c0, rows, row, n, &slopes.start.c);
        found.d_params.iter_mut().zip(&slopes.params).for_each(|(sum, d)| *sum += d);
    }
    found
}

/// One row of an array [.., B, width].
fn row_of(values: &[f64], rows: usize, width: usize, row: usize) -> impl Iterator<Item = &[f64]> {
    values.chunks(width).skip(row).step_by(rows)
}

/// The inverse: writes `vectors` as one row of an array [.., B, width].
fn put(values: &mut [f64], rows: usize, row: usize, width: usize, vectors: &[Vec<f64>]) {
    for (place, vector) in values.chunks_mut(width).skip(row).step_by(rows).zip(vectors) {
        place.copy_from_slice(vector);
    }
}

#[test]
fn tape_agrees_with_pytorch_on_every_instruction_set() {
    for isa in InstructionSet::available() {
        for threads in [1, 3] {
            let cpu = Cpu::with_instruction_set(isa, threads).unwrap();
            for case in cases() {
                case.check(&by_tape(&case, &cpu), 1e-5);
            }
        }
    }
}

#[test]
fn run_agrees_with_pytorch_on_every_instruction_set() {
    for isa in InstructionSet::available() {
        let cpu = Cpu::with_instruction_set(isa, 2).unwrap();
        for case in cases() {
            let model = Model::from_params(&case.spec, narrow(&case.params())).unwrap().on(&cpu);
            let (x, lengths) = (narrow(&case.inputs), case.elements());
            let start = States { h: narrow(&case.h0), c: narrow(&case.c0) };
            let outputs = model.run(&batch(&case, &x, &lengths), Some(&start)).unwrap();
            // Gradients are not in question here: the tape's stand in for them.
            let mut found = by_tape(&case, &cpu);
            found.outputs = widen(&outputs.values);
            (found.hn, found.cn) = (widen(&outputs.last.h), widen(&outputs.last.c));
            case.check(&found, 1e-5);
        }
    }
}

fn by_tape(case: &Case, cpu: &Cpu) -> Results {
    let (x, lengths, params) = (narrow(&case.inputs), case.elements(), narrow(&case.params()));
    let start = States { h: narrow(&case.h0), c: narrow(&case.c0) };
    let d_last = States { h: narrow(&case.d_hn), c: narrow(&case.d_cn) };
    let lanes =
        [Lane { params: (&params).into(), batch: batch(case, &x, &lengths), start: Some(&start) }];
    let mut tape = Tape::on(cpu, &case.spec);
    let pass = tape.forward(&lanes).unwrap();
    let (outputs, last) = (widen(pass.outputs(0)), pass.last(0));
    let d_outputs = narrow(&case.d_outputs);
    let (mut d_params, mut d_input) = (vec![f32::NAN; params.len()], vec![f32::NAN; x.len()]);
    let mut d_start = start.clone();
    pass.backward(&mut [Gradient {
        outputs: &d_outputs,
        last: Some(&d_last),
        params: &mut d_params,
        input: (!x.is_empty()).then_some(&mut d_input),
        start: Some(&mut d_start),
    }])
    .unwrap();
    Results {
        outputs,
        hn: widen(&last.h),
        cn: widen(&last.c),
        d_params: widen(&d_params),
        d_inputs: widen(&d_input),
        d_h0: widen(&d_start.h),
        d_c0: widen(&d_start.c),
    }
}

fn batch<'a>(case: &'a Case, x: &'a [f32], lengths: &'a [usize]) -> Batch<'a> {
    let rows = case.rows();
    let batch = match case.spec.input() {
        InputSpec::Dense(q) => Batch::dense(x, Steps(x.len() / rows / q), Rows(rows)),
        InputSpec::Tokens { .. } => {
            Batch::tokens(&case.tokens, Steps(case.tokens.len() / rows), Rows(rows))
        }
    };
    batch.lengths(lengths)
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}
