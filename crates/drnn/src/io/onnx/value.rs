//! What is known about a value of a graph.

use super::axes::{Axis, Factor, Size};
use super::constant::Constant;
use alloc::rc::Rc;

/// A value between two nodes.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Constant(Constant<'a>),
    /// A list of sizes, as `Shape` gives it.
    Shape(Vec<Size>),
    /// What a part of the network computes, with its axes moved at most.
    Followed(Followed),
    /// Last states of several layers, joined on their first axis.
    Joined(Vec<Followed>),
    /// One number everywhere; whether that is zero.
    Filled {
        zero: bool,
    },
    /// Anything else.
    Unknown(Unknown<'a>),
}

/// Where a value comes from that drnn does not follow.
#[derive(Debug, Clone)]
pub(super) enum Unknown<'a> {
    /// An input of the graph, or of a graph inside it.
    Input,
    /// The result of this operator.
    Computed(&'a str),
    /// A tensor that cannot be read, and why.
    Unreadable(Rc<str>),
    /// No node before this one makes it.
    Undefined,
}

/// A part of the network that computes values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// What the user feeds.
    Input,
    /// An entry of [`Found::embeddings`](super::walk::Found).
    Embedding(usize),
    /// An entry of [`Found::recurrences`](super::walk::Found).
    Recurrence(usize),
    /// An entry of [`Found::linears`](super::walk::Found).
    Linear(usize),
}

/// Which steps a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Steps {
    All,
    /// The last one only.
    Last,
    /// The states after the last step: of the backward direction that is the first element.
    Final,
}

/// Values of a source, with their axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Followed {
    pub source: Source,
    pub axes: Vec<Axis>,
    pub steps: Steps,
    /// One of the two directions, if the other one was cut off.
    pub half: Option<usize>,
}

impl Followed {
    pub fn new(source: Source, axes: Vec<Axis>, steps: Steps) -> Followed {
        Followed { source, axes, steps, half: None }
    }

    /// Values per step, if its last axis holds all of them in drnn's order.
    pub fn width(&self) -> Option<usize> {
        match (self.axes.last()?.as_slice(), self.half) {
            ([Factor::Units(n)], None) if !self.axes.concat().contains(&Factor::Direction) => {
                Some(*n)
            }
            ([Factor::Direction, Factor::Units(n)], None) => n.checked_mul(2),
            _ => None,
        }
    }

    /// Both directions in one, where these are the halves of the same states joined on `axis`.
    pub fn joined(&self, other: &Followed, axis: usize) -> Option<Followed> {
        let halves = (self.half, other.half) == (Some(0), Some(1));
        let same =
            Followed { half: None, ..self.clone() } == Followed { half: None, ..other.clone() };
        if !halves || !same || axis + 1 != self.axes.len() {
            return None;
        }
        let mut both = Followed { half: None, ..self.clone() };
        both.axes.last_mut()?.insert(0, Factor::Direction);
        Some(both)
    }
}

impl Unknown<'_> {
    /// Why it is no constant, for messages.
    pub fn reason(&self) -> String {
        match self {
            Unknown::Input => "an input of the graph, not a constant".into(),
            Unknown::Computed(operator) if is_quantised(operator) => {
                format!("quantised ({operator}); give the float model")
            }
            Unknown::Computed(operator) => format!("computed by {operator} when the graph runs"),
            Unknown::Unreadable(why) => format!("not read: {why}"),
            Unknown::Undefined => "not defined by any node before it".into(),
        }
    }
}

/// Whether an operator's result is made of quantised numbers.
pub(super) fn is_quantised(operator: &str) -> bool {
    operator.to_ascii_lowercase().contains("quantize") || operator.starts_with("QLinear")
}
