//! Which kernels a learner runs, and their compilation before there is a learner.

use super::CudaLearner;
use crate::error::{Error, Result};
use crate::persistent::{self, PersistentNet};
use crate::plain::Resident;
use crate::runtime::device::Device;
use crate::runtime::gemm::Precision;
use crate::step::plan::Plan;
use drnn::NetSpec;

impl CudaLearner {
    /// Compiles, or takes from the cache, and loads all kernels with which a learner of these
    /// options trains on batches of `rows` sequences. Without it they are compiled when they are
    /// needed, one after another; several threads may call it at the same time.
    pub fn compile(
        device: &Device,
        precision: Precision,
        spec: &NetSpec,
        rows: usize,
    ) -> Result<()> {
        let plan = Plan::new(spec).map_err(Error::Unsupported)?;
        device.enter()?;
        if precision == Precision::F16 {
            Resident::of(device, &plan)?;
            if persistent::supports(device, &plan)? {
                PersistentNet::new(device, &plan, rows)?;
            }
        }
        // Last: threads that want them too wait for each other here.
        device.kernels().map(drop)
    }

    /// The kernels that run the recurrences: `persistent`, `register-resident`, or `plain` (a
    /// product and an elementwise kernel per time step) if any layer needs those.
    pub fn kernels(&self) -> &'static str {
        match (self.persistent, self.resident.iter().all(Option::is_some)) {
            (true, _) => "persistent",
            (false, true) => "register-resident",
            (false, false) => "plain",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{ampere, hopper};
    use drnn::Cell;
    use drnn_train::AdamOptions;

    #[test]
    fn kernels_are_named_and_loaded_ahead() {
        let network = |cell, units: &[usize]| {
            let builder = NetSpec::builder(cell).dense(3).units(units.to_vec()).outputs(2);
            builder.build().expect("a network")
        };
        let (f16, tf32) = (Precision::F16, Precision::Tf32);
        for (device, precision, spec, name) in [
            (hopper(), f16, network(Cell::Lstm, &[100]), "persistent"),
            (ampere(), f16, network(Cell::Lstm, &[100]), "register-resident"),
            (hopper(), f16, network(Cell::Lstm, &[100, 512]), "persistent"),
            (hopper(), f16, network(Cell::Gru, &[100]), "persistent"),
            (hopper(), tf32, network(Cell::Lstm, &[512]), "plain"),
            (ampere(), f16, network(Cell::Lstm, &[100, 512]), "plain"),
        ] {
            CudaLearner::compile(&device, precision, &spec, 64).expect("compiled");
            let learner = CudaLearner::new(&device, precision, &spec, AdamOptions::default(), 1);
            assert_eq!(learner.expect("a learner").kernels(), name, "{spec} on {device}");
        }
        let blocks = drnn::Blocks::new([4, 3]).connections(drnn::Connections::Lower);
        let builder = NetSpec::builder(Cell::Lstm).dense(2).blocks(blocks);
        let spec = builder.delay(1, drnn::Padding::Null).build().expect("a network");
        let refused = CudaLearner::compile(&hopper(), f16, &spec, 64);
        assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    }
}
