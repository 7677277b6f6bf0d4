//! Data sets in device memory: generated there from their recipe, or copied.
//!
//! ```text
//! x (sequences, T, q) f32        y (sequences, T) classes, or (sequences, T, m) f32
//! ```

use crate::error::Result as CudaResult;
use crate::kernels::params::{MakeReversal, MakeSine, ptr};
use crate::kernels::sources;
use crate::runtime::device::Device;
use crate::runtime::kernel::{Kernel, Module};
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use crate::step::plan::TargetType;
use drnn::NetSpec;
use drnn_train::sine::SinePart;
use drnn_train::{Dataset, Error, Examples, IGNORE, Inputs, Recipe, Result, TargetData};

const THREADS: usize = 256;
/// More than a GPU runs at a time; a thread generates several elements.
const MAX_BLOCKS: usize = 4096;
/// Length of `struct Recipe` in words.
const WORDS: usize = 12;

/// Where a data set comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DataOrigin<'d> {
    Recipe(&'d Recipe),
    Memory(&'d Examples),
}

/// Identifies a data set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DataKey {
    Recipe(Recipe),
    Key(u64),
}

impl<'d> DataOrigin<'d> {
    /// How `data` gets to the device; the error says why it cannot.
    pub fn of(spec: &NetSpec, data: &'d dyn Dataset) -> Result<DataOrigin<'d>> {
        data.fits(spec)?;
        if let Some(recipe) = data.recipe() {
            return Ok(DataOrigin::Recipe(recipe));
        }
        let Some(examples) = data.whole() else {
            return Err(Error::Data("a group trains on sequences in memory".into()));
        };
        if !examples.are_equally_long() {
            return Err(Error::Data("a group trains on sequences of one length".into()));
        }
        Ok(DataOrigin::Memory(examples))
    }

    pub fn key(&self) -> DataKey {
        match self {
            DataOrigin::Recipe(recipe) => DataKey::Recipe(**recipe),
            DataOrigin::Memory(examples) => DataKey::Key(examples.key()),
        }
    }
}

/// A data set in device memory.
#[derive(Debug)]
pub(crate) struct DataSet {
    pub key: DataKey,
    pub x: Buffer<f32>,
    pub y: Buffer<u32>,
    pub elements: usize,
    pub target_type: TargetType,
}

impl DataSet {
    /// Generated or copied, for networks with `m` outputs.
    pub fn new(
        device: &Device,
        kernels: &DataKernels,
        origin: DataOrigin,
        m: usize,
    ) -> Result<DataSet> {
        match origin {
            DataOrigin::Recipe(recipe) => kernels.generate(device, recipe, m),
            DataOrigin::Memory(examples) => DataSet::copied(device, examples, m),
        }
    }

    fn copied(device: &Device, examples: &Examples, m: usize) -> Result<DataSet> {
        let Inputs::Dense(x) = examples.inputs() else {
            return Err(Error::Data("a group trains on vectors".into()));
        };
        let (target_type, y) = match examples.targets() {
            TargetData::Values(values) => {
                (TargetType::Values, values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>())
            }
            TargetData::Classes(classes) => {
                let known = classes.iter().filter(|class| **class != IGNORE);
                check_classes(known.max().map_or(0, |max| *max as usize + 1), m)?;
                (TargetType::Classes, classes.clone())
            }
        };
        let (x, y) = (Buffer::from(device, x)?, Buffer::from(device, &y)?);
        let key = DataOrigin::Memory(examples).key();
        Ok(DataSet { key, x, y, elements: examples.steps(), target_type })
    }

    /// Copied to host memory, for `q` inputs and `m` outputs.
    pub fn examples(&self, [q, m]: [usize; 2]) -> Result<Examples> {
        let (x, y) = (self.x.get(0, self.x.len())?, self.y.get(0, self.y.len())?);
        let targets = match self.target_type {
            TargetType::Classes => TargetData::Classes(y),
            TargetType::Values => TargetData::Values(y.into_iter().map(f32::from_bits).collect()),
        };
        let count = x.len() / (self.elements * q);
        Examples::new(Inputs::Dense(x), targets, [count, self.elements], [q, m])
    }
}

/// Fails if there are more classes than outputs, m.
fn check_classes(classes: usize, m: usize) -> Result<()> {
    match classes <= m {
        true => Ok(()),
        false => Err(Error::Data(format!("class {} of {m}", classes - 1))),
    }
}

/// The kernels that generate data sets.
#[derive(Debug)]
pub(crate) struct DataKernels {
    sine: Kernel<MakeSine>,
    reversal: Kernel<MakeReversal>,
}

impl DataKernels {
    pub fn new(device: &Device) -> CudaResult<DataKernels> {
        let module = Module::new(device, &sources::group_data())?;
        Ok(DataKernels { sine: module.kernel()?, reversal: module.kernel()? })
    }

    fn generate(&self, device: &Device, recipe: &Recipe, m: usize) -> Result<DataSet> {
        let elements = recipe.count() * recipe.steps();
        let (target_type, q) = match recipe {
            Recipe::Sine { .. } => (TargetType::Values, 1),
            Recipe::Reversal { task, .. } => {
                check_classes(task.symbols, m)?;
                (TargetType::Classes, task.symbols)
            }
        };
        let (x, y) = (Buffer::zeros(device, elements * q)?, Buffer::zeros(device, elements)?);
        let staged = Buffer::from(device, &words(recipe)?)?;
        let (words, to_x, to_y) = (ptr(staged.at(0)), ptr(x.at(0)), y.at(0));
        let grid = [elements.div_ceil(THREADS).min(MAX_BLOCKS), 1];
        // A stream of its own: the executor's may be busy with other lanes.
        let stream = Stream::new(device)?;
        // SAFETY: the buffers have as many elements as the recipe says.
        unsafe {
            match recipe {
                Recipe::Sine { .. } => {
                    let params = MakeSine { recipe: words, x: to_x, y: ptr(to_y) };
                    self.sine.launch(&stream, grid, THREADS, &params)?;
                }
                Recipe::Reversal { .. } => {
                    let params = MakeReversal { recipe: words, x: to_x, y: ptr(to_y) };
                    self.reversal.launch(&stream, grid, THREADS, &params)?;
                }
            }
        }
        stream.synchronize()?;
        let key = DataKey::Recipe(*recipe);
        Ok(DataSet { key, x, y, elements: recipe.steps(), target_type })
    }
}

/// Writes `struct Recipe` of `kernels/group/data.cu`.
fn words(recipe: &Recipe) -> Result<[u32; WORDS]> {
    let (seed, filter, gamma, [ahead, taps, symbols]) = match *recipe {
        Recipe::Sine { task, set_seed, part, .. } => {
            let (seed, filter) = (part.seed(set_seed), SinePart::Filter.seed(set_seed));
            (seed, filter, task.gamma, [task.ahead, task.taps, 0])
        }
        Recipe::Reversal { task, seed, .. } => (seed, 0, 0.0, [0, 0, task.symbols]),
    };
    let mut words = [0; WORDS];
    for (to, value) in words.chunks_exact_mut(2).zip([seed, filter, gamma.to_bits()]) {
        to.copy_from_slice(&[value as u32, (value >> 32) as u32]);
    }
    let sizes = [recipe.count(), recipe.steps(), ahead, taps, symbols];
    for (to, size) in words[6..].iter_mut().zip(sizes) {
        *to = u32::try_from(size).map_err(|_| Error::Data(format!("{size} is too many")))?;
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::Cell;
    use drnn_train::reversal::Reversal;
    use drnn_train::sine::Sine;

    #[test]
    fn recipes_are_as_the_kernels_read_them() {
        let (task, part) = (Sine { gamma: 0.5, ahead: 3, steps: 50, taps: 20 }, SinePart::Valid);
        let sine = Recipe::Sine { task, count: 7, set_seed: 9, part };
        let found = words(&sine).unwrap();
        let number = |at: usize| u64::from(found[at]) | u64::from(found[at + 1]) << 32;
        assert_eq!(number(0), SinePart::Valid.seed(9));
        assert_eq!(number(2), SinePart::Filter.seed(9));
        assert_eq!(f64::from_bits(number(4)), 0.5);
        assert_eq!(found[6..], [7, 50, 3, 20, 0, 0]);
        let task = Reversal { steps: 20, symbols: 4 };
        let reversal = Recipe::Reversal { task, count: 8, seed: 0x1_0000_0002 };
        assert_eq!(words(&reversal).unwrap(), [2, 1, 0, 0, 0, 0, 8, 20, 0, 0, 4, 0]);
        let many = Recipe::Reversal { task, count: 1 << 32, seed: 1 };
        assert!(words(&many).unwrap_err().to_string().contains("too many"));
    }

    #[test]
    fn equal_recipes_are_one_data_set_and_equal_examples_are_two() {
        let spec = NetSpec::builder(Cell::Lstm).dense(4).units([3]).outputs(4).build().unwrap();
        let (task, key) = (Reversal::default(), |data: &dyn Dataset| {
            DataOrigin::of(&spec, data).map(|origin| origin.key()).unwrap()
        });
        let made = |seed| task.generated(2, seed).unwrap();
        let [first, again] = [1, 1].map(|seed| task.examples(2, seed).unwrap());
        assert_eq!(key(&made(1)), key(&made(1)));
        assert_ne!(key(&made(1)), key(&made(2)));
        assert_ne!(key(&made(1)), key(&first));
        assert_ne!(key(&first), key(&again));
        assert_eq!(key(&first), key(&first.clone()));
        assert!(check_classes(4, 4).is_ok() && check_classes(0, 4).is_ok());
        assert_eq!(check_classes(5, 4).unwrap_err().to_string(), "class 4 of 4");
    }
}
