//! Training passes: forward, keeping what the backward pass needs, then backward to flat gradients.

use crate::backward::backward;
use crate::backward::gradient::Gradient;
use crate::backward::outer::OuterWork;
use crate::backward::work::BackWork;
use crate::cpu::Cpu;
use crate::cpu::buffer::{Shared, Slots};
use crate::error::{Error, Result, Shape, check_shape};
use crate::exec::dropout::Dropout;
use crate::exec::net::Net;
use crate::exec::pass::{Lane, LaneWork, forward};
use crate::exec::schedule::Schedule;
use crate::exec::weights::{Way, Weights};
use crate::model::batch::States;
use crate::model::memory;
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::blocks::StartState;
use crate::spec::params::Layout;

/// The memory of training passes of one network shape, for any number of lanes. Made once: batches
/// no larger than those before allocate nothing.
///
/// ```
/// use drnn::{Batch, Cell, Gradient, Lane, Model, NetSpec, Rows, Steps, Tape};
///
/// let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).outputs(1).build()?;
/// let model = Model::init(&spec, 1)?;
/// let x = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]; // one sequence of three vectors
/// let lanes = [Lane { params: model.params().into(), batch: Batch::dense(&x, Steps(3), Rows(1)), start: None }];
///
/// let mut tape = Tape::new(&spec)?;
/// let pass = tape.forward(&lanes)?;
/// let d_outputs: Vec<f32> = pass.outputs(0).iter().map(|y| 2.0 * y).collect(); // of sum y^2
/// let mut gradient = vec![0.0; spec.parameters()];
/// pass.backward(&mut [Gradient {
///     outputs: &d_outputs,
///     last: None,
///     params: &mut gradient,
///     input: None,
///     start: None,
/// }])?;
/// assert!(gradient.iter().any(|g| *g != 0.0));
/// # Ok::<(), drnn::Error>(())
/// ```
pub struct Tape {
    cpu: Cpu,
    spec: NetSpec,
    layout: Layout,
    weights: Vec<Weights>,
    work: Vec<LaneWork>,
    back: Vec<BackWork>,
    outer: Vec<OuterWork>,
    /// Lanes of the last forward pass, while what it saved has not been used.
    saved: usize,
    /// Of the lanes given to [`Tape::resume`], compared with that of the pass.
    again: Schedule,
}

/// Memory of a [`Tape`], in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// What the backward pass needs of every step: gates, cell states, states.
    pub saved: usize,
    /// What else grows with the batch: indices, outputs, tables.
    pub extra: usize,
    /// What does not: packed weights, and memory for the products that make their gradients.
    pub fixed: usize,
}

impl Tape {
    /// A tape on the [global CPU](Cpu::global); an error where `DRNN_THREADS` or
    /// `DRNN_ISA` has a value that is not allowed.
    pub fn new(spec: &NetSpec) -> Result<Tape> {
        Ok(Tape::on(Cpu::global()?, spec))
    }

    /// A tape on `cpu`.
    pub fn on(cpu: &Cpu, spec: &NetSpec) -> Tape {
        Tape {
            cpu: cpu.clone(),
            spec: spec.clone(),
            layout: Layout::new(spec),
            weights: Vec::new(),
            work: Vec::new(),
            back: Vec::new(),
            outer: Vec::new(),
            saved: 0,
            again: Schedule::default(),
        }
    }

    /// Runs all lanes forward. The pass that comes back holds the outputs.
    pub fn forward<'t>(&'t mut self, lanes: &'t [Lane<'t>]) -> Result<Pass<'t>> {
        self.forward_with(lanes, |_| None, None)
    }

    /// The same with dropout, one for each lane. Networks with blocks have none.
    pub fn forward_with_dropout<'t>(
        &'t mut self,
        lanes: &'t [Lane<'t>],
        dropout: &[Dropout],
    ) -> Result<Pass<'t>> {
        self.check_dropout(lanes, dropout)?;
        self.forward_with(lanes, |lane| Some(dropout[lane]), None)
    }

    /// The same with outputs written to the caller's memory, one slice for each lane in the shape of
    /// [`Pass::outputs`], which then has none. `dropout` may be empty.
    pub fn forward_into<'t>(
        &'t mut self,
        lanes: &'t [Lane<'t>],
        dropout: &[Dropout],
        outputs: &mut [&mut [f32]],
    ) -> Result<Pass<'t>> {
        check_shape("outputs", outputs.len(), &[lanes.len()])?;
        if dropout.is_empty() {
            return self.forward_with(lanes, |_| None, Some(outputs));
        }
        self.check_dropout(lanes, dropout)?;
        self.forward_with(lanes, |lane| Some(dropout[lane]), Some(outputs))
    }

    fn check_dropout(&self, lanes: &[Lane], dropout: &[Dropout]) -> Result<()> {
        if dropout.len() != lanes.len() {
            let (found, expected) = (Shape::Len(dropout.len()), Shape::Len(lanes.len()));
            return Err(Error::Shape { name: "dropout".into(), found, expected });
        }
        if self.spec.blocks().is_some() {
            let why = "a network with blocks is one layer, and has no dropout between its blocks";
            return Err(Error::Spec(why.into()));
        }
        Ok(())
    }

    fn forward_with<'t>(
        &'t mut self,
        lanes: &'t [Lane<'t>],
        dropout: impl Fn(usize) -> Option<Dropout>,
        mut outputs: Option<&mut [&mut [f32]]>,
    ) -> Result<Pass<'t>> {
        if self.spec.blocks().is_some_and(|b| b.start_state() == StartState::Solved) {
            let why = "a solved start has no gradient; train with a held one, or a free one";
            return Err(Error::Spec(why.into()));
        }
        for (i, lane) in lanes.iter().enumerate() {
            let outputs = outputs.as_deref().map(|outputs| outputs[i].len());
            let checked = lane.check(&self.spec, &self.layout).and_then(|()| match outputs {
                Some(len) => check_shape("outputs", len, &lane.batch.output_shape(&self.spec)),
                None => Ok(()),
            });
            checked.map_err(|e| e.in_lane(i, lanes.len()))?;
        }
        self.saved = 0;
        let batches = lanes.iter().map(|lane| &lane.batch);
        let drops = !lanes.is_empty() && dropout(0).is_some();
        memory::probe_training(&self.spec, batches, drops, || self.memory())?;
        let kernels = self.cpu.kernels;
        if self.work.len() < lanes.len() {
            self.weights.resize_with(lanes.len(), || Weights::new(kernels, WeightFormat::F32));
            self.work.resize_with(lanes.len(), Default::default);
            self.back.resize_with(lanes.len(), Default::default);
        }
        let net = Net::new(&self.cpu, &self.spec, &self.layout);
        let slots = Slots::new(&mut self.weights);
        self.cpu.team.each(lanes.len(), |i| {
            // SAFETY: there are at least as many as lanes, and each item has its own.
            unsafe { slots.get(i) }.set(
                &self.cpu.team,
                Way::Forward,
                true,
                &self.spec,
                &self.layout,
                lanes[i].params,
            );
        });
        for (i, work) in self.work[..lanes.len()].iter_mut().enumerate() {
            work.dropout = dropout(i);
            work.target = outputs.as_deref_mut().map(|outputs| Shared(outputs[i].as_mut_ptr()));
        }
        let weights = &self.weights;
        forward(&net, &|i| &weights[i], lanes, &mut self.work[..lanes.len()], true);
        self.saved = lanes.len();
        Ok(Pass { tape: self, lanes })
    }

    /// The last forward pass again, for a caller who could not hold on to its [`Pass`]: automatic
    /// differentiation, which stores the tape and comes back later. The lanes must be those of the
    /// forward pass. Batches of another shape are refused; with other values the gradient is wrong.
    ///
    /// An error if no pass is saved: there was none, or it has gone back already.
    ///
    /// ```
    /// use drnn::{Batch, Cell, Gradient, Lane, Model, NetSpec, Rows, Steps, Tape};
    ///
    /// let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).build()?;
    /// let model = Model::init(&spec, 1)?;
    /// let x = [0.1, 0.2, 0.3, 0.4];
    /// let batch = Batch::dense(&x, Steps(2), Rows(1));
    /// let lanes = [Lane { params: model.params().into(), batch, start: None }];
    ///
    /// let mut tape = Tape::new(&spec)?;
    /// let outputs = tape.forward(&lanes)?.outputs(0).to_vec(); // the pass ends here ..
    /// let mut gradient = vec![0.0; spec.parameters()];
    /// let d_outputs = vec![1.0; outputs.len()];
    /// let pass = tape.resume(&lanes)?; // .. and goes back later
    /// pass.backward(&mut [Gradient {
    ///     outputs: &d_outputs,
    ///     last: None,
    ///     params: &mut gradient,
    ///     input: None,
    ///     start: None,
    /// }])?;
    /// assert!(tape.resume(&lanes).is_err()); // only once
    /// # Ok::<(), drnn::Error>(())
    /// ```
    pub fn resume<'t>(&'t mut self, lanes: &'t [Lane<'t>]) -> Result<Pass<'t>> {
        if self.saved == 0 {
            let why = "no forward pass is saved on this tape, or its backward pass has been run";
            return Err(Error::Spec(why.into()));
        }
        if lanes.len() != self.saved {
            let (found, expected) = (Shape::Len(lanes.len()), Shape::Len(self.saved));
            return Err(Error::Shape { name: "lanes".into(), found, expected });
        }
        for (i, lane) in lanes.iter().enumerate() {
            lane.check_again(&self.spec, &self.layout).map_err(|e| e.in_lane(i, lanes.len()))?;
            self.again.set(&self.spec, &lane.batch);
            if self.again != self.work[i].schedule {
                let why =
                    "the batch has other lengths or selected outputs than in its forward pass";
                return Err(Error::Spec(why.into()).in_lane(i, lanes.len()));
            }
        }
        Ok(Pass { tape: self, lanes })
    }

    /// Memory in use since the largest batch so far.
    pub fn memory(&self) -> Memory {
        let work = self.work.iter().map(LaneWork::bytes);
        let (saved, held) = work.fold((0, 0), |(a, b), (saved, held)| (a + saved, b + held));
        let back: usize = self.back.iter().map(BackWork::bytes).sum();
        let again = self.again.bytes();
        let fixed = self.weights.iter().map(Weights::bytes).sum::<usize>()
            + self.outer.iter().map(OuterWork::bytes).sum::<usize>();
        Memory { saved, extra: held - saved + back + again, fixed }
    }
}

/// A forward pass that can go back, once: now, or after [`Tape::resume`].
pub struct Pass<'t> {
    tape: &'t mut Tape,
    lanes: &'t [Lane<'t>],
}

impl Pass<'_> {
    /// Outputs of a lane, (output steps, B, m), in the caller's order; zeros after each sequence's end. Of
    /// a batch with [selected outputs](crate::Batch::select_outputs): (slots, m).
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn outputs(&self, lane: usize) -> &[f32] {
        let work = &self.tape.work[..self.lanes.len()][lane];
        if work.target.is_some() {
            return &[]; // written to the caller's memory
        }
        work.outputs.slice(work.schedule.outputs * self.tape.spec.output_width())
    }

    /// States of a lane after the last step.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn last(&self, lane: usize) -> States {
        self.tape.work[..self.lanes.len()][lane].last(&self.net())
    }

    /// The same written over `last`, whatever it held: where its memory is enough, nothing is allocated.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn last_into(&self, lane: usize, last: &mut States) {
        self.tape.work[..self.lanes.len()][lane].last_into(&self.net(), last);
    }

    fn net(&self) -> Net<'_> {
        Net::new(&self.tape.cpu, &self.tape.spec, &self.tape.layout)
    }

    /// Runs all lanes backward: one [`Gradient`] per lane, in the same order.
    pub fn backward(self, gradients: &mut [Gradient]) -> Result<()> {
        let lanes = self.lanes;
        if gradients.len() != lanes.len() {
            return Err(Error::Shape {
                name: "gradients".into(),
                found: Shape::Len(gradients.len()),
                expected: Shape::Len(lanes.len()),
            });
        }
        for (i, gradient) in gradients.iter().enumerate() {
            gradient.check(&self.net(), &lanes[i]).map_err(|e| e.in_lane(i, lanes.len()))?;
        }
        let Tape { cpu, spec, layout, weights, work, back, outer, saved, .. } = self.tape;
        *saved = 0; // gradients of gates take the place of what was saved
        let net = Net::new(cpu, spec, layout);
        let count = lanes.len();
        let (weights, back) = (&mut weights[..count], &mut back[..count]);
        backward(&net, lanes, weights, &work[..count], back, outer, gradients);
        Ok(())
    }
}
