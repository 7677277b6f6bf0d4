//! One of a tagger's two networks: its recurrence for the shape of a batch, and where its parameters
//! lie.

use super::unsupported;
use crate::error::Result;
use crate::recurrence::{Format, LayerArrays, Recurrence, RecurrenceOptions, RecurrenceSpec};
use crate::runtime::device::Device;
use crate::runtime::gemm::{Gemm, Precision};
use crate::runtime::memory::Buffer;
use crate::step::plan::Plan;
use drnn::NetSpec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Plans that are kept: there are about as many shapes as lengths of the longest sentence or
/// spelling, times numbers of spellings in a batch.
const MAX_PLANS: usize = 2048;

/// A network, and plans of its recurrence.
#[derive(Debug)]
pub(super) struct Network {
    pub plan: Plan,
    /// Of its parameters among those of the tagger.
    pub first: usize,
    spec: RecurrenceSpec,
    /// By steps, rows, and whether a backward pass follows.
    planned: HashMap<([usize; 2], bool), Arc<Recurrence>>,
}

impl Network {
    pub fn new(net: &NetSpec, first: usize) -> Result<Network> {
        let plan = Plan::new(net).or_else(unsupported)?;
        let units = net.units();
        if units.iter().any(|n| *n != units[0]) {
            return unsupported(format!(
                "taggers whose layers have different numbers of units are trained with --device cpu \
                 only: {net}"
            ));
        }
        let spec = RecurrenceSpec {
            cell: net.cell(),
            inputs: net.input().width(),
            units: units[0],
            layers: units.len(),
            bidirectional: plan.layers[0].len() == 2,
        };
        Ok(Network { plan, first, spec, planned: HashMap::new() })
    }

    /// Units of a direction of a layer.
    pub fn units(&self) -> usize {
        self.spec.units
    }

    /// Width of a layer's output.
    pub fn width(&self) -> usize {
        self.plan.layers[0][0].width
    }

    /// Layers times directions.
    pub fn lanes(&self) -> usize {
        self.plan.layers.iter().map(Vec::len).sum()
    }

    /// Lanes below the last layer.
    pub fn lanes_below(&self) -> usize {
        self.lanes() - self.plan.layers[0].len()
    }

    /// The recurrence for batches of this many steps and rows.
    pub fn recurrence(
        &mut self,
        (device, precision, gemm): (&Device, Precision, &Arc<Mutex<Gemm>>),
        shape: [usize; 2],
        training: bool,
    ) -> Result<Arc<Recurrence>> {
        if let Some(known) = self.planned.get(&(shape, training)) {
            return Ok(known.clone());
        }
        if self.planned.len() >= MAX_PLANS {
            self.planned.clear();
        }
        let planned = self.plan_for(device, precision, shape, training)?;
        let planned = Arc::new(planned.with_products(gemm.clone()));
        self.planned.insert((shape, training), planned.clone());
        Ok(planned)
    }

    /// The same, not kept.
    pub fn plan_for(
        &self,
        device: &Device,
        precision: Precision,
        shape: [usize; 2],
        training: bool,
    ) -> Result<Recurrence> {
        // Outputs and losses are not the recurrence's.
        self.plan.check_batch(shape[0], shape[1])?;
        let options = RecurrenceOptions { format: Format::F32, precision, training };
        Recurrence::plan(device, self.spec, shape, options)
    }

    /// Where the recurrence's parameters, or their gradients, lie in the tagger's vector.
    pub fn arrays(&self, vector: &Buffer<f32>) -> Vec<LayerArrays> {
        let recurrences = self.plan.layers.iter().flatten();
        LayerArrays::in_vector(recurrences, |place| vector.at(self.first + place))
    }
}
