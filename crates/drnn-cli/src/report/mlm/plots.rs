//! BPC over delay, and validation bits over epochs.

use super::words::title;
use super::{Group, MlmResults};
use crate::plot::{Line, Plot, Scale, Style};
use crate::report::page::moments;
use drnn_train::chars::corrected_bpc;
use drnn_train::chars::paper::{Architecture, ROWS, Row, Size};

fn line(name: String, style: Style, colour: usize, points: Vec<(f64, f64)>) -> Line {
    Line { name, style, colour, strength: 1.0, points, bars: Vec::new() }
}

/// Whether it is a point over its delay; others are horizontal lines.
fn over_delay(row: &Row) -> bool {
    row.layers == 1 && matches!(row.net, Architecture::Lstm | Architecture::DLstm)
}

fn name(size: Size) -> &'static str {
    match size {
        Size::Quick => "quick",
        Size::Small => "small",
        Size::Large => "large",
    }
}

/// Our BPC, and the paper's for networks of that size, divided by targets.
pub fn bpc(results: &MlmResults) -> Plot {
    let groups = results.groups();
    let test = |group: &Group| moments(&group.each(|run| run.test_bpc));
    let mut sizes: Vec<Size> = groups.iter().map(|group| group.row.size).collect();
    sizes.dedup();
    let end = groups.iter().map(|group| group.row.delay).max().unwrap_or(0).max(1) as f64;
    let mut lines = Vec::new();
    for (i, &size) in sizes.iter().enumerate() {
        let mut of_size: Vec<&Group> =
            groups.iter().filter(|group| group.row.size == size).collect();
        of_size.sort_by_key(|group| group.row.delay);
        let (late, others): (Vec<&Group>, Vec<_>) =
            of_size.into_iter().partition(|group| over_delay(&group.row));
        let points = late.iter().map(|group| (group.row.delay as f64, test(group).0)).collect();
        let mut ours = line(format!("d-LSTM, {}", name(size)), Style::Solid, 3 * i, points);
        ours.bars = late.iter().map(|group| test(group).1.unwrap_or(0.0)).collect();
        if !late.is_empty() {
            lines.push(ours);
        }
        for (j, group) in others.iter().enumerate() {
            let mean = test(group).0;
            let points = vec![(0.0, mean), (end, mean)];
            lines.push(line(title(&group.row), Style::Dotted, 3 * i + 1 + j % 2, points));
        }
        // Quick networks are not the paper's; small ones come nearest.
        let size = size.max(Size::Small);
        let mut paper: Vec<(f64, f64)> = ROWS
            .iter()
            .filter(|row| row.size == size && over_delay(row) && row.delay as f64 <= end)
            .filter_map(|row| {
                let bits = corrected_bpc(row.printed?.test[0], results.window, row.delay);
                Some((row.delay as f64, bits))
            })
            .collect();
        paper.sort_by(|a, b| a.0.total_cmp(&b.0));
        let paper = line(format!("paper, {}", name(size)), Style::Dashed, 3 * i + 2, paper);
        if !lines.iter().any(|line| line.name == paper.name) {
            lines.push(paper);
        }
    }
    Plot {
        title: "BPC by delay".into(),
        x: "delay d, in characters".into(),
        y: "bits per masked character, test".into(),
        scale: Scale::Around,
        guide: None,
        lines,
    }
}

/// Validation bits over epochs.
pub fn losses(results: &MlmResults) -> Plot {
    let groups = results.groups();
    let lines = groups.iter().enumerate().flat_map(|(i, group)| {
        group.runs.iter().enumerate().map(move |(repetition, run)| {
            let name = if repetition == 0 { title(&group.row) } else { String::new() };
            let bits = |nats: f64| nats / std::f64::consts::LN_2;
            let points = run.history.iter().map(|e| (e.epoch as f64, bits(e.valid_loss))).collect();
            line(name, Style::Bare, i, points)
        })
    });
    Plot {
        title: "Validation".into(),
        x: "epoch".into(),
        y: "bits per masked character".into(),
        scale: Scale::Around,
        guide: None,
        lines: lines.collect(),
    }
}
