//! Results of `drnn reproduce reversal`: the file, and what is shown of it.

use super::page::{Figure, Page, Part, Table, duration, mean_sd, moments, signed};
use super::{Files, Provenance, html, markdown};
use crate::plot::png::png;
use crate::plot::{Line, Plot, Scale, Style};
use drnn::grouped;
use drnn_train::reversal::Reversal;
use drnn_train::{Epoch, Options, PaperNet, Reason, Schedule};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Write;

pub const KIND: &str = "reversal";
pub const FORMAT: u64 = 1;
/// Longest sequences that a report is made of.
const MOST_STEPS: usize = 10_000;
/// Characters of a name that there is room for in a plot.
const NAME: usize = 24;
/// Colours of delayed networks, and of those that they are compared with.
const DELAYED: [usize; 4] = [0, 3, 5, 4];
const OTHERS: [usize; 2] = [1, 2];

/// What reversal.json holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReversalResults {
    /// [`KIND`].
    pub kind: String,
    /// [`FORMAT`].
    pub format: u64,
    pub provenance: Provenance,
    pub task: Task,
    pub options: Options,
    /// What is not as in the paper.
    pub deviations: Vec<String>,
    pub runs: Vec<Run>,
}

/// The task, and sequences of each set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Elements of a sequence, T.
    pub steps: usize,
    /// Symbols, V.
    pub symbols: usize,
    pub train: usize,
    pub valid: usize,
    pub test: usize,
}

/// One network, trained once. Only where its loss became no number may others be none either: JSON has null for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub net: String,
    pub repetition: usize,
    /// None for a network that sees the whole sequence.
    pub delay: Option<usize>,
    pub parameters: usize,
    /// Best accuracy that can be expected.
    pub bound: f64,
    /// Accuracy of answers drawn by their probabilities.
    #[serde(deserialize_with = "or_nan")]
    pub sampled: f64,
    /// Accuracy of the likeliest answers.
    #[serde(deserialize_with = "or_nan")]
    pub likeliest: f64,
    #[serde(deserialize_with = "or_nan")]
    pub test_loss: f64,
    pub epochs: usize,
    pub ended: Reason,
    pub seconds: f64,
    #[serde(deserialize_with = "epochs")]
    pub history: Vec<Epoch>,
}

fn or_nan<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn epochs<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Epoch>, D::Error> {
    #[derive(Deserialize)]
    struct Found {
        epoch: usize,
        #[serde(deserialize_with = "or_nan")]
        train_loss: f64,
        #[serde(deserialize_with = "or_nan")]
        valid_loss: f64,
        #[serde(deserialize_with = "or_nan")]
        norm: f64,
        rate: f32,
    }
    let found: Vec<Found> = Vec::deserialize(from)?;
    let epoch = |Found { epoch, train_loss, valid_loss, norm, rate }| Epoch {
        epoch,
        train_loss,
        valid_loss,
        norm,
        rate,
    };
    Ok(found.into_iter().map(epoch).collect())
}

impl ReversalResults {
    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        let Task { steps, symbols, .. } = self.task;
        if !(1..=MOST_STEPS).contains(&steps) || symbols == 0 {
            return Err(format!(
                "sequences of {steps} elements of {symbols} symbols; expected 1 to {MOST_STEPS} of at least 1"
            ));
        }
        if self.runs.is_empty() {
            return Err("holds no runs".into());
        }
        self.runs.iter().enumerate().try_for_each(|(i, run)| {
            run.check().map_err(|why| format!("runs[{i}], {:?}: {why}", run.net))
        })
    }
}

impl Run {
    fn check(&self) -> Result<(), String> {
        let diverged = self.ended == Reason::NotFinite;
        let shares =
            [("bound", self.bound), ("sampled", self.sampled), ("likeliest", self.likeliest)];
        for (name, value) in shares {
            let missing = value.is_nan() && diverged && name != "bound";
            if !(missing || (0.0..=1.0).contains(&value)) {
                return Err(format!("{name} is {}, expected 0 to 1", shown(value)));
            }
        }
        let losses = self.history.iter().flat_map(|epoch| {
            [("train_loss", epoch.train_loss), ("valid_loss", epoch.valid_loss)]
                .map(|(name, value)| (format!("{name} of epoch {}", epoch.epoch), value))
        });
        for (name, value) in losses.chain([("test_loss".into(), self.test_loss)]) {
            if !value.is_finite() && !diverged {
                return Err(format!(
                    "{name} is {}, and the run did not end as not-finite",
                    shown(value)
                ));
            }
        }
        if !(self.seconds >= 0.0 && self.seconds.is_finite()) {
            return Err(format!("{} seconds", self.seconds));
        }
        Ok(())
    }

    /// As the paper writes it: `d-LSTM 5`.
    fn title(&self) -> String {
        match self.net.parse() {
            Ok(PaperNet::Lstm) => "LSTM".into(),
            Ok(PaperNet::BiLstm) => "Bi-LSTM".into(),
            Ok(PaperNet::DLstm(delay)) => format!("d-LSTM {delay}"),
            Err(_) => self.net.clone(),
        }
    }
}

fn shown(value: f64) -> String {
    if value.is_nan() { "null".into() } else { value.to_string() }
}

/// Repetitions of one network.
struct Group<'a> {
    runs: Vec<&'a Run>,
}

impl Group<'_> {
    fn each(&self, value: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs.iter().map(|run| value(run)).collect()
    }

    fn sampled(&self) -> (f64, Option<f64>) {
        moments(&self.each(|run| run.sampled))
    }

    fn first(&self) -> &Run {
        self.runs[0]
    }

    /// Whether it is a point over its delay; otherwise it is a line that others are compared with.
    fn delayed(&self) -> bool {
        let Run { net, delay, .. } = self.first();
        delay.is_some_and(|d| d > 0) || matches!(net.parse(), Ok(PaperNet::DLstm(_)))
    }
}

/// In the order in which networks come.
fn groups(results: &ReversalResults) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for run in &results.runs {
        let same =
            |group: &&mut Group| (&group.first().net, group.first().delay) == (&run.net, run.delay);
        match groups.iter_mut().find(same) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { runs: vec![run] }),
        }
    }
    groups
}

/// The report: index.html, report.md, reversal.csv, accuracy.svg, accuracy.png, losses.svg.
pub fn files(results: &ReversalResults) -> Result<Files, String> {
    results.check()?;
    let (page, accuracy) = (page(results), accuracy(results).svg());
    let picture = png(&accuracy).map_err(|why| format!("accuracy.png: {why}"))?;
    Ok(vec![
        ("index.html", html::page(&page).into_bytes()),
        ("report.md", markdown::page(&page).into_bytes()),
        ("reversal.csv", csv(results).into_bytes()),
        ("accuracy.svg", accuracy.into_bytes()),
        ("accuracy.png", picture),
        ("losses.svg", losses(results).svg().into_bytes()),
    ])
}

/// The table for a terminal.
pub fn table(results: &ReversalResults) -> String {
    results_table(results).text()
}

fn page(results: &ReversalResults) -> Page {
    let ReversalResults { task, options, provenance, deviations, .. } = results;
    let Task { steps, symbols, train, valid, test } = *task;
    let [formula, more] = ["1/2 (1 + 1/V)", "+ floor((d + 1)/2) (1 \u{2212} 1/V)/T"].map(unbroken);
    let formula = format!("{formula} {more}");
    let mut parts = vec![
        Part::Text(format!(
            "The network reads {steps} symbols, of {symbols} that there are, and answers them backwards while it reads. \
             Without a delay it can know only the second half of the answers. With a delay of d it has seen d symbols more; with {} \
             it has seen them all, as a bidirectional network has.",
            steps - 1
        )),
        Part::Text(summary(results)),
        Part::Table(results_table(results)),
        Part::Figure(Figure {
            name: "accuracy",
            plot: accuracy(results),
            caption: format!(
                "Bound: the expected accuracy of whoever knows what has been read and guesses the rest, \
                 {formula}, with T\u{a0}=\u{a0}{steps} and V\u{a0}=\u{a0}{symbols}. Sampled: answers are drawn by the probabilities \
                 that the network gives, as the paper's authors do."
            ),
        }),
        Part::Heading("Training"),
        Part::Figure(Figure {
            name: "losses",
            plot: losses(results),
            caption: losses_caption(results),
        }),
        Part::Facts(vec![
            (
                "Sequences",
                format!(
                    "{} to train, {} to validate, {} to test",
                    grouped(train),
                    grouped(valid),
                    grouped(test)
                ),
            ),
            ("Epochs", format!("at most {}", grouped(options.epochs))),
            ("Batch", grouped(options.batch)),
            ("Learning rate", format!("{}, {}", options.rate, schedule(options.schedule))),
            ("Optimiser", {
                let adam = options.adam;
                format!("Adam, {} {} {:e}", adam.beta1, adam.beta2, adam.eps)
            }),
            (
                "Gradients",
                options.clip.map_or("not clipped".into(), |clip| format!("clipped at norm {clip}")),
            ),
            ("Stops early", stopping(options)),
        ]),
        Part::Heading("What is not as in the paper"),
    ];
    parts.push(match deviations.is_empty() {
        true => Part::Text("Nothing that is known.".into()),
        false => Part::List(deviations.clone()),
    });
    let unknown = || "not known".to_string();
    parts.extend([
        Part::Heading("Where this comes from"),
        Part::Code(provenance.command.clone()),
        Part::Facts(vec![
            ("Version", format!("drnn {}", provenance.version)),
            ("Commit", provenance.commit.clone().unwrap_or_else(unknown)),
            ("Seed", provenance.seed.to_string()),
            ("Machine", provenance.cpu.clone().unwrap_or_else(unknown)),
            ("Threads", format!("{}, {}", provenance.threads, provenance.isa)),
            ("Started", provenance.started.clone()),
            ("Took", duration(provenance.seconds)),
        ]),
    ]);
    Page { title: "Sequence reversal".into(), parts }
}

/// Text that stays on one line.
fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// How near the delayed networks came.
fn summary(results: &ReversalResults) -> String {
    let groups = groups(results);
    let differences: Vec<f64> = groups
        .iter()
        .filter(|group| group.delayed())
        .map(|group| group.sampled().0 - group.first().bound)
        .collect();
    let mut out = match differences.iter().map(|d| d.abs()).reduce(f64::max) {
        Some(_) if differences.iter().any(|d| d.is_nan()) => {
            "Not all delayed networks could be trained.".to_string()
        }
        Some(most) => {
            let delays = if differences.len() == 1 { "the delay" } else { "all delays" };
            format!(
                "Sampled accuracy of the d-LSTM is within {most:.3} of the bound at {delays} shown."
            )
        }
        None => String::from("There are no delayed networks among these."),
    };
    for group in groups.iter().filter(|group| !group.delayed()) {
        let (title, (mean, _)) = (group.first().title(), group.sampled());
        if mean.is_finite() {
            let _ = write!(out, " {title}: {mean:.3}, bound {:.3}.", group.first().bound);
        }
    }
    let diverged = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
    for Run { net, repetition, epochs, .. } in diverged {
        let _ = write!(
            out,
            " {net}, repetition {repetition}: the loss became no number after {epochs} epochs."
        );
    }
    out
}

fn results_table(results: &ReversalResults) -> Table {
    let groups = groups(results);
    let rows = groups.iter().map(|group| {
        let Run { delay, bound, parameters, .. } = *group.first();
        vec![
            group.first().title(),
            delay.map_or("all".into(), |d| d.to_string()),
            mean_sd(&group.each(|run| run.sampled), 3),
            mean_sd(&group.each(|run| run.likeliest), 3),
            format!("{bound:.3}"),
            signed(group.sampled().0 - bound, 3),
            grouped(parameters),
            match group.runs.len() {
                1 => group.first().epochs.to_string(),
                _ => mean_sd(&group.each(|run| run.epochs as f64), 0),
            },
            duration(moments(&group.each(|run| run.seconds)).0),
        ]
    });
    let mut caption = String::from(
        "Accuracy on the test set, by answers drawn and by arg max. Difference: sampled less bound. Delay `all`: \
         the network reads the sequence from both ends before it answers.",
    );
    let most = groups.iter().map(|group| group.runs.len()).max().unwrap_or(1);
    if most > 1 {
        let _ = write!(
            caption,
            " Mean ± standard deviation over up to {most} repetitions; time is the mean of one."
        );
    }
    Table {
        caption: caption.replace('`', ""),
        head: vec![
            "net",
            "delay",
            "sampled",
            "arg max",
            "bound",
            "difference",
            "parameters",
            "epochs",
            "time",
        ],
        rows: rows.collect(),
    }
}

fn csv(results: &ReversalResults) -> String {
    let mut out = String::from(
        "net,repetition,delay,parameters,bound,sampled,likeliest,test_loss,epochs,ended,seconds\n",
    );
    let number = |value: f64| if value.is_nan() { String::new() } else { value.to_string() };
    for run in &results.runs {
        let Run { repetition, parameters, bound, epochs, seconds, .. } = run;
        let net = run.net.replace('"', "\"\"");
        let delay = run.delay.map_or(String::new(), |d| d.to_string());
        let [sampled, likeliest, loss] = [run.sampled, run.likeliest, run.test_loss].map(number);
        let ended = match run.ended {
            Reason::Epochs => "epochs",
            Reason::Patience => "patience",
            Reason::Value => "value",
            Reason::NotFinite => "not-finite",
        };
        let _ = writeln!(
            out,
            "\"{net}\",{repetition},{delay},{parameters},{bound},{sampled},{likeliest},{loss},{epochs},{ended},{seconds}"
        );
    }
    out
}

/// A name that has room in a plot.
fn name(text: &str) -> String {
    match text.char_indices().nth(NAME) {
        Some(_) => text.chars().take(NAME - 1).chain(['…']).collect(),
        None => text.into(),
    }
}

/// Accuracy over delay: the paper's figure.
fn accuracy(results: &ReversalResults) -> Plot {
    let Task { steps, symbols, .. } = results.task;
    let groups = groups(results);
    let (delayed, others): (Vec<&Group>, Vec<_>) = groups.iter().partition(|group| group.delayed());
    let delay = |group: &Group| group.first().delay.unwrap_or(0);
    let end = delayed.iter().map(|group| delay(group)).chain([steps - 1]).max().unwrap_or(0);
    let mut lines = Vec::new();
    if !delayed.is_empty() {
        let bars = delayed.iter().map(|group| group.sampled().1.unwrap_or(0.0)).collect();
        let points = delayed.iter().map(|group| (delay(group) as f64, group.sampled().0)).collect();
        lines.push(Line {
            name: "d-LSTM".into(),
            style: Style::Marks,
            colour: DELAYED[0],
            strength: 1.0,
            points,
            bars,
        });
    }
    for (i, group) in others.iter().enumerate() {
        let mean = group.sampled().0;
        lines.push(Line {
            name: name(&group.first().title()),
            style: Style::Dotted,
            colour: OTHERS[i % OTHERS.len()],
            strength: 1.0,
            points: vec![(0.0, mean), (end as f64, mean)],
            bars: Vec::new(),
        });
    }
    let task = Reversal { steps, symbols };
    // As far as it rises, and then on to the end.
    let delays = (0..steps).chain((end >= steps).then_some(end));
    lines.push(Line {
        name: "bound".into(),
        style: Style::Bare,
        colour: 4,
        strength: 1.0,
        points: delays.map(|d| (d as f64, task.bound(d))).collect(),
        bars: Vec::new(),
    });
    let several = groups.iter().any(|group| group.runs.len() > 1);
    let y = if several { "accuracy, sampled: mean and sd" } else { "accuracy, sampled" };
    Plot {
        title: "Accuracy by delay".into(),
        x: "delay d, in steps".into(),
        y: y.into(),
        scale: Scale::Around,
        guide: None,
        lines,
    }
}

/// Validation loss over epochs. Networks have colours of their own, repetitions alike; but many delays share
/// one, the later the stronger.
fn losses(results: &ReversalResults) -> Plot {
    let groups = groups(results);
    let many = groups.iter().filter(|group| group.delayed()).count();
    let (mut lines, mut delayed, mut others) = (Vec::new(), 0, 0);
    for group in &groups {
        let mut title = name(&group.first().title());
        let (mut colour, mut strength) = (OTHERS[others % OTHERS.len()], 1.0);
        if !group.delayed() {
            others += 1;
        } else {
            delayed += 1;
            colour = DELAYED[(delayed - 1) % DELAYED.len()];
            if many > DELAYED.len() {
                (colour, strength) = (DELAYED[0], 0.2 + 0.8 * delayed as f64 / many as f64);
                if delayed != 1 && delayed != many {
                    title.clear();
                }
            }
        }
        for (repetition, run) in group.runs.iter().enumerate() {
            lines.push(Line {
                name: if repetition == 0 { title.clone() } else { String::new() },
                style: Style::Bare,
                colour,
                strength,
                points: run.history.iter().map(|e| (e.epoch as f64, e.valid_loss)).collect(),
                bars: Vec::new(),
            });
        }
    }
    let values =
        || lines.iter().flat_map(|line| &line.points).map(|p| p.1).filter(|v| v.is_finite());
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let log = least > 0.0 && most >= 10.0 * least;
    Plot {
        title: "Validation loss".into(),
        x: "epoch".into(),
        y: if log { "cross-entropy, logarithmic" } else { "cross-entropy" }.into(),
        scale: if log { Scale::Log } else { Scale::FromZero },
        guide: None,
        lines,
    }
}

fn losses_caption(results: &ReversalResults) -> String {
    let mut out = String::from(
        "Cross-entropy of the validation set after each epoch, every repetition a line.",
    );
    if groups(results).iter().filter(|group| group.delayed()).count() > DELAYED.len() {
        out.push_str(" The d-LSTM in the order of the table, the later the stronger.");
    }
    out
}

fn schedule(schedule: Schedule) -> String {
    match schedule {
        Schedule::Constant => "constant".into(),
        Schedule::Cosine => "down along a cosine".into(),
        Schedule::Plateau { factor, patience } => {
            format!("times {factor} after {patience} epochs that are no better")
        }
    }
}

fn stopping(options: &Options) -> String {
    let stopping = options.stopping;
    let patience = stopping
        .patience
        .map(|patience| format!("after {patience} epochs not better by {}", stopping.min_delta));
    let value = stopping.at_value.map(|value| format!("at a loss below {value}"));
    let ways: Vec<String> = patience.into_iter().chain(value).collect();
    if ways.is_empty() { "no".into() } else { ways.join(", or ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_as_it_was() {
        let text = include_str!("../../tests/data/reversal.json");
        let mut results: ReversalResults = serde_json::from_str(text).unwrap();
        let again = |results: &ReversalResults| -> ReversalResults {
            serde_json::from_str(&serde_json::to_string(results).unwrap()).unwrap()
        };
        assert_eq!(again(&results), results);
        let run = &mut results.runs[1];
        run.history[0].valid_loss = f64::NAN;
        run.sampled = f64::NAN;
        let found = again(&results);
        assert!(found.runs[1].sampled.is_nan() && found.runs[1].history[0].valid_loss.is_nan());
        assert!(found.check().unwrap_err().contains("sampled is null"));
        results.runs[1].ended = Reason::NotFinite;
        assert_eq!(again(&results).check(), Ok(()));
    }
}
