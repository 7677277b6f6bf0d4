//! Loaded kernels. A kernel is typed by its parameter struct, [`Params`], which it takes by value.

use crate::error::Result;
use crate::kernels::params::Params;
use crate::runtime::compile::Source;
use crate::runtime::device::Device;
use crate::runtime::driver::{self, function, module, occupancy};
use crate::runtime::stream::Stream;
use cudarc::driver::sys;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;

/// A loaded module of kernels. It is never unloaded: kernels refer to it by plain handles.
#[derive(Debug)]
pub(crate) struct Module(sys::CUmodule);

// SAFETY: a handle that any thread may use after making its context current.
unsafe impl Send for Module {}
// SAFETY: only looked up in, never changed.
unsafe impl Sync for Module {}

impl Module {
    /// Compiles `source` for the device, or takes it from the cache, and loads it.
    pub fn new(device: &Device, source: &Source) -> Result<Module> {
        let code = driver::machine_code(source, &device.arch())?;
        let _guard = device.no_capture_guard()?;
        // SAFETY: machine code compiled for this device.
        Ok(Module(unsafe { driver::load(&code) }?))
    }

    /// The kernel of this module that takes `P`.
    pub fn kernel<P: Params>(&self) -> Result<Kernel<P>> {
        let name = CString::new(P::KERNEL).expect("kernel names have no NUL");
        // SAFETY: the module is loaded.
        let function = unsafe { module::get_function(self.0, name) }?;
        Ok(Kernel { function, params: PhantomData })
    }
}

/// A kernel that is loaded on the device, and takes `P`.
pub(crate) struct Kernel<P> {
    function: sys::CUfunction,
    params: PhantomData<fn(P)>,
}

// SAFETY: a handle that any thread may use after making its context current.
unsafe impl<P> Send for Kernel<P> {}
// SAFETY: an immutable handle.
unsafe impl<P> Sync for Kernel<P> {}

impl<P> Clone for Kernel<P> {
    fn clone(&self) -> Kernel<P> {
        *self
    }
}

impl<P> Copy for Kernel<P> {}

impl<P> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Kernel<{}>", std::any::type_name::<P>())
    }
}

impl<P> Kernel<P> {
    /// The same function under another type: caches hold kernels of several types as `Kernel<()>`.
    ///
    /// # Safety
    /// Before it is launched, it gets back the type that it was loaded with.
    pub unsafe fn cast<Q>(self) -> Kernel<Q> {
        Kernel { function: self.function, params: PhantomData }
    }
}

impl<P: Params> Kernel<P> {
    /// Launches it asynchronously on `grid` blocks of `threads` threads.
    ///
    /// # Safety
    /// The addresses among the parameters cover everything that the kernel reads and writes.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        grid: [usize; 2],
        threads: usize,
        params: &P,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.launch_with(stream, grid, threads, 0, params) }
    }

    /// Allows launches with up to `bytes` of dynamic shared memory.
    pub fn allow_shared(&self, bytes: usize) -> Result<()> {
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded.
        Ok(unsafe { function::set_function_attribute(self.function, which, bytes as i32) }?)
    }

    /// Launches it asynchronously with `shared` bytes of dynamic shared memory.
    ///
    /// # Safety
    /// As [`Kernel::launch`]; [`Kernel::allow_shared`] has allowed as much shared memory.
    pub unsafe fn launch_with(
        &self,
        stream: &Stream,
        grid: [usize; 2],
        threads: usize,
        shared: usize,
        params: &P,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        Ok(unsafe { driver::launch(self.function, grid, threads, shared, stream.raw(), params) }?)
    }

    /// Blocks of `threads` threads and `shared` bytes that fit one multiprocessor at a time.
    pub fn max_active_blocks(&self, threads: usize, shared: usize) -> Result<usize> {
        // SAFETY: the function is loaded.
        let blocks = unsafe {
            occupancy::max_active_block_per_multiprocessor(self.function, threads as i32, shared)
        }?;
        Ok(blocks.max(0) as usize)
    }

    /// A cooperative launch, for blocks that wait for each other: the driver either runs all of
    /// them at the same time or refuses the launch.
    ///
    /// # Safety
    /// As [`Kernel::launch_with`].
    pub unsafe fn launch_cooperative(
        &self,
        stream: &Stream,
        blocks: usize,
        threads: usize,
        shared: usize,
        params: &P,
    ) -> Result<()> {
        let (function, stream) = (self.function, stream.raw());
        // SAFETY: the caller's contract.
        Ok(unsafe {
            driver::launch_cooperative(function, blocks, threads, shared, stream, params)
        }?)
    }
}
