//! Batches on their way to the device, and the graphs that run on them.
//!
//! ```text
//! stage     where a batch's sequences lie in the data on the device, or else the whole batch
//! submit    a copy, then the graph of all batches that are staged
//! record    what a graph consists of: take the batch, forward, loss, backward, optimiser
//! ```

use super::{CudaLearner, MAX_GRAPHS};
use crate::error::Result as CudaResult;
use crate::estimate;
use crate::persistent::{PersistentNet, PersistentPass};
use crate::plain::PlainPass;
use crate::step::pass::{Pass, Tensors, Until};
use crate::step::plan::{Plan, Shape, Staged, TargetType};
use crate::step::staging::{Step, shape, stage, target_type};
use crate::step::stored::{self, StoredData};
use crate::step::workspace::{MAX_BATCHES_PER_GRAPH, Recurrent, Workspace};
use drnn::NetSpec;
use drnn_train::{Dataset, Error, Result, Stored};
use std::sync::Arc;

/// What batches have in common that are submitted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BatchForm {
    pub until: Until,
    pub shape: Shape,
    pub target_type: TargetType,
    /// Whether they are taken from data on the device, or else were staged whole.
    pub stored: bool,
}

impl BatchForm {
    /// Words that are sent for one of them.
    pub fn words(&self, spec: &NetSpec) -> usize {
        match self.stored {
            true => stored::words(self.shape.rows),
            false => Staged::new(spec, self.shape, self.target_type).words,
        }
    }
}

/// What a graph was captured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GraphKey {
    pub form: BatchForm,
    /// Batches, one after another.
    pub count: usize,
    /// Whether the weights are packed already.
    pub packed: bool,
}

/// Batches of one form that are staged and not yet submitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingBatches {
    pub form: BatchForm,
    pub count: usize,
}

impl CudaLearner {
    /// Makes sure that the workspace fits a batch; a larger one replaces it.
    fn reserve(&mut self, shape: Shape, target_type: TargetType) -> Result<()> {
        if self.work.as_ref().is_some_and(|work| work.fits(shape, target_type)) {
            return Ok(());
        }
        let checked = self.plan.check_batch(shape.steps, shape.rows);
        checked.map_err(|why| Error::Options(why.to_string()))?;
        self.stream.synchronize()?;
        self.graphs.clear();
        self.packed = None;
        let before = self.work.take().map_or(shape, |work| work.capacity);
        let capacity = Shape {
            steps: before.steps.max(shape.steps),
            outputs: before.outputs.max(shape.outputs),
            rows: before.rows.max(shape.rows),
            selected: None,
        };
        self.work =
            Some(Workspace::new(&self.device, &self.plan, capacity, target_type, self.persistent)?);
        Ok(())
    }

    /// The copy of the data on the device, which is made now if there is none yet. `None` if they have
    /// to be staged batch by batch. `batch` is the usual number of sequences.
    fn stored(
        &mut self,
        data: &dyn Dataset,
        arrays: &dyn Stored,
        batch: usize,
    ) -> Result<Option<Arc<StoredData>>> {
        if let Some((key, stored)) = &self.stored
            && *key == arrays.key()
        {
            return Ok(stored.clone());
        }
        self.submit()?;
        self.stream.synchronize()?;
        self.graphs.clear(); // they contain addresses of the data before
        self.stored = None;
        let limits = self.persistent.then(|| self.device.limits());
        let stored = match estimate::of_plan(&self.plan, data.batch_size(batch), limits) {
            Ok(workspace) => StoredData::on(&self.device, arrays, workspace)?,
            Err(_) => None, // a batch that is too large is refused when there is one
        };
        let stored = stored.filter(|stored| stored.fits(&self.plan));
        self.stored = Some((arrays.key(), stored.clone()));
        Ok(stored)
    }

    /// Stages a batch after the pending ones: where its sequences lie in the data on the device, or
    /// else all of it. `batch` is the usual number of sequences.
    pub(super) fn stage(
        &mut self,
        data: &dyn Dataset,
        [epoch, batch]: [usize; 2],
        chosen: &[u32],
        until: Until,
        step: Step,
    ) -> Result<BatchForm> {
        if let Some(arrays) = data.stored()
            && let Some(stored) = self.stored(data, arrays, batch)?
        {
            let shape = StoredData::shape(&self.plan, arrays, chosen);
            let target_type = stored.target_type;
            let form = BatchForm { until, shape, target_type, stored: true };
            self.add(form, |plan, to| stored.stage(plan, arrays, chosen, step, to))?;
            return Ok(form);
        }
        data.gather(epoch, chosen, &mut self.gathered);
        let (form, _) = self.stage_gathered(until, step)?;
        Ok(form)
    }

    /// Stages the gathered batch after the pending ones. Also returns the number of positions, or
    /// values, that count in the loss.
    pub(super) fn stage_gathered(
        &mut self,
        until: Until,
        step: Step,
    ) -> Result<(BatchForm, usize)> {
        let gathered = std::mem::take(&mut self.gathered);
        let (shape, target_type) = (shape(&self.plan, &gathered), target_type(&gathered));
        let form = BatchForm { until, shape, target_type, stored: false };
        let count = self.add(form, |plan, to| stage(plan, &gathered, step, to));
        self.gathered = gathered;
        Ok((form, count?))
    }

    /// Stages a batch with `write` after the pending ones, which are submitted first if they have
    /// another form, and at once if the staging buffer is full.
    fn add(
        &mut self,
        form: BatchForm,
        write: impl FnOnce(&Plan, &mut [u32]) -> Result<usize>,
    ) -> Result<usize> {
        let BatchForm { shape, target_type, .. } = form;
        let differs = self.pending.is_some_and(|pending| pending.form != form);
        if differs || !self.work.as_ref().is_some_and(|work| work.fits(shape, target_type)) {
            self.submit()?;
            self.reserve(shape, target_type)?;
        }
        let work = self.work.as_mut().expect("reserved above");
        let buffers = work.staging.len();
        let buffer = &mut work.staging[self.submitted % buffers];
        let pending = self.pending.get_or_insert(PendingBatches { form, count: 0 });
        if pending.count == 0 {
            buffer.copied.synchronize()?;
        }
        let words = form.words(&self.plan.spec);
        let to = &mut buffer.words.as_mut_slice()[pending.count * words..][..words];
        let count = write(&self.plan, to)?;
        pending.count += 1;
        if pending.count == self.batches_per_graph(form) {
            self.submit()?;
        }
        Ok(count)
    }

    /// Batches of this form per graph: graphs stay below a few hundred nodes, and staged batches fit
    /// their buffer.
    fn batches_per_graph(&self, form: BatchForm) -> usize {
        let recurrences = self.plan.layers.iter().zip(&self.resident);
        let nodes = recurrences.map(|(layer, resident)| match resident {
            Some(_) => 20,
            None if self.persistent => 30,
            None => 4 * form.shape.steps * layer.len(),
        });
        let by_nodes = 200 / nodes.sum::<usize>().max(1);
        let by_words = match (form.stored, &self.work) {
            (false, Some(work)) => work.batch.len() / form.words(&self.plan.spec),
            _ => MAX_BATCHES_PER_GRAPH,
        };
        by_nodes.min(by_words).clamp(1, MAX_BATCHES_PER_GRAPH)
    }

    /// Copies the pending batches to the device and launches their graph, asynchronously.
    pub(super) fn submit(&mut self) -> Result<()> {
        let Some(PendingBatches { form, count }) = self.pending.take() else {
            return Ok(());
        };
        let Some(work) = &self.work else { return Ok(()) };
        let buffer = &work.staging[self.submitted % work.staging.len()];
        self.submitted += 1;
        let words = form.words(&self.plan.spec);
        buffer.send(count * words, &self.copies, &self.stream, &work.batch)?;
        let BatchForm { until, shape, .. } = form;
        let changes = until == Until::Step;
        let packed = self.packed.take().is_some_and(|rows| !changes && rows == shape.rows);
        let key = GraphKey { form, count, packed };
        if !self.graphs.contains_key(&key) {
            if self.persistent && !self.persistent_nets.contains_key(&shape.rows) {
                let net = PersistentNet::new(&self.device, &self.plan, shape.rows)?;
                self.persistent_nets.insert(shape.rows, net);
            }
            if self.graphs.len() >= MAX_GRAPHS {
                self.stream.synchronize()?;
                self.graphs.clear();
            }
            let record = || (0..count).try_for_each(|i| self.record(key, i));
            let graph = self.stream.capture(record)?;
            self.graphs.insert(key, graph);
        }
        self.stream.launch(&self.graphs[&key])?;
        self.packed = (self.persistent && !changes && shape.step_rows() > 0).then_some(shape.rows);
        Ok(())
    }

    /// A pass over batch number `batch` of a graph.
    fn pass(&self, GraphKey { form, count, .. }: GraphKey, batch: usize) -> CudaResult<Pass<'_>> {
        let words = form.words(&self.plan.spec);
        Ok(Pass {
            plan: &self.plan,
            shape: form.shape,
            // Batches from data on the device are taken to one place, after what was sent of all.
            first_word: if form.stored { count * words } else { batch * words },
            kernels: self.device.kernels()?,
            gemm: &self.gemm,
            stream: &self.stream,
            side_stream: &self.side_stream,
            params: Tensors::Vector(&self.state.params),
            gradient: Tensors::Vector(&self.state.gradient),
            partial_losses: self.state.losses.at(0),
            work: self.work.as_ref().expect("reserved by `add`"),
        })
    }

    /// Takes batch number `batch` of a graph from the data on the device, if it comes from there.
    pub(super) fn take(&self, key: GraphKey, batch: usize) -> CudaResult<()> {
        let (true, Some((_, Some(data)))) = (key.form.stored, &self.stored) else {
            return Ok(());
        };
        let pass = self.pass(key, batch)?;
        data.take(&pass, pass.work.batch.at(batch * key.form.words(&self.plan.spec)))
    }

    /// Submits a step, or a forward pass, on batch number `batch` of a graph to the stream.
    fn record(&self, key: GraphKey, batch: usize) -> CudaResult<()> {
        self.take(key, batch)?;
        let (pass, BatchForm { until, shape, .. }) = (self.pass(key, batch)?, key.form);
        let Pass { kernels, stream, side_stream, .. } = pass;
        let (state, train) = (&self.state, until == Until::Step);
        if shape.step_rows() == 0 {
            // No sequence is long enough for an output: nothing to run, and no gradient.
            stream.clear(&state.losses, 0, state.losses.len())?;
            stream.clear(&state.gradient, 0, state.gradient.len())?;
        } else {
            match &pass.work.recurrent {
                Recurrent::Persistent(work) => {
                    let net = &self.persistent_nets[&shape.rows];
                    let pass = PersistentPass { pass, net, work, states: None };
                    pass.forward(until, key.packed)?;
                    if train {
                        pass.backward()?;
                    }
                    stream.wait_for(side_stream)?;
                }
                Recurrent::Plain(work) => {
                    let (resident, cells) = (&self.resident, &kernels.cells);
                    let pass = PlainPass { pass, work, resident, cells, from_states: false };
                    pass.forward(until)?;
                    if train {
                        pass.backward()?;
                    }
                }
            }
        }
        if train { state.step(kernels, stream, pass.part(0)) } else { Ok(()) }
    }
}
