//! `drnn quantize`: a model with weights of 16 bits or int8, and what that costs in quality.

use crate::Failure;
use crate::args::import::ImportArguments;
use crate::args::reading::Reading;
use crate::commands::eval::{self, Request};
use crate::files::model_file::ModelFile;
use crate::files::paths::check_not_read;
use crate::memory::{Force, Needs, shown};
use crate::report::page::number;
use crate::training::place::Place;
use clap::Args;
use drnn::{Bundle, Model, Precision, WeightFormat, memory};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Make a model smaller and faster: weights of 16 bits, or int8
///
/// f16 and bf16 halve the weights, which are widened to f32 as they are read; the arithmetic is f32. int8
/// quarters them: each row of a matrix has a scale, activations are quantised at every step (dynamic
/// quantisation), and sums are exact integers. Biases stay f32. OUT runs, streams and serves like any model.
/// With --check the model is evaluated before and after, as `drnn eval` does; OUT is written only if the
/// loss of quality is within --tolerance. MODEL is drnn's own, a built-in one, or one of other programs.
/// Examples:
///   drnn quantize model.safetensors -o small.safetensors --to int8 --check test.csv
///   drnn quantize chars-en -o chars-int8.safetensors --to int8 --check text.txt --tolerance 0.02
///   drnn quantize lstm.pt -o lstm-f16.safetensors --to f16
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file, or the name of a built-in model
    model: PathBuf,
    /// File for the quantised model
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Number format of the weights: f16, bf16 or int8
    #[arg(long, value_name = "FORMAT")]
    to: WeightFormat,
    /// Data to evaluate the model on before and after: what `drnn eval` takes
    #[arg(long, value_name = "DATA", num_args = 1..)]
    check: Vec<PathBuf>,
    /// Largest loss of quality that is accepted, in the unit of the first measure: 0.001 of accuracy is 0.1
    /// points [default: 0.001 of accuracy, 0.01 bits, 1 % of a mean squared error]
    #[arg(long, value_name = "LOSS", requires = "check", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    force: Force,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(loss) if loss >= 0.0 => Ok(loss),
        _ => Err("expected a number that is not negative".into()),
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { model: path, output, to, check, .. } = arguments;
    if *to == WeightFormat::F32 {
        return Err(Failure::Input("--to takes f16, bf16 or int8".into()));
    }
    let read = check.iter().map(PathBuf::as_path).chain([path.as_path()]);
    check_not_read("--output", output, read)?;
    let model = arguments.import.load_file(path)?;
    needs(&model, *to).check(arguments.force, "smaller models")?;
    let in_model = |e: drnn::Error| Failure::Input(format!("{}: {e}", path.display()));
    let small = quantized(&model, *to).map_err(in_model)?;
    let before = to_bytes(&model).map_err(in_model)?.len();
    let bytes = to_bytes(&small).map_err(in_model)?;
    let report = Report {
        networks: rounding(&model, &small),
        before,
        after: bytes.len(),
        checks: arguments.quality(path, model, small)?,
    };
    let refused = report.checks.first().and_then(|check| check.refusal(arguments.tolerance));
    let text = match arguments.json {
        true => format!("{}\n", report.value(arguments)),
        false => report.text(arguments),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if let Some(why) = refused {
        return Err(Failure::Check(format!("{why}; {} is not written", output.display())));
    }
    drnn::io::write_atomically(output, |file| file.write_all(&bytes))
        .map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", output.display())))
}

/// The model as read, its copy, and both files.
fn needs(model: &ModelFile, format: WeightFormat) -> Needs {
    let networks: Vec<&Model> = match model {
        ModelFile::One(model) => vec![model],
        ModelFile::Several(bundle) => bundle.networks.values().collect(),
    };
    let bytes = networks.iter().map(|model| {
        let files = model.params().len().saturating_mul(8);
        memory::model_as(model.spec(), format).saturating_add(files)
    });
    Needs::new("the quantised model", bytes.fold(0, usize::saturating_add))
}

fn quantized(model: &ModelFile, format: WeightFormat) -> drnn::Result<ModelFile> {
    Ok(match model {
        ModelFile::One(model) => ModelFile::One(Box::new(model.quantize(format)?)),
        ModelFile::Several(bundle) => ModelFile::Several(bundle.quantize(format)?),
    })
}

fn to_bytes(model: &ModelFile) -> drnn::Result<Vec<u8>> {
    match model {
        ModelFile::One(model) => model.to_bytes(),
        ModelFile::Several(bundle) => bundle.to_bytes(Precision::F32),
    }
}

/// A network, and how far its weights were moved.
struct Rounding {
    name: String,
    description: String,
    from: WeightFormat,
    /// The largest change of a weight, and the tensor it is in.
    largest: (f32, String),
}

fn rounding(model: &ModelFile, small: &ModelFile) -> Vec<Rounding> {
    let of = |name: &str, before: &Model, after: &Model| {
        let tensors = before.layout().tensors().iter().map(|tensor| {
            let pairs = before.params()[tensor.range.clone()].iter();
            let pairs = pairs.zip(&after.params()[tensor.range.clone()]);
            let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            (far, tensor.name.clone())
        });
        let largest = tensors.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        let (from, description) = (before.weight_format(), before.spec().to_string());
        Rounding { name: name.into(), description, from, largest }
    };
    match (model, small) {
        (ModelFile::One(before), ModelFile::One(after)) => vec![of("", before, after)],
        (ModelFile::Several(Bundle { networks: before, .. }), ModelFile::Several(after)) => {
            let pairs = before.iter().zip(after.networks.values());
            pairs.map(|((name, before), after)| of(name, before, after)).collect()
        }
        _ => Vec::new(),
    }
}

/// A measure before and after.
struct Change {
    measure: String,
    before: f64,
    after: f64,
}

impl Change {
    /// How much worse it became; negative where it became better.
    fn loss(&self) -> f64 {
        let higher_is_better = self.measure.contains("accuracy") || self.measure.starts_with("R^2");
        let change = self.after - self.before;
        if higher_is_better { -change } else { change }
    }

    /// The loss that is accepted by default.
    fn default_tolerance(&self) -> f64 {
        match self.measure.as_str() {
            "accuracy" => 0.001,
            "bits per masked character" => 0.01,
            _ => 0.01 * self.before.abs(),
        }
    }

    /// Why the loss is too large, if it is; one that is NaN is.
    fn refusal(&self, tolerance: Option<f64>) -> Option<String> {
        let (loss, tolerance) = (self.loss(), tolerance.unwrap_or(self.default_tolerance()));
        let within = loss <= tolerance;
        (!within).then(|| {
            let (measure, loss, tolerance) = (&self.measure, number(loss), number(tolerance));
            format!("{measure} is worse by {loss}, more than {tolerance} (--tolerance)")
        })
    }
}

impl Arguments {
    /// All measures of the task before and after; none without data to check.
    fn quality(
        &self,
        path: &Path,
        model: ModelFile,
        small: ModelFile,
    ) -> Result<Vec<Change>, Failure> {
        if self.check.is_empty() {
            return Ok(Vec::new());
        }
        let evaluate = |model| {
            let (reading, force, rows) = (self.reading, self.force, None);
            let (data, place) = (self.check.as_slice(), Place::Cpu);
            let (_, found) =
                eval::evaluate(Request { path, model, data, rows, reading, force, place })?;
            Ok::<_, Failure>(found.metrics)
        };
        let pairs = evaluate(model)?.into_iter().zip(evaluate(small)?);
        let measured = pairs.filter(|((measure, _), _)| !measure.starts_with("standard error"));
        Ok(measured
            .map(|((measure, before), (_, after))| Change { measure, before, after })
            .collect())
    }
}

/// What was done.
struct Report {
    networks: Vec<Rounding>,
    /// Bytes of the model's file before, f32 if its weights were, and of the one to be written.
    before: usize,
    after: usize,
    checks: Vec<Change>,
}

impl Report {
    fn text(&self, arguments: &Arguments) -> String {
        let mut out = String::new();
        for Rounding { name, description, from, largest: (far, tensor) } in &self.networks {
            let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
            let _ = writeln!(out, "{name}{description}");
            let far = match *far {
                0.0 => "no value changed".into(),
                far => format!("values changed by up to {} ({tensor})", number(f64::from(far))),
            };
            let _ = writeln!(out, "weights {from} -> {}, {far}", arguments.to);
        }
        let share = 100.0 * self.after as f64 / self.before.max(1) as f64;
        let (before, after) = (shown(self.before), shown(self.after));
        let _ = writeln!(out, "file {before} -> {after} ({share:.0} %)");
        for change in &self.checks {
            let Change { measure, before, after } = change;
            let (before, after) = (number(*before), number(*after));
            let loss = change.loss();
            let how = if loss > 0.0 { "worse" } else { "better" };
            let _ = match loss == 0.0 {
                true => writeln!(out, "{measure} {before} -> {after}, the same"),
                false => {
                    writeln!(out, "{measure} {before} -> {after}, {how} by {}", number(loss.abs()))
                }
            };
        }
        out
    }

    fn value(&self, arguments: &Arguments) -> Value {
        let networks = self.networks.iter().map(|network| {
            json!({
                "name": network.name,
                "description": network.description,
                "from": network.from,
                "largest_change": {"tensor": network.largest.1, "by": network.largest.0},
            })
        });
        let checks = self.checks.iter().map(|change| {
            json!({
                "measure": change.measure,
                "before": change.before,
                "after": change.after,
                "loss": change.loss(),
            })
        });
        let first = self.checks.first();
        json!({
            "model": arguments.model.display().to_string(),
            "file": arguments.output.display().to_string(),
            "weights": arguments.to,
            "networks": networks.collect::<Vec<_>>(),
            "bytes_before": self.before,
            "bytes": self.after,
            "check": checks.collect::<Vec<_>>(),
            "tolerance": first.map(|c| arguments.tolerance.unwrap_or(c.default_tolerance())),
            "written": first.is_none_or(|c| c.refusal(arguments.tolerance).is_none()),
        })
    }
}
