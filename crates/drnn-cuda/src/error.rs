//! Errors of this crate.

use cudarc::cublas::result::CublasError;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Why a GPU cannot be used, or what failed on it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A CUDA library was not found by name or in the folders where it is usually installed.
    #[error("no {what}: {looked} not found. {advice}")]
    Missing {
        /// The library's purpose, such as "CUDA compiler library".
        what: &'static str,
        /// The file names that were tried, separated by commas.
        looked: String,
        /// A sentence that says what to install or which variable to set.
        advice: &'static str,
    },

    /// The driver works, but there is no GPU of compute capability 8.0 or newer.
    #[error("no NVIDIA GPU: {0}")]
    NoDevice(String),

    /// NVRTC could not compile a kernel: a defect of this crate, or an unsupported CUDA version.
    #[error("kernel {name} does not compile: {log}")]
    Compile {
        /// Name of the kernel's source.
        name: String,
        /// The compiler's output.
        log: String,
    },

    /// A call of the CUDA driver failed. After errors of a kernel the context cannot be used any
    /// more.
    #[error("CUDA driver: {message}")]
    #[non_exhaustive]
    Driver {
        /// The driver's description of the error.
        message: String,
        /// The status code, if the driver returned one.
        #[source]
        status: Option<Status>,
    },

    /// An allocation of device memory failed.
    #[error("out of GPU memory; smaller batches, shorter sequences or fewer units need less")]
    OutOfMemory,

    /// A call of cuBLAS failed.
    #[error("cuBLAS failed")]
    Cublas(#[source] Status),

    /// An argument of a call is missing, has the wrong number of parts, or is not aligned. The
    /// message names it.
    #[error("{0}")]
    Argument(String),

    /// There are no kernels for this network, or not for so large a batch. The message says why.
    #[error("{0}")]
    Unsupported(String),
}

/// A status code of a CUDA library, by the name it has in NVIDIA's documentation, such as
/// `CUDA_ERROR_ILLEGAL_ADDRESS`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Status(String);

impl Error {
    /// A driver error without a status code.
    #[cfg(test)]
    pub(crate) fn driver(message: String) -> Error {
        Error::Driver { message, status: None }
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Error::OutOfMemory;
        }
        let status = format!("{:?}", error.0);
        let text = error.error_string().ok().and_then(|text| text.to_str().ok());
        let message = text.map_or(status.clone(), str::to_string);
        Error::Driver { message, status: Some(Status(status)) }
    }
}

impl From<CublasError> for Error {
    fn from(error: CublasError) -> Error {
        Error::Cublas(Status(format!("{:?}", error.0)))
    }
}

impl From<Error> for drnn_train::Error {
    fn from(error: Error) -> drnn_train::Error {
        let mut text = error.to_string();
        if let Error::Cublas(status) = &error {
            text = format!("{text}: {status}");
        }
        drnn_train::Error::Device(text)
    }
}

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn status_codes_are_sources() {
        let error = Error::from(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert_eq!(error, Error::OutOfMemory);
        let status = Status("CUBLAS_STATUS_ALLOC_FAILED".into());
        let error = Error::Cublas(status);
        assert_eq!(error.source().unwrap().to_string(), "CUBLAS_STATUS_ALLOC_FAILED");
        let error = drnn_train::Error::from(error);
        assert!(error.to_string().contains("cuBLAS failed: CUBLAS_STATUS_ALLOC_FAILED"), "{error}");
    }
}
