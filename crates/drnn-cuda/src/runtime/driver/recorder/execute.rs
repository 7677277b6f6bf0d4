//! Executes submitted work on the CPU, in tests that look at numbers: kernels as C++, with the
//! stand-ins for CUDA of `tests/emulated`, products as plain loops.
//!
//! Addresses are those of host memory then. A kernel whose threads work together runs with a host
//! thread for each of them, unless they only add numbers up; of the others one thread runs all.

use super::node::{Factor, Product};
use crate::kernels::sources::{COMMON, HOPPER, MMA};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, Mutex};

#[path = "../../../../tests/recurrence/half.rs"]
mod half;
pub(crate) use half::{float_from_half, half_from_float};

/// Kernels that exchange data between threads of a block.
const TOGETHER: [&str; 4] = ["sum_columns", "largest", "set_scale", "weighted_cross_entropy"];

/// Kernels whose threads exchange data by `block_sum` alone.
const SUMMING: [&str; 4] = ["embed_backward", "sum_losses", "sum_squares", "finish"];

/// Runs a kernel by its name: grid, threads, bytes of shared memory, how threads run together, the
/// parameter struct.
type Run = unsafe extern "C" fn(*const c_char, u32, u32, u32, u32, u32, *const c_void) -> i32;

/// Compiled kernels by their C++, for the whole process.
static COMPILED: LazyLock<Mutex<HashMap<String, &'static Library>>> = LazyLock::new(Mutex::default);

/// Kernels run one at a time: some have hundreds of threads, and shared memory is static.
static ALONE: Mutex<()> = Mutex::new(());

/// Memory on the host, and the C++ of modules by their numbers.
#[derive(Default)]
pub(crate) struct Executor {
    memory: Vec<Vec<u128>>,
    modules: HashMap<usize, String>,
}

impl Executor {
    /// The address of `bytes` times `byte`, at a multiple of 256.
    pub fn allocate(&mut self, bytes: usize, byte: u8) -> u64 {
        let block = vec![u128::from_ne_bytes([byte; 16]); bytes.div_ceil(16) + 16];
        let at = block.as_ptr().expose_provenance() as u64;
        self.memory.push(block);
        at.next_multiple_of(256)
    }

    /// Notes the source text of a module.
    pub fn load(&mut self, module: usize, text: &str) {
        self.modules.insert(module, cpp(text));
    }

    pub fn copy(&self, from: u64, to: u64, bytes: usize) {
        // SAFETY: the recorder has found both ranges in allocations, or they are the caller's.
        unsafe { std::ptr::copy(pointer::<u8>(from), pointer::<u8>(to), bytes) }
    }

    pub fn fill(&self, at: u64, byte: u8, bytes: usize) {
        // SAFETY: the recorder has found the range in an allocation.
        unsafe { pointer::<u8>(at).write_bytes(byte, bytes) }
    }

    /// C = A B + beta C, column-major.
    pub(super) fn product(&self, product: &Product) {
        let Product { rows, columns, depth, a, b, c, beta, .. } = product;
        for i in 0..*rows as usize {
            for j in 0..*columns as usize {
                let factors = (0..*depth as usize).map(|k| (value(a, i, k), value(b, k, j)));
                let sum: f64 = factors.map(|(a, b)| f64::from(a) * f64::from(b)).sum();
                let before = if *beta == 0.0 { 0.0 } else { beta * value(c, i, j) };
                set(c, i, j, sum as f32 + before);
            }
        }
    }

    pub fn launch(
        &self,
        module: usize,
        kernel: &str,
        [x, y]: [usize; 2],
        threads: usize,
        shared: usize,
        params: *const c_void,
    ) {
        let library = compiled(&self.modules[&module]);
        let together = TOGETHER.contains(&kernel);
        let all_at_once = kernel.starts_with("persistent_");
        let mode = match (all_at_once, SUMMING.contains(&kernel)) {
            (true, _) => 2,
            (_, true) => 3,
            _ => u32::from(together),
        };
        let name = CString::new(kernel).expect("a name");
        let [x, y, threads, shared] = [x, y, threads, shared].map(|number| number as u32);
        let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the function has this signature, and the kernel takes that struct.
        let known = unsafe {
            let run = library.get::<Run>(b"run_kernel\0").expect("a function of `cpp`");
            run(name.as_ptr(), x, y, threads, shared, mode, params)
        };
        assert_eq!(known, 0, "{kernel} in its module");
    }
}

fn pointer<T>(at: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(at as usize)
}

/// Element (i, j) of an operand, which is stored column-major, transposed if it says so.
fn place(m: &Factor, i: usize, j: usize) -> usize {
    let stride = m.stride as usize;
    if m.is_transposed() { i * stride + j } else { j * stride + i }
}

fn value(m: &Factor, i: usize, j: usize) -> f32 {
    let at = place(m, i, j);
    // SAFETY: the recorder has found the whole matrix in an allocation.
    unsafe {
        match m.kind() {
            "f16" => float_from_half(pointer::<u16>(m.at).add(at).read()),
            _ => pointer::<f32>(m.at).add(at).read(),
        }
    }
}

fn set(m: &Factor, i: usize, j: usize, value: f32) {
    let at = place(m, i, j);
    // SAFETY: as in `value`.
    unsafe {
        match m.kind() {
            "f16" => pointer::<u16>(m.at).add(at).write(half_from_float(value)),
            _ => pointer::<f32>(m.at).add(at).write(value),
        }
    }
}

/// The C++ of a module: its text with stand-ins for CUDA, and a function that runs its kernels.
fn cpp(text: &str) -> String {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulated/hopper.hpp");
    let header = format!("#ifndef NB\n#define NB 16\n#endif\n#include \"{}\"\n", header.display());
    let text = text.replacen(COMMON, &header, 1).replacen(HOPPER, "", 1).replacen(MMA, "", 1);
    let signatures = super::source::signatures(&text).expect("kernels");
    let mut cases = String::new();
    for signature in signatures {
        let (name, params) = (&signature.name, &signature.params);
        let compiled_in = !name.starts_with("persistent_")
            || name.ends_with("from_states") == signature.defines.contains_key("FROM_STATES");
        if compiled_in {
            cases.push_str(&format!(
                "    if (!strcmp(name, \"{name}\")) return run(x, y, threads, shared, mode, \
                 [&] {{ {name}(*(const {params}*)params); }});\n"
            ));
        }
    }
    format!(
        "{text}\nextern \"C\" __attribute__((visibility(\"default\"))) int run_kernel(\n    \
         const char* name, u32 x, u32 y, u32 threads, u32 shared, u32 mode, const void* params) \
         {{\n{cases}    return 1;\n}}\n"
    )
}

fn compiled(text: &str) -> &'static Library {
    let mut all = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(library) = all.get(text) {
        return library;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [source, library] = ["kernels.cpp", "kernels.so"].map(|name| folder.path().join(name));
    std::fs::write(&source, text).expect("a file");
    let mut command = compiler();
    command.args(["-std=c++20", "-O1", "-w", "-pthread", "-shared", "-fPIC"]);
    command.args(["-fvisibility=hidden", "-fno-gnu-unique", "-o"]).arg(&library).arg(&source);
    let output = command.output().expect("a compiler");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    // SAFETY: what was just compiled; nothing runs when it is loaded.
    let library = unsafe { Library::new(&library) }.expect("a library");
    let library = Box::leak(Box::new(library));
    all.insert(text.into(), library);
    library
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CXX").unwrap_or("c++".into()))
}
