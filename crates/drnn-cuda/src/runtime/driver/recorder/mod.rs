//! A driver that does nothing but look: what the host asks of a card, seen and checked where there is none.
//!
//! ```text
//! host code ─ Buffer, Stream, Kernel, Gemm ─ driver ┬ card       CUDA
//!                                                       └ recorder   made-up addresses; a list of what was asked for
//! ```
//!
//! It refuses what a card would stumble over, or worse would not: arguments that are not those of the kernel's source, addresses
//! outside of what is allocated, products of the wrong type, blocks that wait for each other and do not fit at once. Nothing is
//! computed, and what is read back is zeros.
//!
//! | file | what |
//! |---|---|
//! | `calls` | the driver's functions |
//! | `memory` | made-up addresses |
//! | `source` | kernels' parameters, as their sources name them |
//! | `node` | what a stream is asked to do, and as a line of text |
//! | `check`, `reach` | what is refused; how far kernels read and write |
//! | `order` | what is done before what; nothing that runs at once may write what the other touches |
//! | `names` | what buffers are called |

pub(crate) mod calls;
mod check;
mod memory;
mod names;
mod node;
mod order;
mod reach;
mod source;
mod tests;

pub(crate) use names::Names;

use crate::persistent::DeviceLimits;
use cudarc::driver::sys::CUcontext;
use memory::Memory;
use order::{Asked, Captured, Place, Queue};
use source::Signature;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What cannot be right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused(String);

impl From<Refused> for crate::Error {
    fn from(refused: Refused) -> crate::Error {
        crate::Error::driver(refused.0)
    }
}

/// Refuses, with a reason.
fn refuse<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(why.into()))
}

/// A card that is not there.
pub(crate) struct Recorder {
    card: DeviceLimits,
    memory: Memory,
    /// Memory of this machine, by address.
    host: HashMap<usize, Vec<u64>>,
    modules: HashMap<usize, Vec<Arc<Signature>>>,
    functions: HashMap<usize, Function>,
    streams: HashMap<usize, Queue>,
    /// By the stream that captures.
    captures: HashMap<usize, Vec<Captured>>,
    graphs: HashMap<usize, Vec<Asked>>,
    /// Where they were recorded, by the capture that this was in.
    events: HashMap<usize, Option<(usize, Place)>>,
    /// cuBLAS: by handle, its stream.
    products: HashMap<usize, usize>,
    /// The latest of the numbers that stand for things.
    latest: usize,
    /// What was done, in order.
    done: Vec<Asked>,
}

/// A kernel, and the shared memory that it was allowed.
#[derive(Debug, Clone)]
struct Function {
    signature: Arc<Signature>,
    allowed: usize,
}

/// A context is the place of its recorder here, counted from 1. None ever goes, as with cards.
static ALL: Mutex<Vec<&'static Mutex<Recorder>>> = Mutex::new(Vec::new());

thread_local! {
    /// Whose calls this thread's are.
    static CURRENT: Cell<Option<&'static Mutex<Recorder>>> = const { Cell::new(None) };
}

/// A new one.
pub(crate) fn context(card: DeviceLimits) -> CUcontext {
    let recorder = Recorder {
        card,
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
        done: Vec::new(),
    };
    let mut all = ALL.lock().unwrap_or_else(|p| p.into_inner());
    all.push(Box::leak(Box::new(Mutex::new(recorder))));
    std::ptr::without_provenance_mut(all.len())
}

/// That of a context.
pub(crate) fn of(context: CUcontext) -> MutexGuard<'static, Recorder> {
    let all = ALL.lock().unwrap_or_else(|p| p.into_inner());
    let recorder = all[context.addr() - 1];
    drop(all);
    recorder.lock().unwrap_or_else(|p| p.into_inner())
}

impl Recorder {
    /// A number for something new.
    fn number(&mut self) -> usize {
        self.latest += 1;
        self.latest
    }

    /// Does what was captured: what it uses must be there now.
    fn launch(&mut self, graph: usize, stream: usize) -> Result<(), Refused> {
        let Some(asked) = self.graphs.get(&graph).cloned() else {
            return refuse("a graph that there is not");
        };
        if self.streams.get(&stream).is_none_or(Queue::captures) {
            return refuse("a graph in a stream that captures, or that there is not");
        }
        asked.iter().try_for_each(|asked| self.check(&asked.node))?;
        self.done.extend(asked);
        Ok(())
    }

    /// What was done since this was last asked, a line each.
    pub fn take_lines(&mut self, names: &Names) -> Vec<String> {
        let done = std::mem::take(&mut self.done);
        let line = |asked: &Asked| {
            format!("{}{}", if asked.beside { "| " } else { "" }, self.line(&asked.node, names))
        };
        done.iter().map(line).collect()
    }

    /// Forgets what was done; how much it was.
    pub fn forget(&mut self) -> usize {
        std::mem::take(&mut self.done).len()
    }
}
