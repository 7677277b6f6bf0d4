//! A plot drawn as SVG.

use super::axis::Axis;
use super::page::{COLOURS, escaped, head, put};
use super::{Line, Plot, Style};
use std::fmt::Write;

/// Paper, and the frame of the axes on it.
const SIZE: (f64, f64) = (760.0, 400.0);
const FRAME: (f64, f64, f64, f64) = (48.0, 72.0, 504.0, 346.0); // left, top, right, bottom
const LEGEND: (f64, f64, f64) = (522.0, 82.0, 24.0); // left, first line, next line
/// More points than this are drawn without marks.
const MOST_MARKS: usize = 60;

pub fn draw(plot: &Plot) -> String {
    let (left, top, right, bottom) = FRAME;
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let x = Axis::over(points().map(|p| p.0), left + 14.0, right - left - 28.0, 9.0);
    let y = Axis::over(points().map(|p| p.1).chain([0.0]), bottom, top - bottom, 8.0);
    let y = y.up_to_a_tick();

    let mut out = head(&plot.title, SIZE, "");
    for (value, label) in y.ticks() {
        let at = y.place(value);
        let class = if value == 0.0 { "axis" } else { "grid" };
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
    let (x_label, y_label) = (escaped(&plot.x), escaped(&plot.y));
    put(&mut out, format!(r#"<text class="mid" x="{middle}" y="{below}">{x_label}</text>"#));
    put(&mut out, format!(r#"<text class="soft" x="12" y="{above}">{y_label}</text>"#));

    for line in plot.lines.iter().rev() {
        let points: Vec<_> = line.points.iter().map(|p| (x.place(p.0), y.place(p.1))).collect();
        stroke(&mut out, line, &points, points.len() <= MOST_MARKS);
    }
    for (i, line) in plot.lines.iter().enumerate() {
        let (x, first, next) = LEGEND;
        let y = first + next * i as f64;
        stroke(&mut out, line, &[(x, y), (x + 34.0, y)], false);
        if line.style != Style::Dotted {
            put(&mut out, mark(line.colour, (x + 17.0, y)));
        }
        let (x, y, name) = (x + 44.0, y + 4.5, escaped(&line.name));
        put(&mut out, format!(r#"<text x="{x}" y="{y}">{name}</text>"#));
    }
    out + "</svg>\n"
}

/// A line through points on the paper, with or without marks.
fn stroke(out: &mut String, line: &Line, points: &[(f64, f64)], marks: bool) {
    let class = match line.style {
        Style::Solid => "line",
        Style::Dashed => "line dashed",
        Style::Dotted => "line dotted",
    };
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
    }
    let colour = line.colour % COLOURS.len();
    put(out, format!(r#"<path class="{class} c{colour}" d="{path}"/>"#));
    if marks && line.style != Style::Dotted {
        points.iter().for_each(|&at| put(out, mark(line.colour, at)));
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

    fn line(points: Vec<(f64, f64)>) -> Line {
        Line { name: "a < b & c".into(), style: Style::Solid, colour: 7, points }
    }

    fn plot(lines: Vec<Line>) -> Plot {
        Plot { title: "T".into(), x: "x".into(), y: "y".into(), guide: Some(0.0), lines }
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
}
