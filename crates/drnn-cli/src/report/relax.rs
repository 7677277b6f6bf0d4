//! Results of relaxing a stack: it is trained, flattened into one delayed layer, and trained on with
//! all connections between its blocks.
//!
//! ```text
//! epochs 1..E         stack  ──────────────┐  delayed   delayed-stack        from random weights
//!                       │              flatten   │            │
//! epochs E+1..2E      longer           relaxed   longer       longer         Adam begins anew
//! ```

use super::mlm::Text;
use drnn::{Blocks, Cell, Model, NetSpec, NetSpecBuilder, Padding, StartState};
use drnn::{Connections, Error};
use drnn_train::chars::EMBEDDING;
use drnn_train::chars::paper::TEXT8;
use drnn_train::{Epoch, Options, Reason, Schedule};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A stack of LSTMs over masked characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    pub layers: usize,
    /// Of each layer.
    pub units: usize,
}

/// Ours, on the first characters of text8: minutes on a CPU.
pub const SMALL: Stack = Stack { layers: 2, units: 64 };
/// The paper's small one of two layers, by the protocol of its table.
pub const PAPER: Stack = Stack { layers: 2, units: 298 };

impl Stack {
    pub const ALL: [Stack; 2] = [SMALL, PAPER];

    /// Characters to train on; None for all.
    pub fn first(self) -> Option<usize> {
        (self == SMALL).then_some(2_000_000)
    }

    /// Of each half of a training.
    pub fn options(self) -> Options {
        match self == SMALL {
            true => Options {
                epochs: 8,
                batch: 16,
                rate: 4e-3,
                schedule: Schedule::Cosine,
                ..Options::default()
            },
            false => Options { epochs: 20, batch: 128, ..Options::default() },
        }
    }

    /// How blocks start once they are relaxed. Held starts equal the stack to the bit. Engines for
    /// GPUs do not have them; with free starts all blocks run at once, as in any LSTM.
    pub fn start(self) -> StartState {
        if self == SMALL { StartState::Held } else { StartState::Free }
    }

    fn builder(self) -> NetSpecBuilder {
        let symbols = TEXT8.len();
        NetSpec::builder(Cell::Lstm).tokens(symbols + 1, EMBEDDING).outputs(symbols)
    }

    /// The stack; with a delay it looks ahead by as many characters.
    pub fn spec(self, delay: usize) -> drnn::Result<NetSpec> {
        let builder = self.builder().units(vec![self.units; self.layers]);
        builder.delay(delay, Padding::LookAhead).build()
    }

    /// One layer of as many units and the delay of the flattened stack.
    pub fn delayed(self) -> drnn::Result<NetSpec> {
        let builder = self.builder().units([self.units * self.layers]);
        builder.delay(self.layers - 1, Padding::LookAhead).build()
    }

    /// What the flattened stack becomes: its blocks with all connections, or a plain layer.
    pub fn relaxed(self) -> drnn::Result<NetSpec> {
        match self.start() {
            StartState::Free => self.delayed(),
            start => {
                let blocks = Blocks::new(vec![self.units; self.layers]);
                let blocks = blocks.connections(Connections::All).start(start);
                self.builder().blocks(blocks).delay(self.layers - 1, Padding::LookAhead).build()
            }
        }
    }

    /// The trained stack as the network that [`Stack::relaxed`] describes.
    pub fn flatten(self, params: Vec<f32>) -> drnn::Result<Model> {
        let flat = Model::from_params(&self.spec(0)?, params)?.flatten(StartState::Held)?;
        let relaxed = self.relaxed()?;
        // Blocks with all connections have the tensors of a plain layer, in an LSTM.
        if relaxed.parameters() != flat.params().len() {
            return Err(Error::Flatten(format!(
                "{relaxed}: has other tensors than {}",
                flat.spec()
            )));
        }
        Model::from_params(&relaxed, flat.params().to_vec())
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "lstm-{}x{}", self.layers, self.units)
    }
}

impl FromStr for Stack {
    type Err = String;

    fn from_str(name: &str) -> Result<Stack, String> {
        let found = Stack::ALL.into_iter().find(|stack| stack.to_string() == name);
        found.ok_or_else(|| format!("`{name}`: expected {SMALL} or {PAPER}"))
    }
}

/// A network in one of the states that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// The stack after the first half.
    Stack,
    /// The same, flattened and not trained since.
    Flattened,
    /// The stack, trained on as it is.
    Longer,
    /// The flattened stack, trained on with all connections.
    Relaxed,
    /// A delayed layer of as many units, trained from random weights all the time.
    Delayed,
    /// The stack with the delay of the flattened one, trained from random weights all the time.
    DelayedStack,
}

impl Arm {
    pub const ALL: [Arm; 6] =
        [Arm::Stack, Arm::Flattened, Arm::Longer, Arm::Relaxed, Arm::Delayed, Arm::DelayedStack];
}

/// The networks of one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// A name of [`Stack`].
    pub stack: String,
    /// Each of [`Arm::ALL`], in that order.
    pub arms: Vec<Trained>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    pub arm: Arm,
    pub parameters: usize,
    /// Epochs from random weights on.
    pub epochs: usize,
    /// Bits per masked target on the validation set; None if the training diverged.
    pub valid_bpc: Option<f64>,
    /// And on the test set.
    pub test_bpc: Option<f64>,
    pub ended: Reason,
    /// Of its own trainings; epochs of the second half count from 1 again.
    pub seconds: f64,
    pub history: Vec<Epoch>,
}

impl Run {
    pub fn check(&self) -> Result<Stack, String> {
        let stack: Stack = self.stack.parse()?;
        let arms: Vec<Arm> = self.arms.iter().map(|trained| trained.arm).collect();
        if arms != Arm::ALL {
            return Err(format!("has {arms:?}, expected {:?}", Arm::ALL));
        }
        for Trained { arm, valid_bpc, test_bpc, ended, seconds, .. } in &self.arms {
            for bits in [valid_bpc, test_bpc] {
                match bits {
                    None if *ended == Reason::NotFinite => {}
                    Some(bits) if *bits >= 0.0 && bits.is_finite() => {}
                    _ => return Err(format!("{arm:?}: {bits:?} bits, expected 0 or more")),
                }
            }
            if !(*seconds >= 0.0 && seconds.is_finite()) {
                return Err(format!("{arm:?}: {seconds} seconds"));
            }
        }
        Ok(stack)
    }

    pub fn test_bpc(&self, arm: Arm) -> Option<f64> {
        self.arms.iter().find(|trained| trained.arm == arm)?.test_bpc
    }
}

impl Stack {
    /// Whether these are the parts of text8 that the stack is trained and tested on.
    pub fn is_whole(self, text: &Text, held: usize) -> bool {
        match self.first() {
            Some(first) => text.used == [first, first / 20, first / 20],
            None => {
                text.used[1..] == [held; 2] && text.characters == text.used.iter().sum::<usize>()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Batch, Rows, Steps};

    #[test]
    fn names() {
        for stack in Stack::ALL {
            assert_eq!(stack.to_string().parse(), Ok(stack));
        }
        assert!("lstm-3x5".parse::<Stack>().unwrap_err().contains("lstm-2x64"));
    }

    #[test]
    fn a_flattened_stack_is_the_stack() {
        let (steps, rows) = (12, 2);
        let tokens: Vec<u32> = (0..(steps * rows) as u32).map(|i| i * i % 28).collect();
        let run = |model: &Model, steps: usize| {
            let batch = Batch::tokens(&tokens[..steps * rows], Steps(steps), Rows(rows));
            model.run(&batch, None).unwrap().values
        };
        for stack in Stack::ALL {
            let trained = Model::init(&stack.spec(0).unwrap(), 3).unwrap();
            let flat = stack.flatten(trained.params().to_vec()).unwrap();
            let (outputs, width) = (run(&trained, steps), TEXT8.len() * rows);
            let found = run(&flat, steps);
            match stack.start() {
                // The last output of a plain layer would need one more character.
                StartState::Free => {
                    assert_eq!(found.len(), (steps - 1) * width);
                    let late = 6 * width..(steps - 1) * width;
                    let near = found[late.clone()].iter().zip(&outputs[late]);
                    near.for_each(|(a, b)| assert!((a - b).abs() < 1e-3, "{a} {b}"));
                    assert_ne!(found[..width], outputs[..width]);
                }
                _ => assert_eq!(found, outputs),
            }
        }
    }
}
