//! A fault of ours, for tests: reading this token panics.

use drnn::{Cell, Model, NetSpec, Padding};
use drnn_train::live::{Element, LiveModel};

pub const FAULT: u32 = 3;

pub fn check(element: &Element) {
    assert!(*element != Element::Token(FAULT), "a fault for a test");
}

/// One that reads tokens below 4, and answers 2 elements late.
pub fn model() -> LiveModel {
    let spec = NetSpec::builder(Cell::Gru).tokens(4, 3).units([5]).delay(2, Padding::Null);
    LiveModel::new("m", Model::init(&spec.build().unwrap(), 1)).unwrap()
}
