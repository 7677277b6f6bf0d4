//! Batches that kernels take from data on a device, executed on the CPU, and those that the host
//! stages: the same bits. Needs a C++ compiler with `_Float16`.

use super::CudaLearner;
use super::submit::{BatchForm, GraphKey};
use crate::error::Result as CudaResult;
use crate::recorded::{executing, hopper};
use crate::runtime::device::Device;
use crate::runtime::gemm::Precision;
use crate::step::pass::Until;
use crate::step::plan::{Staged, TargetType};
use crate::step::staging::{NONE, Step, shape, stage};
use drnn::memory::BatchSize;
use drnn::{Cell, NetSpec, Padding, random::Rng};
use drnn_train::{AdamOptions, Dataset, Examples, Gathered, IGNORE, Inputs, Stored, TargetData};
use std::sync::atomic::{AtomicUsize, Ordering};

const STEP: Step = Step { rate: 0.25, clip: Some(2.0) };

fn network(q: usize, m: usize, delay: usize) -> NetSpec {
    let builder = NetSpec::builder(Cell::Lstm).dense(q).units([5]).outputs(m);
    builder.delay(delay, Padding::Null).build().expect("a network")
}

fn learner(device: &Device, spec: &NetSpec) -> CudaLearner {
    CudaLearner::new(device, Precision::F32, spec, AdamOptions::default(), 1).expect("a learner")
}

/// Sequences of up to 9 elements, one of them empty, with targets of which some do not count.
fn examples(q: usize, m: usize, values: bool) -> Examples {
    let mut rng = Rng::new(7);
    let lengths = vec![9, 1, 4, 0, 9, 6];
    let elements = lengths.iter().sum::<usize>();
    let x = (0..elements * q).map(|_| rng.symmetric(1.0)).collect();
    let y = match values {
        true => {
            let value = |i: usize| if i % 5 == 3 { f32::NAN } else { i as f32 };
            TargetData::Values((0..elements * m).map(value).collect())
        }
        false => {
            let class = |i: usize| if i % 4 == 1 { IGNORE } else { (i % m) as u32 };
            TargetData::Classes((0..elements).map(class).collect())
        }
    };
    Examples::of_lengths(Inputs::Dense(x), y, &lengths, [q, m]).expect("examples")
}

/// What the kernel writes and what the host does, without the words between their parts.
fn both(learner: &mut CudaLearner, data: &dyn Dataset, chosen: &[u32]) -> [Vec<u32>; 2] {
    let form = learner.stage(data, [0, chosen.len()], chosen, Until::Step, STEP).expect("staged");
    assert!(form.stored);
    let taken = taken(learner, form).expect("executed");
    let mut gathered = Gathered::default();
    data.gather(0, chosen, &mut gathered);
    let mut staged = vec![NONE; taken.len()];
    stage(&learner.plan, &gathered, STEP, &mut staged).expect("staged");
    let shape = shape(&learner.plan, &gathered);
    assert_eq!(form.shape, shape);
    let spec = learner.spec();
    let at = Staged::new(spec, shape, form.target_type);
    let m = if form.target_type == TargetType::Classes { 1 } else { spec.output_width() };
    let (x, y) = (shape.step_rows() * spec.input().width(), shape.positions() * m);
    let parts = [(0, 8), (at.run, shape.rows), (at.input, x), (at.targets, y)];
    [taken, staged].map(|words| {
        parts.iter().flat_map(|&(start, len)| words[start..][..len].to_vec()).collect()
    })
}

/// Sends and takes the pending batch, without a graph.
fn taken(learner: &mut CudaLearner, form: BatchForm) -> CudaResult<Vec<u32>> {
    learner.pending = None;
    let key = GraphKey { form, count: 1, packed: false };
    let spec = learner.spec();
    let (sent, words) = (form.words(spec), Staged::new(spec, form.shape, form.target_type).words);
    let work = learner.work.as_ref().expect("a workspace");
    work.staging[0].send(sent, &learner.copies, &learner.stream, &work.batch)?;
    learner.take(key, 0)?;
    learner.work.as_ref().expect("a workspace").batch.get(sent, words)
}

#[test]
fn a_batch_taken_on_the_device_is_the_staged_one() {
    let Some(device) = executing() else { return };
    for (q, m, delay, values) in [(1, 3, 0, false), (3, 2, 4, true), (40, 37, 1, true)] {
        let mut learner = learner(&device, &network(q, m, delay));
        let data = examples(q, m, values);
        for chosen in [&[0, 1, 2, 3, 4, 5][..], &[5, 2], &[3], &[1, 1, 1]] {
            let [taken, staged] = both(&mut learner, &data, chosen);
            assert_eq!(taken, staged, "{q} inputs, {m} outputs, sequences {chosen:?}");
        }
    }
}

/// Examples that count the searches for their largest batch, each of which reads all of them.
struct Counted(Examples, AtomicUsize);

impl Dataset for Counted {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn fits(&self, spec: &NetSpec) -> drnn_train::Result<()> {
        self.0.fits(spec)
    }

    fn stored(&self) -> Option<&dyn Stored> {
        self.0.stored()
    }

    fn batch_size(&self, rows: usize) -> BatchSize {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.batch_size(rows)
    }

    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        self.0.gather(epoch, chosen, to);
    }
}

/// 512 sequences of 600 elements and 2^14 classes, of which a batch may have 436.
#[test]
fn data_are_copied_if_the_batches_fit_that_are_trained() {
    let (device, spec) = (hopper(), network(1, 1 << 14, 0));
    let (x, y) = (vec![0.5; 512 * 600], vec![0; 512 * 600]);
    let data = Examples::new(Inputs::Dense(x), TargetData::Classes(y), [512, 600], [1, 1 << 14]);
    let data = Counted(data.expect("examples"), AtomicUsize::new(0));
    let mut learner = learner(&device, &spec);
    for chosen in [[0, 1], [2, 3]] {
        let form = learner.stage(&data, [0, 2], &chosen, Until::Step, STEP).expect("staged");
        assert!(form.stored);
    }
    assert_eq!(data.1.load(Ordering::Relaxed), 1);
    assert_eq!(CudaLearner::copy_bytes(&spec, &data), 8 * 512 * 600);
}

#[test]
fn data_are_staged_if_the_device_is_to_have_no_copies() {
    let device = hopper();
    device.without_copies();
    let mut learner = learner(&device, &network(3, 2, 1));
    let data = examples(3, 2, true);
    let form = learner.stage(&data, [0, 2], &[0, 1], Until::Step, STEP).expect("staged");
    assert!(!form.stored && device.copies() == 0);
}

#[test]
fn learners_share_the_copy_and_free_it() {
    let Some(device) = executing() else { return };
    let data = examples(3, 2, true);
    let stage = |learner: &mut CudaLearner| {
        learner.stage(&data, [0, 2], &[0, 1], Until::Step, STEP).expect("staged").stored
    };
    let mut learners = [1, 2].map(|delay| learner(&device, &network(3, 2, delay)));
    assert!(learners.iter_mut().all(stage));
    let copies = learners.each_ref().map(|learner| {
        let (_, copy) = learner.stored.as_ref().expect("data");
        std::sync::Arc::as_ptr(copy.as_ref().expect("a copy"))
    });
    assert_eq!(copies[0], copies[1]);
    let [first, second] = learners;
    drop(first);
    assert_eq!(device.copies(), 1);
    drop(second);
    assert_eq!(device.copies(), 0);
}
