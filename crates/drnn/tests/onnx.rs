//! Exported graphs answer as the model does, in another runtime: tract.
//!
//! A graph is loaded once, its T and B symbols, and then runs at several lengths and batch sizes, from
//! states that are not zero; answers and final states are compared with `Model::run`. What is not here
//! is the plain RNN with relu, because tract takes every RNN for one with tanh; `tools/check_onnx.py`
//! runs that, and all of this, in ONNX Runtime.

#![cfg(not(drnn_without_tract))]

use drnn::onnx::{ColumnScaling, GraphKind, GraphOptions, Onnx, OutputUnits};
use drnn::random::Rng;
use drnn::{
    Batch, Blocks, Cell, Connections, InputSpec, Model, NetSpec, NetSpecBuilder, Padding, Rows,
    StartState, States, Steps,
};
use std::sync::Arc;
use tract_onnx::prelude::*;

const CELLS: [Cell; 4] = [Cell::RnnTanh, Cell::Lstm, Cell::Gru, Cell::GruResetBefore];
/// Elements and rows; one is shorter than the delays below.
const SIZES: [(usize, usize); 3] = [(6, 3), (1, 2), (9, 1)];

/// A graph in tract.
struct Graph {
    onnx: Onnx,
    plan: Arc<TypedRunnableModel>,
}

impl Graph {
    /// With states that must be given: tract takes inputs with a default for constants.
    fn new(model: &Model, kind: GraphKind) -> Graph {
        Graph::with(model, GraphOptions { optional_states: false, ..kind.into() })
    }

    fn with(model: &Model, options: GraphOptions) -> Graph {
        let onnx = model.to_onnx(options).unwrap();
        let graph = tract_onnx::onnx().model_for_read(&mut onnx.bytes.as_slice()).unwrap();
        let plan = graph.into_optimized().unwrap().into_runnable().unwrap();
        Graph { onnx, plan }
    }

    /// Answers, and states put together as ours are.
    fn run(&self, x: Tensor, states: &States, rows: usize) -> (Tensor, States) {
        let mut inputs: TVec<TValue> = tvec!(x.into_tvalue());
        let mut rest = [states.h.as_slice(), states.c.as_slice()];
        for port in &self.onnx.inputs[1..] {
            let part = &mut rest[usize::from(port.name.starts_with('c'))];
            let dims: Vec<usize> = port.shape.iter().map(|dim| size(dim, rows)).collect();
            let (own, more) = part.split_at(dims.iter().product());
            inputs.push(Tensor::from_shape(&dims, own).unwrap().into_tvalue());
            *part = more;
        }
        assert_eq!(rest, [&[] as &[f32]; 2], "states left over");
        let outputs = self.plan.run(inputs).unwrap();
        assert_eq!(outputs.len(), self.onnx.outputs.len());
        let mut last = States::default();
        for (port, value) in self.onnx.outputs.iter().zip(&outputs).skip(1) {
            let part = if port.name.starts_with('c') { &mut last.c } else { &mut last.h };
            part.extend(floats(value));
        }
        (outputs[0].clone().into_tensor(), last)
    }
}

fn size(dim: &drnn::onnx::Dim, rows: usize) -> usize {
    match dim {
        drnn::onnx::Dim::Symbol(name) => {
            assert_eq!(name, "B");
            rows
        }
        drnn::onnx::Dim::Size(n) => *n,
    }
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec()
}

/// A batch and states to start from.
struct Input {
    x: Vec<f32>,
    tokens: Vec<u32>,
    start: States,
    steps: usize,
    rows: usize,
}

impl Input {
    fn new(spec: &NetSpec, steps: usize, rows: usize, rng: &mut Rng) -> Input {
        let (mut x, mut tokens) = (Vec::new(), Vec::new());
        match spec.input() {
            InputSpec::Dense(q) => x = (0..steps * rows * q).map(|_| rng.symmetric(1.0)).collect(),
            InputSpec::Tokens { symbols, .. } => {
                tokens = (0..steps * rows).map(|_| rng.below(symbols) as u32).collect();
            }
        }
        let mut start = States::zeros(spec, rows);
        start.h.iter_mut().chain(&mut start.c).for_each(|x| *x = rng.symmetric(0.9));
        Input { x, tokens, start, steps, rows }
    }

    fn batch(&self, spec: &NetSpec) -> Batch<'_> {
        match spec.input() {
            InputSpec::Dense(_) => Batch::dense(&self.x, Steps(self.steps), Rows(self.rows)),
            InputSpec::Tokens { .. } => {
                Batch::tokens(&self.tokens, Steps(self.steps), Rows(self.rows))
            }
        }
    }

    fn tensor(&self, spec: &NetSpec) -> Tensor {
        match spec.input() {
            InputSpec::Dense(q) => Tensor::from_shape(&[self.steps, self.rows, q], &self.x),
            InputSpec::Tokens { .. } => {
                let tokens: Vec<i64> = self.tokens.iter().map(|&t| t.into()).collect();
                Tensor::from_shape(&[self.steps, self.rows], &tokens)
            }
        }
        .unwrap()
    }

    /// What a graph of one step reads at `step`: the element, or padding after the end.
    fn element(&self, spec: &NetSpec, step: usize) -> Tensor {
        let live = step < self.steps;
        match (spec.input(), spec.padding()) {
            (InputSpec::Dense(q), _) => {
                let row = self.rows * q;
                let zeros = vec![0.0; row];
                let x = if live { &self.x[step * row..][..row] } else { &zeros };
                Tensor::from_shape(&[self.rows, q], x)
            }
            (InputSpec::Tokens { symbols, .. }, padding) => {
                let pad =
                    if let Padding::Symbol(id) = padding { id.into() } else { symbols as i64 };
                let token =
                    |row| if live { i64::from(self.tokens[step * self.rows + row]) } else { pad };
                Tensor::from_shape(&[self.rows], &(0..self.rows).map(token).collect::<Vec<_>>())
            }
        }
        .unwrap()
    }
}

fn close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    for (i, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= 1e-5, "{what}[{i}] is {x}, expected {y}");
    }
}

fn close_states(what: &str, found: &States, expected: &States) {
    close(&format!("{what}: h"), &found.h, &expected.h);
    close(&format!("{what}: c"), &found.c, &expected.c);
}

/// Weights large enough that gates move.
fn model(builder: NetSpecBuilder) -> Model {
    let spec = builder.build().unwrap();
    let mut params = Model::init(&spec, 3).unwrap().into_params();
    params.iter_mut().for_each(|p| *p *= 1.5);
    Model::from_params(&spec, params).unwrap()
}

/// The whole graph at every size.
fn check_whole(builder: NetSpecBuilder) {
    let model = model(builder);
    let spec = model.spec();
    let graph = Graph::new(&model, GraphKind::Whole);
    let more = spec.look_ahead();
    for (outputs, rows) in SIZES {
        let what = format!("{spec}, {:?}, T {outputs}, B {rows}", spec.padding());
        let input = Input::new(spec, outputs + more, rows, &mut Rng::new(rows as u64));
        let expected = model.run(&input.batch(spec), Some(&input.start)).unwrap();
        let (y, last) = graph.run(input.tensor(spec), &input.start, rows);
        assert_eq!(y.shape(), expected.shape(), "{what}");
        close(&what, &floats(&y), &expected.values);
        close_states(&what, &last, &expected.last);
    }
}

/// The graph of one step, driven as its documentation says.
fn check_step(builder: NetSpecBuilder) {
    let model = model(builder);
    let spec = model.spec();
    let graph = Graph::new(&model, GraphKind::Step);
    let d = graph.onnx.spec.delay(); // a flattened stack goes out as its stack
    for (outputs, rows) in SIZES {
        let what = format!("{spec}, {:?}, step by step, T {outputs}, B {rows}", spec.padding());
        let elements = outputs + spec.look_ahead();
        let input = Input::new(spec, elements, rows, &mut Rng::new(rows as u64));
        let expected = model.run(&input.batch(spec), Some(&input.start)).unwrap();
        let (mut found, mut states) = (Vec::new(), input.start.clone());
        for step in 0..outputs + d {
            let (y, next) = graph.run(input.element(spec, step), &states, rows);
            assert_eq!(y.shape(), [rows, spec.output_width()], "{what}");
            if step >= d {
                found.extend(floats(&y));
            }
            states = next;
        }
        close(&what, &found, &expected.values);
        close_states(&what, &states, &expected.last);
    }
}

#[test]
fn every_cell_in_one_or_more_layers() {
    for cell in CELLS {
        for units in [vec![5], vec![5, 5], vec![4, 6, 3]] {
            for outputs in [None, Some(2)] {
                let mut builder = NetSpec::builder(cell).dense(3).units(units.clone());
                if let Some(m) = outputs {
                    builder = builder.outputs(m);
                }
                check_whole(builder.clone());
                check_step(builder);
            }
        }
    }
}

#[test]
fn both_directions() {
    for cell in CELLS {
        for units in [vec![5], vec![5, 5], vec![4, 6]] {
            check_whole(NetSpec::builder(cell).dense(3).units(units.clone()).bidirectional());
            check_whole(
                NetSpec::builder(cell).tokens(7, 3).units(units).bidirectional().outputs(2),
            );
        }
    }
}

#[test]
fn tokens() {
    for cell in CELLS {
        for units in [vec![5], vec![5, 5]] {
            let builder = NetSpec::builder(cell).tokens(7, 3).units(units).outputs(7);
            check_whole(builder.clone());
            check_step(builder);
        }
    }
}

#[test]
fn delays_with_every_padding() {
    for cell in CELLS {
        for units in [vec![5], vec![5, 5], vec![4, 6]] {
            for padding in [Padding::Null, Padding::LookAhead, Padding::Symbol(6)] {
                let builder = NetSpec::builder(cell).units(units.clone()).delay(2, padding);
                let tokens = builder.clone().tokens(7, 3).outputs(2);
                check_whole(tokens.clone());
                check_step(tokens);
                if !matches!(padding, Padding::Symbol(_)) {
                    check_whole(builder.clone().dense(3));
                    check_step(builder.dense(3));
                }
            }
        }
    }
}

#[test]
fn flattened_stacks_go_out_as_stacks_and_free_blocks_as_one_layer() {
    for cell in CELLS {
        for padding in [Padding::Null, Padding::LookAhead] {
            let blocks = Blocks::new([4, 6, 3]);
            let builder = NetSpec::builder(cell).dense(3).blocks(blocks).delay(3, padding);
            check_whole(builder.clone());
            check_step(builder.outputs(2));
        }
        let free = |connections| {
            let blocks = Blocks::new([4, 6]).start(StartState::Free).connections(connections);
            NetSpec::builder(cell).dense(3).blocks(blocks).delay(1, Padding::Null)
        };
        if cell.is_gru() {
            let error =
                model(free(Connections::All)).to_onnx(GraphKind::Whole).unwrap_err().to_string();
            assert!(error.contains("is in no plain GRU"), "{error}");
        } else {
            check_whole(free(Connections::All));
            check_whole(free(Connections::Lower).outputs(2));
            check_step(free(Connections::Stacked));
        }
    }
    let blocks = Blocks::new([4, 6, 5]).connections(Connections::Lower);
    let relaxed =
        model(NetSpec::builder(Cell::Lstm).dense(3).blocks(blocks).delay(2, Padding::Null));
    let error = relaxed.to_onnx(GraphKind::Whole).unwrap_err().to_string();
    assert!(error.contains("blocks that begin one after another must be a stack"), "{error}");
}

/// Without states a graph starts from zeros, whatever its batch.
#[test]
fn states_may_be_left_out() {
    for (cell, units) in [(Cell::Lstm, vec![5]), (Cell::Gru, vec![4, 4]), (Cell::Lstm, vec![4, 6])]
    {
        let builder = NetSpec::builder(cell).dense(3).units(units).outputs(2);
        let model = model(builder.delay(2, Padding::Null));
        let graph = Graph::with(&model, GraphKind::Whole.into());
        for (steps, rows) in SIZES {
            let input = Input::new(model.spec(), steps, rows, &mut Rng::new(5));
            let expected = model.run(&input.batch(model.spec()), None).unwrap();
            let x = input.tensor(model.spec()).into_tvalue();
            let outputs = graph.plan.run(tvec!(x)).unwrap();
            close("without states", &floats(&outputs[0]), &expected.values);
        }
    }
}

/// A graph in own units computes what the network does between scalings, also where a mean is large.
#[test]
fn own_units_in_and_out() {
    let inputs = ColumnScaling { mean: vec![101_325.37, -0.25, 3.0], sd: vec![4.5, 1e-3, 1.0] };
    let targets = ColumnScaling { mean: vec![20.5, -7.0], sd: vec![3.0, 0.125] };
    let model =
        model(NetSpec::builder(Cell::Gru).dense(3).units([5]).outputs(2).delay(2, Padding::Null));
    for kind in [GraphKind::Whole, GraphKind::Step] {
        for probabilities in [false, true] {
            let output_units = match probabilities {
                true => OutputUnits::Probabilities,
                false => OutputUnits::Scaled(targets.clone()),
            };
            let options = GraphOptions {
                input_scaling: Some(inputs.clone()),
                output_units,
                optional_states: false,
                ..kind.into()
            };
            let graph = Graph::with(&model, options);
            check_own_units(&model, &graph, kind, &inputs, (!probabilities).then_some(&targets));
        }
    }
}

/// Compares outputs in own units with those of the model; without `targets` they are probabilities.
fn check_own_units(
    model: &Model,
    graph: &Graph,
    kind: GraphKind,
    inputs: &ColumnScaling,
    targets: Option<&ColumnScaling>,
) {
    let (spec, (steps, rows)) = (model.spec(), (6, 3));
    let input = Input::new(spec, steps, rows, &mut Rng::new(2));
    let own: Vec<f32> = input.x.iter().enumerate().map(|(i, x)| undo(inputs, i % 3, *x)).collect();
    // What the network then reads: own units have been rounded to floats.
    let scale =
        |(i, x): (usize, &f32)| ((f64::from(*x) - inputs.mean[i % 3]) / inputs.sd[i % 3]) as f32;
    let read = Input { x: own.iter().enumerate().map(scale).collect(), ..input };
    let expected = model.run(&read.batch(spec), Some(&read.start)).unwrap();
    let expected: Vec<f32> = match targets {
        Some(targets) => {
            expected.values.iter().enumerate().map(|(i, y)| undo(targets, i % 2, *y)).collect()
        }
        None => expected.values.chunks(2).flat_map(|y| softmax([y[0], y[1]])).collect(),
    };
    let mut found = Vec::new();
    if kind == GraphKind::Whole {
        let x = Tensor::from_shape(&[steps, rows, 3], &own).unwrap();
        found = floats(&graph.run(x, &read.start, rows).0);
    } else {
        let padding = vec![f32::NAN; rows * 3];
        let mut states = read.start.clone();
        for step in 0..steps + 2 {
            let x = own.chunks(rows * 3).nth(step).unwrap_or(&padding);
            let (y, next) = graph.run(Tensor::from_shape(&[rows, 3], x).unwrap(), &states, rows);
            states = next;
            if step >= 2 {
                found.extend(floats(&y));
            }
        }
    }
    close(&format!("own units, {kind:?}"), &found, &expected);
}

fn undo(scaling: &ColumnScaling, column: usize, scaled: f32) -> f32 {
    (scaling.mean[column] + scaling.sd[column] * f64::from(scaled)) as f32
}

fn softmax(y: [f32; 2]) -> [f32; 2] {
    let first = 1.0 / (1.0 + (y[1] - y[0]).exp());
    [first, 1.0 - first]
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let onnx =
        model(NetSpec::builder(Cell::Gru).dense(1).units([2])).to_onnx(GraphKind::Whole).unwrap();
    onnx.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), onnx.bytes);
    let error = onnx.save(folder.path().join("nowhere/model.onnx")).unwrap_err().to_string();
    assert!(error.contains("nowhere/model.onnx: cannot be written: "), "{error}");
}
