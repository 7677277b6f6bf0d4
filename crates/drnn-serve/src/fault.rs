//! Injected faults for tests: these tokens cause panics.

use drnn::{Cell, Model, NetSpec, Padding};
use drnn_tasks::live::{Element, LiveModel};

/// Panics after the step has read it.
pub const FAULT: u32 = 3;
/// Panics while it is checked.
pub const FAULT_IN_READING: u32 = 4;

pub fn check(element: &Element) {
    assert!(*element != Element::Token(FAULT), "an injected fault");
}

pub fn check_reading(element: &Element) {
    assert!(*element != Element::Token(FAULT_IN_READING), "an injected fault");
}

/// A model that reads tokens below 5, with a delay of 2.
pub fn model() -> LiveModel {
    let spec = NetSpec::builder(Cell::Gru).tokens(5, 3).units([5]).delay(2, Padding::Null);
    LiveModel::new("m", Model::init(&spec.build().unwrap(), 1).unwrap()).unwrap()
}
