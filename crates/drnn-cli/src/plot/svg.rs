//! A plot drawn as SVG.

use super::axis::Axis;
use super::{Line, Plot, Style};
use std::fmt::Write;

/// Paper, and the frame of the axes on it.
const SIZE: (f64, f64) = (760.0, 400.0);
const FRAME: (f64, f64, f64, f64) = (48.0, 72.0, 504.0, 346.0); // left, top, right, bottom
const LEGEND: (f64, f64, f64) = (522.0, 82.0, 24.0); // left, first line, next line
/// More points than this are drawn without marks.
const MOST_MARKS: usize = 60;

/// Colours of lines, light and dark: of about the same strength each, told apart by most
/// colour-blind readers, and each with a mark of its own.
const COLOURS: [(&str, &str); 6] = [
    ("#bc4c00", "#f0883e"),
    ("#0969da", "#58a6ff"),
    ("#1a7f37", "#3fb950"),
    ("#8250df", "#bc8cff"),
    ("#57606a", "#9da7b3"),
    ("#bf3989", "#f778ba"),
];

pub fn draw(plot: &Plot) -> String {
    let (left, top, right, bottom) = FRAME;
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let x = Axis::over(points().map(|p| p.0), left + 14.0, right - left - 28.0, 9.0);
    let y = Axis::over(points().map(|p| p.1).chain([0.0]), bottom, top - bottom, 8.0);
    let y = y.up_to_a_tick();

    let mut out = head(plot);
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

/// Everything before the axes.
fn head(plot: &Plot) -> String {
    let ((w, h), title) = (SIZE, escaped(&plot.title));
    let (mut light, mut dark) = (String::new(), String::new());
    for (i, (in_light, in_dark)) in COLOURS.iter().enumerate() {
        let _ = write!(light, " .c{i} {{ color: {in_light} }}");
        let _ = write!(dark, " .c{i} {{ color: {in_dark} }}");
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="title">
<title id="title">{title}</title>
<style>
  .bg {{ fill: #ffffff }} text {{ fill: #24292f }} .soft {{ fill: #57606a }}
  .mid {{ text-anchor: middle }} .end {{ text-anchor: end }} .title {{ font-size: 15px; font-weight: 600 }}
  path {{ fill: none }} .grid {{ stroke: #d8dee4 }} .axis {{ stroke: #57606a }} .guide {{ stroke: #57606a; stroke-dasharray: 2 4 }}
  .line {{ stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round }}
  .dashed {{ stroke-dasharray: 9 6 }} .dotted {{ stroke-dasharray: 2 4; stroke-width: 1.8 }}
  .mark {{ fill: currentColor }}
 {light}
  @media (prefers-color-scheme: dark) {{
    .bg {{ fill: #0d1117 }} text {{ fill: #e6edf3 }} .soft {{ fill: #9da7b3 }}
    .grid {{ stroke: #30363d }} .axis {{ stroke: #9da7b3 }} .guide {{ stroke: #9da7b3 }}
   {dark}
  }}
</style>
<rect class="bg" width="{w}" height="{h}"/>
<text class="title" x="12" y="28">{title}</text>
"##
    )
}

fn put(out: &mut String, element: String) {
    out.push_str(&element);
    out.push('\n');
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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
