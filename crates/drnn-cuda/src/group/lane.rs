//! A group of small LSTMs on one GPU, and its lanes, each an engine.

use super::data::{DataKernels, DataOrigin, DataSet};
use super::executor::{Executor, Job, JobKind, JobResult};
use super::plan::GroupNet;
use super::rendezvous::Rendezvous;
use crate::error::{Error as CudaError, Result as CudaResult};
use crate::runtime::device::Device;
use crate::step::cpu_only;
use drnn::NetSpec;
use drnn_train::{
    Adam, AdamOptions, Batches, Dataset, Engine, Error, Examples, Gathered, Inspect, LossSum,
    Result, State, Steps,
};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Batches per call of [`Engine::train`]: usually an epoch, and less than a second of work.
const BATCHES_PER_CALL: usize = 128;
/// How long jobs of a group wait for lanes that have not submitted one.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Data sets that a lane caches on the GPU: training, validation and test.
const MAX_DATA_SETS: usize = 3;

/// Many LSTMs of the same shape that train at the same time on one GPU, independently of each
/// other: its lanes. Clones share the group.
///
/// Each lane is an [`Engine`] with parameters, optimiser and data of its own. Drive every lane from
/// its own thread: calls that are made at the same time run in the same kernel launches. A lane's
/// results do not depend on the other lanes, to the bit.
///
/// A data set must consist of [`Examples`] of one length, which are copied to the GPU, or have a
/// [`Recipe`](drnn_train::Recipe), from which the GPU generates it. Networks are LSTMs of one layer
/// with up to 128 units, 8 dense inputs and 16 outputs; the GPU must be Hopper.
#[derive(Debug, Clone)]
pub struct CudaGroup(Arc<Shared>);

struct Shared {
    device: Device,
    spec: NetSpec,
    net: GroupNet,
    adam: AdamOptions,
    data_kernels: DataKernels,
    executor: Mutex<Executor>,
    rendezvous: Rendezvous<Job, JobResult>,
    /// By lane: whether it is free.
    free: Mutex<Vec<bool>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "a group of {}", self.spec)
    }
}

impl CudaGroup {
    /// Why the device cannot run a group of such networks; `None` if it can. Networks that groups
    /// do not support train one by one, each with a [`crate::CudaLearner`].
    pub fn unsupported_reason(device: &Device, spec: &NetSpec) -> Option<String> {
        if device.arch() != "sm_90a" {
            return Some(format!("groups need a Hopper GPU (sm_90a); this is {}", device.arch()));
        }
        GroupNet::new(spec).err()
    }

    /// A group with capacity for `lanes` networks, all with the same `spec` and Adam constants.
    /// Fails with [`CudaError::Unsupported`] if there is an [`CudaGroup::unsupported_reason`].
    pub fn new(
        device: &Device,
        spec: &NetSpec,
        adam: AdamOptions,
        lanes: usize,
    ) -> CudaResult<CudaGroup> {
        if let Some(why) = CudaGroup::unsupported_reason(device, spec) {
            return Err(CudaError::Unsupported(why));
        }
        cpu_only::check_adam(&adam)?;
        let net = GroupNet::new(spec).map_err(CudaError::Unsupported)?;
        device.enter()?;
        let executor = Executor::new(device, net, adam, lanes)?;
        Ok(CudaGroup(Arc::new(Shared {
            device: device.clone(),
            spec: spec.clone(),
            net,
            adam,
            data_kernels: DataKernels::new(device)?,
            executor: Mutex::new(executor),
            rendezvous: Rendezvous::new(MAX_WAIT),
            free: Mutex::new(vec![true; lanes]),
        })))
    }

    /// Takes a free lane and initialises its parameters as [`drnn::Model::init`] does. Fails if all
    /// lanes are taken; dropping a [`CudaLane`] frees it.
    pub fn lane(&self, seed: u64) -> Result<CudaLane> {
        let taken = {
            let mut free = self.0.free.lock().unwrap_or_else(|p| p.into_inner());
            let lane = free.iter().position(|free| *free);
            lane.inspect(|lane| free[*lane] = false)
        };
        let Some(number) = taken else {
            return Err(Error::Options("all lanes of the group are taken".into()));
        };
        self.0.rendezvous.join();
        let mut lane = CudaLane {
            shared: self.0.clone(),
            number,
            data_sets: Vec::new(),
            gathered: Gathered::default(),
        };
        let params = drnn::params::initial(&self.0.spec, seed);
        let adam = Adam::new(self.0.adam, params.len());
        lane.set_state(State { params, adam })?;
        Ok(lane)
    }
}

/// One network of a [`CudaGroup`], and its [`Engine`].
#[derive(Debug)]
pub struct CudaLane {
    shared: Arc<Shared>,
    number: usize,
    /// The latest data sets, newest last, at most [`MAX_DATA_SETS`].
    data_sets: Vec<DataSet>,
    gathered: Gathered,
}

impl Shared {
    fn executor(&self) -> MutexGuard<'_, Executor> {
        self.executor.lock().unwrap_or_else(|p| p.into_inner())
    }
}

impl CudaLane {
    /// `data` on the GPU, copied or generated there on first use.
    fn data_set(&mut self, data: &dyn Dataset) -> Result<&DataSet> {
        let Shared { device, data_kernels, spec, .. } = &*self.shared;
        let origin = DataOrigin::of(spec, data)?;
        let key = origin.key();
        if let Some(at) = self.data_sets.iter().position(|set| set.key == key) {
            return Ok(&self.data_sets[at]);
        }
        let new = DataSet::new(device, data_kernels, origin, spec.output_width())?;
        if self.data_sets.len() == MAX_DATA_SETS {
            self.data_sets.remove(0);
        }
        self.data_sets.push(new);
        Ok(self.data_sets.last().expect("just pushed"))
    }

    /// Copies `data` back from the GPU: what was copied there, or what the GPU generated from its
    /// recipe.
    pub fn device_copy(&mut self, data: &dyn Dataset) -> Result<Examples> {
        let widths = [self.shared.net.q, self.shared.net.outputs];
        self.data_set(data)?.examples(widths)
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

    /// Runs a job on the sequences `chosen` of `data`, together with those of other lanes.
    fn submit(&mut self, data: &dyn Dataset, chosen: Vec<u32>, kind: JobKind) -> Result<JobResult> {
        let DataSet { x, y, elements, target_type, .. } = self.data_set(data)?;
        let (x, y, elements, target_type) = (x.at(0), y.at(0), *elements, *target_type);
        let job = Job { x, y, elements, target_type, chosen, kind };
        let shared = &self.shared;
        shared.rendezvous.submit(self.number, job, |jobs| shared.executor().run(jobs))
    }
}

impl Engine for CudaLane {
    type Data = dyn Dataset;

    fn identity(&self) -> String {
        self.shared.spec.canonical()
    }

    fn identity_of_0_1(&self) -> String {
        self.shared.spec.display_of_0_1()
    }

    fn sequences(&self, data: &dyn Dataset) -> usize {
        data.len()
    }

    fn check(&self, data: &dyn Dataset) -> Result<()> {
        cpu_only::check_data(data)?;
        data.check(&self.shared.spec)?;
        DataOrigin::of(&self.shared.spec, data).map(drop)
    }

    fn train(&mut self, data: &dyn Dataset, batches: &Batches) -> Result<Steps> {
        let Batches { chosen, batch, rate, clip, .. } = *batches;
        cpu_only::check_batches(batches)?;
        cpu_only::check_data(data)?;
        let kind = JobKind::Train { batch, rate, clip };
        Ok(self.submit(data, chosen.to_vec(), kind)?.steps)
    }

    fn batches_per_call(&self) -> usize {
        BATCHES_PER_CALL
    }

    fn evaluate_batch(
        &mut self,
        data: &dyn Dataset,
        epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        let result = self.submit(data, chosen.to_vec(), JobKind::Evaluate { outputs: true })?;
        self.show(&result.outputs, data, epoch, chosen, inspect);
        Ok(result.steps.loss)
    }

    /// Evaluates all sequences in one job, however few are passed to `inspect` at a time.
    fn evaluate(
        &mut self,
        data: &dyn Dataset,
        epoch: usize,
        rows: usize,
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let result = self.submit(data, all.clone(), JobKind::Evaluate { outputs: true })?;
        let (rows, each) =
            (rows.clamp(1, all.len().max(1)), result.outputs.len() / all.len().max(1));
        for (chosen, outputs) in all.chunks(rows).zip(result.outputs.chunks((rows * each).max(1))) {
            self.show(outputs, data, epoch, chosen, inspect);
        }
        Ok(result.steps.loss)
    }

    fn loss(&mut self, data: &dyn Dataset, _epoch: usize, _rows: usize) -> Result<LossSum> {
        let all = (0..data.len() as u32).collect();
        Ok(self.submit(data, all, JobKind::Evaluate { outputs: false })?.steps.loss)
    }

    fn state(&mut self) -> Result<State> {
        self.shared.executor().state(self.number)
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        self.shared.executor().set_state(self.number, &state)
    }

    fn memory(&self) -> usize {
        self.shared.executor().memory()
    }
}

impl Drop for CudaLane {
    fn drop(&mut self) {
        self.shared.rendezvous.leave();
        self.shared.free.lock().unwrap_or_else(|p| p.into_inner())[self.number] = true;
    }
}
