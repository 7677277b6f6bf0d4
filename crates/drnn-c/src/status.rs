//! Errors by code and message; no panic leaves the library.

use drnn_tasks::Error as TaskError;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call returns. All but `DRNN_OK` are errors; `drnn_last_error` has the message. New codes may
/// be added at the end: treat codes that you do not know as errors.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum drnn_status {
    /// Success.
    DRNN_OK = 0,
    /// A NULL pointer or handle, a pointer that is not aligned, text that is not UTF-8, or a call
    /// that does not fit the ones before it.
    DRNN_ERROR_ARGUMENT = 1,
    /// An array of the wrong size, or a length beyond the end of the array.
    DRNN_ERROR_SHAPE = 2,
    /// NaN, infinity, a token that the network does not know, or an element that its task refuses.
    DRNN_ERROR_VALUE = 3,
    /// A file that cannot be read.
    DRNN_ERROR_FILE = 4,
    /// A file, or bytes, that are not a model, or are damaged.
    DRNN_ERROR_FORMAT = 5,
    /// Bytes that are not a snapshot of this network, or are damaged.
    DRNN_ERROR_SNAPSHOT = 6,
    /// Something that this model cannot do: a bidirectional network cannot stream, a network that
    /// reads tokens cannot read vectors, a tagger is no single network.
    DRNN_ERROR_UNSUPPORTED = 7,
    /// A buffer of the caller's that is too small for the outputs. Nothing was computed.
    DRNN_ERROR_BUFFER = 8,
    /// An id that names no stream of this batch, or is named twice in one call.
    DRNN_ERROR_STREAM_ID = 9,
    /// More memory than there is, or more than can be addressed.
    DRNN_ERROR_MEMORY = 10,
    /// The handle is in use by another thread.
    DRNN_ERROR_BUSY = 11,
    /// An environment variable (DRNN_THREADS, DRNN_ISA) with a value that is not allowed.
    DRNN_ERROR_ENVIRONMENT = 12,
    /// A defect of the library. The handle that the call used can only be freed.
    DRNN_ERROR_INTERNAL = 13,
}

use drnn_status::*;

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: drnn_status,
    pub message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// An error of this interface itself.
pub(crate) fn fail<T>(status: drnn_status, message: impl Into<String>) -> Result<T> {
    Err(Failure { status, message: message.into() })
}

impl From<drnn::Error> for Failure {
    fn from(error: drnn::Error) -> Failure {
        Failure { status: status_of(&error), message: error.to_string() }
    }
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Failure {
        let status = match &error {
            TaskError::Drnn(error) => status_of(error),
            TaskError::File { .. } => DRNN_ERROR_FORMAT,
            _ => DRNN_ERROR_VALUE,
        };
        Failure { status, message: error.to_string() }
    }
}

fn status_of(error: &drnn::Error) -> drnn_status {
    use drnn::Error;
    match error {
        Error::Shape { .. } | Error::Length { .. } => DRNN_ERROR_SHAPE,
        Error::Token { .. } | Error::NotFinite { .. } => DRNN_ERROR_VALUE,
        Error::File(file) if file.io_kind().is_some() => DRNN_ERROR_FILE,
        Error::File(_) => DRNN_ERROR_FORMAT,
        Error::Snapshot(_) => DRNN_ERROR_SNAPSHOT,
        Error::InputKind { .. } | Error::Stream(_) => DRNN_ERROR_UNSUPPORTED,
        Error::Spec(_) | Error::Flatten(_) | Error::Unsolvable { .. } => DRNN_ERROR_UNSUPPORTED,
        Error::StreamId(_) => DRNN_ERROR_STREAM_ID,
        Error::TooLarge(_) => DRNN_ERROR_MEMORY,
        Error::InstructionSet { .. } | Error::Environment { .. } => DRNN_ERROR_ENVIRONMENT,
        _ => DRNN_ERROR_ARGUMENT,
    }
}

thread_local! {
    /// The message of this thread's last error.
    static LAST: RefCell<CString> = RefCell::default();
}

fn store(mut message: String) {
    message.retain(|c| c != '\0');
    let message = CString::new(message).unwrap_or_default();
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| last.replace(message));
}

/// Runs the body of a function that C called. An error's message is stored for `drnn_last_error`, and a
/// panic becomes an error.
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> drnn_status {
    // What a panic leaves half changed is an `Exclusive`, which refuses to be used again.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => DRNN_OK,
        Ok(Err(failure)) => reported(failure),
        Err(panic) => reported(Failure { status: DRNN_ERROR_INTERNAL, message: text_of(&*panic) }),
    }
}

/// Not inlined: steps seldom fail, and this would take registers from them.
#[cold]
#[inline(never)]
fn reported(Failure { status, message }: Failure) -> drnn_status {
    store(message);
    status
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("internal error, please report it: {text}")
}

/// The message of the last call that failed on this thread, in English; "" if none has. It belongs to
/// the library and is valid until the next call that fails on this thread. Calls that succeed leave it
/// as it is.
#[unsafe(no_mangle)]
pub extern "C" fn drnn_last_error() -> *const c_char {
    // The text stays where it is until `store` replaces it.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The library's version, "0.1.0". It is static.
#[unsafe(no_mangle)]
pub extern "C" fn drnn_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: a text that ends with NUL, valid until this thread's next error.
        unsafe { CStr::from_ptr(drnn_last_error()) }.to_str().unwrap().into()
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(message(), "");
        let status = guard(|| panic!("number {}", 7));
        assert_eq!(status, DRNN_ERROR_INTERNAL);
        assert_eq!(message(), "internal error, please report it: number 7");
        assert_eq!(guard(|| Ok(())), DRNN_OK);
        assert!(message().contains("number 7"), "success leaves it");
        assert_eq!(guard(|| fail(DRNN_ERROR_VALUE, "a\0b")), DRNN_ERROR_VALUE);
        assert_eq!(message(), "ab");
        assert_eq!(std::thread::spawn(message).join().unwrap(), "", "of another thread");
    }
}
