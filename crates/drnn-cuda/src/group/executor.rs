//! What lanes are to do, done for all of them at once: steps, and batches that are only looked at.

use super::plan::{GroupNet, GroupPlan};
use super::workspace::{GroupState, GroupWorkspace, PROGRESS, TASK};
use crate::error::Result as CudaResult;
use crate::runtime::device::Device;
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::Stream;
use crate::step::plan::TargetType;
use drnn_train::{Adam, AdamOptions, Error, LossSum, Result, State, Steps};

/// Sequences of a batch where nobody has said so.
const BATCH: usize = 100;

/// What a lane wants done.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Where its sequences are, and how long.
    pub x: u64,
    pub y: u64,
    pub elements: usize,
    pub goal: TargetType,
    /// The sequences, in order.
    pub chosen: Vec<u32>,
    pub what: JobKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum JobKind {
    /// Steps on batches of so many.
    Train { batch: usize, rate: f32, clip: Option<f64> },
    /// The losses; and the answers.
    Evaluate { answers: bool },
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobResult {
    pub steps: Steps,
    /// (sequences, A, m), where they were asked for.
    pub answers: Vec<f32>,
}

/// A group on the GPU.
#[derive(Debug)]
pub(crate) struct Executor {
    net: GroupNet,
    /// Before the buffers that its graphs use.
    room: Option<GroupWorkspace>,
    kept: GroupState,
    orders: Buffer<u32>,
    staging: Pinned,
    stream: Stream,
    device: Device,
}

impl Executor {
    pub fn new(
        device: &Device,
        net: GroupNet,
        adam: AdamOptions,
        lanes: usize,
    ) -> CudaResult<Executor> {
        Ok(Executor {
            net,
            room: None,
            kept: GroupState::new(device, adam, lanes, net.parameters)?,
            orders: Buffer::zeros(device, 0)?,
            staging: Pinned::zeros(device, 0)?,
            stream: Stream::new(device)?,
            device: device.clone(),
        })
    }

    /// Does all of it: a result for each, in their order.
    pub fn run(&mut self, jobs: &[(usize, Job)]) -> Vec<Result<JobResult>> {
        let mut found: Vec<Result<JobResult>> = Vec::new();
        found.resize_with(jobs.len(), || Err(Error::Device("not done".into())));
        // Those of one shape together: nearly always all of them.
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        while let Some(&first) = left.first() {
            let kind = |i: usize| {
                let Job { elements, goal, what, .. } = &jobs[i].1;
                (*elements, *goal == TargetType::Classes, matches!(what, JobKind::Train { .. }))
            };
            let (now, later) = left.into_iter().partition(|&i| kind(i) == kind(first));
            left = later;
            let now: Vec<usize> = now;
            let outcome = self.together(&now.iter().map(|&i| &jobs[i]).collect::<Vec<_>>());
            match outcome {
                Ok(results) => now.iter().zip(results).for_each(|(i, f)| found[*i] = Ok(f)),
                Err(error) => now.iter().for_each(|i| found[*i] = Err(error.clone())),
            }
        }
        found
    }

    /// Jobs of one kind, on sequences of one length.
    fn together(&mut self, jobs: &[&(usize, Job)]) -> Result<Vec<JobResult>> {
        self.device.enter()?;
        let learn = matches!(jobs[0].1.what, JobKind::Train { .. });
        let most = jobs.iter().map(|(_, job)| match job.what {
            JobKind::Train { batch, .. } => batch,
            JobKind::Evaluate { .. } => self.room.as_ref().map_or(BATCH, |room| room.plan.batch),
        });
        let most = most.max().unwrap_or(BATCH);
        self.reserve(jobs[0].1.elements, jobs[0].1.goal, most)?;
        let room = self.room.as_ref().expect("reserved above");
        let batch_of = |job: &Job| match job.what {
            JobKind::Train { batch, .. } => batch.max(1),
            JobKind::Evaluate { .. } => room.plan.batch,
        };
        let batches = jobs.iter().map(|(_, job)| job.chosen.len().div_ceil(batch_of(job)));
        let batches = batches.max().unwrap_or(0);
        // Tasks, then the orders one behind the other.
        let tasks = self.kept.lanes * TASK;
        let words: usize = jobs.iter().map(|(_, job)| job.chosen.len()).sum();
        if self.staging.as_slice().len() < tasks + words {
            self.staging = Pinned::zeros(&self.device, 2 * (tasks + words))?;
            self.orders = Buffer::zeros(&self.device, 2 * (tasks + words))?;
        }
        self.stream.synchronize()?; // for a round before that an error has ended
        let staging = self.staging.as_mut_slice();
        staging[..tasks].fill(0);
        let mut at = tasks;
        for (lane, job) in jobs {
            staging[at..][..job.chosen.len()].copy_from_slice(&job.chosen);
            task(&mut staging[lane * TASK..][..TASK], job, self.orders.at(at), batch_of(job));
            at += job.chosen.len();
        }
        // SAFETY: nobody writes to it before the stream has been waited for.
        unsafe { self.stream.copy(&self.staging, tasks + words, &self.orders)? };
        let bytes = tasks * size_of::<u32>();
        self.stream.copy_within(self.orders.at(0), self.kept.tasks.at(0), bytes)?;
        room.begin(&self.stream, &self.kept)?;
        let mut answers: Vec<Vec<f32>> = vec![Vec::new(); jobs.len()];
        let looked_at = |job: &Job| job.what == JobKind::Evaluate { answers: true };
        for batch in 0..batches {
            self.stream.launch(if learn { &room.step } else { &room.look })?;
            if jobs.iter().any(|(_, job)| looked_at(job)) {
                self.stream.synchronize()?;
                for ((lane, job), to) in jobs.iter().zip(&mut answers) {
                    let left = job.chosen.len().saturating_sub(batch * room.plan.batch);
                    if looked_at(job) && left > 0 {
                        by_sequence(&room.plan, &room.answers(*lane)?, left, to);
                    }
                }
            }
        }
        self.stream.synchronize()?;
        let progress = self.kept.progress.get(0, self.kept.lanes * PROGRESS)?;
        let found = jobs.iter().zip(answers).map(|((lane, job), answers)| {
            let [loss, norms, count, right, ..] = progress[lane * PROGRESS..][..PROGRESS] else {
                unreachable!("as many as there are")
            };
            let right = (job.goal == TargetType::Classes).then_some(right as usize);
            let loss = LossSum { sum: loss, count: count as usize, right };
            JobResult { steps: Steps { loss, norms }, answers }
        });
        Ok(found.collect())
    }

    /// Kernels and memory for a batch; what is too small, or of another shape, is replaced.
    fn reserve(&mut self, elements: usize, goal: TargetType, batch: usize) -> Result<()> {
        let fits = |plan: &GroupPlan| {
            plan.elements == elements && plan.goal == goal && plan.batch >= batch
        };
        if self.room.as_ref().is_some_and(|room| fits(&room.plan)) {
            return Ok(());
        }
        self.room = None;
        let plan = GroupPlan::new(self.net, goal, elements, batch, self.device.shared());
        let plan = plan.ok_or_else(|| {
            Error::Device(format!(
                "batches of {batch} sequences do not fit the GPU's shared memory"
            ))
        })?;
        self.room = Some(GroupWorkspace::new(&self.device, &self.stream, plan, &self.kept)?);
        Ok(())
    }

    /// A lane's parameters and optimiser.
    pub fn state(&self, lane: usize) -> Result<State> {
        let (count, kept) = (self.net.parameters, &self.kept);
        let part = |of: &Buffer<f32>| of.get(lane * count, count);
        let mut adam = Adam::new(kept.adam, 0);
        adam.steps = kept.progress.get(lane * PROGRESS + 4, 1)?[0] as u64;
        (adam.mean, adam.square) = (part(&kept.mean)?, part(&kept.square)?);
        Ok(State { params: part(&kept.params)?, adam })
    }

    /// From there on; refused where it does not fit.
    pub fn set_state(&mut self, lane: usize, state: &State) -> Result<()> {
        let (count, kept, State { params, adam }) = (self.net.parameters, &self.kept, state);
        if [params.len(), adam.mean.len(), adam.square.len()] != [count; 3] {
            return Err(Error::Options(format!("{} parameters, of {count}", params.len())));
        }
        if adam.options() != kept.adam {
            return Err(Error::Options("lanes of a group have Adam's constants in common".into()));
        }
        self.device.enter()?;
        kept.params.put(lane * count, params)?;
        kept.mean.put(lane * count, &adam.mean)?;
        kept.square.put(lane * count, &adam.square)?;
        Ok(kept.progress.put(lane * PROGRESS, &[0.0, 0.0, 0.0, 0.0, adam.steps as f64, 0.0])?)
    }

    /// Bytes held, of one lane.
    pub fn memory(&self) -> usize {
        self.room.as_ref().map_or(0, GroupWorkspace::bytes) / self.kept.lanes.max(1)
    }
}

/// Writes `struct Task`.
fn task(to: &mut [u32], job: &Job, chosen: u64, batch: usize) {
    let (rate, most) = match job.what {
        JobKind::Train { rate, clip, .. } => (rate, clip.unwrap_or(f64::INFINITY)),
        JobKind::Evaluate { .. } => (0.0, f64::INFINITY),
    };
    let words = |value: u64| [value as u32, (value >> 32) as u32];
    to[0..2].copy_from_slice(&words(job.x));
    to[2..4].copy_from_slice(&words(job.y));
    to[4..6].copy_from_slice(&words(chosen));
    to[6..10].copy_from_slice(&[job.chosen.len() as u32, batch as u32, rate.to_bits(), 0]);
    to[10..12].copy_from_slice(&words(most.to_bits()));
}

/// Answers (A, rows, m), the first `left` rows of them, to those behind each other: (left, A, m).
fn by_sequence(plan: &GroupPlan, answers: &[f32], left: usize, to: &mut Vec<f32>) {
    let (rows, m) = (plan.chunks * plan.rows(), plan.net.outputs);
    for row in 0..left.min(plan.batch) {
        let steps = (0..plan.elements).map(|answer| &answers[(answer * rows + row) * m..][..m]);
        steps.for_each(|answer| to.extend_from_slice(answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, NetSpec};

    fn job(what: JobKind) -> Job {
        let (x, y, chosen) = (0x1_0000_0002, 0x3_0000_0004, vec![7, 8, 9]);
        Job { x, y, elements: 2, goal: TargetType::Values, chosen, what }
    }

    #[test]
    fn tasks_are_as_the_kernels_read_them() {
        let mut words = [9; TASK];
        let what = JobKind::Train { batch: 2, rate: 0.5, clip: None };
        task(&mut words, &job(what), 0x5_0000_0006, 2);
        let infinity = [0, 0x7ff0_0000];
        assert_eq!(words[..6], [2, 1, 4, 3, 6, 5]);
        assert_eq!(words[6..10], [3, 2, 0.5f32.to_bits(), 0]);
        assert_eq!(words[10..], infinity);
    }

    #[test]
    fn answers_are_turned_and_rows_that_are_none_left_out() {
        let spec = NetSpec::builder(Cell::Lstm).dense(1).units([3]).outputs(1).build().unwrap();
        let net = GroupNet::new(&spec).unwrap();
        let plan = GroupPlan::new(net, TargetType::Values, 2, 3, 227 << 10).unwrap();
        let mut to = vec![0.0];
        by_sequence(&plan, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, &mut to);
        assert_eq!(to, [0.0, 1.0, 4.0, 2.0, 5.0]);
    }
}
