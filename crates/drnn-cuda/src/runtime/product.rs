//! Products of row-major matrices, by cuBLAS.
//!
//! ```text
//! TimesTransposed   C = beta C + A B^T        C (M, N), A (M, K), B (N, K)      layers forward
//! Times             C = beta C + A B          C (M, N), A (M, K), B (K, N)      gradients of inputs
//! TransposedTimes   C = beta C + A^T B        C (M, N), A (K, M), B (K, N)      gradients of weights
//! ```
//!
//! cuBLAS counts columns first, so it is asked for the transposed product: C^T = B A^T.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::driver;
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use cudarc::cublas::sys;
use std::ffi::c_void;

/// How products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// f32 throughout.
    #[default]
    F32,
    /// Factors rounded to TF32 (10 bits of mantissa), sums in f32: faster by a multiple where matrices are large.
    Tf32,
    /// LSTMs of up to 128 units, and on Hopper up to 1024, with factors in f16, which has TF32's mantissa: all steps in one
    /// launch. Others as TF32.
    F16,
}

/// cuBLAS, bound to a stream.
#[derive(Debug)]
pub(crate) struct Products {
    handle: sys::cublasHandle_t,
    compute: sys::cublasComputeType_t,
    device: Device,
    /// Given once, so that nothing is allocated while a graph is captured.
    _workspace: Buffer<u8>,
}

// SAFETY: a handle may move between threads; it is used by one at a time.
unsafe impl Send for Products {}

/// Bytes that NVIDIA recommends for Hopper; plenty for others.
pub(crate) const WORKSPACE: usize = 32 << 20;

/// A matrix on the GPU: its first value, and the distance between rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub at: u64,
    pub stride: usize,
}

/// Which of the three products it is.
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
    /// For B, then A, as cuBLAS sees them: by columns.
    fn operations(self) -> [sys::cublasOperation_t; 2] {
        let (no, yes) = (sys::cublasOperation_t::CUBLAS_OP_N, sys::cublasOperation_t::CUBLAS_OP_T);
        match self {
            Form::TimesTransposed => [yes, no],
            Form::Times => [no, no],
            Form::TransposedTimes => [no, yes],
        }
    }
}

/// What a product of f16 factors is written as. Sums are f32 either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    F16,
    F32,
}

impl Products {
    pub fn new(device: &Device, stream: &Stream, precision: Precision) -> Result<Products> {
        let workspace = Buffer::zeros(device, WORKSPACE)?;
        let compute = match precision {
            Precision::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 | Precision::F16 => {
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
            }
        };
        let handle = {
            let _quiet = device.quiet()?;
            driver::create_handle()?
        };
        let products = Products { handle, compute, device: device.clone(), _workspace: workspace };
        // SAFETY: handle, stream and workspace are alive as long as `products` is used.
        unsafe {
            driver::set_stream(handle, stream.raw().cast())?;
            driver::set_workspace(handle, products._workspace.at(0), WORKSPACE)?;
        }
        Ok(products)
    }

    /// `C = beta C +` the product of factors in f32, rounded as the precision says.
    pub fn plain(
        &self,
        form: Form,
        sizes: [usize; 3],
        factors: [Matrix; 2],
        beta: f32,
        c: Matrix,
    ) -> Result<()> {
        let kind = sys::cudaDataType::CUDA_R_32F;
        self.gemm(form, sizes, factors, beta, c, ([kind; 2], self.compute))
    }

    /// The same of factors in f16.
    pub fn half(
        &self,
        form: Form,
        sizes: [usize; 3],
        factors: [Matrix; 2],
        beta: f32,
        c: Matrix,
        written: Written,
    ) -> Result<()> {
        let written = match written {
            Written::F16 => sys::cudaDataType::CUDA_R_16F,
            Written::F32 => sys::cudaDataType::CUDA_R_32F,
        };
        let kinds = [sys::cudaDataType::CUDA_R_16F, written];
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        self.gemm(form, sizes, factors, beta, c, (kinds, compute))
    }

    /// Kinds: of the factors, and of what is written; and how it is computed.
    fn gemm(
        &self,
        form: Form,
        [m, n, k]: [usize; 3],
        [a, b]: [Matrix; 2],
        beta: f32,
        c: Matrix,
        ([factor, written], compute): ([sys::cudaDataType; 2], sys::cublasComputeType_t),
    ) -> Result<()> {
        let alpha = 1.0f32;
        let [for_b, for_a] = form.operations();
        // SAFETY: the callers' matrices have the rows and columns they say; a graph takes the scalars by value.
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
                written,
                c.stride as i32,
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )?;
        }
        Ok(())
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = self.device.quiet().map(|_quiet| unsafe { driver::destroy_handle(self.handle) });
    }
}
