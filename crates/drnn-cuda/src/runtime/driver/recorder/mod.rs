//! A driver for tests that records and checks what the host submits, without a GPU.
//!
//! ```text
//! host code ─ Buffer, Stream, Kernel, Gemm ─ driver ┬ card       CUDA
//!                                                       └ recorder   simulated addresses; a list of what was submitted
//! ```
//!
//! It rejects what would fail on a GPU, or worse, would not: pointers to buffers of the wrong type
//! or beyond their ends, products of the wrong type, cooperative launches that do not fit,
//! concurrent work that races. Nothing is computed, and reads return zeros, but in tests with an
//! [`Executor`]. That a parameter struct
//! has the fields that its kernel reads needs no check here: there is one declaration
//! (`kernels::params`).
//!
//! | file | what |
//! |---|---|
//! | `calls` | the driver's functions |
//! | `memory` | allocations and addresses |
//! | `source` | kernels' names, structs and launch bounds, from their sources |
//! | `node` | submitted work, and its line in a plan |
//! | `check`, `extents` | what is rejected; how much kernels read and write |
//! | `execute` | work executed on the CPU, for tests of numbers |
//! | `order` | happens-before between streams: concurrent work must not race |
//! | `names` | names of buffers |

pub(crate) mod calls;
mod check;
mod execute;
mod extents;
mod memory;
mod names;
mod node;
mod order;
mod source;
mod tests;

pub(crate) use names::Names;

use crate::persistent::DeviceLimits;
use cudarc::driver::sys::CUcontext;
pub(crate) use execute::{Executor, float_from_half, half_from_float};
use memory::Memory;
use order::{Captured, Clock, Queue, Submitted};
use source::Signature;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Why work was rejected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rejected(String);

impl From<Rejected> for crate::Error {
    fn from(rejected: Rejected) -> crate::Error {
        crate::Error::driver(rejected.0)
    }
}

/// Rejects, with a reason.
fn reject<T>(why: impl Into<String>) -> Result<T, Rejected> {
    Err(Rejected(why.into()))
}

/// A simulated device.
pub(crate) struct Recorder {
    limits: DeviceLimits,
    memory: Memory,
    /// Pinned host memory, by address.
    host: HashMap<usize, Vec<u64>>,
    modules: HashMap<usize, Vec<Arc<Signature>>>,
    functions: HashMap<usize, Function>,
    streams: HashMap<usize, Queue>,
    /// By the stream that began the capture.
    captures: HashMap<usize, Vec<Captured>>,
    graphs: HashMap<usize, Vec<Submitted>>,
    /// The capture in which each was recorded, and the clock then; `None` if outside of captures, or
    /// never.
    events: HashMap<usize, Option<(usize, Clock)>>,
    /// The stream of each cuBLAS handle.
    products: HashMap<usize, usize>,
    /// The latest handle.
    latest: usize,
    /// Work that ran, in order.
    submitted: Vec<Submitted>,
    /// Calls so far that allocate, free, wait or load.
    capture_unsafe_calls: usize,
    /// Executes work on the CPU, if any does.
    executor: Option<Executor>,
}

/// A kernel, and the dynamic shared memory that it is allowed.
#[derive(Debug, Clone)]
struct Function {
    signature: Arc<Signature>,
    allowed: usize,
    /// Number of its module.
    module: usize,
}

/// A context is the index of its recorder here, from 1. Recorders are never dropped.
static ALL: Mutex<Vec<&'static Mutex<Recorder>>> = Mutex::new(Vec::new());

thread_local! {
    /// The recorder of this thread's current context.
    static CURRENT: Cell<Option<&'static Mutex<Recorder>>> = const { Cell::new(None) };
}

/// A context of a new recorder.
pub(crate) fn context(limits: DeviceLimits) -> CUcontext {
    let recorder = Recorder {
        limits,
        memory: Memory::default(),
        host: HashMap::new(),
        modules: HashMap::new(),
        functions: HashMap::new(),
        streams: HashMap::new(),
        captures: HashMap::new(),
        graphs: HashMap::new(),
        events: HashMap::new(),
        products: HashMap::new(),
        latest: 0,
        submitted: Vec::new(),
        capture_unsafe_calls: 0,
        executor: None,
    };
    let mut all = ALL.lock().unwrap_or_else(|p| p.into_inner());
    all.push(Box::leak(Box::new(Mutex::new(recorder))));
    std::ptr::without_provenance_mut(all.len())
}

/// The recorder of a context.
pub(crate) fn of(context: CUcontext) -> MutexGuard<'static, Recorder> {
    let all = ALL.lock().unwrap_or_else(|p| p.into_inner());
    let recorder = all[context.addr() - 1];
    drop(all);
    recorder.lock().unwrap_or_else(|p| p.into_inner())
}

impl Recorder {
    /// A new handle.
    fn number(&mut self) -> usize {
        self.latest += 1;
        self.latest
    }

    /// Runs a graph: the buffers that it uses must exist now.
    fn launch(&mut self, graph: usize, stream: usize) -> Result<(), Rejected> {
        let Some(nodes) = self.graphs.get(&graph).cloned() else {
            return reject("a graph that does not exist");
        };
        if self.streams.get(&stream).is_none_or(Queue::captures) {
            return reject("a graph in a stream that captures, or that does not exist");
        }
        nodes.iter().try_for_each(|submitted| self.check(&submitted.node))?;
        self.submitted.extend(nodes);
        Ok(())
    }

    /// From now on work is executed on the CPU, and new memory exists.
    pub fn execute_with(&mut self, executor: Executor) {
        self.executor = Some(executor);
    }

    /// Executes what was just submitted, unless it was captured.
    fn execute(
        &mut self,
        stream: usize,
        act: impl FnOnce(&Recorder, &mut Executor),
    ) -> Result<(), Rejected> {
        if self.streams.get(&stream).is_none_or(Queue::captures) {
            return Ok(());
        }
        if let Some(mut executor) = self.executor.take() {
            act(self, &mut executor);
            self.executor = Some(executor);
        }
        Ok(())
    }

    /// Calls so far that allocate, free, wait or load.
    pub fn capture_unsafe_calls(&self) -> usize {
        self.capture_unsafe_calls
    }

    /// Views of allocations now.
    pub fn views(&self) -> usize {
        self.memory.views()
    }

    /// The work since the last call, a line each; `|` marks the side stream.
    pub fn take_lines(&mut self, names: &Names) -> Vec<String> {
        let submitted = std::mem::take(&mut self.submitted);
        let line = |work: &Submitted| {
            let stream = if work.on_side_stream { "| " } else { "" };
            format!("{stream}{}", self.line(&work.node, names))
        };
        submitted.iter().map(line).collect()
    }

    /// Discards the work since the last call, and counts it.
    pub fn discard(&mut self) -> usize {
        std::mem::take(&mut self.submitted).len()
    }
}
