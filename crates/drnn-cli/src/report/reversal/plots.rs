//! Accuracy over delay, and losses over epochs.

use super::{Group, ReversalResults, ReversalTask, groups};
use crate::plot::{Line, Plot, Scale, Style};
use drnn_train::reversal::Reversal;

/// Maximum characters of a name in a plot.
const NAME: usize = 24;
/// Colours of delayed networks, and of the baselines.
pub const DELAYED: [usize; 4] = [0, 3, 5, 4];
const OTHERS: [usize; 2] = [1, 2];

/// A name that fits into a plot.
fn name(text: &str) -> String {
    match text.char_indices().nth(NAME) {
        Some(_) => text.chars().take(NAME - 1).chain(['…']).collect(),
        None => text.into(),
    }
}

/// Accuracy over delay: the paper's figure.
pub fn accuracy(results: &ReversalResults) -> Plot {
    let ReversalTask { steps, symbols, .. } = results.task;
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
    // Up to where it saturates, and the last delay.
    let delays = (0..steps).chain((end >= steps).then_some(end));
    lines.push(Line {
        name: "bound".into(),
        style: Style::Steps,
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

/// Validation loss over epochs. Repetitions share the colour of their network; many delays share one
/// colour, stronger with the delay.
pub fn losses(results: &ReversalResults) -> Plot {
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
