//! `drnn reproduce runtime`: the last column of the paper's table of masked characters, with
//! synchronised times.

use super::{ANOTHER, check_unused};
use crate::Failure;
use crate::commands::bench::{Same, character_batch};
use crate::console::progress;
use crate::files::paths::write_files;
use crate::report::Provenance;
use crate::report::runtime::{ForwardTime, RuntimeResults};
use crate::training;
use crate::training::place::{Place, PlaceArguments};
use clap::Args;
use drnn::{Batch, Cpu, Model, Rows, Steps};
use drnn_cuda::{CudaLearner, Until};
use drnn_train::chars::paper::{ROWS, Row};
use drnn_train::{AdamOptions, Inputs};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// Runtime of the character table's networks: a forward pass of one batch, 128 windows of 180 characters
///
/// The paper's runtimes are host times around an asynchronous call to the GPU. Here times are taken by events on
/// the GPU, or are wall-clock times on the CPU. They do not depend on the weights, which are random.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Networks by name, as in `drnn reproduce mlm` [default: all of the paper's]
    #[arg(long, value_name = "ROW,..", value_delimiter = ',')]
    rows: Option<Vec<Row>>,
    /// Passes of each network, after one to warm up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Folder for runtime.json
    #[arg(long, value_name = "DIR", default_value = "out/runtime")]
    out: PathBuf,
    #[command(flatten)]
    place: PlaceArguments,
    /// Print the contents of runtime.json instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_unused(&arguments.out, &["runtime.json"], ANOTHER)?;
    let results = arguments.results(training::command())?;
    let json = serde_json::to_string(&results).map_err(std::io::Error::from)? + "\n";
    write_files(&arguments.out, &[("runtime.json", json.as_bytes())])?;
    let text = if arguments.json { json } else { results.table() };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

impl Arguments {
    /// All of the paper's networks, for a campaign; or two small ones for a trial.
    pub fn for_campaign(quick: bool, threads: Option<u16>, place: PlaceArguments) -> Arguments {
        let some = ["quick-lstm", "quick-bilstm"].iter().filter_map(|name| name.parse().ok());
        let rows = quick.then(|| some.collect());
        let rounds = if quick { 2 } else { 10 };
        Arguments { rows, rounds, threads, out: PathBuf::new(), place, json: false }
    }

    /// Measures all networks, round after round, so that a slow phase of the machine meets all of them.
    pub fn results(&self, command: String) -> Result<RuntimeResults, Failure> {
        let started = SystemTime::now();
        let cpu = training::cpu(self.threads)?;
        let place = self.place.find()?;
        let rows = self.rows.clone().unwrap_or_else(|| ROWS.to_vec());
        let mut times: Vec<ForwardTime> = rows
            .iter()
            .map(|row| ForwardTime { row: row.to_string(), seconds: Vec::new() })
            .collect();
        for round in 0..=self.rounds {
            for (row, time) in rows.iter().zip(&mut times) {
                let seconds = forward(row, &cpu, &place)?;
                if round > 0 {
                    time.seconds.push(seconds);
                }
            }
            progress!("runtime: {round} of {} rounds", self.rounds);
        }
        Ok(RuntimeResults {
            kind: RuntimeResults::KIND.into(),
            format: RuntimeResults::FORMAT,
            provenance: Provenance::new(command, 1, &cpu, &place, started, 0.0),
            times,
            peer: None,
        })
    }
}

/// Seconds of one forward pass, up to the outputs.
fn forward(row: &Row, cpu: &Cpu, place: &Place) -> Result<f64, Failure> {
    let spec = row.spec()?;
    let batch = character_batch(row.delay);
    if let Place::Cuda(device, precision, _) = place {
        let learner = CudaLearner::new(device, *precision, &spec, AdamOptions::default(), 1);
        let mut learner = learner.map_err(drnn_train::Error::from)?;
        let chosen: Vec<u32> = (0..batch.rows as u32).collect();
        let times = learner.device_seconds(&Same(batch), &chosen, Until::Outputs, 5)?;
        return Ok(times.into_iter().fold(f64::INFINITY, f64::min));
    }
    let model = Model::init(&spec, 1)?.on(cpu);
    let Inputs::Tokens(tokens) = &batch.inputs else {
        return Err(Failure::Input("a batch of characters without characters".into()));
    };
    let start = Instant::now();
    model.run(&Batch::tokens(tokens, Steps(batch.steps), Rows(batch.rows)), None)?;
    Ok(start.elapsed().as_secs_f64())
}
