//! What is done before what, where one stream captures and another runs beside it.
//!
//! A place is, for every stream, how many of its nodes are done there: a vector clock. Nodes that do not know each other may run at
//! the same time, and then neither may write what the other touches.

use super::node::{Factor, Node};
use super::reach::{Call, reach};
use super::source::Kind;
use super::{Recorder, Refused, refuse};
use std::collections::HashMap;
use std::ops::Range;

/// Of two places, what lies in memory decides which a kernel writes: so nothing is said of when.
const IN_TURN: [(&str, &str); 2] = [("forget", "even"), ("forget", "odd")];

/// By stream, how many of its nodes are done.
#[derive(Debug, Clone, Default)]
pub(super) struct Place(HashMap<usize, usize>);

/// A queue of work.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The stream whose capture it belongs to.
    capture: Option<usize>,
    place: Place,
}

/// What was captured: by whom, which of that stream's nodes it is, and what it touches.
#[derive(Debug)]
pub(super) struct Captured {
    node: Node,
    stream: usize,
    number: usize,
    touched: Vec<Touched>,
}

#[derive(Debug)]
struct Touched {
    bytes: Range<u64>,
    written: bool,
}

/// Work that was asked for, and whether beside the stream that captured it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub node: Node,
    pub beside: bool,
}

impl Place {
    fn of(&self, stream: usize) -> usize {
        self.0.get(&stream).copied().unwrap_or(0)
    }

    fn knows(&self, node: &Captured) -> bool {
        self.of(node.stream) >= node.number
    }

    fn follow(&mut self, other: &Place) {
        for (stream, number) in &other.0 {
            let here = self.0.entry(*stream).or_default();
            *here = (*here).max(*number);
        }
    }
}

impl Queue {
    pub fn captures(&self) -> bool {
        self.capture.is_some()
    }
}

impl Captured {
    /// Whether both may run at once: neither writes what the other touches.
    fn may_meet(&self, touched: &[Touched]) -> bool {
        let apart = |a: &Touched, b: &Touched| {
            let overlap = a.bytes.start < b.bytes.end && b.bytes.start < a.bytes.end;
            !(overlap && (a.written || b.written))
        };
        self.touched.iter().all(|a| touched.iter().all(|b| apart(a, b)))
    }
}

impl Recorder {
    pub(super) fn begin_capture(&mut self, stream: usize) -> Result<(), Refused> {
        match self.streams.get_mut(&stream) {
            Some(queue) if !queue.captures() => {
                *queue = Queue { capture: Some(stream), place: Place::default() };
                self.captures.insert(stream, Vec::new());
                Ok(())
            }
            _ => refuse("a stream that captures already, or that there is not"),
        }
    }

    /// All that ran beside must have been waited for.
    pub(super) fn end_capture(&mut self, stream: usize) -> Result<Vec<Asked>, Refused> {
        let Some(captured) = self.captures.remove(&stream) else {
            return refuse("nothing was captured");
        };
        let place = self.streams.get(&stream).map(|queue| queue.place.clone()).unwrap_or_default();
        let of_it = |queue: &&mut Queue| queue.capture == Some(stream);
        self.streams.values_mut().filter(of_it).for_each(|queue| *queue = Queue::default());
        if !captured.iter().all(|node| place.knows(node)) {
            return refuse("a capture ends before what runs beside it");
        }
        let asked = |c: Captured| Asked { node: c.node, beside: c.stream != stream };
        Ok(captured.into_iter().map(asked).collect())
    }

    /// Puts work into a stream, unless it cannot be right.
    pub(super) fn put(&mut self, stream: usize, node: Node) -> Result<(), Refused> {
        self.check(&node)?;
        let touched = self.touched(&node);
        let Some(queue) = self.streams.get_mut(&stream) else {
            return refuse("a stream that there is not");
        };
        let Some(captured) = queue.capture.and_then(|capture| self.captures.get_mut(&capture))
        else {
            if let Node::Receive { at, bytes } = node {
                self.memory.receive(at, bytes);
            }
            self.done.push(Asked { node, beside: false });
            return Ok(());
        };
        let mut others = captured.iter().filter(|other| !queue.place.knows(other));
        if let Some(other) = others.find(|other| !other.may_meet(&touched)) {
            return refuse(format!("two that run at once: {:?} and {node:?}", other.node));
        }
        let number = queue.place.of(stream) + 1;
        queue.place.0.insert(stream, number);
        captured.push(Captured { node, stream, number, touched });
        Ok(())
    }

    pub(super) fn record(&mut self, event: usize, stream: usize) -> Result<(), Refused> {
        let Some(queue) = self.streams.get(&stream) else {
            return refuse("an event in a stream that there is not");
        };
        let Queue { capture, place } = queue;
        self.events.insert(event, capture.map(|capture| (capture, place.clone())));
        Ok(())
    }

    pub(super) fn wait_event(&mut self, stream: usize, event: usize) -> Result<(), Refused> {
        let (Some(queue), Some(recorded)) =
            (self.streams.get_mut(&stream), self.events.get(&event))
        else {
            return refuse("a stream, or an event, that there is not");
        };
        match (queue.capture, recorded) {
            (None, None) => return Ok(()),
            (here, Some((there, place))) if here.is_none_or(|here| here == *there) => {
                queue.capture = Some(*there);
                queue.place.follow(place);
            }
            _ => return refuse("a capture that waits for what it does not capture"),
        }
        self.put(stream, Node::Wait)
    }

    /// What a node reads and writes, as far as is known.
    fn touched(&self, node: &Node) -> Vec<Touched> {
        let bytes = |at: u64, bytes: usize, written: bool| Touched {
            bytes: at..at + bytes as u64,
            written,
        };
        match node {
            Node::Wait => Vec::new(),
            Node::Fill { at, bytes: count, .. } | Node::Receive { at, bytes: count } => {
                vec![bytes(*at, *count, true)]
            }
            Node::Copy { from, to, bytes: count } => {
                vec![bytes(*from, *count, false), bytes(*to, *count, true)]
            }
            Node::Product(product) => {
                let matrix = |(name, m, size): (&str, &Factor, [usize; 2])| {
                    bytes(m.at, m.bytes(size), name == "C")
                };
                product.matrices().map(matrix).into()
            }
            Node::Launch(launch) => {
                let Some(kernel) = self.functions.get(&launch.function) else { return Vec::new() };
                let call = Call { signature: &kernel.signature, launch };
                let constant = |name: &str| {
                    let of = |kind: &Kind| matches!(kind, Kind::Address { constant: true, .. });
                    kernel.signature.params.iter().any(|p| p.name == name && of(&p.kind))
                };
                let arrays = reach(&call).map(|reach| reach.arrays).unwrap_or_default();
                let certain = |name| !IN_TURN.contains(&(kernel.signature.name.as_str(), name));
                let extents = self.extents(&call, &arrays).into_iter();
                let touched = extents.filter(|(name, _)| certain(*name));
                touched.map(|(name, bytes)| Touched { bytes, written: !constant(name) }).collect()
            }
        }
    }
}
