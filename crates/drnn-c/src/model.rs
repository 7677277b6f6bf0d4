//! Models: load, describe, free.

use crate::exclusive::{free, handle};
use crate::memory::{self, Buffer, set_required, values};
use crate::status::drnn_status::{
    DRNN_ERROR_ARGUMENT, DRNN_ERROR_FORMAT, DRNN_ERROR_MEMORY, DRNN_ERROR_SHAPE,
    DRNN_ERROR_UNSUPPORTED,
};
use crate::status::{Failure, Result, drnn_status, fail, guard};
use drnn::{Bundle, Cpu, Direction, Import, InputSpec, Model, NetSpec};
use drnn_tasks::live::LiveModel;
use drnn_tasks::tagger::Tagger;
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::sync::Arc;

/// A model. It does not change, and any number of threads may use it at once.
pub struct drnn_model {
    kind: Kind,
    description: CString,
}

enum Kind {
    /// One network, with or without a task.
    Network(Arc<Model>),
    /// A tagger: a network that spells words, one that reads them, and word vectors.
    Tagger(Arc<LiveModel>),
}

/// What a model is. Fields may be added at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct drnn_model_info {
    /// 1 if it is one network, for which all functions work; 0 for a tagger, which only
    /// `drnn_task_stream_new` takes.
    pub network: u32,
    /// 1 if it can stream; 0 for a bidirectional network, which needs the end of a sequence first.
    pub streams: u32,
    /// q: floats of an element; 0 if the network reads tokens.
    pub inputs: usize,
    /// Tokens are below this; 0 if the network reads vectors.
    pub symbols: usize,
    /// m: floats of an output.
    pub outputs: usize,
    /// d: the output for an element is known once d more have been read.
    pub delay: usize,
    /// How many fewer outputs than elements a sequence has: d with look-ahead padding, else 0.
    pub look_ahead: usize,
    /// Outputs that are still due when a sequence ends, at most.
    pub finish_outputs: usize,
    /// Floats of h of one sequence: all layers and directions.
    pub h_width: usize,
    /// Floats of c of one sequence; 0 for cells without it.
    pub c_width: usize,
    /// Bytes of a snapshot of a stream.
    pub snapshot_size: usize,
    /// The number of parameters.
    pub parameters: u64,
    /// A hash of network and parameters. Snapshots fit models with the same one.
    pub fingerprint: u64,
}

impl drnn_model {
    fn of(bytes: &[u8], threads: u32) -> Result<drnn_model> {
        let cpu = match threads {
            // Also where all share it: an error of the environment is none of the file.
            0 => Cpu::global()?.clone(),
            1..=1024 => Cpu::global()?.with_threads(threads as usize),
            _ => {
                return fail(DRNN_ERROR_ARGUMENT, format!("{threads} threads, expected 0 to 1024"));
            }
        };
        drnn_model::read(bytes, (threads != 0).then_some(&cpu)).map_err(|failure| {
            match failure.status {
                DRNN_ERROR_MEMORY => failure,
                // Whatever is wrong, with a number, a shape or a network, is in the file.
                _ => Failure { status: DRNN_ERROR_FORMAT, ..failure },
            }
        })
    }

    /// Reads a model, and moves it to threads of its own, if it is to have some.
    fn read(bytes: &[u8], cpu: Option<&Cpu>) -> Result<drnn_model> {
        let (kind, description) = match Bundle::is_bundle(bytes) {
            Some(true) => {
                let tagger = Tagger::from_bytes(bytes)?;
                let tagger = cpu.iter().fold(tagger, |tagger, cpu| tagger.on(cpu));
                let live = LiveModel::from_tagger(NAME, tagger);
                let description = live.description();
                (Kind::Tagger(Arc::new(live)), description)
            }
            _ => {
                let model = Model::import_bytes(bytes, &Import::default())?;
                let model = Arc::new(cpu.iter().fold(model, |model, cpu| model.on(cpu)));
                // A task that does not fit is reported where it is needed: the network can be used.
                let live = LiveModel::new(NAME, model.clone());
                let description =
                    live.map_or_else(|_| model.spec().to_string(), |live| live.description());
                (Kind::Network(model), description)
            }
        };
        let description = CString::new(description.replace('\0', "")).unwrap_or_default();
        Ok(drnn_model { kind, description })
    }

    /// The network, for what needs exactly one.
    pub(crate) fn network(&self) -> Result<&Arc<Model>> {
        match &self.kind {
            Kind::Network(model) => Ok(model),
            Kind::Tagger(_) => fail(
                DRNN_ERROR_UNSUPPORTED,
                "the model is a tagger, which is more than one network; use drnn_task_stream_new",
            ),
        }
    }

    /// The model with its task.
    pub(crate) fn live(&self) -> Result<Arc<LiveModel>> {
        match &self.kind {
            Kind::Network(model) => Ok(Arc::new(LiveModel::new(NAME, model.clone())?)),
            Kind::Tagger(live) => Ok(live.clone()),
        }
    }

    fn info(&self) -> drnn_model_info {
        match &self.kind {
            Kind::Network(model) => info(model.spec(), model),
            Kind::Tagger(live) => drnn_model_info {
                streams: live.streams().into(),
                outputs: live.spec().output_width(),
                delay: live.latency(),
                parameters: live.parameters() as u64,
                ..Default::default()
            },
        }
    }
}

/// What messages call a model whose file has no name here.
const NAME: &str = "model";

fn info(spec: &NetSpec, model: &Model) -> drnn_model_info {
    let (inputs, symbols) = match spec.input() {
        InputSpec::Dense(q) => (q, 0),
        InputSpec::Tokens { symbols, .. } => (0, symbols),
    };
    let streams = spec.direction() != Direction::Bidirectional;
    drnn_model_info {
        network: 1,
        streams: streams.into(),
        inputs,
        symbols,
        outputs: spec.output_width(),
        delay: spec.delay(),
        look_ahead: spec.look_ahead(),
        finish_outputs: finish_outputs(spec),
        h_width: h_width(spec),
        c_width: c_width(spec),
        snapshot_size: if streams { drnn::memory::snapshot(spec) } else { 0 },
        parameters: spec.parameters() as u64,
        fingerprint: model.fingerprint(),
    }
}

/// Outputs that are still due when a sequence ends, at most.
pub(crate) fn finish_outputs(spec: &NetSpec) -> usize {
    spec.delay() - spec.look_ahead()
}

pub(crate) fn h_width(spec: &NetSpec) -> usize {
    spec.state_widths().iter().sum::<usize>() * spec.direction().count()
}

pub(crate) fn c_width(spec: &NetSpec) -> usize {
    spec.cell_state_widths().iter().sum::<usize>() * spec.direction().count()
}

#[cfg(unix)]
fn path(text: &CStr) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Ok(std::ffi::OsStr::from_bytes(text.to_bytes()).into())
}

#[cfg(not(unix))]
fn path(text: &CStr) -> Result<PathBuf> {
    let refuse = |error| Failure {
        status: DRNN_ERROR_ARGUMENT,
        message: format!("`path` is not UTF-8: {error}"),
    };
    text.to_str().map(PathBuf::from).map_err(refuse)
}

/// Loads a model file: drnn's own, a PyTorch state dict (.safetensors, .pt) or an ONNX graph of one
/// recurrence. (Convert a file that has several first, in Python:
/// `drnn.Model.load(file, prefix="encoder.lstm").save("model.safetensors")`.)
///
/// `path` is a file name as the system has it (on Windows UTF-8). `threads` is how many threads a call
/// may use, its caller's included: 1 to 1024 for threads of the model's own, or 0 for those that all
/// such models of the process share, as many as there are cores or as the environment variable
/// DRNN_THREADS says. It changes no bit of any result; for a stream of a small network 1 is best. The
/// first load makes the shared threads, which sleep until they are needed.
///
/// On success `*model` is a handle for `drnn_model_free`; on failure it is NULL.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_model_load(
    path: *const c_char,
    threads: u32,
    model: *mut *mut drnn_model,
) -> drnn_status {
    guard(|| {
        // SAFETY: NULL, or the caller's place for a handle and a text that ends with NUL.
        let text = unsafe {
            set_required(model, std::ptr::null_mut(), "model")?;
            memory::text(path, "path")?
        };
        let path = self::path(text)?;
        let bytes = drnn::io::read_model_file(&path)?;
        let loaded = drnn_model::of(&bytes, threads).map_err(|failure| {
            // Errors about bytes begin with a placeholder for the file's name.
            let reason = failure.message.strip_prefix("model file: ").unwrap_or(&failure.message);
            Failure { message: format!("{}: {reason}", path.display()), ..failure }
        })?;
        // SAFETY: checked above.
        unsafe { set_required(model, Box::into_raw(Box::new(loaded)), "model") }
    })
}

/// Loads a model from the bytes of such a file. They are not needed afterwards.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_model_load_bytes(
    bytes: *const u8,
    bytes_len: usize,
    threads: u32,
    model: *mut *mut drnn_model,
) -> drnn_status {
    guard(|| {
        // SAFETY: NULL, or the caller's place for a handle and that many bytes.
        let bytes = unsafe {
            set_required(model, std::ptr::null_mut(), "model")?;
            values(bytes, bytes_len, "bytes")?
        };
        let loaded = drnn_model::of(bytes, threads)?;
        // SAFETY: checked above.
        unsafe { set_required(model, Box::into_raw(Box::new(loaded)), "model") }
    })
}

/// Frees a model; NULL is allowed. Its streams and batches remain valid: they share what they need.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_model_free(model: *mut drnn_model) {
    // SAFETY: a handle or NULL; the caller gives it up.
    unsafe { free(model) }
}

/// Says what a model is. `info_size` is `sizeof(drnn_model_info)`: a program that was compiled with an
/// older header gets the fields that it knows.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_model_get_info(
    model: *const drnn_model,
    info: *mut drnn_model_info,
    info_size: usize,
) -> drnn_status {
    guard(|| {
        // SAFETY: a handle or NULL.
        let found = unsafe { handle(model, "model")? }.info();
        if info_size == 0 {
            let why = "`info_size` is 0, expected sizeof(drnn_model_info)";
            return fail(DRNN_ERROR_SHAPE, why);
        }
        let known = info_size.min(size_of::<drnn_model_info>());
        let (from, to) = ((&raw const found).cast::<u8>(), info.cast::<u8>());
        // SAFETY: the caller's `info_size` bytes; what a newer header has after our fields is zero.
        unsafe {
            Buffer::new(to, info_size, info_size, "info")?;
            to.copy_from_nonoverlapping(from, known);
            to.add(known).write_bytes(0, info_size - known);
        }
        Ok(())
    })
}

/// A description for people, one line of UTF-8: "dlstm(32 units, delay 3): ..". It belongs to the model
/// and is valid until that is freed. NULL for NULL.
///
/// # Safety
/// See `drnn.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drnn_model_description(model: *const drnn_model) -> *const c_char {
    // SAFETY: a handle or NULL.
    match unsafe { model.as_ref() } {
        Some(model) => model.description.as_ptr(),
        None => std::ptr::null(),
    }
}
