//! Products of row-major matrices, by cuBLAS.
//!
//! ```text
//! times_transposed   C = beta C + A B^T        C (M, N), A (M, K), B (N, K)      layers forward
//! times              C = beta C + A B          C (M, N), A (M, K), B (K, N)      gradients of inputs
//! transposed_times   C = beta C + A^T B        C (M, N), A (K, M), B (K, N)      gradients of weights
//! ```
//!
//! cuBLAS counts columns first, so it is asked for the transposed product: C^T = B A^T.

use crate::device::Device;
use crate::error::Result;
use crate::memory::Buffer;
use crate::stream::Stream;
use cudarc::cublas::{result, sys};
use std::ffi::c_void;

/// How products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// f32 throughout.
    #[default]
    F32,
    /// Factors rounded to TF32 (10 bits of mantissa), sums in f32: faster by a multiple where matrices are large.
    Tf32,
    /// As TF32, and recurrences that fit into registers (LSTMs of up to 128 units) with factors in f16, which has TF32's
    /// mantissa: all steps in one launch.
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
const WORKSPACE: usize = 32 << 20;

/// A matrix on the GPU: its first value, and the distance between rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub at: u64,
    pub stride: usize,
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
            result::create_handle()?
        };
        let products = Products { handle, compute, device: device.clone(), _workspace: workspace };
        // SAFETY: handle, stream and workspace are alive as long as `products` is used.
        unsafe {
            result::set_stream(handle, stream.raw().cast())?;
            let at = products._workspace.at(0) as *mut c_void;
            sys::cublasSetWorkspace_v2(handle, at, WORKSPACE).result()?;
        }
        Ok(products)
    }

    /// `C = beta C + A B^T`
    pub fn times_transposed(
        &self,
        [m, n, k]: [usize; 3],
        a: Matrix,
        b: Matrix,
        beta: f32,
        c: Matrix,
    ) -> Result<()> {
        let (no, yes) = (sys::cublasOperation_t::CUBLAS_OP_N, sys::cublasOperation_t::CUBLAS_OP_T);
        self.gemm([yes, no], [m, n, k], [a, b], beta, c)
    }

    /// `C = beta C + A B`
    pub fn times(
        &self,
        [m, n, k]: [usize; 3],
        a: Matrix,
        b: Matrix,
        beta: f32,
        c: Matrix,
    ) -> Result<()> {
        let no = sys::cublasOperation_t::CUBLAS_OP_N;
        self.gemm([no, no], [m, n, k], [a, b], beta, c)
    }

    /// `C = beta C + A^T B`
    pub fn transposed_times(
        &self,
        [m, n, k]: [usize; 3],
        a: Matrix,
        b: Matrix,
        beta: f32,
        c: Matrix,
    ) -> Result<()> {
        let (no, yes) = (sys::cublasOperation_t::CUBLAS_OP_N, sys::cublasOperation_t::CUBLAS_OP_T);
        self.gemm([no, yes], [m, n, k], [a, b], beta, c)
    }

    /// `op` is for B, then A, as cuBLAS sees them: by columns.
    fn gemm(
        &self,
        op: [sys::cublasOperation_t; 2],
        [m, n, k]: [usize; 3],
        [a, b]: [Matrix; 2],
        beta: f32,
        c: Matrix,
    ) -> Result<()> {
        let kind = sys::cudaDataType::CUDA_R_32F;
        let alpha = 1.0f32;
        // SAFETY: the callers' matrices have the rows and columns they say; a graph takes the scalars by value.
        unsafe {
            result::gemm_ex(
                self.handle,
                op[0],
                op[1],
                n as i32,
                m as i32,
                k as i32,
                std::ptr::from_ref(&alpha).cast(),
                b.at as *const c_void,
                kind,
                b.stride as i32,
                a.at as *const c_void,
                kind,
                a.stride as i32,
                std::ptr::from_ref(&beta).cast(),
                c.at as *mut c_void,
                kind,
                c.stride as i32,
                self.compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )?;
        }
        Ok(())
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = self.device.quiet().map(|_quiet| unsafe { result::destroy_handle(self.handle) });
    }
}
