//! Sequence reversal: the paper's figure of accuracy by delay.

use super::Section;
use super::absent::{ABSENT, task_cell};
use super::claims::{Claim, Verdict};
use super::statistics::{Scores, mean_and_sd, paired};
use crate::campaign::{Experiment, Outcome, Protocol, Task, TaskRecord, reversal_results};
use crate::report::page::{Figure, Part, Table, mean_sd};
use crate::report::reversal::accuracy_plot;
use crate::report::training::title;
use drnn_train::PaperNet;
use drnn_train::reversal::Reversal;

/// How far from the bound a network may be that reaches it: the authors' figure cannot show less.
const NEAR: f64 = 0.02;

/// Trained networks of the figure.
pub struct Accuracies {
    /// LSTM, d-LSTM of delay 1 to 19, Bi-LSTM.
    nets: Vec<(PaperNet, [Scores; 2])>,
}

impl Accuracies {
    pub fn of(records: &[&TaskRecord]) -> Accuracies {
        let delayed = (1..20).map(PaperNet::DLstm);
        let all = [PaperNet::Lstm].into_iter().chain(delayed).chain([PaperNet::BiLstm]);
        let mut nets: Vec<(PaperNet, [Scores; 2])> =
            all.map(|net| (net, [Scores::new(), Scores::new()])).collect();
        for record in records {
            let Outcome::Reversal { run, .. } = &record.outcome else { continue };
            let Some((_, scores)) = nets.iter_mut().find(|(net, _)| net.to_string() == run.net)
            else {
                continue;
            };
            for (scores, value) in scores.iter_mut().zip([run.sampled, run.likeliest]) {
                if value.is_finite() {
                    scores.insert(record.provenance.seed, value);
                }
            }
        }
        Accuracies { nets }
    }

    /// Accuracy of sampled predictions by seed.
    fn sampled(&self, net: PaperNet) -> &Scores {
        let found = self.nets.iter().find(|(other, _)| *other == net);
        static NONE: Scores = Scores::new();
        found.map_or(&NONE, |(_, scores)| &scores[0])
    }
}

fn bound(net: PaperNet) -> f64 {
    let task = Reversal::default();
    task.bound(net.ahead(task.steps))
}

pub fn section(records: &[&TaskRecord], accuracies: &Accuracies) -> Section {
    let mut parts = vec![Part::Text(
        "The network reads 20 symbols out of 4 and outputs them in reverse while it reads. With delay d it has read d \
         more symbols before each output, and the bound is the best expected accuracy for what it has read. Up to 1,000 \
         epochs, stopped early; every seed has its own data. The paper prints this as a figure without numbers, so ours is \
         compared with the bound that it draws."
            .into(),
    )];
    if let Some(results) = reversal_results(records) {
        parts.push(Part::Figure(Figure {
            name: "reversal",
            picture: Box::new(accuracy_plot(&results)),
            caption: "Accuracy of predictions that are sampled from the softmax, as the authors do, over the delay; the step \
                      line is the bound."
                .into(),
        }));
    }
    let row = |(net, [sampled, likeliest]): &(PaperNet, [Scores; 2])| {
        let values = |scores: &Scores| scores.values().copied().collect::<Vec<f64>>();
        let (found, likeliest) = match sampled.is_empty() {
            true => (ABSENT.into(), String::new()),
            false => (mean_sd(&values(sampled), 4), mean_sd(&values(likeliest), 4)),
        };
        let bound = format!("{:.4}", bound(*net));
        let experiment = Experiment::Reversal(*net);
        let task = Task { protocol: Protocol::Paper, experiment, repetition: 1 };
        let id = task_cell(format!("reversal/{net}"), &task, !sampled.is_empty());
        vec![title(*net), found, bound, likeliest, sampled.len().to_string(), id]
    };
    parts.push(Part::Table(Table {
        caption: "Mean ± standard deviation over seeds.".into(),
        head: ["network", "accuracy, sampled", "bound", "accuracy, arg max", "seeds", "task"]
            .map(String::from)
            .into(),
        rows: accuracies.nets.iter().map(row).collect(),
    }));
    Section { heading: "Sequence reversal: Figure reverse", parts }
}

pub fn claims(accuracies: &Accuracies) -> Vec<Claim> {
    vec![reaches_bound(accuracies), equals_bilstm(accuracies)]
}

fn reaches_bound(accuracies: &Accuracies) -> Claim {
    let claim = "A d-LSTM achieves the expected statistical bound at every delay";
    let (mut cases, mut worst) = (Vec::new(), (0.0, String::new()));
    for (net, [sampled, _]) in &accuracies.nets {
        let Some((mean, _)) = mean_and_sd(sampled) else { continue };
        let gap = bound(*net) - mean;
        cases.push(Verdict::of(gap.abs() <= NEAR));
        if gap.abs() >= worst.0 {
            worst = (gap.abs(), title(*net));
        }
    }
    if cases.is_empty() {
        return Claim::open(claim, "reversal");
    }
    let near = cases.iter().filter(|case| **case == Verdict::Holds).count();
    let evidence = format!(
        "{near} of {} networks are within {NEAR} of the bound; the largest distance is {:.4}, of the {}.",
        cases.len(),
        worst.0,
        worst.1
    );
    Claim::new(claim, Verdict::of_all(&cases), evidence)
}

fn equals_bilstm(accuracies: &Accuracies) -> Claim {
    let claim = "With delay 19 the d-LSTM solves the task as well as the Bi-LSTM";
    let [delayed, both] =
        [PaperNet::DLstm(19), PaperNet::BiLstm].map(|net| accuracies.sampled(net));
    let Some(found) = paired(delayed, both) else {
        return Claim::open(claim, "reversal/dlstm-19, reversal/bilstm");
    };
    let verdict = Verdict::of(found.mean >= -NEAR);
    let mean = |scores| mean_and_sd(scores).map_or(f64::NAN, |(mean, _)| mean);
    let evidence = format!(
        "{:.4} against {:.4}; difference {}. Up to {NEAR} counts as equal.",
        mean(delayed),
        mean(both),
        found.text(4)
    );
    Claim::new(claim, verdict, evidence)
}
