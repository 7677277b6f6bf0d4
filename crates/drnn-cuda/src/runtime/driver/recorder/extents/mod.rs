//! How much memory kernels read and write, and how many threads they need, from their parameters.
//!
//! A kernel that is not listed here is rejected. Where the contents of device memory decide
//! (symbols, recipes), only the minimum is counted.

mod persistent;

use super::node::Launch;
use super::source::Signature;
use crate::kernels::params::Value;

/// A launch, and the signature of its kernel.
pub(super) struct Call<'a> {
    pub signature: &'a Signature,
    pub launch: &'a Launch,
}

impl Call<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        let field = self.launch.fields.iter().find(|(field, _)| *field == name);
        field.map(|(_, value)| *value)
    }

    /// A number among its parameters, or one that it is compiled with.
    fn number(&self, name: &str) -> usize {
        match (self.field(name), self.signature.defines.get(name)) {
            (Some(Value::U32(value)), _) => value as usize,
            (Some(Value::U64(value)), _) => value as usize,
            (_, Some(value)) => *value,
            _ => panic!(
                "{} has no field or definition `{name}`, which extents.rs needs",
                self.signature.name
            ),
        }
    }

    pub fn address(&self, name: &str) -> u64 {
        match self.field(name) {
            Some(Value::Address { at, .. }) => at,
            _ => panic!("{} has no address `{name}`, which extents.rs names", self.signature.name),
        }
    }
}

/// What a launch accesses.
pub(super) struct Extents {
    /// Minimal number of threads of all blocks; 0 if any number will do.
    pub threads: usize,
    /// Fields that are addresses, and the values accessed from there on.
    pub arrays: Vec<(&'static str, usize)>,
}

fn needs<const COUNT: usize>(threads: usize, arrays: [(&'static str, usize); COUNT]) -> Extents {
    Extents { threads, arrays: arrays.into() }
}

/// Values of `rows` rows of `columns`, `stride` apart.
fn strided(rows: usize, stride: usize, columns: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1) * stride + columns }
}

/// f16 from the beginning of the first lane's array to the end of the last one's, each of `len`.
fn of_lanes(call: &Call, stride: &str, len: usize) -> usize {
    (call.number("lanes") - 1) * call.number(stride) + len
}

/// Words of `struct Header`, `struct Recipe` and `struct Coefficients`, f64s of `struct Totals`.
const HEADER: usize = 8;
const RECIPE: usize = 12;
const COEFFICIENTS: usize = 4;
const TOTALS: usize = 6;

pub(super) fn extents(call: &Call) -> Option<Extents> {
    let name = call.signature.name.as_str();
    let cell = || name.starts_with("lstm_") || name.starts_with("gru_") || name.starts_with("rnn_");
    match name {
        _ if cell() => Some(cells(call)),
        _ if name.starts_with("group_") => group(call),
        _ if name.starts_with("resident_") => Some(resident(call)),
        _ => [plain, half, rows, recurrence, tagger, persistent::extents]
            .iter()
            .find_map(|file| file(call)),
    }
}

/// `cells.cu`: a thread per row and unit.
fn cells(call: &Call) -> Extents {
    let [rows, n] = ["rows", "n"].map(|name| call.number(name));
    let (name, values) = (call.signature.name.as_str(), rows * n);
    let gates = if name.starts_with("lstm") {
        4
    } else if name.starts_with("gru") {
        3
    } else {
        1
    };
    let arrays = call.launch.fields.iter().filter_map(|(field, _)| {
        let (name, count) = match *field {
            "gates" => ("gates", gates * values),
            "bias_ih" => ("bias_ih", gates * n),
            "bias_hh" => ("bias_hh", gates * n),
            "c_before" => ("c_before", values),
            "c" => ("c", values),
            "from_h" => ("from_h", values),
            "d_h" => ("d_h", values),
            "d_c" => ("d_c", values),
            "h" => ("h", strided(rows, call.number("h_stride"), n)),
            "h_before" => ("h_before", strided(rows, call.number("h_stride"), n)),
            "d_above" => ("d_above", strided(rows, call.number("d_stride"), n)),
            "run" => ("run", rows),
            _ => return None,
        };
        Some((name, count))
    });
    Extents { threads: values, arrays: arrays.collect() }
}

/// `batch.cu`, `tokens.cu`, `loss.cu`, `sums.cu`, `adam.cu`, `group_data.cu`.
fn plain(call: &Call) -> Option<Extents> {
    let v = |name: &str| call.number(name);
    let [x, y] = call.launch.grid;
    Some(match call.signature.name.as_str() {
        "take_batch" => {
            let [steps, outputs, rows, q, m] = ["steps", "outputs", "rows", "q", "m"].map(v);
            let (x, y) = (("to_x", steps * rows * q), ("to_y", outputs * rows * m));
            let parts = [("parts", 4 * rows), ("to_run", rows)];
            let headers = [("header", HEADER), ("to_header", HEADER)];
            // What is read of the data, `parts` say.
            let arrays = [headers[0], headers[1], parts[0], parts[1], ("x", q), ("y", m), x, y];
            needs((32 * steps * rows).max(rows).max(HEADER), arrays)
        }
        "embed" => {
            let (slots, e) = (v("slots"), v("e"));
            needs(slots * e, [("tokens", slots), ("x", slots * e), ("table", e)])
        }
        "embed_backward" => needs(0, [("starts", x + 1), ("d_table", x * v("e"))]),
        "add_output_bias" => {
            let (positions, m) = (v("positions"), v("m"));
            needs(positions * m, [("outputs", positions * m), ("bias", m), ("run", v("rows"))])
        }
        "weighted_cross_entropy" => {
            let (positions, m) = (v("positions"), v("m"));
            let each = ["weights", "classes", "losses", "hits"].map(|name| (name, positions));
            let outputs = [("outputs", positions * m), ("d_outputs", positions * m)];
            let [a, b, c, d] = each;
            needs(32 * positions, [a, b, c, d, outputs[0], outputs[1]])
        }
        loss @ ("cross_entropy" | "squared_error") => {
            let (positions, m) = (v("positions"), v("m"));
            let classes = loss == "cross_entropy";
            let targets = if classes { ("classes", positions) } else { ("targets", positions * m) };
            let outputs = [("outputs", positions * m), ("d_outputs", positions * m)];
            let sums = [("losses", positions), ("hits", positions)];
            let [[y, d], [l, h]] = [outputs, sums];
            needs(32 * positions, [("header", HEADER), y, d, targets, l, h])
        }
        "sum_losses" => {
            let positions = v("positions");
            needs(0, [("losses", positions), ("hits", positions), ("partial", 2 * x)])
        }
        "sum_squares" => needs(0, [("values", v("count")), ("partial", x)]),
        "sum_columns" => {
            let (rows, columns) = (v("rows"), v("columns"));
            // 32 columns by 8 rows of threads.
            needs(8 * columns * y, [("values", rows * columns), ("partial", y * columns)])
        }
        "sum_chunks" => {
            let (chunks, columns) = (v("chunks"), v("columns"));
            let sums = [("sums", columns), ("copy", columns)];
            needs(columns, [("partial", chunks * columns), sums[0], sums[1]])
        }
        "finish" => {
            let threads = call.launch.threads;
            let sums = [("squares", threads), ("losses", 2 * 64)];
            let to = [("totals", TOTALS), ("coefficients", COEFFICIENTS)];
            needs(256, [("header", HEADER), sums[0], sums[1], to[0], to[1]])
        }
        "make_sine" | "make_reversal" => needs(0, [("recipe", RECIPE), ("x", 1), ("y", 1)]),
        "adam" => {
            let count = v("count");
            let all = ["gradient", "params", "mean", "square"].map(|name| (name, count));
            needs(count, [("coefficients", COEFFICIENTS), all[0], all[1], all[2], all[3]])
        }
        _ => return None,
    })
}

/// Number of gates in `slots`, and the last slot of all gates: see `persistent/slots.rs`.
fn gates(slots: usize) -> usize {
    (slots as u32).to_le_bytes().iter().filter(|gate| **gate != 0xff).count()
}
fn last_slot(by_gate: usize, gates: usize) -> usize {
    (by_gate as u32).to_le_bytes()[..gates].iter().copied().max().unwrap_or(0).into()
}

/// `half.cu`: a thread per value of what is written, mostly.
fn half(call: &Call) -> Option<Extents> {
    let v = |name: &str| call.number(name);
    let header = ("header", HEADER);
    Some(match call.signature.name.as_str() {
        "pack_weights" => {
            let to = v("padded") * v("per_unit") * v("stride");
            needs(to, [("from", gates(v("slots")) * v("n") * v("columns")), ("to", to)])
        }
        "unpack_gradient" => {
            let (rows, columns, below) = (v("gates") * v("n"), v("columns"), v("below"));
            let last = (columns - 1) / below * v("padded_below") + (columns - 1) % below;
            let last_row = (v("n") - 1) * v("per_unit") + last_slot(v("by_gate"), v("gates"));
            let from = strided(last_row + 1, v("stride"), last + 1);
            needs(rows * columns, [header, ("from", from), ("to", rows * columns)])
        }
        "unpack_bias" => {
            let (values, from) = (v("gates") * v("n"), 4 * v("groups") * v("padded"));
            needs(values, [header, ("from", from), ("b_ih", values), ("b_hh", values)])
        }
        "to_half" => {
            let (rows, columns, stride) = (v("rows"), v("columns"), v("stride"));
            needs(rows * stride, [header, ("from", rows * columns), ("to", rows * stride)])
        }
        "unscale" => needs(v("count"), [header, ("values", v("count"))]),
        "symbol_table" => {
            let (symbols, e, to) = (v("symbols"), v("e"), 4 * v("symbols") * v("padded"));
            needs(
                to,
                [
                    ("embeddings", symbols * e),
                    ("w_ih", gates(v("slots")) * v("n") * e),
                    ("table", to),
                ],
            )
        }
        "one_hot" => {
            let (slots, to) = (v("slots"), v("slots") * v("stride"));
            needs(to, [("tokens", slots), ("to", to)])
        }
        "table_to_weights" => {
            let (symbols, e, rows) = (v("symbols"), v("e"), v("gates") * v("n"));
            let last_row = (v("n") - 1) * 4 + last_slot(v("by_gate"), v("gates"));
            let d_table = ("d_table", strided(last_row + 1, v("stride"), symbols));
            let arrays = [header, d_table, ("embeddings", symbols * e), ("d_w_ih", rows * e)];
            needs(rows * e, arrays)
        }
        "table_to_partials" => {
            let (symbols, e, rows) = (v("symbols"), v("e"), v("gates") * v("n"));
            let last_row = (v("n") - 1) * 4 + last_slot(v("by_gate"), v("gates"));
            let d_table = ("d_table", strided(last_row + 1, v("stride"), symbols));
            let partial = call.launch.grid[0] * symbols * e;
            needs(0, [d_table, ("w_ih", rows * e), ("partial", partial)])
        }
        "partials_to_embeddings" => {
            let count = v("count");
            let partial = ("partial", v("chunks") * count);
            needs(count, [header, partial, ("d_embeddings", count)])
        }
        "add_output_bias_padded" => {
            let (positions, m) = (v("positions"), v("m"));
            let from = ("from", strided(positions, v("stride"), m));
            let ends = [("bias", m), ("run", v("rows"))];
            needs(positions * m, [from, ("outputs", positions * m), ends[0], ends[1]])
        }
        _ => return None,
    })
}

/// `recurrence/values.cu`, `recurrence/states.cu`: a thread per value of what is written.
fn recurrence(call: &Call) -> Option<Extents> {
    let v = |name: &str| call.number(name);
    let header = ("header", HEADER);
    Some(match call.signature.name.as_str() {
        "begin_forward" => {
            let [steps, rows, biases, words] = ["steps", "rows", "biases", "words"].map(v);
            let (positions, written) = (steps * rows, steps * rows * v("stride"));
            let lengths = [("lengths32", rows), ("lengths64", rows), ("run", rows)];
            let values = [("x", positions * v("width")), ("to", written), ("to_half", written)];
            let own = [("no_bias", biases), ("exchange", 8 * words), ("parity", 1)];
            let threads = written.max(rows).max(biases); // any number resets the exchange
            Extents { threads, arrays: [lengths, values, own].concat() }
        }
        "read_values" => {
            let values = v("positions") * v("width");
            needs(values, [("from", values), ("to", values), ("run", v("rows"))])
        }
        "read_values_half" => {
            let (from, to) = (v("positions") * v("width"), v("positions") * v("stride"));
            needs(to, [header, ("from", from), ("to", to), ("run", v("rows"))])
        }
        "write_values" => {
            let (positions, width) = (v("positions"), v("width"));
            let from = ("from", strided(positions, v("stride"), width));
            let to = positions * width;
            needs(to, [header, from, ("to", to), ("run", v("rows"))])
        }
        "end_forward_half" => {
            let [steps, rows, layers, n] = ["steps", "rows", "layers", "n"].map(v);
            let width = v("directions") * n;
            let of_layer = strided((steps + 2) * rows, v("stride"), v("directions") * v("padded"));
            let h = (layers - 1) * v("layer_stride") + of_layer;
            let (y, last) = (steps * rows * width, layers * rows * width);
            let wanted =
                |name: &str, values: usize| if call.address(name) == 0 { 0 } else { values };
            let threads = wanted("y", y).max(wanted("last", last));
            needs(threads, [("h", h), ("y", y), ("last", last), ("run", rows)])
        }
        "largest" => {
            let (values, states) = (v("positions") * v("width"), v("states"));
            let given = [("d_y", values), ("d_h", states), ("d_c", states)];
            let own = [("run", v("rows")), ("largest", call.launch.grid[0])];
            needs(0, [given[0], given[1], given[2], own[0], own[1]])
        }
        "set_scale" => needs(1, [("largest", v("count")), header]),
        "place_states" => {
            let (rows, n, places) = (v("rows"), v("n"), (v("steps") + 2) * v("rows"));
            let to = ("to", strided(places, v("stride"), n));
            needs(places * n, [("given", rows * n), to, ("run", rows)])
        }
        "last_states" => {
            let (rows, n) = (v("rows"), v("n"));
            // The forward direction's place depends on the lengths, index 1 at least.
            let from = ("from", strided(2 * rows, v("stride"), n));
            needs(rows * n, [from, ("to", rows * n), ("run", rows)])
        }
        "place_states_half" => {
            let [lanes, groups, block_rows] = ["lanes", "groups", "block_rows"].map(v);
            let [steps, rows, padded] = ["steps", "rows", "padded"].map(v);
            let (positions, values) = ((steps + 2) * rows, lanes * groups * block_rows * padded);
            let h = of_lanes(call, "h_stride", strided(positions, v("width"), padded));
            let c = of_lanes(call, "c_stride", positions * padded);
            let given = lanes * rows * v("n");
            let first = [("first_h", given), ("first_c", given)];
            let c = ("c", if v("save") == 0 { 0 } else { c });
            needs(values, [first[0], first[1], ("h", h), c, ("exchange", values)])
        }
        _ => return None,
    })
}

/// `tagger/words.cu`: a thread per value of what is written. Which words, spellings and slots are
/// read lies in memory.
fn tagger(call: &Call) -> Option<Extents> {
    let v = |name: &str| call.number(name);
    Some(match call.signature.name.as_str() {
        "join_words" => {
            let (slots, encoding, width) = (v("slots"), v("encoding"), v("width"));
            let q = encoding + width;
            let from = [("encodings", v("spellings") * encoding), ("vectors", width)];
            let which = [("words", slots), ("rows", slots)];
            needs(slots * q, [which[0], which[1], from[0], from[1], ("x", slots * q)])
        }
        "sum_encodings" => {
            let (spellings, encoding) = (v("spellings"), v("encoding"));
            let to = spellings * encoding;
            let lists = [("starts", spellings + 1), ("slots", 1)];
            needs(to, [lists[0], lists[1], ("d_x", v("q")), ("d_encodings", to)])
        }
        "sum_vectors" => {
            let (count, width) = (v("count"), v("width"));
            let lists = [("words", count), ("starts", count + 1), ("slots", count)];
            let d_x = ("d_x", v("encoding") + width);
            // The words are distinct.
            needs(count * width, [lists[0], lists[1], lists[2], d_x, ("d_vectors", count * width)])
        }
        _ => return None,
    })
}

/// `rows.cu`: a thread per f32, or per 8 f16. Which rows of H and dH they access lies in memory.
fn rows(call: &Call) -> Option<Extents> {
    let (gathers, vector) = match call.signature.name.as_str() {
        "gather" => (true, 1),
        "gather_half" => (true, 8),
        "scatter" => (false, 1),
        "scatter_half" => (false, 8),
        _ => return None,
    };
    let (places, width) = (call.number("count"), call.number("width"));
    let (selected, one_row) = (vector * places * width, vector * width);
    let ends = match gathers {
        true => [("h", one_row), ("to", selected)],
        false => [("from", selected), ("to", one_row)],
    };
    Some(needs(places * width, [("places", places), ends[0], ends[1]]))
}

/// `resident.cu`: blocks of 16 rows, a warp per 8 units.
fn resident(call: &Call) -> Extents {
    let [rows, steps, n] = ["rows", "steps", "n"].map(|name| call.number(name));
    let threads = rows.div_ceil(16) * 32 * n.div_ceil(8);
    let both = [
        ("gates", steps * rows * 4 * n),
        ("w_hh", 4 * n * n),
        ("c", (steps + 2) * rows * n),
        ("run", rows),
    ];
    let own = match call.signature.name.as_str() {
        "resident_forward" => {
            let h = strided((steps + 2) * rows, call.number("h_stride"), n);
            vec![("bias_ih", 4 * n), ("bias_hh", 4 * n), ("h", h)]
        }
        _ => {
            let d_above = strided(steps * rows, call.number("d_stride"), n);
            vec![("header", HEADER), ("d_above", d_above)]
        }
    };
    Extents { threads, arrays: both.into_iter().chain(own).collect() }
}

/// `group/*.cu`, with the sizes of `group/common.cuh`; images, gates and d_outputs are in buffers
/// of bytes.
fn group(call: &Call) -> Option<Extents> {
    let v = |name: &str| call.number(name);
    let [n, q, out, directions, rows] = ["N", "Q", "OUT", "DIRECTIONS", "ROWS"].map(v);
    let saved = v("ROW_TILES") * 56 * n;
    let column_group = 16 * ((v("ROW_TILES") * 56).next_multiple_of(16) + 1);
    let h_groups = (n + 3 * q + 2).next_multiple_of(16) / 8;
    let d_groups = (4 * n + out).next_multiple_of(16) / 8;
    let (h_image, d_image) = (h_groups * column_group, d_groups * column_group);
    let products = 8 * d_groups * (8 * h_groups).next_multiple_of(56);
    let parameters = directions * 4 * n * (q + n + 2) + out * directions * n + out;
    let (task, progress) = (12, 6);
    let [x, y] = call.launch.grid;
    let of = |lanes: usize| [("tasks", task * lanes), ("progress", progress * lanes)];
    let arrays = match call.signature.name.as_str() {
        "group_forward" => {
            let (lanes, places, steps) = (x / directions, x * y, v("steps"));
            let saved = if v("save") == 0 { 0 } else { places * steps * saved };
            let images = places * (steps + 1) * h_image;
            let own = [("gates", 8 * saved), ("cells", 2 * saved), ("h_images", images)];
            [of(lanes).to_vec(), own.to_vec(), vec![("params", lanes * parameters)]].concat()
        }
        "group_outputs" => {
            let (lanes, chunks) = (y, v("chunks"));
            let outputs = lanes * v("elements") * chunks * rows * out;
            let images = lanes * directions * chunks * (v("steps") + 1) * h_image;
            let to = [("d_outputs", 2 * outputs), ("outputs", outputs)];
            let own = [("params", lanes * parameters), ("h_images", images), to[0], to[1]];
            [of(lanes).to_vec(), own.to_vec(), vec![("losses", lanes * x * 3)]].concat()
        }
        "group_backward" => {
            let (lanes, places, steps) = (x / directions, x * y, v("steps"));
            let saved = places * steps * saved;
            let d_outputs = ("d_outputs", 2 * lanes * v("elements") * y * rows * out);
            let own = [("params", lanes * parameters), ("gates", 8 * saved), ("cells", 2 * saved)];
            let images = ("d_images", places * (steps + 1) * d_image);
            [of(lanes).to_vec(), own.to_vec(), vec![d_outputs, images]].concat()
        }
        "group_weights" => {
            let owners = x / d_groups.div_ceil(32);
            let images = owners * v("images") * v("chunks");
            let read = [("h_images", images * h_image), ("d_images", images * d_image)];
            let own = vec![("products", owners * products)];
            [of(owners / directions).to_vec(), read.to_vec(), own].concat()
        }
        "group_begin" => vec![("progress", progress * v("lanes"))],
        "group_squares" => {
            let own = [("products", y * directions * products), ("partial", x * y)];
            [of(y), own].concat()
        }
        "group_finish" => {
            let blocks = x * call.launch.threads;
            let own = [("losses", 3 * blocks), ("squares", blocks)];
            [of(x).to_vec(), own.to_vec(), vec![("coefficients", COEFFICIENTS * x)]].concat()
        }
        "group_adam" => {
            let all = ["params", "mean", "square"].map(|name| (name, y * parameters));
            let own = [("coefficients", COEFFICIENTS * y), ("products", y * directions * products)];
            [own.to_vec(), all.to_vec()].concat()
        }
        _ => return None,
    };
    Some(Extents { threads: 0, arrays })
}
