//! Products of row-major matrices with cuBLAS (GEMM).
//!
//! ```text
//! TimesTransposed   C = beta C + A B^T        C (M, N), A (M, K), B (N, K)   layers forward
//! Times             C = beta C + A B          C (M, N), A (M, K), B (K, N)   gradients of inputs
//! TransposedTimes   C = beta C + A^T B        C (M, N), A (K, M), B (K, N)   gradients of weights
//! ```
//!
//! cuBLAS is column-major, so the transposed product is computed: C^T = B A^T.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::driver;
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use cudarc::cublas::sys;
use std::ffi::c_void;

/// The number format of the factors of matrix products. Sums are f32 in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Precision {
    /// f32, as on the CPU.
    #[default]
    F32,
    /// Factors rounded to TF32 (10 bits of mantissa): several times faster for large matrices.
    Tf32,
    /// Factors in f16, which has as many bits of mantissa as TF32, in kernels that run all time
    /// steps in one launch: LSTMs of up to 128 units on every GPU; on Hopper LSTMs, GRUs and tanh
    /// RNNs of up to 2048 units. Other networks are computed as with [`Precision::Tf32`].
    F16,
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
            Precision::F16 => "f16",
        })
    }
}

/// A cuBLAS handle, bound to a stream and to a workspace.
#[derive(Debug)]
pub(crate) struct Gemm {
    handle: sys::cublasHandle_t,
    compute: sys::cublasComputeType_t,
    device: Device,
    /// Allocated once, so that cuBLAS allocates nothing during a graph capture; `None` where
    /// callers have their own.
    _workspace: Option<Buffer<u8>>,
}

// SAFETY: a handle may move between threads, and one thread uses it at a time.
unsafe impl Send for Gemm {}

/// Bytes of cuBLAS's workspace: what NVIDIA recommends for Hopper, and more than others need.
pub(crate) const WORKSPACE: usize = 32 << 20;

/// A row-major matrix in device memory: address of its first value, and values from row to row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub at: u64,
    pub stride: usize,
}

/// Which factor is transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A B^T
    TimesTransposed,
    /// A B
    Times,
    /// A^T B
    TransposedTimes,
}

impl Form {
    /// The column-major operations on B, then A.
    fn operations(self) -> [sys::cublasOperation_t; 2] {
        let (no, yes) = (sys::cublasOperation_t::CUBLAS_OP_N, sys::cublasOperation_t::CUBLAS_OP_T);
        match self {
            Form::TimesTransposed => [yes, no],
            Form::Times => [no, no],
            Form::TransposedTimes => [no, yes],
        }
    }
}

/// The format in which the product of f16 factors is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputType {
    F16,
    F32,
}

impl Gemm {
    /// A handle whose products run in `stream`.
    pub fn new(device: &Device, stream: &Stream, precision: Precision) -> Result<Gemm> {
        let workspace = Buffer::zeros(device, WORKSPACE)?;
        let mut gemm = Gemm::unbound(device, precision)?;
        gemm.bind(stream, &workspace)?;
        gemm._workspace = Some(workspace);
        Ok(gemm)
    }

    /// A handle that [`Gemm::bind`] binds before its first product.
    pub fn unbound(device: &Device, precision: Precision) -> Result<Gemm> {
        let compute = match precision {
            Precision::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 | Precision::F16 => {
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
            }
        };
        let handle = {
            let _guard = device.no_capture_guard()?;
            driver::create_handle()?
        };
        Ok(Gemm { handle, compute, device: device.clone(), _workspace: None })
    }

    /// From now on products run in `stream` with `workspace`; both must outlive them.
    pub fn bind(&self, stream: &Stream, workspace: &Buffer<u8>) -> Result<()> {
        // SAFETY: the handle is alive, and so are stream and workspace while it is used.
        unsafe {
            driver::set_stream(self.handle, stream.raw().cast())?;
            driver::set_workspace(self.handle, workspace.at(0), workspace.len())?;
        }
        Ok(())
    }

    /// `C = beta C +` the product of f32 factors, rounded to the handle's precision. `sizes` are M,
    /// N and K.
    pub fn f32(
        &self,
        form: Form,
        sizes: [usize; 3],
        factors: [Matrix; 2],
        beta: f32,
        c: Matrix,
    ) -> Result<()> {
        let f32 = sys::cudaDataType::CUDA_R_32F;
        self.gemm(form, sizes, factors, beta, c, ([f32; 2], self.compute))
    }

    /// The same for f16 factors; C is `output`.
    pub fn f16(
        &self,
        form: Form,
        sizes: [usize; 3],
        factors: [Matrix; 2],
        beta: f32,
        c: Matrix,
        output: OutputType,
    ) -> Result<()> {
        let output = match output {
            OutputType::F16 => sys::cudaDataType::CUDA_R_16F,
            OutputType::F32 => sys::cudaDataType::CUDA_R_32F,
        };
        let types = [sys::cudaDataType::CUDA_R_16F, output];
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        self.gemm(form, sizes, factors, beta, c, (types, compute))
    }

    /// Data types of the factors and of C, and the type that sums are computed in.
    fn gemm(
        &self,
        form: Form,
        [m, n, k]: [usize; 3],
        [a, b]: [Matrix; 2],
        beta: f32,
        c: Matrix,
        ([factor, output], compute): ([sys::cudaDataType; 2], sys::cublasComputeType_t),
    ) -> Result<()> {
        let alpha = 1.0f32;
        let [for_b, for_a] = form.operations();
        // SAFETY: the callers' matrices have these sizes; a graph copies the scalars.
        unsafe {
            driver::gemm_ex(
                self.handle,
                for_b,
                for_a,
                n as i32,
                m as i32,
                k as i32,
                std::ptr::from_ref(&alpha).cast(),
                b.at as *const c_void,
                factor,
                b.stride as i32,
                a.at as *const c_void,
                factor,
                a.stride as i32,
                std::ptr::from_ref(&beta).cast(),
                c.at as *mut c_void,
                output,
                c.stride as i32,
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )?;
        }
        Ok(())
    }
}

impl Drop for Gemm {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = self
            .device
            .no_capture_guard()
            .map(|_guard| unsafe { driver::destroy_handle(self.handle) });
    }
}
