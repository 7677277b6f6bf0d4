//! What goes into a backward pass, and what comes out.

use crate::error::{Error, Result, check_finite, check_shape};
use crate::exec::net::Net;
use crate::exec::pass::Lane;
use crate::model::batch::{Batch, States};
use crate::spec::{InputSpec, NetSpec};

/// What a loss says about a lane's outputs, and where its gradient goes.
#[derive(Debug)]
pub struct Gradient<'a> {
    /// In: gradient of the outputs, (output steps, B, m), or (slots, m) where only those are requested.
    /// What stands after a sequence's end is not read.
    pub outputs: &'a [f32],
    /// In: gradient of the last states; zeros if None.
    pub last: Option<&'a States>,
    /// Out: gradient of the parameters; overwritten.
    pub params: &'a mut [f32],
    /// Out, if wanted: gradient of dense input, (T, B, q); overwritten.
    pub input: Option<&'a mut [f32]>,
    /// Out, if wanted: gradient of the start states; overwritten.
    pub start: Option<&'a mut States>,
}

impl Gradient<'_> {
    pub(crate) fn check(&self, net: &Net, lane: &Lane) -> Result<()> {
        let (spec, rows) = (net.spec, lane.batch.rows());
        self.check_outputs(spec, &lane.batch)?;
        check_shape("gradient of params", self.params.len(), &[net.layout.len()])?;
        if let Some(last) = self.last {
            last.check("gradient of last", spec, rows)?;
        }
        if let Some(start) = &self.start {
            start.check_shape("gradient of start", spec, rows)?;
        }
        if let Some(input) = &self.input {
            let InputSpec::Dense(q) = spec.input() else {
                return Err(Error::NoInputGradient);
            };
            check_shape("gradient of input", input.len(), &[lane.batch.steps(), rows, q])?;
        }
        Ok(())
    }

    fn check_outputs(&self, spec: &NetSpec, batch: &Batch) -> Result<()> {
        let (name, rows, m) = ("gradient of outputs", batch.rows(), spec.output_width());
        if let Some(slots) = batch.selected() {
            check_shape(name, self.outputs.len(), &[slots.len(), m])?;
            return check_finite(name, self.outputs);
        }
        check_shape(name, self.outputs.len(), &batch.output_shape(spec))?;
        if check_finite(name, self.outputs).is_ok() {
            return Ok(());
        }
        // Only what stands after a sequence's end may be anything.
        for (slot, output) in self.outputs.chunks_exact(m).enumerate() {
            if slot / rows < spec.output_steps(batch.length(slot % rows)) {
                check_finite(name, output).map_err(|e| e.moved(slot * m))?;
            }
        }
        Ok(())
    }
}
