//! CUDA itself: cudarc's functions, and a few of our own where cudarc's say less than we know.

pub(crate) use cudarc::cublas::result::{create_handle, destroy_handle, gemm_ex, set_stream};
pub(crate) use cudarc::driver::result::{
    ctx, event, free_host, free_sync, function, graph, malloc_host, mem_get_info,
    memcpy_dtod_async, memcpy_dtoh_sync, memcpy_htod_async, memcpy_htod_sync, memset_d8_async,
    module, occupancy, stream,
};

use crate::error::Result;
use crate::runtime::compile::Source;
use crate::runtime::memory::Plain;
use crate::runtime::stream::Arg;
use cudarc::cublas::sys as blas;
use cudarc::driver::{DriverError, result, sys};
use std::ffi::c_void;

/// `len` values on the GPU, all bytes of which are the same; and no less than 16 bytes.
///
/// # Safety
/// Freed once, by [`free_sync`].
pub(crate) unsafe fn filled<T: Plain>(
    len: usize,
    byte: u8,
) -> std::result::Result<u64, DriverError> {
    let bytes = (len * size_of::<T>()).max(16);
    // SAFETY: as much as was just allocated; the stream is the one that every context has.
    unsafe {
        let address = result::malloc_sync(bytes)?;
        result::memset_d8_sync(address, byte, bytes)?;
        stream::synchronize(stream::null())?;
        Ok(address)
    }
}

/// Kernels as [`load`] takes them.
pub(crate) fn machine_code(source: &Source, arch: &str) -> Result<Vec<u8>> {
    source.machine_code(arch)
}

/// Kernels on the GPU, for as long as the context lives.
///
/// # Safety
/// `code` is that of [`machine_code`].
pub(crate) unsafe fn load(code: &[u8]) -> std::result::Result<sys::CUmodule, DriverError> {
    // SAFETY: a whole cubin, by the compiler or by the cache's hash.
    unsafe { module::load_data(code.as_ptr().cast()) }
}

/// Runs a kernel some time later.
///
/// # Safety
/// The arguments are those that its source names, the addresses hold what it reads and writes, and it was allowed as much shared
/// memory.
pub(crate) unsafe fn launch(
    kernel: sys::CUfunction,
    [x, y]: [usize; 2],
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    args: &[Arg],
) -> std::result::Result<(), DriverError> {
    let (grid, threads) = ((x as u32, y as u32, 1), (threads as u32, 1, 1));
    // SAFETY: the caller's promise; the driver copies the arguments before it returns.
    unsafe {
        result::launch_kernel(kernel, grid, threads, shared as u32, stream, &mut pointers(args))
    }
}

/// The same for blocks that wait for each other: all run at once, or the driver refuses.
///
/// # Safety
/// As [`launch`].
pub(crate) unsafe fn launch_together(
    kernel: sys::CUfunction,
    blocks: usize,
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    args: &[Arg],
) -> std::result::Result<(), DriverError> {
    let (grid, threads, shared) = ((blocks as u32, 1, 1), (threads as u32, 1, 1), shared as u32);
    let mut pointers = pointers(args);
    // SAFETY: the caller's promise; the driver copies the arguments before it returns.
    unsafe {
        result::launch_cooperative_kernel(kernel, grid, threads, shared, stream, &mut pointers)
    }
}

/// Where the arguments are, as the driver wants to be told.
fn pointers(args: &[Arg]) -> Vec<*mut c_void> {
    let pointer = |arg: &Arg| match arg {
        Arg::At(value) => std::ptr::from_ref(value).cast_mut().cast(),
        Arg::U32(value) => std::ptr::from_ref(value).cast_mut().cast(),
        Arg::F32(value) => std::ptr::from_ref(value).cast_mut().cast(),
    };
    args.iter().map(pointer).collect()
}

/// Gives cuBLAS memory to work with.
///
/// # Safety
/// The handle is one, and the memory stays for as long as it is used.
pub(crate) unsafe fn set_workspace(
    handle: blas::cublasHandle_t,
    at: u64,
    bytes: usize,
) -> Result<()> {
    // SAFETY: the caller's promise.
    Ok(unsafe { blas::cublasSetWorkspace_v2(handle, at as *mut c_void, bytes) }.result()?)
}
