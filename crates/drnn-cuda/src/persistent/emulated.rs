//! Both kernels on the CPU, compared with the equations: `tests/emulated` has C++ for Hopper's
//! instructions. Needs a C++ compiler with `_Float16`; where its address sanitizer works, accesses
//! outside of arrays are found too.

use super::spec::{HLoadStrategy, KernelSpec};
use super::tiling::{CONSUMER_THREADS, DeviceLimits, Kind, Tiling, WARP, padded};
use crate::kernels::params::{
    LastStates, PackBackward, PackBias, PackForward, PackSingleBlock, Params, PersistentBackward,
    PersistentBackwardFromStates, PersistentForward, PersistentForwardFromStates, PlaceStates,
    PlaceStatesHalf,
};
use drnn::Cell;
use drnn_testing::{Need, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

/// Exit status of a program where the machine does not allow enough threads.
const UNSUPPORTED: i32 = 77;

/// Programs run one at a time: each has thousands of threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Tried once.
static SANITIZER: LazyLock<Result<bool, String>> = LazyLock::new(sanitizer);

const H200: DeviceLimits = DeviceLimits::new(132, 227 << 10);

fn compiler() -> Command {
    Command::new(std::env::var_os("CXX").unwrap_or("c++".into()))
}

/// A program that runs a kernel. The error is the compiler's output.
fn compile(folder: &Path, kind: &KernelSpec, sanitizer: bool) -> Result<PathBuf, String> {
    let name = if kind.source.name.ends_with("forward") { "forward" } else { "backward" };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/emulated/{name}.cpp"));
    let program = folder.join(name);
    let structs = [
        PackForward::declaration(),
        PackBackward::declaration(),
        PackSingleBlock::declaration(),
        PackBias::declaration(),
        PersistentForward::declaration(),
        PersistentForwardFromStates::declaration(),
        PersistentBackward::declaration(),
        PersistentBackwardFromStates::declaration(),
        PlaceStates::declaration(),
        PlaceStatesHalf::declaration(),
        LastStates::declaration(),
    ];
    std::fs::write(folder.join("params.h"), structs.concat()).map_err(|e| e.to_string())?;
    let mut command = compiler();
    command.args(["-std=c++20", "-O1", "-g", "-w", "-pthread", "-I"]).arg(folder);
    command.arg("-o").arg(&program).arg(source);
    command.args(kind.source.defines.iter().map(|define| format!("-D{define}")));
    command.args(sanitizer.then_some("-fsanitize=address"));
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Whether the address sanitizer works; the error says that there is no suitable compiler.
fn sanitizer() -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = folder.path().join("f16.cpp");
    let text = "#include <thread>\nint main() { _Float16 x = 1; return x == 1 ? 0 : 1; }\n";
    std::fs::write(&source, text).map_err(|error| error.to_string())?;
    let works = |more: &[&str]| {
        let program = folder.path().join("f16");
        let mut command = compiler();
        command.args(["-std=c++20", "-pthread", "-o"]).arg(&program).arg(&source).args(more);
        let compiled = command.output().is_ok_and(|output| output.status.success());
        compiled && Command::new(program).output().is_ok_and(|output| output.status.success())
    };
    match (works(&["-fsanitize=address"]), works(&[])) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err("no C++ compiler with _Float16".into()),
    }
}

/// A kernel as a program, unless there is no compiler for it.
fn program(folder: &Path, kind: &KernelSpec, what: &str) -> Option<PathBuf> {
    match &*SANITIZER {
        Ok(sanitizer) => {
            let program = compile(folder, kind, *sanitizer);
            Some(program.unwrap_or_else(|error| panic!("{what}: {error}")))
        }
        Err(missing) => {
            skip(Need::Cxx, missing);
            None
        }
    }
}

/// Runs a kernel on a random network of `units` units, with a last group that is not full. `naps`
/// is a thread that is slowed down.
fn run(
    program: &Path,
    kind: &KernelSpec,
    tiling: Tiling,
    [units, steps]: [usize; 2],
    naps: Option<usize>,
) {
    let what = format!("{}, {units} units, {tiling:?}, {naps:?} naps", kind.source.name);
    let rows = tiling.rows * tiling.groups - 3;
    let arguments = [units, tiling.lanes, rows, steps, kind.in_registers];
    let mut command = Command::new(program);
    command.args(arguments.map(|n| n.to_string()));
    command.envs(naps.map(|thread| ("NAPS", thread.to_string())));
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let output = command.output().expect("a program that was just compiled");
    drop(guard);
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    if output.status.code() == Some(UNSUPPORTED) {
        return skip(Need::Threads, printed);
    }
    assert!(output.status.success(), "{what}: {}\n{printed}", output.status);
    eprintln!("{what}: {printed}");
}

/// Forward and backward of a tiling.
fn check(tiling: Tiling, units: usize, steps: usize, table: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    for kind in [tiling.forward(table, H200).expect("fits"), tiling.backward()] {
        let Some(program) = program(folder.path(), &kind, kind.source.name) else { return };
        run(&program, &kind, tiling, [units, steps], None);
    }
}

/// The same for sequences that begin with given states.
fn check_from_states(tiling: Tiling, units: usize, steps: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    for kind in [tiling.forward_from_states(H200), tiling.backward_from_states()] {
        let Some(program) = program(folder.path(), &kind, kind.source.name) else { return };
        run(&program, &kind, tiling, [units, steps], None);
    }
}

/// Forward with one slow producer thread: the first and the last of each warp in turn. The first copies
/// and arrives at mbarriers, the last only waits.
fn check_slow_producers(tiling: Tiling, units: usize, steps: usize) {
    check_slow(tiling, tiling.forward(false, H200).expect("fits"), units, steps);
}

fn check_slow(tiling: Tiling, kind: KernelSpec, units: usize, steps: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = program(folder.path(), &kind, kind.source.name) else { return };
    for warp in CONSUMER_THREADS / WARP..kind.threads / WARP {
        for thread in [0, WARP - 1] {
            run(&program, &kind, tiling, [units, steps], Some(warp * WARP + thread));
        }
    }
}

fn layer(cell: Cell, units: usize, rows: usize, groups: usize, directions: usize) -> Tiling {
    let padded = padded(units);
    Tiling {
        cell,
        padded,
        units: 32,
        rows,
        helpers: 1,
        prefetch: false,
        groups,
        lanes: directions,
        stacked: false,
        below: 0,
        kind: Kind::Exchange,
    }
}

fn stack(cell: Cell, units: usize, rows: usize, layers: usize) -> Tiling {
    Tiling { stacked: true, below: 1, ..layer(cell, units, rows, 1, layers) }
}

/// The same in blocks that have all units.
fn alone(tiling: Tiling) -> Tiling {
    Tiling { units: tiling.padded, kind: Kind::SingleBlock, ..tiling }
}

/// The same in blocks of 16 units, whose warpgroups share k-steps.
fn split(tiling: Tiling) -> Tiling {
    Tiling { units: 16, helpers: Tiling::usual_helpers(16, tiling.rows), ..tiling }
}

fn above(lower: Tiling) -> Tiling {
    Tiling { below: lower.lanes, ..lower }
}

#[test]
fn lstms_that_exchange_h() {
    check(layer(Cell::Lstm, 33, 16, 2, 1), 33, 3, false);
    check(layer(Cell::Lstm, 70, 24, 1, 1), 70, 4, true);
}

#[test]
fn both_directions_of_other_cells() {
    check(layer(Cell::Gru, 6, 16, 1, 2), 6, 5, true);
    check(layer(Cell::RnnTanh, 40, 48, 1, 2), 40, 3, false);
}

/// More steps than slots in the ring buffers.
#[test]
fn concurrent_layers_of_a_stack() {
    check(stack(Cell::Lstm, 40, 16, 3), 40, 7, true);
    check(stack(Cell::Gru, 33, 32, 2), 33, 6, false);
}

#[test]
fn layers_that_multiply_the_input_too() {
    check(above(layer(Cell::Lstm, 70, 16, 2, 1)), 70, 4, false);
    check(above(layer(Cell::Gru, 33, 24, 1, 2)), 33, 5, false);
    check(above(layer(Cell::Lstm, 150, 24, 1, 1)), 150, 3, false);
}

/// A phase of an mbarrier is known by its parity alone: a thread that nothing waits for could miss
/// two of them and then wait for ever.
#[test]
fn no_producer_can_miss_a_phase() {
    check_slow_producers(layer(Cell::RnnTanh, 33, 24, 1, 1), 33, 6);
    check_slow_producers(above(layer(Cell::RnnTanh, 33, 24, 1, 1)), 33, 6);
    check_slow_producers(stack(Cell::RnnTanh, 33, 24, 2), 33, 6);
}

#[test]
fn every_cell_from_given_states() {
    check_from_states(layer(Cell::Lstm, 33, 16, 2, 1), 33, 3);
    check_from_states(layer(Cell::Lstm, 40, 24, 1, 2), 40, 5);
    check_from_states(layer(Cell::Gru, 6, 16, 1, 2), 6, 5);
    check_from_states(layer(Cell::RnnTanh, 40, 48, 1, 2), 40, 3);
}

#[test]
fn layers_from_given_states() {
    check_from_states(stack(Cell::Lstm, 40, 16, 3), 40, 7);
    check_from_states(stack(Cell::Gru, 33, 32, 2), 33, 6);
    check_from_states(above(layer(Cell::Gru, 33, 24, 1, 2)), 33, 5);
}

#[test]
fn no_producer_can_miss_a_phase_from_given_states() {
    let tiling = stack(Cell::RnnTanh, 33, 24, 2);
    check_slow(tiling, tiling.forward_from_states(H200), 33, 6);
}

/// Four, two and one threads for each four cells; h by threads and by bulk copies.
#[test]
fn blocks_of_16_units() {
    check(split(layer(Cell::Lstm, 33, 16, 2, 1)), 33, 3, false);
    check(split(layer(Cell::Lstm, 70, 32, 1, 1)), 70, 4, true);
    check(split(layer(Cell::Gru, 40, 48, 1, 2)), 40, 5, true);
    check(split(layer(Cell::RnnTanh, 20, 64, 1, 2)), 20, 3, false);
}

#[test]
fn blocks_that_have_all_units() {
    check(alone(layer(Cell::Lstm, 33, 8, 2, 1)), 33, 10, false);
    check(alone(layer(Cell::Lstm, 30, 4, 3, 2)), 30, 9, true);
    check(alone(layer(Cell::Gru, 70, 8, 1, 2)), 70, 5, true);
    check(alone(layer(Cell::RnnTanh, 128, 4, 1, 1)), 128, 3, false);
}

#[test]
fn blocks_that_have_all_units_from_given_states() {
    check_from_states(alone(layer(Cell::Lstm, 33, 8, 2, 2)), 33, 9);
    check_from_states(alone(layer(Cell::Gru, 20, 4, 2, 2)), 20, 5);
    check_from_states(alone(layer(Cell::RnnTanh, 40, 8, 1, 1)), 40, 3);
}

/// More weights and senders than a thread has registers for, as in layers that are too large to be
/// run here: weights in shared memory too, and parts of two senders at a time.
#[test]
fn few_registers() {
    let layers = [layer(Cell::Lstm, 150, 16, 1, 1), layer(Cell::Gru, 150, 32, 1, 1)];
    for tiling in layers.into_iter().flat_map(|tiling| [tiling, split(tiling)]) {
        let folder = tempfile::tempdir().expect("a folder");
        let strategy = HLoadStrategy { registers: 1, ..tiling.h_load_strategies()[0] };
        for kind in [tiling.forward_with(strategy, 0), tiling.backward_with(1, 2)] {
            assert_eq!(kind.in_registers, 1);
            let Some(program) = program(folder.path(), &kind, kind.source.name) else { return };
            run(&program, &kind, tiling, [150, 3], None);
        }
    }
}

/// Two threads for each four cells of a block of 32 units too, if the environment says so.
#[test]
fn threads_that_share_cells() {
    check(Tiling { helpers: 2, ..layer(Cell::Lstm, 70, 16, 1, 1) }, 70, 3, false);
    check_from_states(Tiling { helpers: 2, ..stack(Cell::Gru, 33, 16, 2) }, 33, 6);
}

/// What is prefetched to L2 lies inside of arrays: the last group is not full.
#[test]
fn prefetches() {
    let ahead = |tiling| Tiling { prefetch: true, ..tiling };
    check(ahead(layer(Cell::Lstm, 70, 16, 2, 1)), 70, 5, false);
    check(ahead(split(layer(Cell::Gru, 33, 32, 1, 2))), 33, 5, true);
    check_from_states(ahead(stack(Cell::RnnTanh, 33, 24, 2)), 33, 6);
}

/// Eight words of h per producer thread.
#[test]
fn large_layers_in_blocks_of_16_units() {
    let tiling = split(layer(Cell::Lstm, 650, 16, 1, 1));
    check(tiling, 650, 2, false);
}

#[test]
fn layers_in_blocks_of_16_units() {
    check(split(stack(Cell::Lstm, 40, 16, 3)), 40, 7, true);
    check(split(stack(Cell::Gru, 33, 32, 2)), 33, 6, false);
    check(split(above(layer(Cell::Lstm, 70, 16, 2, 1))), 70, 4, false);
    check(split(above(layer(Cell::Gru, 33, 32, 1, 2))), 33, 5, false);
}

#[test]
fn blocks_of_16_units_from_given_states() {
    check_from_states(split(layer(Cell::Lstm, 33, 16, 2, 1)), 33, 3);
    check_from_states(split(layer(Cell::Gru, 20, 32, 1, 2)), 20, 5);
    check_from_states(split(layer(Cell::RnnTanh, 40, 48, 1, 2)), 40, 3);
    check_from_states(split(stack(Cell::Lstm, 40, 16, 3)), 40, 7);
    check_from_states(split(above(layer(Cell::Gru, 33, 16, 1, 2))), 33, 5);
}

#[test]
fn no_producer_of_a_block_of_16_units_can_miss_a_phase() {
    check_slow_producers(split(above(layer(Cell::RnnTanh, 33, 16, 1, 1))), 33, 6);
    check_slow_producers(split(stack(Cell::RnnTanh, 33, 32, 2)), 33, 6);
}

/// So much of h that it is loaded by bulk copies.
#[test]
fn bulk_copies() {
    let tiling = stack(Cell::Lstm, 201, 64, 2);
    let forward = tiling.forward(false, H200).expect("fits");
    assert!(forward.source.defines.contains(&"BULK=1".to_string()));
    check(tiling, 201, 3, false);
    check_from_states(tiling, 201, 3);
}
