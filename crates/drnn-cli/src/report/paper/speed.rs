//! What depth costs, and BPC at equal time per character: runtimes and results of the character table
//! together.

use super::Section;
use super::mlm::Bits;
use super::runtime::{Measured, Times, compared};
use crate::plot::{Line, Plot, Scale, Style};
use crate::report::mlm::title;
use crate::report::page::{Figure, Part, Table};
use drnn_train::chars::WINDOW;
use drnn_train::chars::paper::{Architecture, ROWS, Row, Size};

/// Windows of a pass.
const WINDOWS: f64 = 128.0;
/// Times that differ by less count as equal: those of one network differ by some per cent between runs.
const EQUAL: f64 = 1.1;

const SIZES: [Size; 2] = [Size::Large, Size::Small];

fn find(size: Size, net: Architecture, layers: usize) -> Option<&'static Row> {
    ROWS.iter().find(|row| (row.size, row.net, row.layers, row.delay) == (size, net, layers, 0))
}

/// Where the times of networks come from, and how many times as long as another one takes.
struct Source<'a> {
    name: String,
    ratio: Box<Ratio<'a>>,
}

type Ratio<'a> = dyn Fn(&Row, &Row) -> Option<f64> + 'a;

/// Ours and other software's on each device, and the paper.
fn sources(times: &Times) -> Vec<Source<'_>> {
    let mut found: Vec<Source> = Vec::new();
    for measured in &times.0 {
        let name = measured.name();
        let ours = |a: &Row, b: &Row| Some(measured.ms(a)? / measured.ms(b)?);
        found.push(Source { name: format!("drnn, {name}"), ratio: Box::new(ours) });
        if measured.peer.is_some() {
            let peer = |a: &Row, b: &Row| measured.peer_ratio(a, b);
            found.push(Source { name: format!("PyTorch, {name}"), ratio: Box::new(peer) });
        }
    }
    let printed = |a: &Row, b: &Row| Some(a.printed?.runtime[0] / b.printed?.runtime[0]);
    found.push(Source { name: "paper, printed".into(), ratio: Box::new(printed) });
    found
}

pub fn section(times: &Times, bits: &Bits) -> Option<Section> {
    if times.0.is_empty() {
        return None;
    }
    let sources = sources(times);
    let mut parts = vec![Part::Text(
        "Layers wait for each other, so the paper expects that a stack of k layers takes k times as long as one layer, and \
         that a d-LSTM, which has one, is faster. Networks of a size have as many parameters, and so as many multiply-adds: \
         where nothing waits, they take equally long."
            .into(),
    )];
    parts.push(Part::Table(depth_table(&sources)));
    parts.push(Part::Figure(Figure {
        name: "speed-depth",
        picture: Box::new(depth_plot(&sources)),
        caption: "Times of a forward pass, the one-layer LSTM of as many parameters as the unit; large networks. The paper's \
                  are host times of launches (see Corrections)."
            .into(),
    }));
    for measured in &times.0 {
        let characters = WINDOWS * WINDOW as f64;
        let us = |row: &Row| measured.ms(row).map(|ms| 1e3 * ms / characters);
        parts.push(Part::Text(reading(measured, bits)));
        parts.push(Part::Table(time_table(measured, bits, &us)));
        parts.push(Part::Figure(Figure {
            name: if measured.gpu { "time-bpc-gpu" } else { "time-bpc-cpu" },
            picture: Box::new(time_plot(measured, bits, &us)),
            caption: "Each mark is a network of the table; d-LSTMs of one size are joined in the order of their delay. Lower \
                      is better, and so is further left."
                .into(),
        }));
    }
    Some(Section { heading: "Speed: depth, and BPC at equal time", parts })
}

fn depth_table(sources: &[Source]) -> Table {
    let mut rows = Vec::new();
    for size in SIZES {
        let Some(one) = find(size, Architecture::Lstm, 1) else { continue };
        let delayed = compared(size).map(|[delayed, _]| delayed);
        let stacks = [Architecture::Lstm, Architecture::BiLstm].into_iter().flat_map(|net| {
            [1, 2, 5].into_iter().filter_map(move |layers| find(size, net, layers))
        });
        for row in stacks.filter(|row| *row != one).chain(delayed) {
            let ratio = |source: &Source| {
                (source.ratio)(row, one).map_or(String::new(), |ratio| format!("{ratio:.2}"))
            };
            rows.push([title(row)].into_iter().chain(sources.iter().map(ratio)).collect());
        }
    }
    let head = ["network".to_string()].into_iter();
    Table {
        caption:
            "How many times as long as the one-layer LSTM of the same size a forward pass takes."
                .into(),
        head: head.chain(sources.iter().map(|source| source.name.clone())).collect(),
        rows,
    }
}

fn depth_plot(sources: &[Source]) -> Plot {
    let mut lines = Vec::new();
    for (colour, source) in sources.iter().enumerate() {
        for (net, name, style) in [
            (Architecture::BiLstm, "Bi-LSTM", Style::Solid),
            (Architecture::Lstm, "LSTM", Style::Dashed),
        ] {
            let one = find(Size::Large, Architecture::Lstm, 1);
            let point = |layers: usize| {
                let row = find(Size::Large, net, layers)?;
                Some((layers as f64, (source.ratio)(row, one?)?))
            };
            lines.push(Line {
                name: format!("{name}, {}", source.name),
                style,
                colour,
                strength: 1.0,
                points: [1, 2, 5].into_iter().filter_map(point).collect(),
                bars: Vec::new(),
            });
        }
    }
    Plot {
        title: "Time of a forward pass by depth".into(),
        x: "layers".into(),
        y: "times as long as one LSTM layer of as many parameters".into(),
        scale: Scale::FromZero,
        guide: None,
        lines,
    }
}

/// The network with the lowest BPC of those that take at most about as long as `row`.
fn best_in_time<'a>(
    row: &Row,
    rows: impl Iterator<Item = &'a Row>,
    measured: &Measured,
    bits: &Bits,
) -> Option<(&'a Row, f64)> {
    let limit = EQUAL * measured.ms(row)?;
    let in_time = rows.filter(|other| measured.ms(other).is_some_and(|ms| ms <= limit));
    bits.best(in_time)
}

/// Those that answer while they read: all but Bi-LSTMs.
fn streaming() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| row.net != Architecture::BiLstm)
}

fn time_table(measured: &Measured, bits: &Bits, us: &dyn Fn(&Row) -> Option<f64>) -> Table {
    let row = |row: &'static Row| {
        let (time, bpc) = (us(row)?, bits.mean_bits(row)?);
        let shown = |best: Option<(&Row, f64)>| {
            best.map_or(String::new(), |(best, bits)| match best == row {
                true => "itself".into(),
                false => format!("{}: {bits:.3}", title(best)),
            })
        };
        Some(vec![
            title(row),
            format!("{time:.2}"),
            format!("{bpc:.3}"),
            shown(best_in_time(row, ROWS.iter(), measured, bits)),
            shown(best_in_time(row, streaming(), measured, bits)),
        ])
    };
    Table {
        caption: format!(
            "BPC at equal time per character, {}: for each network, the one with the lowest BPC among all that take at most \
             {:.0} % longer, and among those that answer while they read.",
            measured.name(),
            100.0 * (EQUAL - 1.0)
        ),
        head: ["network", "µs per character", "BPC", "lowest in that time", "without Bi-LSTMs"]
            .map(String::from)
            .into(),
        rows: ROWS.iter().filter_map(row).collect(),
    }
}

fn time_plot(measured: &Measured, bits: &Bits, us: &dyn Fn(&Row) -> Option<f64>) -> Plot {
    let mut lines = Vec::new();
    for (colour, (net, name, style)) in [
        (Architecture::DLstm, "d-LSTM", Style::Solid),
        (Architecture::Lstm, "LSTM", Style::Marks),
        (Architecture::BiLstm, "Bi-LSTM", Style::Marks),
    ]
    .into_iter()
    .enumerate()
    {
        for size in SIZES {
            let rows = ROWS.iter().filter(|row| (row.size, row.net) == (size, net));
            let points = rows.filter_map(|row| Some((us(row)?, bits.mean_bits(row)?)));
            let size = if size == Size::Large { "large" } else { "small" };
            lines.push(Line {
                name: format!("{name}, {size}"),
                style,
                colour: 2 * colour + usize::from(size == "small"),
                strength: 1.0,
                points: points.collect(),
                bars: Vec::new(),
            });
        }
    }
    Plot {
        title: format!("BPC by time per character, {}", measured.name()),
        x: "µs per character of a forward pass".into(),
        y: "bits per masked character, test".into(),
        scale: Scale::FromZero,
        guide: None,
        lines,
    }
}

/// What it means for the d-LSTM of delay 8.
fn reading(measured: &Measured, bits: &Bits) -> String {
    let mut sentences = Vec::new();
    for [delayed, _] in SIZES.into_iter().filter_map(compared) {
        let Some(own) = bits.mean_bits(delayed) else { continue };
        let all = best_in_time(delayed, ROWS.iter(), measured, bits);
        let causal = best_in_time(
            delayed,
            ROWS.iter().filter(|row| row.net == Architecture::Lstm),
            measured,
            bits,
        );
        let (Some((best, lowest)), Some((stack, of_stack))) = (all, causal) else { continue };
        let verdict = match best == delayed {
            true => "no network has a lower BPC in that time".into(),
            false => format!("{} reaches {lowest:.3} in that time", title(best)),
        };
        sentences.push(format!(
            "{} reaches {own:.3}; {verdict}, and of LSTMs without delay the best, {}, {of_stack:.3}",
            title(delayed),
            title(stack)
        ));
    }
    format!("At equal time per character, {}: {}.", measured.name(), sentences.join(". "))
}
