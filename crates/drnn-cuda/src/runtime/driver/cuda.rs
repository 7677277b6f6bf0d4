//! The CUDA driver and cuBLAS: cudarc's functions, and a few of our own with narrower signatures.

pub(crate) use cudarc::cublas::result::{create_handle, destroy_handle, gemm_ex, set_stream};
pub(crate) use cudarc::driver::result::{
    ctx, event, free_host, free_sync, function, graph, malloc_host, mem_get_info,
    memcpy_dtod_async, memcpy_dtoh_sync, memcpy_htod_async, memcpy_htod_sync, memset_d8_async,
    module, occupancy, stream,
};

use crate::error::Result;
use crate::kernels::params::Params;
use crate::runtime::compile::Source;
use crate::runtime::memory::Pod;
use cudarc::cublas::sys as blas;
use cudarc::driver::{DriverError, result, sys};
use std::ffi::c_void;

/// Allocates `len` values, at least 16 bytes, and sets every byte to `byte`.
///
/// # Safety
/// Freed once, by [`free_sync`].
pub(crate) unsafe fn filled<T: Pod>(len: usize, byte: u8) -> std::result::Result<u64, DriverError> {
    let bytes = (len * size_of::<T>()).max(16);
    // SAFETY: fills exactly what was just allocated; the default stream always exists.
    unsafe {
        let address = result::malloc_sync(bytes)?;
        result::memset_d8_sync(address, byte, bytes)?;
        stream::synchronize(stream::null())?;
        Ok(address)
    }
}

/// Notes that `len` values from `at` on are used in memory that someone else owns: nothing to do,
/// but the recorder checks it.
pub(crate) fn borrow<T: Pod>(_at: u64, _len: usize) -> std::result::Result<(), DriverError> {
    Ok(())
}

/// Ends [`borrow`].
pub(crate) fn end_borrow(_at: u64) {}

/// Machine code of `source` for `arch`, as [`load`] takes it.
pub(crate) fn machine_code(source: &Source, arch: &str) -> Result<Vec<u8>> {
    source.machine_code(arch)
}

/// Loads a module of kernels, which stays loaded as long as the context lives.
///
/// # Safety
/// `code` comes from [`machine_code`].
pub(crate) unsafe fn load(code: &[u8]) -> std::result::Result<sys::CUmodule, DriverError> {
    // SAFETY: a complete cubin: fresh from the compiler, or from the cache with its hash checked.
    unsafe { module::load_data(code.as_ptr().cast()) }
}

/// Launches a kernel asynchronously. It takes `params` by value, as its only argument.
///
/// # Safety
/// The kernel takes a `P`, its addresses cover everything that the kernel reads and writes, and it
/// was allowed as much shared memory.
pub(crate) unsafe fn launch<P: Params>(
    kernel: sys::CUfunction,
    [x, y]: [usize; 2],
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    params: &P,
) -> std::result::Result<(), DriverError> {
    let (grid, threads, shared) = ((x as u32, y as u32, 1), (threads as u32, 1, 1), shared as u32);
    let mut arguments = [argument(params)];
    // SAFETY: the caller's contract; the driver copies the parameters before it returns.
    unsafe { result::launch_kernel(kernel, grid, threads, shared, stream, &mut arguments) }
}

/// A cooperative launch: all blocks run at the same time, or the driver refuses.
///
/// # Safety
/// As [`launch`].
pub(crate) unsafe fn launch_cooperative<P: Params>(
    kernel: sys::CUfunction,
    blocks: usize,
    threads: usize,
    shared: usize,
    stream: sys::CUstream,
    params: &P,
) -> std::result::Result<(), DriverError> {
    let (grid, threads, shared) = ((blocks as u32, 1, 1), (threads as u32, 1, 1), shared as u32);
    let mut arguments = [argument(params)];
    // SAFETY: the caller's contract; the driver copies the parameters before it returns.
    unsafe {
        result::launch_cooperative_kernel(kernel, grid, threads, shared, stream, &mut arguments)
    }
}

/// A pointer to the only argument; the driver reads through it.
fn argument<P: Params>(params: &P) -> *mut c_void {
    std::ptr::from_ref(params).cast_mut().cast()
}

/// Sets cuBLAS's workspace.
///
/// # Safety
/// The handle is valid, and the memory outlives it.
pub(crate) unsafe fn set_workspace(
    handle: blas::cublasHandle_t,
    at: u64,
    bytes: usize,
) -> Result<()> {
    // SAFETY: the caller's contract.
    Ok(unsafe { blas::cublasSetWorkspace_v2(handle, at as *mut c_void, bytes) }.result()?)
}
