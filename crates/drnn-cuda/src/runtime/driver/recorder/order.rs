//! Happens-before between a stream that captures and its side streams.
//!
//! Every stream has a vector clock: of each stream, how many nodes happened before. Nodes that are
//! not ordered may run concurrently, and then neither may write what the other accesses.

use super::extents::{Call, extents};
use super::node::{Factor, Node};
use super::{Recorder, Rejected, reject};
use crate::kernels::params::Value;
use std::collections::HashMap;
use std::ops::Range;

/// Two buffers of which the kernel writes one, by a word in device memory: nothing is known before.
const ALTERNATING: [(&str, &str); 2] = [("reset_exchange", "even"), ("reset_exchange", "odd")];

/// A vector clock: by stream, how many of its nodes happened before.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(HashMap<usize, usize>);

/// A stream.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The stream whose capture it takes part in.
    capture: Option<usize>,
    clock: Clock,
}

/// A captured node: its stream, its number there, and its accesses.
#[derive(Debug)]
pub(super) struct Captured {
    node: Node,
    stream: usize,
    number: usize,
    accesses: Vec<Access>,
}

#[derive(Debug)]
struct Access {
    bytes: Range<u64>,
    written: bool,
}

/// Submitted work, and whether it ran in another stream than the one that began the capture.
#[derive(Debug, Clone)]
pub(super) struct Submitted {
    pub node: Node,
    pub on_side_stream: bool,
}

impl Clock {
    fn of(&self, stream: usize) -> usize {
        self.0.get(&stream).copied().unwrap_or(0)
    }

    fn is_after(&self, node: &Captured) -> bool {
        self.of(node.stream) >= node.number
    }

    fn merge(&mut self, other: &Clock) {
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
    /// Whether both may run concurrently: neither writes what the other accesses.
    fn may_overlap(&self, accesses: &[Access]) -> bool {
        let apart = |a: &Access, b: &Access| {
            let overlap = a.bytes.start < b.bytes.end && b.bytes.start < a.bytes.end;
            !(overlap && (a.written || b.written))
        };
        self.accesses.iter().all(|a| accesses.iter().all(|b| apart(a, b)))
    }
}

impl Recorder {
    pub(super) fn begin_capture(&mut self, stream: usize) -> Result<(), Rejected> {
        match self.streams.get_mut(&stream) {
            Some(queue) if !queue.captures() => {
                *queue = Queue { capture: Some(stream), clock: Clock::default() };
                self.captures.insert(stream, Vec::new());
                Ok(())
            }
            _ => reject("a stream that captures already, or that does not exist"),
        }
    }

    /// The side streams must have been joined.
    pub(super) fn end_capture(&mut self, stream: usize) -> Result<Vec<Submitted>, Rejected> {
        let Some(captured) = self.captures.remove(&stream) else {
            return reject("nothing was captured");
        };
        let clock = self.streams.get(&stream).map(|queue| queue.clock.clone()).unwrap_or_default();
        let takes_part = |queue: &&mut Queue| queue.capture == Some(stream);
        self.streams.values_mut().filter(takes_part).for_each(|queue| *queue = Queue::default());
        if !captured.iter().all(|node| clock.is_after(node)) {
            return reject("a capture ends before its side streams");
        }
        let submitted =
            |c: Captured| Submitted { node: c.node, on_side_stream: c.stream != stream };
        Ok(captured.into_iter().map(submitted).collect())
    }

    /// Submits work to a stream, unless it is rejected.
    pub(super) fn put(&mut self, stream: usize, node: Node) -> Result<(), Rejected> {
        self.check(&node)?;
        let accesses = self.accesses(&node);
        let Some(queue) = self.streams.get_mut(&stream) else {
            return reject("a stream that does not exist");
        };
        let Some(captured) = queue.capture.and_then(|capture| self.captures.get_mut(&capture))
        else {
            if let Node::Receive { at, bytes } = node {
                self.memory.receive(at, bytes);
            }
            self.submitted.push(Submitted { node, on_side_stream: false });
            return Ok(());
        };
        let mut others = captured.iter().filter(|other| !queue.clock.is_after(other));
        if let Some(other) = others.find(|other| !other.may_overlap(&accesses)) {
            return reject(format!("a race between {:?} and {node:?}", other.node));
        }
        let number = queue.clock.of(stream) + 1;
        queue.clock.0.insert(stream, number);
        captured.push(Captured { node, stream, number, accesses });
        Ok(())
    }

    pub(super) fn record(&mut self, event: usize, stream: usize) -> Result<(), Rejected> {
        let Some(queue) = self.streams.get(&stream) else {
            return reject("an event in a stream that does not exist");
        };
        let Queue { capture, clock } = queue;
        self.events.insert(event, capture.map(|capture| (capture, clock.clone())));
        Ok(())
    }

    pub(super) fn wait_event(&mut self, stream: usize, event: usize) -> Result<(), Rejected> {
        let (Some(queue), Some(recorded)) =
            (self.streams.get_mut(&stream), self.events.get(&event))
        else {
            return reject("a stream or an event that does not exist");
        };
        match (queue.capture, recorded) {
            (None, None) => return Ok(()),
            (here, Some((there, clock))) if here.is_none_or(|here| here == *there) => {
                queue.capture = Some(*there);
                queue.clock.merge(clock);
            }
            _ => return reject("a capture that waits for what it does not capture"),
        }
        self.put(stream, Node::Wait)
    }

    /// What a node reads and writes, as far as it is known.
    fn accesses(&self, node: &Node) -> Vec<Access> {
        let bytes =
            |at: u64, bytes: usize, written: bool| Access { bytes: at..at + bytes as u64, written };
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
                    let reads =
                        |value: &Value| matches!(value, Value::Address { constant: true, .. });
                    launch.fields.iter().any(|(field, value)| *field == name && reads(value))
                };
                let arrays = extents(&call).map(|extents| extents.arrays).unwrap_or_default();
                let name = kernel.signature.name.as_str();
                let ranges = self.ranges(&call, &arrays).into_iter();
                let known = ranges.filter(|(field, _)| !ALTERNATING.contains(&(name, *field)));
                known.map(|(field, bytes)| Access { bytes, written: !constant(field) }).collect()
            }
        }
    }
}
