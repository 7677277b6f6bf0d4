//! One network in training on the CPU.

use crate::data::{Dataset, Gathered};
use crate::error::{Error, Result};
use crate::loss::{LossSum, Targets, class_weighted_cross_entropy, loss};
use crate::optim::{Adam, AdamOptions, clip_scale, norm};
use crate::training::{Batches, Engine, Inspect, State, Steps};
use drnn::{Cpu, Dropout, Gradient, Lane, Model, NetSpec, Params, Pass, Tape};

/// Parameters, optimiser, and memory for a step.
pub struct Learner {
    spec: NetSpec,
    state: State,
    tape: Tape,
    threads: usize,
    gradient: Vec<f32>,
    d_outputs: Vec<f32>,
    gathered: Gathered,
}

impl Learner {
    /// Parameters as [`Model::init`] draws them.
    pub fn new(cpu: &Cpu, spec: &NetSpec, adam: AdamOptions, seed: u64) -> Learner {
        let params = drnn::params::initial(spec, seed);
        let adam = Adam::new(adam, params.len());
        Learner {
            spec: spec.clone(),
            gradient: vec![0.0; params.len()],
            state: State { params, adam },
            tape: Tape::on(cpu, spec),
            threads: cpu.threads(),
            d_outputs: Vec::new(),
            gathered: Gathered { look_ahead: spec.look_ahead(), ..Gathered::default() },
        }
    }

    /// The network.
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    /// A copy of the model in its present state.
    pub fn model(&self) -> Result<Model> {
        Ok(Model::from_params(&self.spec, self.state.params.clone())?)
    }

    /// One step on the gathered batch: its loss, and the norm of its gradient. Changes nothing if the
    /// norm is not finite.
    fn step(&mut self, batches: &Batches, weights: Option<&[f32]>) -> Result<(LossSum, f64)> {
        let State { params, adam } = &mut self.state;
        let batch = self.gathered.batch();
        let lanes = [Lane { params: Params::from(&*params), batch, start: None }];
        let pass = match forward(&mut self.tape, &lanes, batches.dropout, adam) {
            // Data is checked when it is made, so the parameters have diverged.
            Err(drnn::Error::NotFinite { .. }) => return Ok((LossSum::default(), f64::NAN)),
            other => other?,
        };
        let outputs = pass.outputs(0);
        self.d_outputs.resize(outputs.len(), 0.0);
        let m = self.spec.output_width();
        let found = match (self.gathered.targets(), weights) {
            (Targets::Classes(classes), Some(weights)) => {
                class_weighted_cross_entropy(outputs, m, classes, weights, &mut self.d_outputs)
            }
            (targets, _) => loss(outputs, m, targets, &mut self.d_outputs),
        };
        if !found.sum.is_finite() {
            return Ok((found, f64::NAN));
        }
        pass.backward(&mut [Gradient {
            outputs: &self.d_outputs,
            last: None,
            params: &mut self.gradient,
            input: None,
            start: None,
        }])?;
        let norm = norm(&self.gradient);
        if norm.is_finite() {
            let scale = batches.clip.map_or(1.0, |max| clip_scale(norm, max));
            adam.step(params, &self.gradient, scale, batches.rate);
        }
        Ok((found, norm))
    }
}

/// A forward pass, with this step's dropout if there is any.
pub(crate) fn forward<'t>(
    tape: &'t mut Tape,
    lanes: &'t [Lane<'t>],
    dropout: Option<Dropout>,
    adam: &Adam,
) -> drnn::Result<Pass<'t>> {
    match dropout {
        Some(dropout) => tape.forward_with_dropout(lanes, &[dropout.of_pass(adam.steps)]),
        None => tape.forward(lanes),
    }
}

impl Engine for Learner {
    type Data = dyn Dataset;

    fn identity(&self) -> String {
        self.spec.canonical()
    }

    fn identity_of_0_1(&self) -> String {
        self.spec.display_of_0_1()
    }

    fn sequences(&self, data: &dyn Dataset) -> usize {
        data.len()
    }

    fn check(&self, data: &dyn Dataset) -> Result<()> {
        data.check(&self.spec)?;
        if let Some(weights) = data.class_weights()
            && weights.len() != self.spec.output_width()
        {
            let (found, m) = (weights.len(), self.spec.output_width());
            return Err(Error::Data(format!("weights of {found} classes for {m} outputs")));
        }
        Ok(())
    }

    fn train(&mut self, data: &dyn Dataset, batches: &Batches) -> Result<Steps> {
        let Batches { epoch, chosen, batch, .. } = *batches;
        let mut steps = Steps::default();
        for chosen in chosen.chunks(batch.max(1)) {
            data.gather(epoch, chosen, &mut self.gathered);
            let (loss, norm) = self.step(batches, data.class_weights())?;
            steps.loss.add(loss);
            steps.norms += norm;
            if !norm.is_finite() {
                break;
            }
        }
        Ok(steps)
    }

    fn max_eval_rows(&self, data: &dyn Dataset) -> usize {
        data.max_eval_rows()
    }

    fn evaluate_batch(
        &mut self,
        data: &dyn Dataset,
        epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        data.gather(epoch, chosen, &mut self.gathered);
        let (params, batch) = (Params::from(&self.state.params), self.gathered.batch());
        let lanes = [Lane { params, batch, start: None }];
        let pass = self.tape.forward(&lanes)?;
        let (outputs, targets) = (pass.outputs(0), self.gathered.targets());
        self.d_outputs.resize(outputs.len(), 0.0);
        let found = loss(outputs, self.spec.output_width(), targets, &mut self.d_outputs);
        inspect(outputs, targets);
        Ok(found)
    }

    fn state(&mut self) -> Result<State> {
        Ok(self.state.clone())
    }

    fn params(&mut self) -> Result<Vec<f32>> {
        Ok(self.state.params.clone())
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        let n = self.spec.parameters();
        let State { params, adam } = &state;
        if [params.len(), adam.mean.len(), adam.square.len()] != [n; 3] {
            return Err(Error::Options(format!("{} parameters for {}", params.len(), self.spec)));
        }
        self.state = state;
        Ok(())
    }

    fn use_cpu(&mut self, cpu: &Cpu) {
        if self.threads != cpu.threads() {
            self.threads = cpu.threads();
            self.tape = Tape::on(cpu, &self.spec);
        }
    }

    fn memory(&self) -> usize {
        let memory = self.tape.memory();
        memory.saved + memory.extra + memory.fixed
    }
}
