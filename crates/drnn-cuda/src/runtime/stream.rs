//! Streams, events, CUDA graphs, and kernels: their loading and launches.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::driver::{self, event, graph, stream};
use crate::runtime::memory::{Buffer, Pinned, Pod};
use cudarc::driver::sys;

/// A CUDA stream: work submitted to it runs in order.
#[derive(Debug)]
pub(crate) struct Stream {
    device: Device,
    raw: sys::CUstream,
    /// Recorded at the end of this stream when another one has to wait for it. A stream that
    /// someone else owns has none.
    tail: Option<Event>,
}

// SAFETY: any thread that has made the context current may use the stream.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream of the highest priority.
    pub fn new(device: &Device) -> Result<Stream> {
        let (_, greatest) = stream::get_priority_range()?;
        Stream::with_priority(device, greatest)
    }

    /// A stream of the lowest priority: its blocks start only when no other stream has blocks to
    /// start.
    pub fn low_priority(device: &Device) -> Result<Stream> {
        let (least, _) = stream::get_priority_range()?;
        Stream::with_priority(device, least)
    }

    fn with_priority(device: &Device, priority: i32) -> Result<Stream> {
        let tail = Some(Event::new(device)?);
        let _guard = device.no_capture_guard()?;
        let raw = stream::create_with_priority(stream::StreamKind::NonBlocking, priority)?;
        Ok(Stream { device: device.clone(), raw, tail })
    }

    /// A stream that someone else owns, null for the default stream. Other streams cannot wait for
    /// it.
    pub fn borrowed(device: &Device, raw: sys::CUstream) -> Stream {
        Stream { device: device.clone(), raw, tail: None }
    }

    /// The driver's handle, valid while `self` lives.
    pub fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Blocks the calling thread until all submitted work has finished.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: a stream of this context.
        Ok(unsafe { stream::synchronize(self.raw) }?)
    }

    /// Work submitted to this stream from now on waits for all work submitted to `other` so far.
    /// If `other` is being captured, this stream joins the capture until `other` waits for it.
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        let tail = other.tail.as_ref().expect("a stream of our own");
        tail.record(other)?;
        self.wait_event(tail)
    }

    /// Work submitted to this stream from now on waits for `event`, if it was ever recorded.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream and the event are alive and of this context.
        Ok(unsafe { stream::wait_event(self.raw, event.raw, flags) }?)
    }

    /// Copies the first `words` of `from` to the start of `to`, asynchronously.
    ///
    /// # Safety
    /// `from` is neither written nor freed until the copy has finished.
    pub unsafe fn copy(&self, from: &Pinned, words: usize, to: &Buffer<u32>) -> Result<()> {
        assert!(words <= to.len(), "the words fit the buffer");
        // SAFETY: the lengths fit; the caller leaves `from` alone.
        Ok(unsafe { driver::memcpy_htod_async(to.at(0), &from.as_slice()[..words], self.raw) }?)
    }

    /// Sets values `from..from + count` to zero, asynchronously.
    pub fn clear<T: Pod>(&self, of: &Buffer<T>, from: usize, count: usize) -> Result<()> {
        self.fill(of, from, count, 0)
    }

    /// Sets every byte of values `from..from + count` to `byte`, asynchronously.
    pub fn fill<T: Pod>(&self, of: &Buffer<T>, from: usize, count: usize, byte: u8) -> Result<()> {
        assert!(from + count <= of.len(), "the range lies in the buffer");
        if count == 0 {
            return Ok(());
        }
        let bytes = count * size_of::<T>();
        // SAFETY: within the buffer.
        Ok(unsafe { driver::memset_d8_async(of.at(from), byte, bytes, self.raw) }?)
    }

    /// Copies between two device addresses, asynchronously.
    pub fn copy_within(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: both ranges lie within the callers' buffers.
        Ok(unsafe { driver::memcpy_dtod_async(to, from, bytes, self.raw) }?)
    }

    /// Captures what `record` submits to the stream into a graph; nothing runs yet.
    pub fn capture(&self, record: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let _guard = self.device.capture_guard()?;
        // Relaxed: cuBLAS may load its kernels during the capture.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: a stream of this context; the guard excludes other captures.
        unsafe { stream::begin_capture(self.raw, mode) }?;
        let recorded = record();
        // SAFETY: begun above.
        let raw = unsafe { stream::end_capture(self.raw) };
        recorded?;
        let raw = raw?;
        // SAFETY: `raw` is a graph; its executable form does not refer to it.
        let executable = unsafe {
            let executable = graph::instantiate(raw, sys::CUgraphInstantiate_flags(0));
            let _ = graph::destroy(raw);
            executable?
        };
        Ok(Graph { device: self.device.clone(), raw: executable })
    }

    /// Runs a captured graph, asynchronously.
    pub fn launch(&self, graph: &Graph) -> Result<()> {
        // SAFETY: both are alive and of this context.
        Ok(unsafe { graph::launch(graph.raw, self.raw) }?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.tail.is_none() {
            return;
        }
        // SAFETY: made by `with_priority`, destroyed once.
        let _ = self.device.no_capture_guard().map(|_guard| unsafe { stream::destroy(self.raw) });
    }
}

/// An executable CUDA graph. It holds addresses of buffers, which must outlive its launches; the
/// learner owns both.
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
        let _ =
            self.device.no_capture_guard().map(|_guard| unsafe { graph::exec_destroy(self.raw) });
    }
}

/// A CUDA event: a position in a stream that can be waited for.
#[derive(Debug)]
pub(crate) struct Event {
    device: Device,
    raw: sys::CUevent,
}

// SAFETY: as a stream.
unsafe impl Send for Event {}

impl Event {
    /// An event without a time stamp.
    pub fn new(device: &Device) -> Result<Event> {
        let _guard = device.no_capture_guard()?;
        let raw = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        Ok(Event { device: device.clone(), raw })
    }

    /// An event for which threads sleep instead of polling: for many threads that wait at the same
    /// time.
    pub fn blocking(device: &Device) -> Result<Event> {
        let _guard = device.no_capture_guard()?;
        let raw = event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)?;
        Ok(Event { device: device.clone(), raw })
    }

    /// An event with a time stamp.
    pub fn with_timing(device: &Device) -> Result<Event> {
        let _guard = device.no_capture_guard()?;
        let raw = event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?;
        Ok(Event { device: device.clone(), raw })
    }

    /// Seconds between this event and `later`. Both have time stamps and were recorded; blocks
    /// until `later` has happened.
    pub fn seconds_to(&self, later: &Event) -> Result<f64> {
        later.synchronize()?;
        // SAFETY: both are recorded events of this context.
        Ok(f64::from(unsafe { event::elapsed(self.raw, later.raw) }?) / 1e3)
    }

    /// Marks the end of what has been submitted to `stream` so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive and of this context.
        Ok(unsafe { event::record(self.raw, stream.raw) }?)
    }

    /// Blocks the calling thread until the event has happened; returns at once if it was never
    /// recorded.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        Ok(unsafe { event::synchronize(self.raw) }?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = self.device.no_capture_guard().map(|_guard| unsafe { event::destroy(self.raw) });
    }
}
