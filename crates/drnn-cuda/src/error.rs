//! What a GPU, or the lack of one, can refuse.

use cudarc::cublas::result::CublasError;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// The one error type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A library that is not on this machine, or not where it is looked for.
    #[error("no {what}: {looked} not found. {advice}")]
    Missing {
        /// What it is for.
        what: &'static str,
        /// The names that were tried.
        looked: String,
        /// What to do about it.
        advice: &'static str,
    },

    /// The driver is there, but no card that can be used.
    #[error("no NVIDIA GPU: {0}")]
    NoDevice(String),

    /// The compiler refused a kernel.
    #[error("kernel {name} does not compile: {log}")]
    Compile {
        /// Its file.
        name: String,
        /// What the compiler said.
        log: String,
    },

    /// The driver refused a call.
    #[error("the GPU's driver: {0}")]
    Driver(String),

    /// The card's memory is taken.
    #[error("the GPU's memory is full: smaller batches or fewer units take less")]
    Memory,

    /// cuBLAS refused a call.
    #[error("cuBLAS: {0}")]
    Cublas(String),

    /// A network that this engine has no kernels for.
    #[error("{0}")]
    Unsupported(String),
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Error::Memory;
        }
        let text = error.error_string().ok().and_then(|text| text.to_str().ok());
        Error::Driver(text.map_or(format!("{:?}", error.0), str::to_string))
    }
}

impl From<CublasError> for Error {
    fn from(error: CublasError) -> Error {
        Error::Cublas(format!("{:?}", error.0))
    }
}

impl From<Error> for drnn_train::Error {
    fn from(error: Error) -> drnn_train::Error {
        drnn_train::Error::Device(error.to_string())
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
