//! One model being trained: parameters, optimiser, and memory for a step.

use crate::adam::{Adam, AdamOptions, clip_scale, norm};
use crate::data::{Examples, Gathered};
use crate::error::{Error, Result};
use crate::loss::{LossSum, Targets, loss};
use drnn::{Cpu, Gradient, InputSpec, Lane, Model, NetSpec, Tape};

/// A model in training.
pub struct Learner {
    spec: NetSpec,
    params: Vec<f32>,
    adam: Adam,
    tape: Tape,
    threads: usize,
    gradient: Vec<f32>,
    d_answers: Vec<f32>,
    gathered: Gathered,
}

/// What a step found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Loss of the batch, before the step.
    pub loss: LossSum,
    /// Norm of its gradient, before clipping.
    pub norm: f64,
}

impl Learner {
    /// Parameters as [`Model::init`] draws them.
    pub fn new(cpu: &Cpu, spec: &NetSpec, adam: AdamOptions, seed: u64) -> Learner {
        let params = Model::init(spec, seed).into_params();
        let adam = Adam::new(adam, params.len());
        Learner::from_parts(cpu, spec, params, adam)
    }

    /// A learner as it was.
    pub(crate) fn from_parts(cpu: &Cpu, spec: &NetSpec, params: Vec<f32>, adam: Adam) -> Learner {
        Learner {
            spec: spec.clone(),
            gradient: vec![0.0; params.len()],
            params,
            adam,
            tape: Tape::on(cpu, spec),
            threads: cpu.threads(),
            d_answers: Vec::new(),
            gathered: Gathered::default(),
        }
    }

    /// Goes on with other threads, where their number changes; results do not depend on them.
    pub fn use_cpu(&mut self, cpu: &Cpu) {
        if self.threads != cpu.threads() {
            self.threads = cpu.threads();
            self.tape = Tape::on(cpu, &self.spec);
        }
    }

    /// What kind of network it is.
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    /// The parameters as they are now.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Adam's memory.
    pub fn adam(&self) -> &Adam {
        &self.adam
    }

    /// Bytes held for passes.
    pub fn memory(&self) -> usize {
        let memory = self.tape.memory();
        memory.kept + memory.extra + memory.fixed
    }

    /// One step on the sequences `chosen`: loss, gradient, clipping at norm `clip`, Adam.
    ///
    /// Where the gradient is no number nothing is changed.
    pub fn step(
        &mut self,
        examples: &Examples,
        chosen: &[u32],
        rate: f32,
        clip: Option<f64>,
    ) -> Result<Step> {
        examples.gather(chosen, &mut self.gathered);
        let lanes = [Lane { params: &self.params, batch: self.gathered.batch(), start: None }];
        let pass = match self.tape.forward(&lanes) {
            // Data is checked when it is made, so these are parameters that have run away.
            Err(drnn::Error::NotFinite { .. }) => {
                return Ok(Step { loss: LossSum::default(), norm: f64::NAN });
            }
            other => other?,
        };
        let answers = pass.answers(0);
        self.d_answers.resize(answers.len(), 0.0);
        let m = self.spec.answer_width();
        let found = loss(answers, m, self.gathered.targets(), &mut self.d_answers);
        if !found.sum.is_finite() {
            return Ok(Step { loss: found, norm: f64::NAN });
        }
        pass.backward(&mut [Gradient {
            answers: &self.d_answers,
            last: None,
            params: &mut self.gradient,
            input: None,
            start: None,
        }])?;
        let norm = norm(&self.gradient);
        if norm.is_finite() {
            let scale = clip.map_or(1.0, |most| clip_scale(norm, most));
            self.adam.step(&mut self.params, &self.gradient, scale, rate);
        }
        Ok(Step { loss: found, norm })
    }

    /// Runs all of `examples`, `rows` at a time, showing each batch's answers and targets to `look`.
    /// Changes nothing that training depends on.
    pub fn evaluate(
        &mut self,
        examples: &Examples,
        rows: usize,
        mut look: impl FnMut(&[f32], Targets),
    ) -> Result<LossSum> {
        let all: Vec<u32> = (0..examples.len() as u32).collect();
        let m = self.spec.answer_width();
        let mut total = LossSum::default();
        for chosen in all.chunks(rows.max(1)) {
            examples.gather(chosen, &mut self.gathered);
            let lanes = [Lane { params: &self.params, batch: self.gathered.batch(), start: None }];
            let pass = self.tape.forward(&lanes)?;
            let answers = pass.answers(0);
            self.d_answers.resize(answers.len(), 0.0);
            total.add(loss(answers, m, self.gathered.targets(), &mut self.d_answers));
            look(answers, self.gathered.targets());
        }
        Ok(total)
    }
}

/// Whether `examples` can be trained on by `spec`: the error says what does not fit.
pub fn check(spec: &NetSpec, examples: &Examples) -> Result<()> {
    if examples.is_empty() || examples.steps() == 0 {
        return Err(Error::Data("no sequences to train on".into()));
    }
    if spec.look_ahead() > 0 {
        return Err(Error::Data("sequences of one length have nothing to look ahead to".into()));
    }
    let fits = match spec.input() {
        InputSpec::Dense(q) => examples.dense_width() == Some(q),
        InputSpec::Tokens { .. } => examples.dense_width().is_none(),
    };
    if !fits || examples.answer_width().is_some_and(|m| m != spec.answer_width()) {
        return Err(Error::Data(format!("the data does not fit {spec}")));
    }
    Ok(())
}
