//! What a step of a stream costs through the C interface, over Rust's own `Stream::push`.
//!
//! ```text
//! cargo build --release -p drnn-c --lib
//! cargo run --release -p drnn-c --example step_overhead [LIBRARY]
//! ```
//!
//! Both are called in this process, alternately, with the same network and the same elements: a small
//! one, where the overhead shows. The C function comes from the shared library, opened at run time, so
//! the call is the one that a C program makes. Times are medians of many short rounds, in nanoseconds
//! per step; outputs are compared to the bit. In brackets: the least and the most of all pairs of streams.

use drnn::{Cell, Cpu, Model, NetSpec, Padding, Stream};
use libloading::{Library, Symbol};
use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

/// Pairs of streams, rounds of each, steps of a round.
const STREAMS: usize = 21;
const ROUNDS: usize = 51;
const STEPS: usize = 1000;

type Load = unsafe extern "C" fn(*const u8, usize, u32, *mut *mut c_void) -> c_int;
type New = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
type Push =
    unsafe extern "C" fn(*mut c_void, *const f32, usize, *mut f32, usize, *mut usize) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void);
type LastError = unsafe extern "C" fn() -> *const c_char;

/// The library as a C program has it.
struct InC<'l> {
    push: Symbol<'l, Push>,
    last_error: Symbol<'l, LastError>,
    stream_free: Symbol<'l, Free>,
    stream: *mut c_void,
}

impl InC<'_> {
    fn new<'l>(library: &'l Library, bytes: &[u8]) -> Result<InC<'l>, Box<dyn Error>> {
        // SAFETY: the types are those of drnn.h, handles are passed as they came, and the stream keeps
        // what it needs of the model.
        unsafe {
            let load: Symbol<Load> = library.get(b"drnn_model_load_bytes")?;
            let new: Symbol<New> = library.get(b"drnn_stream_new")?;
            let model_free: Symbol<Free> = library.get(b"drnn_model_free")?;
            let (mut model, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
            let mut in_c = InC {
                push: library.get(b"drnn_stream_push")?,
                last_error: library.get(b"drnn_last_error")?,
                stream_free: library.get(b"drnn_stream_free")?,
                stream,
            };
            in_c.check(load(bytes.as_ptr(), bytes.len(), 1, &mut model))?;
            in_c.check(new(model, &mut stream))?;
            in_c.stream = stream;
            model_free(model);
            Ok(in_c)
        }
    }

    fn check(&self, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: a text that ends with NUL, valid until the next error.
        let message = unsafe { CStr::from_ptr((self.last_error)()) };
        Err(message.to_string_lossy().into())
    }

    fn push(&mut self, x: &[f32], y: &mut [f32]) -> usize {
        let mut count = 0;
        let (stream, x_len, y_len) = (self.stream, x.len(), y.len());
        // SAFETY: a stream, and arrays of these sizes.
        let status =
            unsafe { (self.push)(stream, x.as_ptr(), x_len, y.as_mut_ptr(), y_len, &mut count) };
        if status == 0 { count } else { 0 }
    }
}

impl Drop for InC<'_> {
    fn drop(&mut self) {
        // SAFETY: this stream, once.
        unsafe { (self.stream_free)(self.stream) }
    }
}

/// Nanoseconds per step.
fn time(mut step: impl FnMut(&[f32])) -> f64 {
    let start = Instant::now();
    for i in 0..STEPS {
        step(black_box(&[i as f32 / STEPS as f32]));
    }
    start.elapsed().as_nanos() as f64 / STEPS as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Medians of Rust's time and of C's, in turns.
fn compare(mut rust: Stream<&Model>, mut c: InC) -> Result<(f64, f64), String> {
    let (mut of_rust, mut of_c) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (mut y, mut z) = ([0.0f32; 1], [0.0f32; 1]);
        of_rust.push(time(|x| {
            if let Ok(Some(output)) = rust.push(x) {
                y.copy_from_slice(output);
            }
            black_box(&y);
        }));
        of_c.push(time(|x| {
            black_box(c.push(x, &mut z));
            black_box(&z);
        }));
        if y[0].to_bits() != z[0].to_bits() {
            return Err(format!("C has {}, Rust {}", z[0], y[0]));
        }
    }
    Ok((median(&mut of_rust), median(&mut of_c)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => {
            let folder = std::env::current_exe()?; // target/release/examples
            let folder = folder.parent().and_then(|folder| folder.parent());
            let name = libloading::library_filename("drnn_c");
            folder.unwrap_or(std::path::Path::new(".")).join(name)
        }
    };
    // SAFETY: the library runs no code when it is opened.
    let library = unsafe { Library::new(&path) }?;
    println!("{:>6} {:>10} {:>10} {:>10}", "n", "Rust, ns", "C, ns", "C - Rust");
    for n in [8, 32, 128] {
        let spec = NetSpec::builder(Cell::Lstm).dense(1).units([n]).outputs(1);
        let spec = spec.delay(2, Padding::Null).build()?;
        let model = Model::init(&spec, 1)?.on(&Cpu::new(1));
        let bytes = model.to_bytes()?;
        // Where their memory lies makes a difference, so each time they are new.
        let (mut rust, mut c, mut difference) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            let streams = (Stream::new(&model)?, InC::new(&library, &bytes)?);
            let (of_rust, of_c) = compare(streams.0, streams.1)?;
            difference.push(of_c - of_rust);
            rust.push(of_rust);
            c.push(of_c);
        }
        let (rust, c, middle) = (median(&mut rust), median(&mut c), median(&mut difference));
        let (least, most) = (difference[0], difference[STREAMS - 1]);
        println!("{n:>6} {rust:>10.1} {c:>10.1} {middle:>10.1}   ({least:.1} to {most:.1})");
    }
    Ok(())
}
