//! A recurrent node: its cell, widths and weights, what feeds it, and why it may not be read.

use super::axes::{Axis, Factor};
use super::constant::{Constant, Type};
use super::message::Node;
use super::value::{Followed, Source, Steps, Unknown, Value};
use super::walk::Found;
use crate::error::Result;
use crate::error::text::short;
use crate::spec::Cell;

/// Where the input of a recurrence comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed<'a> {
    /// The user.
    Input,
    Embedding(usize),
    /// All states of another recurrence.
    Below(usize),
    /// The result of this operator.
    Computed(&'a str),
}

/// Constants W, R and B of a node, and what their shapes say.
pub(super) struct Weights<'a> {
    pub w: Constant<'a>,
    pub r: Constant<'a>,
    /// Zeros if there is none.
    pub b: Option<Constant<'a>>,
    pub inputs: usize,
    pub units: usize,
}

/// A node LSTM, GRU or RNN.
pub(super) struct Recurrence<'a> {
    /// Its name, or that of its first output.
    pub title: String,
    /// Other names that it may be given by: those of its outputs and weights.
    pub aliases: Vec<&'a str>,
    pub cell: Cell,
    pub directions: usize,
    pub feed: Feed<'a>,
    /// Constants, or why this node is not read.
    pub weights: core::result::Result<Weights<'a>, String>,
    /// States to start from.
    pub starts: Vec<Value<'a>>,
    /// It runs a single step, for a graph that is called again and again.
    pub one_step: bool,
    batch_first: bool,
}

impl<'a> Recurrence<'a> {
    /// Reads a node whose inputs have these values: X, W, R, B, lengths, h, c, P.
    pub fn read(
        node: &Node<'a>,
        values: Vec<Option<Value<'a>>>,
        found: &Found<'a>,
    ) -> Result<Recurrence<'a>> {
        let mut values: [Option<Value>; 8] = values.try_into().unwrap_or_default();
        let direction = text(node, "direction")?;
        let directions = if direction == Some(b"bidirectional") { 2 } else { 1 };
        let (cell, refused) = cell(node, directions)?;
        let batch_first = node.int("layout", 0)? == 1;
        let refused = match direction {
            Some(b"reverse") => {
                Some("it runs backward only; drnn runs forward or both ways".into())
            }
            _ if values[7].is_some() => {
                Some("peephole connections (its input P) are not supported".into())
            }
            _ => refused,
        };
        let [x, w, r, b, _, h, c, _] = &mut values;
        let mut aliases: Vec<&str> = node.outputs.iter().copied().take(1).collect();
        for value in [&w, &r] {
            if let Some(Value::Constant(constant)) = value {
                aliases.extend(constant.origins.iter());
            }
        }
        let size = node.attribute("hidden_size")?.and_then(|attribute| attribute.int);
        let weights = match refused {
            Some(why) => Err(why),
            None => weights(cell, directions, [w.take(), r.take(), b.take()], size),
        };
        let (feed, one_step) = feed(x.as_ref(), batch_first, found);
        Ok(Recurrence {
            title: unique(node.title(), found),
            aliases,
            cell,
            directions,
            feed,
            weights,
            starts: [h.take(), c.take()].into_iter().flatten().collect(),
            one_step,
            batch_first,
        })
    }

    /// What is known about its outputs: Y, Y_h and Y_c, if it is number `index`.
    pub fn outputs(&self, index: usize) -> [Value<'a>; 3] {
        let Ok(Weights { units, .. }) = self.weights else {
            return core::array::from_fn(|_| Value::Unknown(Unknown::Computed("a recurrence")));
        };
        let time = if self.one_step { vec![] } else { vec![Factor::Time] };
        let direction = if self.directions == 2 { vec![Factor::Direction] } else { vec![] };
        let (batch, unit) = (vec![Factor::Batch], vec![Factor::Units(units)]);
        let states: [Axis; 3] = match self.batch_first {
            false => [direction, batch, unit],
            true => [batch, direction, unit],
        };
        let mut all = states.to_vec();
        all.insert(usize::from(self.batch_first), time);
        let last = if self.one_step { Steps::All } else { Steps::Final };
        let followed =
            |axes, steps| Value::Followed(Followed::new(Source::Recurrence(index), axes, steps));
        let c = Value::Unknown(Unknown::Computed("a recurrence"));
        [followed(all, Steps::All), followed(states.to_vec(), last), c]
    }

    /// Floats of its states at a step, of both directions together.
    pub fn width(&self) -> Option<usize> {
        self.weights.as_ref().ok()?.units.checked_mul(self.directions)
    }
}

fn text<'a>(node: &Node<'a>, name: &str) -> Result<Option<&'a [u8]>> {
    Ok(node.attribute(name)?.and_then(|attribute| attribute.text))
}

/// The node's title, with a number if another node has it: branches of an `If` may repeat it.
fn unique(title: &str, found: &Found) -> String {
    match found.titles.get(title) {
        Some(count) => format!("{title}#{}", count + 1),
        None => title.into(),
    }
}

/// The cell, and why it is not one of drnn's.
fn cell(node: &Node, directions: usize) -> Result<(Cell, Option<String>)> {
    let given = node.attribute("activations")?.map(|attribute| attribute.texts);
    let expected: &[&[u8]] = match node.operator {
        "LSTM" => &[b"sigmoid", b"tanh", b"tanh"],
        "GRU" => &[b"sigmoid", b"tanh"],
        _ => &[b"tanh"],
    };
    let all = |names: &[&[u8]]| {
        let Some(given) = &given else { return names == expected };
        let wanted = core::iter::repeat_n(names, directions).flatten();
        given.is_empty() && names == expected
            || given.len() == names.len() * directions
                && given.iter().zip(wanted).all(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    let cell = match node.operator {
        "LSTM" => Cell::Lstm,
        "GRU" if node.int("linear_before_reset", 0)? == 0 => Cell::GruResetBefore,
        "GRU" => Cell::Gru,
        _ if all(&[b"relu"]) => Cell::RnnRelu,
        _ => Cell::RnnTanh,
    };
    let refused = if cell != Cell::RnnRelu && !all(expected) {
        let given = given.unwrap_or_default();
        let given: Vec<_> = given.iter().map(|name| String::from_utf8_lossy(name)).collect();
        Some(format!("its activations are {}, which is not supported", short(&given.join(", "))))
    } else if node.attribute("clip")?.is_some_and(|clip| clip.float.is_some_and(|x| x > 0.0)) {
        Some("it clips its gates (clip), which is not supported".into())
    } else if node.int("input_forget", 0)? != 0 {
        Some("its input and forget gates are coupled (input_forget), which is not supported".into())
    } else {
        None
    };
    Ok((cell, refused))
}

/// The constants W, R and B, if their shapes fit each other.
fn weights<'a>(
    cell: Cell,
    directions: usize,
    values: [Option<Value<'a>>; 3],
    hidden_size: Option<i64>,
) -> core::result::Result<Weights<'a>, String> {
    let constant = |name: &str, value| match value {
        Value::Constant(constant) if constant.is_float() => Ok(constant),
        Value::Constant(_) => Err(format!("its weights {name} are integers")),
        Value::Unknown(unknown) => Err(format!("its weights {name} are {}", unknown.reason())),
        _ => Err(format!("its weights {name} are computed when the graph runs")),
    };
    let [w, r, b] = values;
    let missing = |name: &str| format!("it has no weights {name}");
    let w = constant("W", w.ok_or_else(|| missing("W"))?)?;
    let r = constant("R", r.ok_or_else(|| missing("R"))?)?;
    let b = b.map(|b| constant("B", b)).transpose()?;
    let (&[d, rows, inputs], &[_, _, units]) = (w.shape.as_slice(), r.shape.as_slice()) else {
        let (w, r) = (&w.shape, &r.shape);
        return Err(format!("W has shape {w:?} and R {r:?}, expected three dimensions each"));
    };
    let fits = d == directions
        && units > 0
        && inputs > 0
        && cell.gates().checked_mul(units) == Some(rows)
        && r.shape == [d, rows, units]
        && hidden_size.is_none_or(|n| usize::try_from(n) == Ok(units))
        && b.as_ref().is_none_or(|b| b.shape == [d, 2 * rows]);
    if !fits {
        let (w, r) = (&w.shape, &r.shape);
        let b = b.map_or(String::new(), |b| format!(", B {:?}", b.shape));
        return Err(format!(
            "W has shape {w:?}, R {r:?}{b}, which do not fit each other, its direction or hidden_size"
        ));
    }
    Ok(Weights { w, r, b, inputs, units })
}

/// What feeds X, and whether it is a single step.
fn feed<'a>(x: Option<&Value<'a>>, batch_first: bool, found: &Found<'a>) -> (Feed<'a>, bool) {
    let from = match x {
        Some(Value::Followed(from)) => from,
        Some(Value::Unknown(Unknown::Computed(operator))) => {
            return (Feed::Computed(operator), false);
        }
        Some(Value::Unknown(Unknown::Input)) => return (Feed::Input, false),
        Some(Value::Unknown(Unknown::Undefined)) | None => {
            return (Feed::Computed("a node that comes later"), false);
        }
        _ => return (Feed::Computed("other operators"), false),
    };
    let time = usize::from(batch_first);
    let one_step = from.axes.len() == 3 && from.axes[time].is_empty();
    let feed = match from.source {
        Source::Input => Feed::Input,
        Source::Embedding(index) if from.axes.len() == 3 && from.width().is_some() => {
            Feed::Embedding(index)
        }
        Source::Embedding(_) => Feed::Computed("operators after an embedding"),
        Source::Linear(_) => Feed::Computed("MatMul"),
        Source::Recurrence(index) => {
            let in_order = match (from.axes.as_slice(), time) {
                ([a, b, _], 0) | ([b, a, _], 1) => {
                    let below = found.recurrences.get(index).is_some_and(|below| below.one_step);
                    (a.as_slice() == [Factor::Time] || (below && a.is_empty()))
                        && b.as_slice() == [Factor::Batch]
                }
                _ => false,
            };
            match in_order && from.steps == Steps::All && from.width().is_some() {
                true => Feed::Below(index),
                false => Feed::Computed("another recurrence, with other axes"),
            }
        }
    };
    (feed, one_step)
}

impl Weights<'_> {
    /// Whether some are 64-bit numbers, which are rounded.
    pub fn has_f64(&self) -> bool {
        [Some(&self.w), Some(&self.r), self.b.as_ref()]
            .into_iter()
            .flatten()
            .any(|constant| constant.kind == Type::F64)
    }
}
