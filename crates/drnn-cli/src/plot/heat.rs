//! Several heat maps: `colour(v) = (v - low) / (high - low)`, one scale for all, v a power of ten.

use super::Picture;
use super::page::{head, label as short, put};
use std::fmt::Write;

/// Heat maps over the same columns and rows.
#[derive(Debug, Clone)]
pub struct HeatMaps {
    pub title: String,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// Label of the colour scale.
    pub scale: String,
    pub columns: Vec<String>,
    /// From bottom to top.
    pub rows: Vec<String>,
    pub maps: Vec<HeatMap>,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct HeatMap {
    pub name: String,
    /// A line before this column.
    pub guide: Option<usize>,
    /// Row by row; None where there is no value. Only positive values have a colour.
    pub values: Vec<Vec<Option<f64>>>,
}

/// From low to high (viridis); readable on light and dark background, in grey, and by colour-blind
/// readers.
const COLOURS: [&str; 16] = [
    "#440154", "#481a6c", "#472f7d", "#414487", "#39568c", "#31688e", "#2a788e", "#23888e",
    "#1f988b", "#22a884", "#35b779", "#54c568", "#7ad151", "#a5db36", "#d2e21b", "#fde725",
];
/// From here on text in a cell is dark.
const BRIGHT: usize = 8;

/// The layout of the maps.
struct Layout {
    width: f64,
    /// Maps per row.
    across: usize,
    /// Width and height of a map.
    frame: (f64, f64),
    /// Left and top of the first, and from one to the next.
    first: (f64, f64),
    next: (f64, f64),
    /// Left of the scale.
    scale: f64,
}

const WIDE: Layout = Layout {
    width: 790.0,
    across: 2,
    frame: (284.0, 200.0),
    first: (66.0, 84.0),
    next: (332.0, 278.0),
    scale: 704.0,
};
/// One below another.
const NARROW: Layout = Layout {
    width: 400.0,
    across: 1,
    frame: (264.0, 200.0),
    first: (60.0, 84.0),
    next: (0.0, 278.0),
    scale: 340.0,
};
/// A cell this large has its number in it.
const NUMBERED: (f64, f64) = (40.0, 16.0);
/// Columns this narrow share a label with the next.
const LABELLED: f64 = 18.0;

impl Picture for HeatMaps {
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self) -> String {
        self.on(&WIDE)
    }

    fn narrow_svg(&self) -> String {
        self.on(&NARROW)
    }
}

impl HeatMaps {
    fn on(&self, layout: &Layout) -> String {
        let mut style = String::from(
            "  .bright { fill: #ffffff; font-size: 11px } .deep { fill: #1f2328; font-size: 11px }\n  \
             .step { stroke: #ffffff; stroke-width: 2; stroke-dasharray: 5 3 }\n ",
        );
        for (i, colour) in COLOURS.iter().enumerate() {
            let _ = write!(style, " .h{i} {{ fill: {colour} }}");
        }
        let Layout { width, across, first, next, .. } = *layout;
        let lines = self.maps.len().div_ceil(across).max(1);
        let height = first.1 + next.1 * lines as f64 - 2.0;
        let mut out = head(&self.title, (width, height), &style);
        let range = self.range();
        for (i, map) in self.maps.iter().enumerate() {
            let (column, line) = ((i % across) as f64, (i / across) as f64);
            let at = (first.0 + next.0 * column, first.1 + next.1 * line);
            self.draw(&mut out, map, at, layout.frame, range);
        }
        self.draw_scale(&mut out, layout, range);
        out + "</svg>\n"
    }

    /// Powers of ten that hold all values.
    fn range(&self) -> (i32, i32) {
        let values = self.maps.iter().flat_map(|map| map.values.iter().flatten().flatten());
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite() && **v > 0.0) {
            (low, high) = (low.min(value.log10()), high.max(value.log10()));
        }
        if low > high {
            return (-1, 0);
        }
        let low = low.floor() as i32;
        (low, (high.ceil() as i32).max(low + 1))
    }

    fn draw(
        &self,
        out: &mut String,
        map: &HeatMap,
        (left, top): (f64, f64),
        frame: (f64, f64),
        range: (i32, i32),
    ) {
        let (w, h) =
            (frame.0 / self.columns.len().max(1) as f64, frame.1 / self.rows.len().max(1) as f64);
        let (right, bottom) = (left + frame.0, top + frame.1);
        let name = short(&map.name);
        put(out, format!(r#"<text x="{left}" y="{:.1}">{name}</text>"#, top - 12.0));
        let (x, y, label) = (left - 8.0, top - 12.0, short(&self.y));
        put(out, format!(r#"<text class="soft end" x="{x}" y="{y:.1}">{label}</text>"#));
        for (row, values) in map.values.iter().enumerate() {
            let y = bottom - h * (row + 1) as f64;
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value.filter(|v| v.is_finite() && *v > 0.0) else { continue };
                let (x, bin) = (left + w * column as f64, bin(value, range));
                put(
                    out,
                    format!(
                        r#"<rect class="h{bin}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"/>"#
                    ),
                );
                if w >= NUMBERED.0 && h >= NUMBERED.1 {
                    let class = if bin < BRIGHT { "bright" } else { "deep" };
                    let (x, y) = (x + w / 2.0, y + h / 2.0 + 4.0);
                    let text = format!("{value:.1e}").replace('-', "\u{2212}");
                    put(
                        out,
                        format!(r#"<text class="mid {class}" x="{x:.1}" y="{y:.1}">{text}</text>"#),
                    );
                }
            }
        }
        put(out, format!(r#"<path class="axis" d="M{left} {top}H{right}V{bottom}H{left}z"/>"#));
        if let Some(column) = map.guide.filter(|column| (1..self.columns.len()).contains(column)) {
            let x = left + w * column as f64;
            put(out, format!(r#"<path class="step" d="M{x:.1} {top}V{bottom}"/>"#));
        }
        let every = if w < LABELLED { 2 } else { 1 };
        for (i, label) in self.columns.iter().enumerate().step_by(every) {
            let (x, y, label) = (left + w * (i as f64 + 0.5), bottom + 18.0, short(label));
            put(out, format!(r#"<text class="soft mid" x="{x:.1}" y="{y}">{label}</text>"#));
        }
        let every = self.rows.len().div_ceil(10).max(1);
        for (i, label) in self.rows.iter().enumerate().filter(|(i, _)| (i + 1) % every == 0) {
            let (x, y) = (left - 8.0, bottom - h * (i as f64 + 0.5) + 4.0);
            let label = short(label);
            put(out, format!(r#"<text class="soft end" x="{x}" y="{y:.1}">{label}</text>"#));
        }
        let (x, y, label) = (left + frame.0 / 2.0, bottom + 38.0, short(&self.x));
        put(out, format!(r#"<text class="mid" x="{x:.1}" y="{y}">{label}</text>"#));
    }

    /// The scale, right of the first line of maps.
    fn draw_scale(&self, out: &mut String, layout: &Layout, (low, high): (i32, i32)) {
        let Layout { width, scale: x, first: (_, top), frame: (_, height), .. } = *layout;
        let (end, above) = (width - 12.0, 44.0);
        let label = short(&self.scale);
        put(out, format!(r#"<text class="soft end" x="{end}" y="{above}">{label}</text>"#));
        let h = height / COLOURS.len() as f64;
        for i in 0..COLOURS.len() {
            let y = top + height - h * (i + 1) as f64;
            put(
                out,
                format!(r#"<rect class="h{i}" x="{x}" y="{y:.1}" width="12" height="{h:.1}"/>"#),
            );
        }
        for power in low..=high {
            let share = f64::from(power - low) / f64::from(high - low);
            let (x, y) = (x + 18.0, top + height * (1.0 - share) + 4.0);
            let power = power.to_string().replace('-', "\u{2212}");
            put(out, format!(r#"<text class="soft" x="{x}" y="{y:.1}">1e{power}</text>"#));
        }
    }
}

/// Which colour.
fn bin(value: f64, (low, high): (i32, i32)) -> usize {
    let share = (value.log10() - f64::from(low)) / f64::from(high - low);
    ((share * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(values: Vec<Vec<Option<f64>>>) -> HeatMaps {
        let map = HeatMap { name: "a < b".into(), guide: Some(1), values };
        HeatMaps {
            title: "T".into(),
            x: "x".into(),
            y: "y".into(),
            scale: "s".into(),
            columns: vec!["0".into(), "1".into()],
            rows: vec!["0.1".into()],
            maps: vec![map.clone(), map.clone(), map],
        }
    }

    #[test]
    fn colours_are_powers_of_ten_on_one_scale() {
        let maps = maps(vec![vec![Some(2e-5), Some(0.9)]]);
        let text = maps.svg();
        assert!(text.contains("1e\u{2212}5<") && text.contains(">1e0<"), "{text}");
        assert!(text.contains(">2.0e\u{2212}5<") && text.contains("a &lt; b"), "{text}");
        assert_eq!(text.matches("class=\"step\"").count(), 3);
        assert_eq!([bin(1e-5, (-5, 0)), bin(1.0, (-5, 0)), bin(1e-3, (-4, -2))], [0, 15, 8]);
        let (wide, narrow) = (text, maps.narrow_svg());
        assert_eq!(narrow.matches("<rect").count(), wide.matches("<rect").count());
        assert!(narrow.contains("width=\"400\" height=\"916\""), "{narrow}");
    }

    #[test]
    fn values_that_are_not_finite_have_no_colour() {
        let text = maps(vec![vec![None, Some(0.0)]]).svg();
        assert_eq!(text.matches("<rect").count(), 1 + 16); // background and scale
        assert!(!maps(vec![]).svg().contains("NaN"));
    }
}
