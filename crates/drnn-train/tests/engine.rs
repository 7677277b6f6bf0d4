//! The CPU's engine keeps the contract, on any number of threads.

use drnn::{Cpu, NetSpec};
use drnn_train::conformance::{self, Plain};
use drnn_train::{AdamOptions, Learner};

fn make(spec: &NetSpec, seed: u64) -> Plain {
    Box::new(Learner::new(&Cpu::new(3), spec, AdamOptions::default(), seed))
}

#[test]
fn steps_do_not_depend_on_threads() {
    conformance::curve(&make, 0.0);
}

#[test]
fn states_can_be_handed_on() {
    conformance::state(&make, 0.0);
}

#[test]
fn evaluation_is_not_noticed() {
    conformance::evaluation(&make, 0.0);
}

#[test]
fn many_batches_at_once() {
    conformance::strides(&make);
}

#[test]
fn what_runs_away_changes_nothing() {
    conformance::not_finite(&make);
}
