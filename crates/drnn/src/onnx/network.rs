//! A network as standard operators, one recurrent operator per layer:
//!
//! ```text
//! whole   tokens -> Gather -> Pad -> [LSTM -> Squeeze] * k -> Slice -> MatMul -> Add -> y
//! step    tokens -> Gather -> Unsqueeze -> [LSTM] * k -> Squeeze -> MatMul -> Add -> y
//!
//! own units          x -> Sub -> Sub -> Div -> ..   .. -> Mul -> Add -> y, or .. -> Softmax -> y
//! NaN is the mean    .. -> IsNaN -> Where -> ..
//! optional states    h0 (k, 1, n) or (k, B, n) -> Expand -> (k, B, n)
//! ```
//!
//! Weights are PyTorch's; ONNX orders an LSTM's gates i, o, f, c and a GRU's z, r, h, and wants both
//! directions in one tensor.

use super::graph::{Graph, int, ints, word, words};
use super::interface::{inputs, null_token, one_state};
use super::{ColumnScaling, Dim, GraphKind, GraphOptions, OutputUnits};
use crate::model::Model;
use crate::spec::{Cell, InputSpec, NetSpec, Padding};

/// Puts the graph together. Its inputs and outputs are those of `interface`.
struct Network<'a> {
    model: &'a Model,
    spec: &'a NetSpec,
    kind: GraphKind,
    options: &'a GraphOptions,
    graph: Graph,
}

/// The nodes and constants of `model`.
pub fn graph(model: &Model, options: &GraphOptions) -> Graph {
    let (spec, kind, graph) = (model.spec(), options.kind, Graph::default());
    let mut network = Network { model, spec, kind, options, graph };
    let mut x = network.read();
    network.expand_states();
    network.part_states();
    for layer in 0..network.spec.layers() {
        x = network.layer(layer, &x);
    }
    network.output(&x);
    network.output_units();
    network.graph.rename_last("y");
    network.join_states();
    network.graph
}

impl Network<'_> {
    /// The input as the first layer takes it: vectors, padded, (steps, B, q).
    fn read(&mut self) -> String {
        let d = self.spec.delay();
        let pads = self.kind == GraphKind::Whole && d > 0;
        let mut x = "x";
        if let InputSpec::Tokens { .. } = self.spec.input() {
            x = "tokens";
            if let (Padding::Symbol(id), true) = (self.spec.padding(), pads) {
                self.graph.list("token_pads", &[0, 0, d as i64, 0]);
                self.graph.integers("pad_token", &[], &[id.into()]);
                let inputs = ["tokens", "token_pads", "pad_token"];
                self.graph.add("Pad", &inputs, &["padded_tokens"], []);
                x = "padded_tokens";
            }
            self.embedding();
            self.graph.add("Gather", &["embedding", x], &["embedded"], [int("axis", 0)]);
            x = "embedded";
        }
        if let Some(scaling) = &self.options.input_scaling {
            x = self.standardise(scaling);
        }
        if self.kind == GraphKind::Step {
            self.graph.list("time_axis", &[0]);
            self.graph.add("Unsqueeze", &[x, "time_axis"], &["element"], []);
            x = "element";
        } else if pads && self.spec.padding() == Padding::Null {
            self.graph.list("pads", &[0, 0, 0, d as i64, 0, 0]);
            self.graph.add("Pad", &[x, "pads"], &["padded"], []);
            x = "padded";
        }
        x.into()
    }

    /// `(x - mean) / sd`, the mean in two floats; NaN becomes 0 where it is allowed.
    fn standardise(&mut self, ColumnScaling { mean, sd }: &ColumnScaling) -> &'static str {
        let q = mean.len();
        let rest = |mean: &f64| (*mean - f64::from(*mean as f32)) as f32;
        self.graph.floats("input_mean", &[q], mean.iter().map(|x| *x as f32));
        self.graph.floats("input_mean_rest", &[q], mean.iter().map(rest));
        self.graph.floats("input_sd", &[q], sd.iter().map(|x| *x as f32));
        self.graph.add("Sub", &["x", "input_mean"], &["nearly_centred"], []);
        self.graph.add("Sub", &["nearly_centred", "input_mean_rest"], &["centred"], []);
        self.graph.add("Div", &["centred", "input_sd"], &["standardised"], []);
        if !self.options.reads_nan(self.spec) {
            return "standardised";
        }
        self.graph.floats("zero", &[], [0.0]);
        self.graph.add("IsNaN", &["standardised"], &["missing"], []);
        self.graph.add("Where", &["missing", "zero", "standardised"], &["filled"], []);
        "filled"
    }

    /// The network's outputs as the user counts them.
    fn output_units(&mut self) {
        match &self.options.output_units {
            OutputUnits::Network => {}
            OutputUnits::Scaled(ColumnScaling { mean, sd }) => {
                self.graph.rename_last("scaled");
                self.graph.floats("target_sd", &[sd.len()], sd.iter().map(|x| *x as f32));
                self.graph.floats("target_mean", &[mean.len()], mean.iter().map(|x| *x as f32));
                self.graph.add("Mul", &["scaled", "target_sd"], &["spread"], []);
                self.graph.add("Add", &["spread", "target_mean"], &["own"], []);
            }
            OutputUnits::Probabilities => {
                self.graph.rename_last("logits");
                self.graph.add("Softmax", &["logits"], &["probabilities"], [int("axis", -1)]);
            }
        }
    }

    fn embedding(&mut self) {
        let (InputSpec::Tokens { symbols, embedding }, Some(range)) =
            (self.spec.input(), self.model.layout().embedding())
        else {
            return;
        };
        let null = null_token(self.spec, self.kind);
        let zeros = null.map_or(0, |_| embedding);
        let values = self.model.params()[range].iter().copied();
        let values = values.chain(core::iter::repeat_n(0.0, zeros));
        let rows = null.map_or(symbols, |token| token + 1);
        self.graph.floats("embedding", &[rows, embedding], values);
    }

    /// Parts of the state: h, and for the LSTM c.
    fn parts(&self) -> &'static [&'static str] {
        if self.spec.cell().has_cell_state() { &["h", "c"] } else { &["h"] }
    }

    /// Whether the tensors of several layers come and go as one.
    fn joined(&self) -> bool {
        one_state(self.spec) && self.spec.layers() > 1
    }

    /// What a layer's part of the state is called: `h` with suffix 0 is `h0`, or `h0_l1`.
    fn state(&self, part: &str, suffix: &str, layer: usize) -> String {
        match self.spec.layers() {
            1 => format!("{part}{suffix}"),
            _ => format!("{part}{suffix}_l{layer}"),
        }
    }

    fn all_states(&self, part: &str, suffix: &str) -> Vec<String> {
        (0..self.spec.layers()).map(|layer| self.state(part, suffix, layer)).collect()
    }

    /// Optional states: zeros for one sequence are expanded to all B.
    fn expand_states(&mut self) {
        if !self.options.optional_states {
            return;
        }
        let ports = inputs(self.spec, self.options);
        self.graph.add("Shape", &[&ports[0].name], &["sizes"], []);
        self.graph.list("batch_place", &[1]);
        self.graph.add("Gather", &["sizes", "batch_place"], &["batch"], [int("axis", 0)]);
        for port in &ports[1..] {
            let [Dim::Size(rows), _, Dim::Size(n)] = port.shape[..] else { continue };
            let name = &port.name;
            let shape = ["rows", "units", "shape"].map(|part| format!("{name}_{part}"));
            self.graph.floats(name, &[rows, 1, n], core::iter::repeat_n(0.0, rows * n));
            self.graph.list(&shape[0], &[rows as i64]);
            self.graph.list(&shape[1], &[n as i64]);
            let sizes = [&shape[0], "batch", &shape[1]];
            self.graph.add("Concat", &sizes, &[&shape[2]], [int("axis", 0)]);
            let expanded = self.start(name);
            self.graph.add("Expand", &[name, &shape[2]], &[&expanded], []);
        }
    }

    /// What an input of states is called once it has B rows.
    fn start(&self, port: &str) -> String {
        if self.options.optional_states { format!("{port}_expanded") } else { port.into() }
    }

    /// `h0` -> `h0_l0`, `h0_l1`, ..
    fn part_states(&mut self) {
        if !self.joined() {
            return;
        }
        let each = self.spec.direction().count() as i64;
        self.graph.list("per_layer", &vec![each; self.spec.layers()]);
        for part in self.parts() {
            let layers = self.all_states(part, "0");
            let all = self.start(&format!("{part}0"));
            self.graph.add("Split", &[&all, "per_layer"], &names(&layers), [int("axis", 0)]);
        }
    }

    /// `h_l0`, `h_l1`, .. -> `h`
    fn join_states(&mut self) {
        if !self.joined() {
            return;
        }
        for part in self.parts() {
            let layers = self.all_states(part, "");
            self.graph.add("Concat", &names(&layers), &[part], [int("axis", 0)]);
        }
    }

    /// One layer over `x`; the name of what the next one reads, (steps, B, n * directions).
    fn layer(&mut self, layer: usize, x: &str) -> String {
        let (n, directions) = (self.spec.units()[layer], self.spec.direction().count());
        let [w, r, b] = self.weights(layer);
        let starts = self.parts().iter().map(|part| {
            let state = self.state(part, "0", layer);
            if self.joined() { state } else { self.start(&state) }
        });
        let starts: Vec<String> = starts.collect();
        let ends = self.parts().iter().map(|part| self.state(part, "", layer));
        let ends: Vec<String> = ends.collect();
        let all = match self.kind {
            GraphKind::Whole => format!("Y_l{layer}"),
            GraphKind::Step => String::new(), // one step: its only state is the last one
        };
        let mut inputs = vec![x, &w, &r, &b, ""]; // no lengths
        inputs.extend(names(&starts));
        let mut outputs = vec![all.as_str()];
        outputs.extend(names(&ends));

        let way = if directions == 2 { "bidirectional" } else { "forward" };
        let mut attributes = vec![int("hidden_size", n as i64), word("direction", way)];
        let operator = match self.spec.cell() {
            Cell::RnnTanh | Cell::RnnRelu => {
                let relu = self.spec.cell() == Cell::RnnRelu;
                let activation = if relu { "Relu" } else { "Tanh" };
                attributes.push(words("activations", activation, directions));
                "RNN"
            }
            Cell::Lstm => "LSTM",
            Cell::Gru | Cell::GruResetBefore => {
                // 1: n = tanh(x_n + r (W h + b)), 0: n = tanh(x_n + W (r h) + b)
                let after = i64::from(self.spec.cell() == Cell::Gru);
                attributes.push(int("linear_before_reset", after));
                "GRU"
            }
        };
        self.graph.add(operator, &inputs, &outputs, attributes);

        if self.kind == GraphKind::Step {
            return ends[0].clone();
        }
        let rows = format!("states_l{layer}"); // from (T, directions, B, n)
        if directions == 2 {
            let (turned, shape) = (format!("turned_l{layer}"), format!("shape_l{layer}"));
            self.graph.add("Transpose", &[&all], &[&turned], [ints("perm", &[0, 2, 1, 3])]);
            self.graph.list(&shape, &[0, 0, 2 * n as i64]); // 0: as it is
            self.graph.add("Reshape", &[&turned, &shape], &[&rows], []);
        } else {
            if layer == 0 {
                self.graph.list("direction_axis", &[1]);
            }
            self.graph.add("Squeeze", &[&all, "direction_axis"], &[&rows], []);
        }
        rows
    }

    /// A layer's weights as constants: W (directions, gates * n, q), R (directions, gates * n, n) and
    /// B (directions, 2 * gates * n); their names.
    fn weights(&mut self, layer: usize) -> [String; 3] {
        let (spec, params, layout) = (self.spec, self.model.params(), self.model.layout());
        let order: &[usize] = match spec.cell() {
            Cell::RnnTanh | Cell::RnnRelu => &[0],
            Cell::Lstm => &[0, 3, 1, 2],
            Cell::Gru | Cell::GruResetBefore => &[1, 0, 2],
        };
        let (n, directions) = (spec.units()[layer], spec.direction().count());
        let (rows, q) = (order.len() * n, spec.layer_input(layer));
        let collect = |tensors: &[usize]| {
            let mut values = Vec::new();
            for direction in 0..directions {
                let ranges = layout.layer(layer, direction);
                for &tensor in tensors {
                    let tensor = &params[ranges[tensor].clone()];
                    let gate = tensor.len() / order.len();
                    order.iter().for_each(|&g| values.extend(&tensor[g * gate..][..gate]));
                }
            }
            values
        };
        let names = ["W", "R", "B"].map(|name| format!("{name}_l{layer}"));
        self.graph.floats(&names[0], &[directions, rows, q], collect(&[0]));
        self.graph.floats(&names[1], &[directions, rows, n], collect(&[1]));
        self.graph.floats(&names[2], &[directions, 2 * rows], collect(&[2, 3]));
        names
    }

    /// Drops the first d steps, and multiplies by the output layer.
    fn output(&mut self, x: &str) {
        let d = self.spec.delay();
        let mut x = x;
        if self.kind == GraphKind::Step {
            self.graph.add("Squeeze", &[x, "time_axis"], &["state"], []);
            x = "state";
        } else if d > 0 {
            self.graph.list("first", &[d as i64]);
            self.graph.list("end", &[i64::MAX]);
            self.graph.list("time_axis", &[0]);
            self.graph.add("Slice", &[x, "first", "end", "time_axis"], &["in_time"], []);
            x = "in_time";
        }
        if let (Some(m), Some([weight, bias])) = (self.spec.outputs(), self.model.layout().output())
        {
            let (n, params) = (self.spec.hidden_width(), self.model.params());
            let weight = &params[weight];
            let turned = (0..n * m).map(|i| weight[i % m * n + i / m]); // (m, n) -> (n, m)
            self.graph.floats("output_weight", &[n, m], turned);
            self.graph.floats("output_bias", &[m], params[bias].iter().copied());
            self.graph.add("MatMul", &[x, "output_weight"], &["product"], []);
            self.graph.add("Add", &["product", "output_bias"], &["sum"], []);
        }
    }
}

fn names(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
