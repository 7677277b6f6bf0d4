//! Runs jobs of many lanes together: training steps and evaluations.

use super::plan::{GroupNet, GroupPlan};
use super::workspace::{GroupState, GroupWorkspace, PROGRESS, TASK};
use crate::error::Result as CudaResult;
use crate::runtime::device::Device;
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::Stream;
use crate::step::plan::TargetType;
use drnn_train::{Adam, AdamOptions, Error, LossSum, Result, State, Steps};

/// Batch size of evaluations before any training.
const DEFAULT_BATCH: usize = 100;

/// What a lane is to compute.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Device addresses of inputs and targets, and the elements of a sequence, T.
    pub x: u64,
    pub y: u64,
    pub elements: usize,
    pub target_type: TargetType,
    /// Indices of the sequences, in order.
    pub chosen: Vec<u32>,
    pub kind: JobKind,
}

/// Training or evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum JobKind {
    /// Optimiser steps on batches of `batch` sequences.
    Train { batch: usize, rate: f32, clip: Option<f64> },
    /// The losses, and the outputs if `outputs`.
    Evaluate { outputs: bool },
}

/// The result of a [`Job`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobResult {
    pub steps: Steps,
    /// (sequences, A, m), if the job requested them; else empty.
    pub outputs: Vec<f32>,
}

/// A group's state and workspace in device memory.
#[derive(Debug)]
pub(crate) struct Executor {
    net: GroupNet,
    /// Declared, and so dropped, before the buffers that its graphs use.
    workspace: Option<GroupWorkspace>,
    state: GroupState,
    /// Tasks, then the lanes' sequence indices.
    orders: Buffer<u32>,
    staging: Pinned,
    stream: Stream,
    device: Device,
}

impl Executor {
    /// For `lanes` networks; no workspace yet.
    pub fn new(
        device: &Device,
        net: GroupNet,
        adam: AdamOptions,
        lanes: usize,
    ) -> CudaResult<Executor> {
        Ok(Executor {
            net,
            workspace: None,
            state: GroupState::new(device, adam, lanes, net.parameters)?,
            orders: Buffer::zeros(device, 0)?,
            staging: Pinned::zeros(device, 0)?,
            stream: Stream::new(device)?,
            device: device.clone(),
        })
    }

    /// Runs jobs of different lanes; a result for each, in their order.
    pub fn run(&mut self, jobs: &[(usize, Job)]) -> Vec<Result<JobResult>> {
        let mut found: Vec<Result<JobResult>> = Vec::new();
        found.resize_with(jobs.len(), || Err(Error::Device("the job was not run".into())));
        // Jobs of one shape run together: nearly always all of them.
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        while let Some(&first) = left.first() {
            let shape = |i: usize| {
                let Job { elements, target_type, kind, .. } = &jobs[i].1;
                (
                    *elements,
                    *target_type == TargetType::Classes,
                    matches!(kind, JobKind::Train { .. }),
                )
            };
            let (now, later) = left.into_iter().partition(|&i| shape(i) == shape(first));
            left = later;
            let now: Vec<usize> = now;
            let outcome = self.run_same_shape(&now.iter().map(|&i| &jobs[i]).collect::<Vec<_>>());
            match outcome {
                Ok(results) => now.iter().zip(results).for_each(|(i, f)| found[*i] = Ok(f)),
                Err(error) => now.iter().for_each(|i| found[*i] = Err(error.clone())),
            }
        }
        found
    }

    /// Runs jobs that are all trainings or all evaluations, on sequences of one length.
    fn run_same_shape(&mut self, jobs: &[&(usize, Job)]) -> Result<Vec<JobResult>> {
        self.device.enter()?;
        let train = matches!(jobs[0].1.kind, JobKind::Train { .. });
        let batches = jobs.iter().map(|(_, job)| match job.kind {
            JobKind::Train { batch, .. } => batch,
            JobKind::Evaluate { .. } => {
                self.workspace.as_ref().map_or(DEFAULT_BATCH, |workspace| workspace.plan.batch)
            }
        });
        let max_batch = batches.max().unwrap_or(DEFAULT_BATCH);
        self.reserve(jobs[0].1.elements, jobs[0].1.target_type, max_batch)?;
        let workspace = self.workspace.as_ref().expect("reserved above");
        let batch_of = |job: &Job| match job.kind {
            JobKind::Train { batch, .. } => batch.max(1),
            JobKind::Evaluate { .. } => workspace.plan.batch,
        };
        let batches = jobs.iter().map(|(_, job)| job.chosen.len().div_ceil(batch_of(job)));
        let batches = batches.max().unwrap_or(0);
        // Tasks of all lanes, then the sequence indices of each job.
        let tasks = self.state.lanes * TASK;
        let words: usize = jobs.iter().map(|(_, job)| job.chosen.len()).sum();
        if self.staging.as_slice().len() < tasks + words {
            self.staging = Pinned::zeros(&self.device, 2 * (tasks + words))?;
            self.orders = Buffer::zeros(&self.device, 2 * (tasks + words))?;
        }
        self.stream.synchronize()?; // an error may have ended the previous batch early
        let staging = self.staging.as_mut_slice();
        staging[..tasks].fill(0);
        let mut at = tasks;
        for (lane, job) in jobs {
            staging[at..][..job.chosen.len()].copy_from_slice(&job.chosen);
            task(&mut staging[lane * TASK..][..TASK], job, self.orders.at(at), batch_of(job));
            at += job.chosen.len();
        }
        // SAFETY: the staging memory is not written before the stream has been synchronised.
        unsafe { self.stream.copy(&self.staging, tasks + words, &self.orders)? };
        let bytes = tasks * size_of::<u32>();
        self.stream.copy_within(self.orders.at(0), self.state.tasks.at(0), bytes)?;
        workspace.begin(&self.stream, &self.state)?;
        let mut outputs: Vec<Vec<f32>> = vec![Vec::new(); jobs.len()];
        let wants_outputs = |job: &Job| job.kind == JobKind::Evaluate { outputs: true };
        for batch in 0..batches {
            self.stream.launch(if train { &workspace.step } else { &workspace.evaluation })?;
            if jobs.iter().any(|(_, job)| wants_outputs(job)) {
                self.stream.synchronize()?;
                for ((lane, job), to) in jobs.iter().zip(&mut outputs) {
                    let left = job.chosen.len().saturating_sub(batch * workspace.plan.batch);
                    if wants_outputs(job) && left > 0 {
                        by_sequence(&workspace.plan, &workspace.outputs(*lane)?, left, to);
                    }
                }
            }
        }
        self.stream.synchronize()?;
        let progress = self.state.progress.get(0, self.state.lanes * PROGRESS)?;
        let results = jobs.iter().zip(outputs).map(|((lane, job), outputs)| {
            let [loss, norms, count, right, ..] = progress[lane * PROGRESS..][..PROGRESS] else {
                unreachable!("PROGRESS values per lane")
            };
            let right = (job.target_type == TargetType::Classes).then_some(right as usize);
            let loss = LossSum { sum: loss, count: count as usize, correct: right };
            JobResult { steps: Steps { loss, norms }, outputs }
        });
        Ok(results.collect())
    }

    /// Makes sure that kernels and workspace fit a batch; replaces those that are too small or of
    /// another shape.
    fn reserve(&mut self, elements: usize, target_type: TargetType, batch: usize) -> Result<()> {
        let fits = |plan: &GroupPlan| {
            plan.elements == elements && plan.target_type == target_type && plan.batch >= batch
        };
        if self.workspace.as_ref().is_some_and(|workspace| fits(&workspace.plan)) {
            return Ok(());
        }
        self.workspace = None;
        let plan = GroupPlan::new(self.net, target_type, elements, batch, self.device.shared());
        let plan = plan.ok_or_else(|| {
            Error::Device(format!(
                "batches of {batch} sequences do not fit the GPU's shared memory; smaller ones \
                 (--batch) do"
            ))
        })?;
        self.workspace = Some(GroupWorkspace::new(&self.device, &self.stream, plan, &self.state)?);
        Ok(())
    }

    /// A lane's parameters and optimiser.
    pub fn state(&self, lane: usize) -> Result<State> {
        let (count, state) = (self.net.parameters, &self.state);
        let part = |of: &Buffer<f32>| of.get(lane * count, count);
        let mut adam = Adam::new(state.adam, 0);
        adam.steps = state.progress.get(lane * PROGRESS + 4, 1)?[0] as u64;
        (adam.mean, adam.square) = (part(&state.mean)?, part(&state.square)?);
        Ok(State { params: part(&state.params)?, adam })
    }

    /// Overwrites a lane's parameters and optimiser. Fails if lengths or Adam's constants differ.
    pub fn set_state(&mut self, lane: usize, state: &State) -> Result<()> {
        let (count, State { params, adam }) = (self.net.parameters, state);
        if [params.len(), adam.mean.len(), adam.square.len()] != [count; 3] {
            return Err(Error::Options(format!("{} parameters, of {count}", params.len())));
        }
        if adam.options() != self.state.adam {
            return Err(Error::Options("all lanes of a group have the same Adam constants".into()));
        }
        self.device.enter()?;
        self.state.params.put(lane * count, params)?;
        self.state.mean.put(lane * count, &adam.mean)?;
        self.state.square.put(lane * count, &adam.square)?;
        Ok(self
            .state
            .progress
            .put(lane * PROGRESS, &[0.0, 0.0, 0.0, 0.0, adam.steps as f64, 0.0])?)
    }

    /// Bytes of device memory per lane.
    pub fn memory(&self) -> usize {
        self.workspace.as_ref().map_or(0, GroupWorkspace::bytes) / self.state.lanes.max(1)
    }
}

/// Writes `struct Task` of `kernels/group/common.cuh`.
fn task(to: &mut [u32], job: &Job, chosen: u64, batch: usize) {
    let (rate, max_norm) = match job.kind {
        JobKind::Train { rate, clip, .. } => (rate, clip.unwrap_or(f64::INFINITY)),
        JobKind::Evaluate { .. } => (0.0, f64::INFINITY),
    };
    let words = |value: u64| [value as u32, (value >> 32) as u32];
    to[0..2].copy_from_slice(&words(job.x));
    to[2..4].copy_from_slice(&words(job.y));
    to[4..6].copy_from_slice(&words(chosen));
    to[6..10].copy_from_slice(&[job.chosen.len() as u32, batch as u32, rate.to_bits(), 0]);
    to[10..12].copy_from_slice(&words(max_norm.to_bits()));
}

/// Appends outputs (A, rows, m), the first `left` rows of them, to `to` as (left, A, m).
fn by_sequence(plan: &GroupPlan, outputs: &[f32], left: usize, to: &mut Vec<f32>) {
    let (rows, m) = (plan.chunks * plan.rows(), plan.net.outputs);
    for row in 0..left.min(plan.batch) {
        let steps = (0..plan.elements).map(|step| &outputs[(step * rows + row) * m..][..m]);
        steps.for_each(|output| to.extend_from_slice(output));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, NetSpec};

    fn job(kind: JobKind) -> Job {
        let (x, y, chosen) = (0x1_0000_0002, 0x3_0000_0004, vec![7, 8, 9]);
        Job { x, y, elements: 2, target_type: TargetType::Values, chosen, kind }
    }

    #[test]
    fn tasks_are_as_the_kernels_read_them() {
        let mut words = [9; TASK];
        let kind = JobKind::Train { batch: 2, rate: 0.5, clip: None };
        task(&mut words, &job(kind), 0x5_0000_0006, 2);
        let infinity = [0, 0x7ff0_0000];
        assert_eq!(words[..6], [2, 1, 4, 3, 6, 5]);
        assert_eq!(words[6..10], [3, 2, 0.5f32.to_bits(), 0]);
        assert_eq!(words[10..], infinity);
    }

    #[test]
    fn outputs_are_transposed_and_padding_rows_left_out() {
        let spec = NetSpec::builder(Cell::Lstm).dense(1).units([3]).outputs(1).build().unwrap();
        let net = GroupNet::new(&spec).unwrap();
        let plan = GroupPlan::new(net, TargetType::Values, 2, 3, 227 << 10).unwrap();
        let mut to = vec![0.0];
        by_sequence(&plan, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, &mut to);
        assert_eq!(to, [0.0, 1.0, 4.0, 2.0, 5.0]);
    }
}
