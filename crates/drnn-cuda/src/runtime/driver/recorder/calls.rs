//! The functions of `driver::cuda`, recorded. Handles are numbers.
//!
//! Their safety contracts are those of `driver::cuda`, but nothing depends on them: device
//! addresses are never dereferenced.

#![allow(clippy::missing_safety_doc)]

use super::node::{Factor, Launch, Node, Product};
use super::{CURRENT, Function, Queue, Recorder, Rejected, check, reject, source};
use crate::kernels::params::Params;
use crate::runtime::compile::Source;
use crate::runtime::memory::Pod;
use cudarc::cublas::sys as blas;
use cudarc::driver::sys;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Rejected>;

/// Calls `act` with the recorder of this thread's current context.
fn with<T>(act: impl FnOnce(&mut Recorder) -> Result<T>) -> Result<T> {
    let Some(current) = CURRENT.get() else {
        return reject("no context is current in this thread");
    };
    act(&mut current.lock().unwrap_or_else(|p| p.into_inner()))
}

/// The same for calls that allocate, free, wait or load: a library must not make them on behalf of
/// a caller whose stream may be capturing.
fn capture_unsafe<T>(act: impl FnOnce(&mut Recorder) -> Result<T>) -> Result<T> {
    with(|r| {
        r.capture_unsafe_calls += 1;
        act(r)
    })
}

/// A handle with that number.
fn handle<T>(number: usize) -> *mut T {
    std::ptr::without_provenance_mut(number)
}

/// Only what exists can be destroyed.
fn destroyed<T>(removed: Option<T>) -> Result<()> {
    if removed.is_some() { Ok(()) } else { reject("destroys what does not exist") }
}

pub(crate) mod ctx {
    use super::*;

    pub(crate) unsafe fn set_current(context: sys::CUcontext) -> Result<()> {
        let all = crate::runtime::driver::recorder::ALL.lock().unwrap_or_else(|p| p.into_inner());
        CURRENT.set(Some(all[context.addr() - 1]));
        Ok(())
    }
}

pub(crate) unsafe fn filled<T: Pod>(len: usize, byte: u8) -> Result<u64> {
    capture_unsafe(|r| {
        let place = r.executor.as_mut().map(|e| e.allocate((len * size_of::<T>()).max(16), byte));
        Ok(r.memory.allocate::<T>(len, place))
    })
}

pub(crate) unsafe fn free_sync(at: u64) -> Result<()> {
    capture_unsafe(|r| destroyed(r.memory.free(at)))
}

pub(crate) fn borrow<T: Pod>(at: u64, len: usize) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    with(|r| r.memory.borrow::<T>(at, len).map_err(Rejected))
}

pub(crate) fn end_borrow(at: u64) {
    // Without a context nothing was borrowed.
    let _ = with(|r| {
        r.memory.end_borrow(at);
        Ok(())
    });
}

pub(crate) unsafe fn memcpy_htod_sync<T>(to: u64, from: &[T]) -> Result<()> {
    capture_unsafe(|r| {
        r.within("a copy", to, size_of_val(from))?;
        if let Some(executor) = &r.executor {
            executor.copy(from.as_ptr().addr() as u64, to, size_of_val(from));
        }
        Ok(())
    })
}

pub(crate) unsafe fn memcpy_dtoh_sync<T>(to: &mut [T], from: u64) -> Result<()> {
    capture_unsafe(|r| {
        r.within("a copy", from, size_of_val(to))?;
        if let Some(executor) = &r.executor {
            executor.copy(from, to.as_mut_ptr().addr() as u64, size_of_val(to));
        }
        Ok(())
    })
}

pub(crate) unsafe fn memcpy_htod_async<T>(
    to: u64,
    from: &[T],
    stream: sys::CUstream,
) -> Result<()> {
    let (host, bytes) = (from.as_ptr().expose_provenance() as u64, size_of_val(from));
    with(|r| {
        r.put(stream.addr(), Node::Receive { at: to, bytes })?;
        r.execute(stream.addr(), |_, executor| executor.copy(host, to, bytes))
    })
}

pub(crate) unsafe fn memcpy_dtod_async(
    to: u64,
    from: u64,
    bytes: usize,
    stream: sys::CUstream,
) -> Result<()> {
    with(|r| {
        r.put(stream.addr(), Node::Copy { from, to, bytes })?;
        r.execute(stream.addr(), |_, executor| executor.copy(from, to, bytes))
    })
}

pub(crate) unsafe fn memset_d8_async(
    at: u64,
    byte: u8,
    bytes: usize,
    stream: sys::CUstream,
) -> Result<()> {
    with(|r| {
        r.put(stream.addr(), Node::Fill { at, byte, bytes })?;
        r.execute(stream.addr(), |_, executor| executor.fill(at, byte, bytes))
    })
}

pub(crate) unsafe fn malloc_host(bytes: usize, _flags: c_uint) -> Result<*mut c_void> {
    let mut words = vec![0u64; bytes.div_ceil(size_of::<u64>())];
    let at = words.as_mut_ptr().cast::<c_void>();
    capture_unsafe(|r| {
        r.host.insert(at.addr(), words);
        Ok(at)
    })
}

/// The memory of an H200, less what is allocated.
pub(crate) fn mem_get_info() -> Result<(usize, usize)> {
    let all = 141_000_000_000_usize;
    capture_unsafe(|r| Ok((all.saturating_sub(r.memory.bytes()), all)))
}

pub(crate) unsafe fn free_host(at: *mut c_void) -> Result<()> {
    capture_unsafe(|r| destroyed(r.host.remove(&at.addr())))
}

pub(crate) mod stream {
    use super::*;
    pub(crate) use cudarc::driver::result::stream::{StreamKind, null};

    pub(crate) fn get_priority_range() -> Result<(i32, i32)> {
        Ok((0, -5))
    }

    pub(crate) fn create_with_priority(_kind: StreamKind, _priority: i32) -> Result<sys::CUstream> {
        capture_unsafe(|r| {
            let number = r.number();
            r.streams.insert(number, Queue::default());
            Ok(handle(number))
        })
    }

    pub(crate) unsafe fn synchronize(stream: sys::CUstream) -> Result<()> {
        capture_unsafe(|r| match r.streams.get(&stream.addr()) {
            Some(queue) if queue.captures() => reject("waits for a stream that captures"),
            None if !stream.is_null() => reject("waits for a stream that does not exist"),
            _ => Ok(()),
        })
    }

    pub(crate) unsafe fn destroy(stream: sys::CUstream) -> Result<()> {
        capture_unsafe(|r| destroyed(r.streams.remove(&stream.addr())))
    }

    pub(crate) unsafe fn begin_capture(
        stream: sys::CUstream,
        _mode: sys::CUstreamCaptureMode,
    ) -> Result<()> {
        with(|r| r.begin_capture(stream.addr()))
    }

    pub(crate) unsafe fn end_capture(stream: sys::CUstream) -> Result<sys::CUgraph> {
        with(|r| {
            let captured = r.end_capture(stream.addr())?;
            let number = r.number();
            r.graphs.insert(number, captured);
            Ok(handle(number))
        })
    }

    pub(crate) unsafe fn wait_event(
        stream: sys::CUstream,
        event: sys::CUevent,
        _flags: sys::CUevent_wait_flags,
    ) -> Result<()> {
        with(|r| r.wait_event(stream.addr(), event.addr()))
    }
}

pub(crate) mod graph {
    use super::*;

    pub(crate) unsafe fn instantiate(
        graph: sys::CUgraph,
        _flags: sys::CUgraphInstantiate_flags,
    ) -> Result<sys::CUgraphExec> {
        with(|r| {
            let nodes = r.graphs.get(&graph.addr()).cloned();
            let Some(nodes) = nodes else { return reject("a graph that does not exist") };
            let number = r.number();
            r.graphs.insert(number, nodes);
            Ok(handle(number))
        })
    }

    pub(crate) unsafe fn destroy(graph: sys::CUgraph) -> Result<()> {
        with(|r| destroyed(r.graphs.remove(&graph.addr())))
    }

    pub(crate) unsafe fn exec_destroy(graph: sys::CUgraphExec) -> Result<()> {
        with(|r| destroyed(r.graphs.remove(&graph.addr())))
    }

    pub(crate) unsafe fn launch(graph: sys::CUgraphExec, stream: sys::CUstream) -> Result<()> {
        with(|r| r.launch(graph.addr(), stream.addr()))
    }
}

/// Events that the host waits for complete as soon as they are recorded.
pub(crate) mod event {
    use super::*;

    pub(crate) fn create(_flags: sys::CUevent_flags) -> Result<sys::CUevent> {
        capture_unsafe(|r| {
            let number = r.number();
            r.events.insert(number, None);
            Ok(handle(number))
        })
    }

    pub(crate) unsafe fn record(event: sys::CUevent, stream: sys::CUstream) -> Result<()> {
        with(|r| r.record(event.addr(), stream.addr()))
    }

    pub(crate) unsafe fn elapsed(_from: sys::CUevent, _to: sys::CUevent) -> Result<f32> {
        Ok(0.0)
    }

    pub(crate) unsafe fn synchronize(_event: sys::CUevent) -> Result<()> {
        capture_unsafe(|_| Ok(()))
    }

    pub(crate) unsafe fn destroy(_event: sys::CUevent) -> Result<()> {
        Ok(())
    }
}

/// The source text stands for the machine code.
pub(crate) fn machine_code(source: &Source, _arch: &str) -> Result<Vec<u8>> {
    Ok(source::text(source).into_bytes())
}

pub(crate) unsafe fn load(code: &[u8]) -> Result<sys::CUmodule> {
    let text = String::from_utf8_lossy(code);
    let signatures = source::signatures(&text)?;
    capture_unsafe(|r| {
        let number = r.number();
        if let Some(executor) = &mut r.executor {
            executor.load(number, &text);
        }
        r.modules.insert(number, signatures.into_iter().map(Arc::new).collect());
        Ok(handle(number))
    })
}

pub(crate) mod module {
    use super::*;
    use std::ffi::CString;

    pub(crate) unsafe fn get_function(
        module: sys::CUmodule,
        name: CString,
    ) -> Result<sys::CUfunction> {
        with(|r| {
            let kernels = r.modules.get(&module.addr()).into_iter().flatten();
            let mut named = kernels.filter(|kernel| kernel.name.as_bytes() == name.as_bytes());
            let Some(signature) = named.next().cloned() else {
                return reject(format!("no kernel {name:?} in its source"));
            };
            let (number, allowed) = (r.number(), check::DEFAULT_SHARED);
            r.functions.insert(number, Function { signature, allowed, module: module.addr() });
            Ok(handle(number))
        })
    }
}

pub(crate) mod function {
    use super::*;

    /// The only attribute that is set is the dynamic shared memory.
    pub(crate) unsafe fn set_function_attribute(
        function: sys::CUfunction,
        _which: sys::CUfunction_attribute,
        value: c_int,
    ) -> Result<()> {
        with(|r| {
            let shared = r.limits.shared;
            match r.functions.get_mut(&function.addr()) {
                Some(function) if value as usize <= shared => {
                    function.allowed = value as usize;
                    Ok(())
                }
                _ => reject(format!("{value} bytes of shared memory, of {shared}")),
            }
        })
    }
}

pub(crate) mod occupancy {
    use super::*;

    pub(crate) unsafe fn max_active_block_per_multiprocessor(
        function: sys::CUfunction,
        threads: c_int,
        shared: usize,
    ) -> Result<c_int> {
        with(|r| Ok(r.max_active_blocks(function.addr(), threads as usize, shared) as c_int))
    }
}

pub(crate) unsafe fn launch<P: Params>(
    kernel: sys::CUfunction,
    grid: [usize; 2],
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    params: &P,
) -> Result<()> {
    let (function, name, fields) = (kernel.addr(), P::NAME, params.fields());
    let launch =
        Launch { function, grid, threads, shared, cooperative: false, params: name, fields };
    with(|r| {
        r.put(stream.addr(), Node::Launch(launch))?;
        r.execute(stream.addr(), |r, executor| {
            let function = &r.functions[&kernel.addr()];
            let name = &function.signature.name;
            executor.launch(function.module, name, grid, threads, shared, argument(params));
        })
    })
}

/// A pointer to the only argument.
fn argument<P: Params>(params: &P) -> *const c_void {
    std::ptr::from_ref(params).cast()
}

pub(crate) unsafe fn launch_cooperative<P: Params>(
    kernel: sys::CUfunction,
    blocks: usize,
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    params: &P,
) -> Result<()> {
    let (function, grid) = (kernel.addr(), [blocks, 1]);
    let (name, fields) = (P::NAME, params.fields());
    let launch =
        Launch { function, grid, threads, shared, cooperative: true, params: name, fields };
    with(|r| {
        r.put(stream.addr(), Node::Launch(launch))?;
        r.execute(stream.addr(), |r, executor| {
            let function = &r.functions[&kernel.addr()];
            let name = &function.signature.name;
            executor.launch(function.module, name, grid, threads, shared, argument(params));
        })
    })
}

pub(crate) fn create_handle() -> Result<blas::cublasHandle_t> {
    capture_unsafe(|r| Ok(handle(r.number())))
}

pub(crate) unsafe fn destroy_handle(products: blas::cublasHandle_t) -> Result<()> {
    capture_unsafe(|r| destroyed(r.products.remove(&products.addr())))
}

pub(crate) unsafe fn set_stream(
    products: blas::cublasHandle_t,
    stream: blas::cudaStream_t,
) -> Result<()> {
    with(|r| {
        r.products.insert(products.addr(), stream.addr());
        Ok(())
    })
}

pub(crate) unsafe fn set_workspace(
    _products: blas::cublasHandle_t,
    at: u64,
    bytes: usize,
) -> Result<()> {
    with(|r| r.within("cuBLAS' memory", at, bytes).map(drop))
}

#[allow(clippy::too_many_arguments)] // cuBLAS has as many
pub(crate) unsafe fn gemm_ex(
    products: blas::cublasHandle_t,
    of_a: blas::cublasOperation_t,
    of_b: blas::cublasOperation_t,
    rows: c_int,
    columns: c_int,
    depth: c_int,
    alpha: *const c_void,
    a: *const c_void,
    a_kind: blas::cudaDataType,
    a_stride: c_int,
    b: *const c_void,
    b_kind: blas::cudaDataType,
    b_stride: c_int,
    beta: *const c_void,
    c: *mut c_void,
    c_kind: blas::cudaDataType,
    c_stride: c_int,
    compute: blas::cublasComputeType_t,
    _algorithm: blas::cublasGemmAlgo_t,
) -> Result<()> {
    let factor = |at: *const c_void, stride, kind, operation| Factor {
        at: at.addr() as u64,
        stride,
        kind,
        operation,
    };
    // SAFETY: two f32 of the caller's.
    let (alpha, beta) = unsafe { (*alpha.cast::<f32>(), *beta.cast::<f32>()) };
    let product = Product {
        rows,
        columns,
        depth,
        a: factor(a, a_stride, a_kind, of_a),
        b: factor(b, b_stride, b_kind, of_b),
        c: factor(c, c_stride, c_kind, blas::cublasOperation_t::CUBLAS_OP_N),
        alpha,
        beta,
        compute,
    };
    with(|r| {
        let stream = r.products.get(&products.addr()).copied();
        let Some(stream) = stream else { return reject("products that belong to no stream") };
        r.put(stream, Node::Product(product.clone()))?;
        r.execute(stream, |_, executor| executor.product(&product))
    })
}
