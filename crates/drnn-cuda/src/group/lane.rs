//! Networks of a group, each an engine of its own.

use super::data::{DataKernels, DataOrigin, DataSet};
use super::executor::{Executor, Job, JobKind, JobResult};
use super::plan::GroupNet;
use super::rendezvous::Rendezvous;
use crate::error::{Error as CudaError, Result as CudaResult};
use crate::runtime::device::Device;
use drnn::NetSpec;
use drnn_train::{
    Adam, AdamOptions, Batches, Dataset, Engine, Error, Examples, Gathered, Inspect, LossSum,
    Result, State, Steps,
};
use std::sync::{Arc, Mutex, MutexGuard};

/// Batches that [`Engine::train`] is given at once: an epoch of most, and less than a second.
const STRIDE: usize = 128;
/// Data sets that a lane keeps on the GPU: to learn from, to stop by, to test with.
const KEPT: usize = 3;

/// Equal small LSTMs that learn at once on one GPU, each on its own: its lanes.
///
/// Each lane is an [`Engine`], and each belongs to a thread of its own: lanes that are called at the same time are worked on
/// together. Data must be [`Examples`] of one length, of which the GPU keeps a copy, or have a
/// [`Recipe`](drnn_train::Recipe), from which it makes its own.
#[derive(Debug, Clone)]
pub struct CudaGroup(Arc<Shared>);

struct Shared {
    device: Device,
    spec: NetSpec,
    net: GroupNet,
    adam: AdamOptions,
    makers: DataKernels,
    rounds: Mutex<Executor>,
    meeting: Rendezvous<Job, JobResult>,
    /// By lane, whether it is free.
    free: Mutex<Vec<bool>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "a group of {}", self.spec)
    }
}

impl CudaGroup {
    /// Why there can be no group of such networks there: then they learn one by one, as [`crate::CudaLearner`]s.
    pub fn refuses(device: &Device, spec: &NetSpec) -> Option<String> {
        if device.arch() != "sm_90a" {
            return Some(format!("groups need Hopper's products; this is {}", device.arch()));
        }
        GroupNet::new(spec).err()
    }

    /// GroupWorkspace for `lanes` networks.
    pub fn new(
        device: &Device,
        spec: &NetSpec,
        adam: AdamOptions,
        lanes: usize,
    ) -> CudaResult<CudaGroup> {
        if let Some(why) = CudaGroup::refuses(device, spec) {
            return Err(CudaError::Unsupported(why));
        }
        let net = GroupNet::new(spec).map_err(CudaError::Unsupported)?;
        device.enter()?;
        let rounds = Executor::new(device, net, adam, lanes)?;
        Ok(CudaGroup(Arc::new(Shared {
            device: device.clone(),
            spec: spec.clone(),
            net,
            adam,
            makers: DataKernels::new(device)?,
            rounds: Mutex::new(rounds),
            meeting: Rendezvous::new(),
            free: Mutex::new(vec![true; lanes]),
        })))
    }

    /// A network more, its parameters as [`Model::init`] draws them. Refused where there is no room left.
    pub fn lane(&self, seed: u64) -> Result<CudaLane> {
        let taken = {
            let mut free = self.0.free.lock().unwrap_or_else(|p| p.into_inner());
            let lane = free.iter().position(|free| *free);
            lane.inspect(|lane| free[*lane] = false)
        };
        let Some(number) = taken else {
            return Err(Error::Options("all lanes of the group are taken".into()));
        };
        self.0.meeting.join();
        let mut lane = CudaLane {
            shared: self.0.clone(),
            number,
            held: Vec::new(),
            gathered: Gathered::default(),
        };
        let params = drnn::params::initial(&self.0.spec, seed);
        let adam = Adam::new(self.0.adam, params.len());
        lane.set_state(State { params, adam })?;
        Ok(lane)
    }
}

/// A network of a group.
#[derive(Debug)]
pub struct CudaLane {
    shared: Arc<Shared>,
    number: usize,
    /// The latest data sets, newest last.
    held: Vec<DataSet>,
    gathered: Gathered,
}

impl Shared {
    fn rounds(&self) -> MutexGuard<'_, Executor> {
        self.rounds.lock().unwrap_or_else(|p| p.into_inner())
    }
}

impl CudaLane {
    /// The data set on the GPU, brought there when it is first seen.
    fn hold(&mut self, data: &dyn Dataset) -> Result<&DataSet> {
        let Shared { device, makers, spec, .. } = &*self.shared;
        let origin = DataOrigin::of(spec, data)?;
        let mark = origin.mark();
        if let Some(at) = self.held.iter().position(|held| held.mark == mark) {
            return Ok(&self.held[at]);
        }
        let new = DataSet::new(device, makers, origin, spec.output_width())?;
        if self.held.len() == KEPT {
            self.held.remove(0);
        }
        self.held.push(new);
        Ok(self.held.last().expect("just put there"))
    }

    /// A copy of `data` as the GPU has it.
    pub fn held(&mut self, data: &dyn Dataset) -> Result<Examples> {
        let widths = [self.shared.net.q, self.shared.net.outputs];
        self.hold(data)?.examples(widths)
    }

    /// Passes outputs of the sequences `chosen`, (B, steps, m), to `inspect` as (steps, B, m).
    fn show(
        &mut self,
        outputs: &[f32],
        data: &dyn Dataset,
        epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) {
        data.gather(epoch, chosen, &mut self.gathered);
        let m = self.shared.spec.output_width();
        let each = outputs.len() / chosen.len().max(1);
        let mut shown = Vec::with_capacity(outputs.len());
        for step in 0..each / m {
            let rows = outputs.chunks_exact(each);
            rows.for_each(|row| shown.extend_from_slice(&row[step * m..][..m]));
        }
        inspect(&shown, self.gathered.targets());
    }

    fn meet(&mut self, data: &dyn Dataset, chosen: Vec<u32>, what: JobKind) -> Result<JobResult> {
        let DataSet { x, y, elements, goal, .. } = self.hold(data)?;
        let (x, y, elements, goal) = (x.at(0), y.at(0), *elements, *goal);
        let job = Job { x, y, elements, goal, chosen, what };
        let shared = &self.shared;
        shared.meeting.meet(self.number, job, |jobs| shared.rounds().run(jobs))
    }
}

impl Engine for CudaLane {
    type Data = dyn Dataset;

    fn describe(&self) -> String {
        self.shared.spec.to_string()
    }

    fn sequences(&self, data: &dyn Dataset) -> usize {
        data.len()
    }

    fn check(&self, data: &dyn Dataset) -> Result<()> {
        if data.is_empty() {
            return Err(Error::Data("no sequences to train on".into()));
        }
        DataOrigin::of(&self.shared.spec, data).map(drop)
    }

    fn train(&mut self, data: &dyn Dataset, batches: &Batches) -> Result<Steps> {
        let Batches { chosen, batch, rate, clip, .. } = *batches;
        let what = JobKind::Train { batch, rate, clip };
        Ok(self.meet(data, chosen.to_vec(), what)?.steps)
    }

    fn batches_per_call(&self) -> usize {
        STRIDE
    }

    fn evaluate_batch(
        &mut self,
        data: &dyn Dataset,
        epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        let found = self.meet(data, chosen.to_vec(), JobKind::Evaluate { answers: true })?;
        self.show(&found.answers, data, epoch, chosen, inspect);
        Ok(found.steps.loss)
    }

    /// All sequences in one round, however few are shown at a time.
    fn evaluate(
        &mut self,
        data: &dyn Dataset,
        epoch: usize,
        rows: usize,
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let found = self.meet(data, all.clone(), JobKind::Evaluate { answers: true })?;
        let (rows, each) =
            (rows.clamp(1, all.len().max(1)), found.answers.len() / all.len().max(1));
        for (chosen, outputs) in all.chunks(rows).zip(found.answers.chunks((rows * each).max(1))) {
            self.show(outputs, data, epoch, chosen, inspect);
        }
        Ok(found.steps.loss)
    }

    fn loss(&mut self, data: &dyn Dataset, _epoch: usize, _rows: usize) -> Result<LossSum> {
        let all = (0..data.len() as u32).collect();
        Ok(self.meet(data, all, JobKind::Evaluate { answers: false })?.steps.loss)
    }

    fn state(&mut self) -> Result<State> {
        self.shared.rounds().state(self.number)
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        self.shared.rounds().set_state(self.number, &state)
    }

    fn memory(&self) -> usize {
        self.shared.rounds().memory()
    }
}

impl Drop for CudaLane {
    fn drop(&mut self) {
        self.shared.meeting.leave();
        self.shared.free.lock().unwrap_or_else(|p| p.into_inner())[self.number] = true;
    }
}
