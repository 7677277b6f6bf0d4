//! Training options that a GPU cannot do are refused, and nothing is launched.

use super::{Zeros, batches, hopper};
use crate::{CudaLearner, Precision, check_options};
use drnn::{Cell, Dropout, NetSpec};
use drnn_train::{AdamOptions, Batches, Dataset, Engine, Gathered, Options, Result};

/// Data with class weights.
struct Weighted(Zeros);

impl Dataset for Weighted {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        self.0.fits(spec)
    }

    fn class_weights(&self) -> Option<&[f32]> {
        Some(&[1.0, 2.0])
    }

    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        self.0.gather(epoch, chosen, to);
    }
}

#[test]
fn weight_decay_dropout_and_class_weights_are_refused() {
    let spec = NetSpec::builder(Cell::Lstm).dense(2).units([8]).outputs(2).build().unwrap();
    let adam = AdamOptions { weight_decay: 0.01, ..AdamOptions::default() };
    let learner = |adam| CudaLearner::new(&hopper(), Precision::F32, &spec, adam, 1);
    let refused = |why: String, option: &str| {
        assert!(why.contains(option) && why.contains("--device cpu"), "{why}");
    };
    refused(learner(adam).err().unwrap().to_string(), "--weight-decay");
    let options = Options { adam, ..Options::default() };
    refused(check_options(&options).unwrap_err().to_string(), "--weight-decay");
    let options = Options { dropout: 0.5, ..Options::default() };
    refused(check_options(&options).unwrap_err().to_string(), "--dropout");
    assert_eq!(check_options(&Options::default()), Ok(()));

    let mut plain = learner(AdamOptions::default()).unwrap();
    let mut state = plain.state().unwrap();
    state.adam = drnn_train::Adam::new(adam, state.params.len());
    refused(plain.set_state(state).unwrap_err().to_string(), "--weight-decay");
    let data = Zeros { spec: spec.clone(), sequences: 4, elements: 3, one_of: None };
    let dropout = Some(Dropout::new(0.5, 1).unwrap());
    let dropped = Batches { dropout, ..batches(&[0, 1], 2) };
    refused(plain.train(&data, &dropped).unwrap_err().to_string(), "--dropout");
    let weighted = Weighted(data);
    refused(plain.check(&weighted).unwrap_err().to_string(), "--class-weights");
    let error = plain.train(&weighted, &batches(&[0, 1], 2)).unwrap_err();
    refused(error.to_string(), "--class-weights");
}
