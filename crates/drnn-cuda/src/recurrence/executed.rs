//! Whole calls executed on the CPU, compared with `drnn`'s own forward and backward passes: host
//! code and kernels together. Needs a C++ compiler with `_Float16`.

use super::*;
use crate::persistent::{ForcedTiling, Kind, Kinds};
use crate::recorded::{executing, executing_in};
use crate::runtime::driver;
use crate::runtime::driver::recorder::{float_from_half, half_from_float};
use crate::runtime::memory::{Buffer, Pod};
use cases::{Card, Case, Expected, Run, exploding, persistent, plain};
use drnn::States;
use std::any::Any;
use std::cell::RefCell;

#[path = "../../tests/recurrence/cases.rs"]
mod cases;

/// A simulated card that executes, where that is possible.
fn card() -> Option<Simulated> {
    executing().map(simulated)
}

fn simulated(device: Device) -> Simulated {
    let stream = Stream::new(&device).expect("a stream");
    Simulated { device, stream, memory: RefCell::default() }
}

struct Simulated {
    device: Device,
    stream: Stream,
    /// Buffers of several types.
    memory: RefCell<Vec<Box<dyn Any>>>,
}

impl Simulated {
    fn keep<T: Pod + 'static>(&self, buffer: Result<Buffer<T>>) -> u64 {
        let buffer = buffer.expect("memory");
        let at = buffer.at(0);
        self.memory.borrow_mut().push(Box::new(buffer));
        at
    }

    fn read<T: Pod>(&self, at: u64, len: usize) -> Vec<T> {
        let mut values = vec![T::default(); len];
        if len > 0 {
            // SAFETY: the recorder checks the range.
            unsafe { driver::memcpy_dtoh_sync(&mut values, at) }.expect("memory");
        }
        values
    }

    fn plan(&self, case: &Case) -> Recurrence {
        let Case { spec, steps, rows, options, .. } = *case;
        Recurrence::plan(&self.device, spec, [steps, rows], options).expect("a plan")
    }

    fn run(&self, case: Case, expected: &Expected) -> Run<'_, Simulated> {
        Run::new(self, self.plan(&case), case, expected)
    }
}

impl Card for Simulated {
    fn f32s(&self, values: &[f32]) -> u64 {
        self.keep(Buffer::from(&self.device, values))
    }

    fn u16s(&self, values: &[u16]) -> u64 {
        self.keep(Buffer::from(&self.device, values))
    }

    fn u32s(&self, values: &[u32]) -> u64 {
        self.keep(Buffer::from(&self.device, values))
    }

    fn u64s(&self, values: &[u64]) -> u64 {
        self.keep(Buffer::from(&self.device, values))
    }

    fn bytes(&self, len: usize, byte: u8) -> u64 {
        self.keep(Buffer::<u8>::filled(&self.device, len, byte))
    }

    fn fill(&self, at: u64, len: usize, byte: u8) {
        // SAFETY: the recorder checks the range.
        unsafe { driver::memcpy_htod_sync(at, &vec![byte; len]) }.expect("memory");
    }

    fn read_f32s(&self, at: u64, len: usize) -> Vec<f32> {
        self.read(at, len)
    }

    fn read_u16s(&self, at: u64, len: usize) -> Vec<u16> {
        self.read(at, len)
    }

    fn stream(&self) -> *mut c_void {
        self.stream.raw().cast()
    }
}

/// Runs a case forward and backward and compares everything.
fn check(case: Case) {
    if let Some(card) = card() {
        check_on(&card, case);
    }
}

fn check_on(card: &Simulated, case: Case) {
    let expected = Expected::of(&case);
    let run = card.run(case, &expected);
    let is_half = case.options.precision == Precision::F16;
    assert_eq!(run.planned.way(), if is_half { Way::Persistent } else { Way::Plain });
    run.check(&expected);
}

#[test]
fn every_cell_step_by_step() {
    for cell in crate::step::plan::CELLS {
        check(plain(cell, 1, false));
        check(plain(cell, 2, true));
    }
}

#[test]
fn what_is_optional_may_be_left_out() {
    check(Case { states: false, ..plain(Cell::Lstm, 2, true) });
    check(Case { lengths: None, ..plain(Cell::Gru, 1, true) });
    check(Case { lengths: Some(true), biases: false, ..plain(Cell::Lstm, 1, false) });
}

#[test]
fn inputs_and_outputs_of_other_formats() {
    for (format, tolerance) in [(Format::F16, 1e-3), (Format::Bf16, 8e-3)] {
        let options = RecurrenceOptions { format, training: true, ..Default::default() };
        check(Case { options, tolerance, ..plain(Cell::Lstm, 2, true) });
    }
}

#[test]
fn every_persistent_cell() {
    for cell in [Cell::Lstm, Cell::Gru, Cell::RnnTanh] {
        check(persistent(cell, 40, 1, false));
        check(persistent(cell, 6, 1, true));
    }
}

/// Blocks of 16 units, whose warpgroups share products; with 16 and with 32 rows.
#[test]
fn blocks_of_16_units() {
    for rows in [16, 32] {
        let forced = ForcedTiling { units: Some(16), rows: Some(rows), ..ForcedTiling::default() };
        let Some(device) = executing_in(forced) else { return };
        let card = simulated(device);
        check_on(&card, persistent(Cell::Lstm, 40, 1, true));
        check_on(&card, Case { rows: 19, ..persistent(Cell::Gru, 33, 1, false) });
        check_on(&card, persistent(Cell::RnnTanh, 20, 2, true));
        check_on(&card, persistent(Cell::Lstm, 20, 3, false));
    }
}

/// Recurrences whose blocks exchange nothing: of one block for all units, and step by step.
#[test]
fn other_kinds_of_recurrences() {
    for kind in [Kind::SingleBlock, Kind::StepByStep] {
        let forced = ForcedTiling { kinds: Kinds::Only(kind), ..ForcedTiling::default() };
        let Some(device) = executing_in(forced) else { return };
        let card = simulated(device);
        for cell in [Cell::Lstm, Cell::Gru, Cell::RnnTanh] {
            check_on(&card, persistent(cell, 40, 1, true));
            check_on(&card, Case { rows: 19, ..persistent(cell, 6, 2, false) });
        }
        check_on(&card, Case { states: false, ..persistent(Cell::Lstm, 33, 2, true) });
        check_on(
            &card,
            Case { lengths: None, biases: false, ..persistent(Cell::Gru, 20, 1, true) },
        );
    }
}

/// A wavefront of layers in one launch, more rows than a group has, layers that read the one below.
#[test]
fn persistent_stacks() {
    check(persistent(Cell::Lstm, 40, 3, false));
    check(Case { rows: 19, ..persistent(Cell::Gru, 33, 2, false) });
    check(Case { states: false, biases: false, ..persistent(Cell::Lstm, 20, 2, true) });
    check(Case { lengths: None, ..persistent(Cell::RnnTanh, 20, 2, true) });
}

#[test]
fn persistent_kernels_with_other_formats() {
    for (format, tolerance) in [(Format::F16, 5e-3), (Format::Bf16, 1e-2)] {
        let case = persistent(Cell::Lstm, 6, 1, true);
        let options = RecurrenceOptions { format, ..case.options };
        check(Case { options, tolerance, lengths: Some(true), ..case });
    }
}

/// Far beyond the range of f16, on both sides.
#[test]
fn gradients_of_any_scale() {
    for scale in [1e-30, 1e-9, 1e9, 1e30] {
        check(Case { scale, ..persistent(Cell::Gru, 6, 1, false) });
    }
    check(Case { scale: 1e-30, ..plain(Cell::Lstm, 1, false) });
}

/// Without training nothing is saved, and the outputs are the same to the bit.
#[test]
fn inference_equals_the_forward_pass_of_training() {
    let Some(card) = card() else { return };
    for case in [plain(Cell::Gru, 2, true), persistent(Cell::Lstm, 20, 2, true)] {
        let expected = Expected::of(&case);
        let of = |training: bool| {
            let case = Case { options: RecurrenceOptions { training, ..case.options }, ..case };
            let run = card.run(case, &expected);
            assert_eq!(run.planned.saved_bytes() > 0, training);
            run.forward();
            [run.y.values(&card), run.last[0].values(&card), run.last[1].values(&card)]
        };
        assert_eq!(of(true), of(false));
    }
}

/// The same case twice in the same memory.
#[test]
fn calls_do_not_depend_on_earlier_ones() {
    let Some(card) = card() else { return };
    let case = persistent(Cell::Gru, 33, 1, true);
    let run = card.run(case, &Expected::of(&case));
    let results = || {
        run.forward();
        run.backward();
        run.results()
    };
    assert_eq!(results(), results());
}

/// A gradient that is not finite, and one that grows beyond f16 on its way.
#[test]
fn gradients_that_are_not_finite_stay_so() {
    let Some(card) = card() else { return };
    for case in [plain(Cell::Lstm, 1, false), persistent(Cell::Lstm, 6, 1, false)] {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut expected = Expected::of(&case);
            expected.d_y[0] = bad;
            let run = card.run(case, &expected);
            run.forward();
            run.backward();
            let weights = run.gradients.values(&card).swap_remove(0)[0].take().expect("w_ih");
            assert!(weights.iter().any(|x| !x.is_finite()), "{bad}: {weights:?}");
        }
    }
    // Gradients of other sequences keep their scale.
    let case = Case { scale: 1e-30, ..persistent(Cell::Lstm, 6, 1, false) };
    let mut expected = Expected::of(&case);
    expected.d_y[..case.spec.units].fill(f32::INFINITY);
    let run = card.run(case, &expected);
    run.forward();
    run.backward();
    let (found, q) = (run.d_x.values(&card), case.spec.inputs);
    let largest = expected.d_x.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    for (at, (found, expected)) in found.iter().zip(&expected.d_x).enumerate() {
        let far = (found - expected).abs();
        assert!(at / q % case.rows == 0 || far <= case.tolerance * largest, "{at}: {found}");
    }
    assert!(!found[0].is_finite());
    let (case, expected) = exploding();
    let run = card.run(case, &expected);
    run.forward();
    run.backward();
    let d_h0 = run.d_first[0].values(&card);
    assert!(d_h0.iter().all(|x| !x.is_finite()), "{d_h0:?}");
}

/// Two calls on halves of the sequences, the second one from the last states of the first.
#[test]
fn sequences_may_be_split_between_calls() {
    let Some(card) = card() else { return };
    for cell in [Cell::Lstm, Cell::Gru] {
        let whole = Case { lengths: None, ..persistent(cell, 33, 1, false) };
        let half = Case { steps: whole.steps / 2, ..whole };
        let mut expected = Expected::of(&whole);
        let run = card.run(whole, &expected);
        let last = |run: &Run<Simulated>| run.last.map(|array| array.values(&card));
        run.forward();
        let (y, last_of_whole, mut found) = (run.y.values(&card), last(&run), Vec::new());
        let x = std::mem::take(&mut expected.x);
        for x in x.chunks(x.len() / 2) {
            expected.x = x.to_vec();
            let run = card.run(half, &expected);
            run.forward();
            found.extend(run.y.values(&card));
            let [h, c] = last(&run);
            expected.first = States { h, c };
        }
        assert_eq!(y, found);
        assert_eq!(last_of_whole, [expected.first.h, expected.first.c]);
    }
}
