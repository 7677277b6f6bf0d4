//! Faults of ours, for tests: these tokens panic.

use drnn::{Cell, Model, NetSpec, Padding};
use drnn_tasks::live::{Element, LiveModel};

/// When it has been read.
pub const FAULT: u32 = 3;
/// While it is read.
pub const FAULT_IN_READING: u32 = 4;

pub fn check(element: &Element) {
    assert!(*element != Element::Token(FAULT), "a fault for a test");
}

pub fn check_reading(element: &Element) {
    assert!(*element != Element::Token(FAULT_IN_READING), "a fault for a test");
}

/// One that reads tokens below 5, and answers 2 elements late.
pub fn model() -> LiveModel {
    let spec = NetSpec::builder(Cell::Gru).tokens(5, 3).units([5]).delay(2, Padding::Null);
    LiveModel::new("m", Model::init(&spec.build().unwrap(), 1)).unwrap()
}
