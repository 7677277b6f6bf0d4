//! The driver's functions, as `driver::cuda` has them. Numbers stand for everything that a card would have made.
//!
//! Safety is as there, and less is at stake: no address is ever followed but those of this machine's memory.

#![allow(clippy::missing_safety_doc)]

use super::node::{Factor, Launch, Node, Product};
use super::{CURRENT, Function, Queue, Recorder, Refused, check, refuse, source};
use crate::runtime::compile::Source;
use crate::runtime::memory::Pod;
use crate::runtime::stream::Arg;
use cudarc::cublas::sys as blas;
use cudarc::driver::sys;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Refused>;

/// The recorder whose context is this thread's.
fn with<T>(act: impl FnOnce(&mut Recorder) -> Result<T>) -> Result<T> {
    let Some(current) = CURRENT.get() else { return refuse("no context is this thread's") };
    act(&mut current.lock().unwrap_or_else(|p| p.into_inner()))
}

/// A number as a handle.
fn handle<T>(number: usize) -> *mut T {
    std::ptr::without_provenance_mut(number)
}

/// What is taken away must have been there.
fn gone<T>(taken: Option<T>) -> Result<()> {
    if taken.is_some() { Ok(()) } else { refuse("what is not there is taken away") }
}

pub(crate) mod ctx {
    use super::*;

    pub(crate) unsafe fn set_current(context: sys::CUcontext) -> Result<()> {
        let all = crate::runtime::driver::recorder::ALL.lock().unwrap_or_else(|p| p.into_inner());
        CURRENT.set(Some(all[context.addr() - 1]));
        Ok(())
    }
}

pub(crate) unsafe fn filled<T: Pod>(len: usize, _byte: u8) -> Result<u64> {
    with(|r| Ok(r.memory.hold::<T>(len)))
}

pub(crate) unsafe fn free_sync(at: u64) -> Result<()> {
    with(|r| gone(r.memory.free(at)))
}

pub(crate) unsafe fn memcpy_htod_sync<T>(to: u64, from: &[T]) -> Result<()> {
    with(|r| r.within("a copy", to, size_of_val(from)).map(drop))
}

pub(crate) unsafe fn memcpy_dtoh_sync<T>(to: &mut [T], from: u64) -> Result<()> {
    with(|r| r.within("a copy", from, size_of_val(to)).map(drop))
}

pub(crate) unsafe fn memcpy_htod_async<T>(
    to: u64,
    from: &[T],
    stream: sys::CUstream,
) -> Result<()> {
    let node = Node::Receive { at: to, bytes: size_of_val(from) };
    with(|r| r.put(stream.addr(), node))
}

pub(crate) unsafe fn memcpy_dtod_async(
    to: u64,
    from: u64,
    bytes: usize,
    stream: sys::CUstream,
) -> Result<()> {
    with(|r| r.put(stream.addr(), Node::Copy { from, to, bytes }))
}

pub(crate) unsafe fn memset_d8_async(
    at: u64,
    byte: u8,
    bytes: usize,
    stream: sys::CUstream,
) -> Result<()> {
    with(|r| r.put(stream.addr(), Node::Fill { at, byte, bytes }))
}

pub(crate) unsafe fn malloc_host(bytes: usize, _flags: c_uint) -> Result<*mut c_void> {
    let mut words = vec![0u64; bytes.div_ceil(size_of::<u64>())];
    let at = words.as_mut_ptr().cast::<c_void>();
    with(|r| {
        r.host.insert(at.addr(), words);
        Ok(at)
    })
}

/// As much as an H200 has, less what is held.
pub(crate) fn mem_get_info() -> Result<(usize, usize)> {
    let all = 141_000_000_000_usize;
    with(|r| Ok((all.saturating_sub(r.memory.bytes()), all)))
}

pub(crate) unsafe fn free_host(at: *mut c_void) -> Result<()> {
    with(|r| gone(r.host.remove(&at.addr())))
}

pub(crate) mod stream {
    use super::*;
    pub(crate) use cudarc::driver::result::stream::{StreamKind, null};

    pub(crate) fn get_priority_range() -> Result<(i32, i32)> {
        Ok((0, -5))
    }

    pub(crate) fn create_with_priority(_kind: StreamKind, _priority: i32) -> Result<sys::CUstream> {
        with(|r| {
            let number = r.number();
            r.streams.insert(number, Queue::default());
            Ok(handle(number))
        })
    }

    pub(crate) unsafe fn synchronize(stream: sys::CUstream) -> Result<()> {
        with(|r| match r.streams.get(&stream.addr()) {
            Some(queue) if queue.captures() => refuse("a stream that captures is waited for"),
            None if !stream.is_null() => refuse("a stream that there is not is waited for"),
            _ => Ok(()),
        })
    }

    pub(crate) unsafe fn destroy(stream: sys::CUstream) -> Result<()> {
        with(|r| gone(r.streams.remove(&stream.addr())))
    }

    pub(crate) unsafe fn begin_capture(
        stream: sys::CUstream,
        _mode: sys::CUstreamCaptureMode,
    ) -> Result<()> {
        with(|r| r.begin_capture(stream.addr()))
    }

    pub(crate) unsafe fn end_capture(stream: sys::CUstream) -> Result<sys::CUgraph> {
        with(|r| {
            let asked = r.end_capture(stream.addr())?;
            let number = r.number();
            r.graphs.insert(number, asked);
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
            let Some(nodes) = nodes else { return refuse("a graph that there is not") };
            let number = r.number();
            r.graphs.insert(number, nodes);
            Ok(handle(number))
        })
    }

    pub(crate) unsafe fn destroy(graph: sys::CUgraph) -> Result<()> {
        with(|r| gone(r.graphs.remove(&graph.addr())))
    }

    pub(crate) unsafe fn exec_destroy(graph: sys::CUgraphExec) -> Result<()> {
        with(|r| gone(r.graphs.remove(&graph.addr())))
    }

    pub(crate) unsafe fn launch(graph: sys::CUgraphExec, stream: sys::CUstream) -> Result<()> {
        with(|r| r.launch(graph.addr(), stream.addr()))
    }
}

/// Those that are waited for are passed as soon as they are recorded.
pub(crate) mod event {
    use super::*;

    pub(crate) fn create(_flags: sys::CUevent_flags) -> Result<sys::CUevent> {
        with(|r| Ok(handle(r.number())))
    }

    pub(crate) unsafe fn record(event: sys::CUevent, stream: sys::CUstream) -> Result<()> {
        with(|r| r.record(event.addr(), stream.addr()))
    }

    pub(crate) unsafe fn elapsed(_from: sys::CUevent, _to: sys::CUevent) -> Result<f32> {
        Ok(0.0)
    }

    pub(crate) unsafe fn synchronize(_event: sys::CUevent) -> Result<()> {
        Ok(())
    }

    pub(crate) unsafe fn destroy(_event: sys::CUevent) -> Result<()> {
        Ok(())
    }
}

/// The source stands for it.
pub(crate) fn machine_code(source: &Source, _arch: &str) -> Result<Vec<u8>> {
    Ok(source::text(source).into_bytes())
}

pub(crate) unsafe fn load(code: &[u8]) -> Result<sys::CUmodule> {
    let signatures = source::signatures(&String::from_utf8_lossy(code))?;
    with(|r| {
        let number = r.number();
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
                return refuse(format!("no kernel {name:?} in its source"));
            };
            let (number, allowed) = (r.number(), check::ALLOWED);
            r.functions.insert(number, Function { signature, allowed });
            Ok(handle(number))
        })
    }
}

pub(crate) mod function {
    use super::*;

    /// Shared memory, the one that is asked for.
    pub(crate) unsafe fn set_function_attribute(
        function: sys::CUfunction,
        _which: sys::CUfunction_attribute,
        value: c_int,
    ) -> Result<()> {
        with(|r| {
            let shared = r.card.shared;
            match r.functions.get_mut(&function.addr()) {
                Some(function) if value as usize <= shared => {
                    function.allowed = value as usize;
                    Ok(())
                }
                _ => refuse(format!("{value} bytes of shared memory, of {shared}")),
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
        with(|r| Ok(r.at_once(function.addr(), threads as usize, shared) as c_int))
    }
}

pub(crate) unsafe fn launch(
    kernel: sys::CUfunction,
    grid: [usize; 2],
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    args: &[Arg],
) -> Result<()> {
    let (function, args) = (kernel.addr(), args.to_vec());
    let launch = Launch { function, grid, threads, shared, together: false, args };
    with(|r| r.put(stream.addr(), Node::Launch(launch)))
}

pub(crate) unsafe fn launch_cooperative(
    kernel: sys::CUfunction,
    blocks: usize,
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    args: &[Arg],
) -> Result<()> {
    let (function, grid, args) = (kernel.addr(), [blocks, 1], args.to_vec());
    let launch = Launch { function, grid, threads, shared, together: true, args };
    with(|r| r.put(stream.addr(), Node::Launch(launch)))
}

pub(crate) fn create_handle() -> Result<blas::cublasHandle_t> {
    with(|r| Ok(handle(r.number())))
}

pub(crate) unsafe fn destroy_handle(products: blas::cublasHandle_t) -> Result<()> {
    with(|r| gone(r.products.remove(&products.addr())))
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
        let Some(stream) = stream else { return refuse("products that belong to no stream") };
        r.put(stream, Node::Product(product))
    })
}
