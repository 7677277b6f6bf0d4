//! What the GPU does one after another, and whole sequences of it that are started at once (graphs).

use crate::error::Result;
use crate::runtime::compile::Source;
use crate::runtime::device::Device;
use crate::runtime::driver::{self, event, function, graph, module, occupancy, stream};
use crate::runtime::memory::{Buffer, Pinned, Plain};
use cudarc::driver::sys;
use std::ffi::CString;

/// A queue of work for the GPU.
#[derive(Debug)]
pub(crate) struct Stream {
    device: Device,
    raw: sys::CUstream,
    /// How far another one has to wait for this.
    reached: Event,
}

// SAFETY: a stream may be used from any thread that has made its context current.
unsafe impl Send for Stream {}

impl Stream {
    pub fn new(device: &Device) -> Result<Stream> {
        let (_, greatest) = stream::get_priority_range()?;
        Stream::with_priority(device, greatest)
    }

    /// One whose work begins where no other's wants to.
    pub fn yielding(device: &Device) -> Result<Stream> {
        let (least, _) = stream::get_priority_range()?;
        Stream::with_priority(device, least)
    }

    fn with_priority(device: &Device, priority: i32) -> Result<Stream> {
        let reached = Event::new(device)?;
        let _quiet = device.quiet()?;
        let raw = stream::create_with_priority(stream::StreamKind::NonBlocking, priority)?;
        Ok(Stream { device: device.clone(), raw, reached })
    }

    pub fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Waits until all of it is done.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: a stream of this context.
        Ok(unsafe { stream::synchronize(self.raw) }?)
    }

    /// What is put into `other` from now on waits for what is in this one now. Where this one captures, the other does so too,
    /// until this one waits for it.
    pub fn before(&self, other: &Stream) -> Result<()> {
        self.reached.record(self)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream and the event are of this context, and alive.
        Ok(unsafe { stream::wait_event(other.raw, self.reached.raw, flags) }?)
    }

    /// Copies the first `words` of `from`, some time later.
    ///
    /// # Safety
    /// `from` stays as it is until the copy is done.
    pub unsafe fn copy(&self, from: &Pinned, words: usize, to: &Buffer<u32>) -> Result<()> {
        assert!(words <= to.len(), "room for the words");
        // SAFETY: the lengths fit, and the caller keeps `from`.
        Ok(unsafe { driver::memcpy_htod_async(to.at(0), &from.as_slice()[..words], self.raw) }?)
    }

    /// Sets values `from..from + count` to zero.
    pub fn clear<T: Plain>(&self, of: &Buffer<T>, from: usize, count: usize) -> Result<()> {
        self.fill(of, from, count, 0)
    }

    /// Sets all bytes of values `from..from + count`.
    pub fn fill<T: Plain>(
        &self,
        of: &Buffer<T>,
        from: usize,
        count: usize,
        byte: u8,
    ) -> Result<()> {
        assert!(from + count <= of.len(), "values that are there");
        if count == 0 {
            return Ok(());
        }
        let bytes = count * size_of::<T>();
        // SAFETY: within the buffer.
        Ok(unsafe { driver::memset_d8_async(of.at(from), byte, bytes, self.raw) }?)
    }

    /// Copies bytes from one place on the GPU to another.
    pub fn copy_within(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: both are addresses within buffers with room for as much.
        Ok(unsafe { driver::memcpy_dtod_async(to, from, bytes, self.raw) }?)
    }

    /// What `record` puts into the stream, as a graph: nothing of it is done yet.
    pub fn capture(&self, record: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let _alone = self.device.alone()?;
        // Relaxed: libraries may load their kernels meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: a stream of this context, on which nobody else captures.
        unsafe { stream::begin_capture(self.raw, mode) }?;
        let recorded = record();
        // SAFETY: begun above.
        let raw = unsafe { stream::end_capture(self.raw) };
        recorded?;
        let raw = raw?;
        // SAFETY: the graph is one; the executable one does not need it any more.
        let executable = unsafe {
            let executable = graph::instantiate(raw, sys::CUgraphInstantiate_flags(0));
            let _ = graph::destroy(raw);
            executable?
        };
        Ok(Graph { device: self.device.clone(), raw: executable })
    }

    /// Does what was captured.
    pub fn launch(&self, graph: &Graph) -> Result<()> {
        // SAFETY: both are of this context, and alive.
        Ok(unsafe { graph::launch(graph.raw, self.raw) }?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = self.device.quiet().map(|_quiet| unsafe { stream::destroy(self.raw) });
    }
}

/// Work that was captured. Buffers that it uses must outlive its launches: the learner keeps both.
#[derive(Debug)]
pub(crate) struct Graph {
    device: Device,
    raw: sys::CUgraphExec,
}

// SAFETY: as a stream.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `capture`, destroyed once.
        let _ = self.device.quiet().map(|_quiet| unsafe { graph::exec_destroy(self.raw) });
    }
}

/// A place in a stream that can be waited for.
#[derive(Debug)]
pub(crate) struct Event {
    device: Device,
    raw: sys::CUevent,
}

// SAFETY: as a stream.
unsafe impl Send for Event {}

impl Event {
    pub fn new(device: &Device) -> Result<Event> {
        let _quiet = device.quiet()?;
        let raw = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        Ok(Event { device: device.clone(), raw })
    }

    /// One that knows when it was passed.
    pub fn timed(device: &Device) -> Result<Event> {
        let _quiet = device.quiet()?;
        let raw = event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?;
        Ok(Event { device: device.clone(), raw })
    }

    /// Seconds that the stream took from here to `later`, both timed and recorded. Waits for them.
    pub fn seconds_to(&self, later: &Event) -> Result<f64> {
        later.wait()?;
        // SAFETY: both are events of this context, and were recorded.
        Ok(f64::from(unsafe { event::elapsed(self.raw, later.raw) }?) / 1e3)
    }

    /// Stands behind all that is in the stream now.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are of this context.
        Ok(unsafe { event::record(self.raw, stream.raw) }?)
    }

    /// Waits until the stream has come there; not at all where it was never recorded.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event is one.
        Ok(unsafe { event::synchronize(self.raw) }?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = self.device.quiet().map(|_quiet| unsafe { event::destroy(self.raw) });
    }
}

/// Machine code on the GPU, for as long as the context lives.
#[derive(Debug)]
pub(crate) struct Module(sys::CUmodule);

// SAFETY: as a stream.
unsafe impl Send for Module {}
// SAFETY: only looked into.
unsafe impl Sync for Module {}

impl Module {
    /// Compiled for the card, unless the cache has it, and loaded.
    pub fn new(device: &Device, source: &Source) -> Result<Module> {
        let code = driver::machine_code(source, &device.arch())?;
        let _quiet = device.quiet()?;
        // SAFETY: machine code of this card's.
        Ok(Module(unsafe { driver::load(&code) }?))
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let name = CString::new(name).expect("a name in a source file");
        // SAFETY: the module is loaded.
        Ok(Kernel(unsafe { module::get_function(self.0, name) }?))
    }
}

/// A function that runs on the GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel(sys::CUfunction);

// SAFETY: as a stream.
unsafe impl Send for Kernel {}
// SAFETY: a handle.
unsafe impl Sync for Kernel {}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg {
    /// An address.
    At(u64),
    U32(u32),
    F32(f32),
}

impl From<usize> for Arg {
    fn from(value: usize) -> Arg {
        Arg::U32(u32::try_from(value).expect("shapes are checked to fit"))
    }
}

impl Kernel {
    /// Runs it some time later.
    ///
    /// # Safety
    /// The arguments are those that its source names, and the addresses hold what it reads and writes.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        grid: [usize; 2],
        threads: usize,
        args: &[Arg],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_with(stream, grid, threads, 0, args) }
    }

    /// Lets it have so many bytes of shared memory besides those that its source names.
    pub fn allow_shared(&self, bytes: usize) -> Result<()> {
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded.
        Ok(unsafe { function::set_function_attribute(self.0, which, bytes as i32) }?)
    }

    /// Runs it some time later, with `shared` bytes of shared memory besides those that its source names.
    ///
    /// # Safety
    /// As [`Kernel::launch`], and it was allowed as much.
    pub unsafe fn launch_with(
        &self,
        stream: &Stream,
        grid: [usize; 2],
        threads: usize,
        shared: usize,
        args: &[Arg],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        Ok(unsafe { driver::launch(self.0, grid, threads, shared, stream.raw, args) }?)
    }

    /// Blocks of so many threads, with so much shared memory, that a multiprocessor runs at once.
    pub fn blocks_at_once(&self, threads: usize, shared: usize) -> Result<usize> {
        // SAFETY: the function is loaded.
        let blocks = unsafe {
            occupancy::max_active_block_per_multiprocessor(self.0, threads as i32, shared)
        }?;
        Ok(blocks.max(0) as usize)
    }

    /// As [`Kernel::launch_with`], for blocks that wait for each other: all run at once, or the driver refuses.
    ///
    /// # Safety
    /// As [`Kernel::launch_with`].
    pub unsafe fn launch_together(
        &self,
        stream: &Stream,
        blocks: usize,
        threads: usize,
        shared: usize,
        args: &[Arg],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        Ok(unsafe { driver::launch_together(self.0, blocks, threads, shared, stream.raw, args) }?)
    }
}
