//! A network as standard operators, one recurrent operator per layer:
//!
//! ```text
//! whole   tokens -> Gather -> Pad -> [LSTM -> Squeeze] * k -> Slice -> MatMul -> Add -> y
//! step    tokens -> Gather -> Unsqueeze -> [LSTM] * k -> Squeeze -> MatMul -> Add -> y
//! ```
//!
//! Weights are PyTorch's; ONNX orders an LSTM's gates i, o, f, c and a GRU's z, r, h, and wants both
//! directions in one tensor.

use super::GraphKind;
use super::graph::{Graph, int, ints, word, words};
use super::interface::{null_token, one_state};
use crate::model::Model;
use crate::spec::{Cell, InputSpec, NetSpec, Padding};

/// Puts the graph together. Its inputs and outputs are those of `interface`.
struct Network<'a> {
    model: &'a Model,
    spec: &'a NetSpec,
    kind: GraphKind,
    graph: Graph,
}

/// The nodes and constants of `model`.
pub fn graph(model: &Model, kind: GraphKind) -> Graph {
    let mut network = Network { model, spec: model.spec(), kind, graph: Graph::default() };
    let mut x = network.read();
    network.part_states();
    for layer in 0..network.spec.layers() {
        x = network.layer(layer, &x);
    }
    network.output(&x);
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

    fn embedding(&mut self) {
        let (InputSpec::Tokens { symbols, embedding }, Some(range)) =
            (self.spec.input(), self.model.layout().embedding())
        else {
            return;
        };
        let null = null_token(self.spec, self.kind);
        let zeros = null.map_or(0, |_| embedding);
        let values = self.model.params()[range].iter().copied();
        let values = values.chain(std::iter::repeat_n(0.0, zeros));
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

    /// `h0` -> `h0_l0`, `h0_l1`, ..
    fn part_states(&mut self) {
        if !self.joined() {
            return;
        }
        let each = self.spec.direction().count() as i64;
        self.graph.list("per_layer", &vec![each; self.spec.layers()]);
        for part in self.parts() {
            let layers = self.all_states(part, "0");
            let inputs = [&format!("{part}0"), "per_layer"];
            self.graph.add("Split", &inputs, &names(&layers), [int("axis", 0)]);
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
        let starts = self.parts().iter().map(|part| self.state(part, "0", layer));
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
        self.graph.rename_last("y");
    }
}

fn names(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
