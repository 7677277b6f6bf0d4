//! Trains a delayed network on a series, evaluates it, saves it, and runs it on a live stream.
//!
//! ```text
//! cargo run --release -p drnn-train --example train_series
//! ```
//!
//! The target is a weighted sum of the input, two steps ahead and one step back:
//! `y_t = x_{t+2} - x_{t-1} / 2`. A network without delay cannot know x_{t+2}; one with a delay of 2
//! outputs its value for step t after it has read step t + 2, and can.

use drnn::{Cell, Cpu, NetSpec, Padding};
use drnn_tasks::live::{LiveModel, LiveStream};
use drnn_train::read::{Input, Missing, ReadLimits};
use drnn_train::series::{Columns, Shares, Windows, from_table, learn_task, score};
use drnn_train::{Advance, Options, Schedule, Trainer};
use std::error::Error;
use std::fmt::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;

    // 1. Data: a CSV file with a header. Each row is a step; here all rows are one sequence.
    let csv = folder.path().join("series.csv");
    std::fs::write(&csv, made_up(3000))?;
    let columns = Columns::new(vec!["y".into()]);
    let all = from_table(&Input::new(&csv, ReadLimits::default())?, &columns)?;
    println!("{} steps, columns {:?} -> {:?}", all.steps(), all.inputs, all.targets);

    // 2. One sequence is split by time: training, then validation, then test.
    let parts = all.part(Shares { valid: 0.1, test: 0.1 }, 1)?;
    let valid = parts.valid.ok_or("no validation part")?;
    let test = parts.test.ok_or("no test part")?;

    for delay in [0, 2] {
        // 3. The task: columns, and their scaling by mean and standard deviation of the training part.
        let task = learn_task(&parts.train, Missing::Refuse, None)?;

        // 4. The network: inputs and outputs of the task, a GRU of 16 units, a delay. After the end of
        //    a sequence it reads zeros.
        let builder = task.widths(NetSpec::builder(Cell::Gru)).units([16]);
        let spec = match delay {
            0 => builder.build()?,
            _ => builder.delay(delay, Padding::Null).build()?,
        };

        // 5. Windows of 50 steps that read on as far as the delay.
        let train_windows = Windows::new(&parts.train, &task, 50, delay)?;
        let valid_windows = Windows::new(&valid, &task, 50, delay)?;

        // 6. Training: Adam, gradients clipped at norm 1, a learning rate that falls along a cosine.
        let options = Options {
            epochs: 30,
            batch: 8,
            rate: 0.01,
            schedule: Schedule::Cosine,
            ..Options::default()
        };
        let cpu = Cpu::from_env()?;
        let mut trainer =
            Trainer::new(&cpu, &spec, options, "example", &train_windows, &valid_windows)?;
        while !matches!(trainer.advance()?, Advance::Ended(_)) {}
        let last = trainer.progress().history.last().ok_or("no epoch was trained")?;
        println!("\ndelay {delay}: {spec}");
        println!("  validation loss {:.5} after {} epochs", last.valid_loss, last.epoch);

        // 7. Evaluation on whole sequences, in the target's own units.
        let model = trainer.engine().model()?.with_task(task.to_value()?);
        let mse = score(&model, &task, &test)?.quality().ok_or("nothing was scored")?;
        println!("  test RMSE {:.4}", mse.sqrt());

        // 8. The model file has the task inside, so it can be used without this program.
        let path = folder.path().join(format!("delay-{delay}.safetensors"));
        model.save(&path)?;
        let live = LiveModel::load(&path)?;

        // 9. Streaming: the prediction for step t comes with element t + delay.
        let mut stream = LiveStream::new(&live)?;
        for x in ["0.5", "-0.25", "1", "0.75"] {
            match stream.push(&live.line(x)?)? {
                Some(prediction) => println!("  x = {x:<5} -> {}", prediction.json()),
                None => println!("  x = {x:<5} -> (nothing yet)"),
            }
        }
        for prediction in stream.flush()? {
            println!("  end       -> {}", prediction.json());
        }
    }
    Ok(())
}

/// A table of x, noise between -1 and 1, and `y_t = x_{t+2} - x_{t-1} / 2`.
fn made_up(steps: usize) -> String {
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223); // any generator will do
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    };
    let x: Vec<f64> = (0..steps).map(|_| noise()).collect();
    let at = |t: Option<usize>| t.and_then(|t| x.get(t)).copied().unwrap_or(0.0);
    let mut text = String::from("x,y\n");
    for (t, x) in x.iter().enumerate() {
        let y = at(Some(t + 2)) - at(t.checked_sub(1)) / 2.0;
        let _ = writeln!(text, "{x:.4},{y:.4}");
    }
    text
}
