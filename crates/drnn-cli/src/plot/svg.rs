//! A plot drawn as SVG.

use super::axis::Axis;
use super::page::{COLOURS, head, label, put};
use super::{Line, Plot, Scale, Style};
use std::fmt::Write;

/// The size of the picture, the frame of the axes, and the legend.
pub struct Layout {
    size: (f64, f64),
    frame: (f64, f64, f64, f64),  // left, top, right, bottom
    legend: (f64, f64, f64, f64), // left, first line, next line, last line
    x_ticks: f64,
}

/// For 760 wide: the frame is as wide as the names of the legend allow.
pub fn wide(plot: &Plot) -> Layout {
    let longest = named(plot).map(|line| line.name.chars().count()).max().unwrap_or(0);
    let legend = 44.0 + LETTER * longest as f64;
    let right = (760.0 - 30.0 - legend).clamp(504.0, 748.0);
    Layout {
        size: (760.0, 400.0),
        frame: (48.0, 72.0, right, 346.0),
        legend: (right + 18.0, 82.0, 24.0, 386.0),
        x_ticks: 9.0,
    }
}

/// About the width of a letter.
const LETTER: f64 = 7.5;
/// Minimum distance between lines of a legend.
const MIN_LEGEND: f64 = 15.0;
/// Lines with more points are drawn without marks.
const MAX_MARKS: usize = 60;

/// For 400 wide, and as high as the legend needs.
pub fn narrow(plot: &Plot) -> Layout {
    let (first, next) = (414.0, 22.0);
    let last = first + next * named(plot).count().min(40) as f64;
    Layout {
        size: (400.0, last),
        frame: (48.0, 72.0, 388.0, 346.0),
        legend: (52.0, first, next, last - next),
        x_ticks: 6.0,
    }
}

fn named(plot: &Plot) -> impl Iterator<Item = &Line> {
    plot.lines.iter().filter(|line| !line.name.is_empty())
}

pub fn draw(plot: &Plot, layout: &Layout) -> String {
    let (left, top, right, bottom) = layout.frame;
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let mut x = Axis::over(points().map(|p| p.0), left + 14.0, right - left - 28.0, layout.x_ticks);
    if points().all(|p| p.0.fract() == 0.0) {
        x = x.of_integers();
    }
    let bars = plot.lines.iter().flat_map(|line| line.points.iter().zip(&line.bars));
    let ends = bars.flat_map(|((_, y), bar)| [y - bar, y + bar]);
    let values = points().map(|p| p.1).chain(ends);
    let y = match plot.scale {
        Scale::FromZero => {
            Axis::over(values.chain([0.0]), bottom, top - bottom, 8.0).up_to_a_tick()
        }
        Scale::Around => Axis::over(values, bottom, top - bottom, 8.0).out_to_ticks(),
        Scale::Log => Axis::log(values, bottom, top - bottom),
    };

    let bar_style = if plot.lines.iter().any(|line| !line.bars.is_empty()) {
        "  .bar { stroke: currentColor; stroke-width: 1.4 }\n"
    } else {
        ""
    };
    let mut out = head(&plot.title, layout.size, bar_style);
    for (i, (value, label)) in y.ticks().into_iter().enumerate() {
        let at = y.place(value);
        let axis = if plot.scale == Scale::FromZero { value == 0.0 } else { i == 0 };
        let class = if axis { "axis" } else { "grid" };
        put(&mut out, format!(r#"<path class="{class}" d="M{left} {at:.1}H{right}"/>"#));
        let (tx, ty) = (left - 8.0, at + 4.0);
        put(&mut out, format!(r#"<text class="soft end" x="{tx}" y="{ty:.1}">{label}</text>"#));
    }
    for (value, label) in x.ticks() {
        let at = x.place(value);
        put(&mut out, format!(r#"<path class="axis" d="M{at:.1} {bottom}v5"/>"#));
        let ty = bottom + 20.0;
        put(&mut out, format!(r#"<text class="soft mid" x="{at:.1}" y="{ty}">{label}</text>"#));
    }
    if let Some(guide) = plot.guide {
        let at = x.place(guide);
        put(&mut out, format!(r#"<path class="guide" d="M{at:.1} {top}V{bottom}"/>"#));
    }
    let (middle, below, above) = ((left + right) / 2.0, bottom + 42.0, top - 14.0);
    let (x_label, y_label) = (label(&plot.x), label(&plot.y));
    put(&mut out, format!(r#"<text class="mid" x="{middle}" y="{below}">{x_label}</text>"#));
    put(&mut out, format!(r#"<text class="soft" x="12" y="{above}">{y_label}</text>"#));

    for line in plot.lines.iter().rev() {
        for (&(at, value), bar) in line.points.iter().zip(&line.bars) {
            let (at, from, to) = (x.place(at), y.place(value - bar), y.place(value + bar));
            if from - to > 8.0 {
                let colour = line.colour % COLOURS.len();
                let ends = format!("M{at:.1} {from:.1}V{to:.1}m-4 0h8M{at:.1} {from:.1}m-4 0h8");
                put(&mut out, format!(r#"<path class="bar c{colour}" d="{ends}"/>"#));
            }
        }
        let points: Vec<_> = line.points.iter().map(|p| (x.place(p.0), y.place(p.1))).collect();
        stroke(&mut out, line, &points, points.len() <= MAX_MARKS);
    }
    legend(&mut out, plot, layout);
    out + "</svg>\n"
}

/// The legend: if there are many names they are closer to each other, and the last may be left out.
fn legend(out: &mut String, plot: &Plot, layout: &Layout) {
    let (left, first, next, last) = layout.legend;
    let count = named(plot).count();
    let next = next.min((last - first) / count.saturating_sub(1).max(1) as f64).max(MIN_LEGEND);
    let fit = ((last - first) / next + 1e-9) as usize + 1;
    let shown = if count > fit { fit - 1 } else { count };
    for (i, line) in named(plot).take(shown).enumerate() {
        let y = first + next * i as f64;
        match line.style {
            Style::Dots => stroke(out, line, &[(left + 17.0, y)], false),
            _ => stroke(out, line, &[(left, y), (left + 34.0, y)], false),
        }
        if line.marked() {
            put(out, mark(line.colour, (left + 17.0, y)));
        }
        let (x, y, name) = (left + 44.0, y + 4.5, label(&line.name));
        put(out, format!(r#"<text x="{x}" y="{y}">{name}</text>"#));
    }
    if shown < count {
        let (y, more) = (first + next * shown as f64 + 4.5, count - shown);
        put(out, format!(r#"<text class="soft" x="{left}" y="{y}">and {more} more</text>"#));
    }
}

impl Line {
    fn marked(&self) -> bool {
        matches!(self.style, Style::Solid | Style::Dashed | Style::Marks)
    }
}

/// A line through points, with or without marks, and with gaps at points that are not finite.
fn stroke(out: &mut String, line: &Line, points: &[(f64, f64)], marks: bool) {
    let on_paper = |&&(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
    let class = match line.style {
        Style::Solid | Style::Bare | Style::Steps => Some("line"),
        Style::Dashed => Some("line dashed"),
        Style::Dotted => Some("line dotted"),
        Style::Marks | Style::Dots => None,
    };
    let (mut path, mut goes_on) = (String::new(), false);
    for point @ (x, y) in points {
        if on_paper(&point) {
            let _ = match (goes_on, line.style) {
                (false, _) => write!(path, "M{x:.1} {y:.1}"),
                (true, Style::Steps) => write!(path, "H{x:.1}V{y:.1}"),
                (true, _) => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        goes_on = on_paper(&point);
    }
    if let Some(class) = class {
        let colour = line.colour % COLOURS.len();
        let faint = match line.strength {
            strength if strength < 1.0 => format!(r#" opacity="{strength:.2}""#),
            _ => String::new(),
        };
        put(out, format!(r#"<path class="{class} c{colour}" d="{path}"{faint}/>"#));
    }
    if line.style == Style::Dots {
        let dot = |&(x, y): &(f64, f64)| {
            let colour = line.colour % COLOURS.len();
            let circle = "m-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0z";
            format!(r#"<path class="mark c{colour}" opacity="0.6" d="M{x:.1} {y:.1}{circle}"/>"#)
        };
        points.iter().filter(on_paper).for_each(|at| put(out, dot(at)));
    }
    if marks && line.marked() {
        points.iter().filter(on_paper).for_each(|&at| put(out, mark(line.colour, at)));
    }
}

/// Disc, square, triangle, diamond, triangle upside down or hexagon.
fn mark(colour: usize, (x, y): (f64, f64)) -> String {
    let shape = match colour % COLOURS.len() {
        0 => "m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
        1 => "m-4.4 -4.4h8.8v8.8h-8.8z",
        2 => "m0 -5.4l5 8.6h-10z",
        3 => "m0 -5.6l5 5.6l-5 5.6l-5 -5.6z",
        4 => "m0 5.4l5 -8.6h-10z",
        _ => "m-5 0l2.5 -4.3h5l2.5 4.3l-2.5 4.3h-5z",
    };
    format!(r#"<path class="mark c{}" d="M{x:.1} {y:.1}{shape}"/>"#, colour % COLOURS.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Picture;

    fn line(points: Vec<(f64, f64)>) -> Line {
        Line {
            name: "a < b & c".into(),
            style: Style::Solid,
            colour: 7,
            strength: 1.0,
            points,
            bars: Vec::new(),
        }
    }

    fn plot(lines: Vec<Line>) -> Plot {
        Plot {
            title: "T".into(),
            x: "x".into(),
            y: "y".into(),
            scale: Scale::FromZero,
            guide: Some(0.0),
            lines,
        }
    }

    #[test]
    fn names_are_escaped_and_colours_come_round() {
        let text = plot(vec![line(vec![(0.0, 1.0), (2.0, 3.0)])]).svg();
        assert!(text.contains("a &lt; b &amp; c"), "{text}");
        assert!(text.contains(r#"class="line c1" d="M62.0 "#), "{text}");
        assert!(text.ends_with("</svg>\n") && !text.contains("NaN"), "{text}");
        assert_eq!(text.matches("mark c1").count(), 2 + 1); // at its points and in the legend
    }

    #[test]
    fn nothing_to_draw_and_too_much_for_marks() {
        assert!(!plot(vec![]).svg().contains("NaN"));
        let many = (0..61).map(|i| (f64::from(i), 1.0)).collect();
        assert_eq!(plot(vec![line(many)]).svg().matches("mark c1").count(), 1);
    }

    #[test]
    fn gaps_bars_and_lines_without_a_name() {
        let points = vec![(0.0, 0.7), (1.0, f64::NAN), (2.0, 0.8), (3.0, 0.9)];
        let mut line =
            Line { style: Style::Marks, bars: vec![0.1, 0.1, 0.0, f64::NAN], ..line(points) };
        let svg = Plot { scale: Scale::Around, ..plot(vec![line.clone()]) }.svg();
        assert!(!svg.contains("NaN") && svg.contains(">0.60<") && !svg.contains(">0.50<"), "{svg}");
        assert_eq!(
            (svg.matches("mark c1").count(), svg.matches("\"bar c1").count()),
            (3 + 1, 1),
            "{svg}"
        );
        (line.style, line.name) = (Style::Bare, String::new());
        let svg = Plot { scale: Scale::Log, ..plot(vec![line]) }.narrow_svg();
        let path = svg.split("class=\"line c1\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert!(!svg.contains("NaN") && !svg.contains("mark c1"), "{svg}");
    }

    #[test]
    fn steps_do_not_slope_and_epochs_have_integer_ticks() {
        let points = vec![(1.0, 0.25), (2.0, 0.5), (3.0, 1.0)];
        let svg = plot(vec![Line { style: Style::Steps, ..line(points) }]).svg();
        let path = svg.split("class=\"line c1\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert!(!path.contains('L') && path.matches('V').count() == 2, "{path}");
        assert!(svg.contains(">2</text>") && !svg.contains(">1.5</text>"), "{svg}");
    }

    #[test]
    fn a_long_legend_is_cut() {
        let svg = plot(vec![line(vec![(0.0, 1.0)]); 100]).svg();
        assert!(svg.contains("and 80 more"), "{svg}");
    }
}
