//! A confusion matrix: true classes in rows, predicted classes in columns, and in each cell its
//! fraction of the row.

use super::Picture;
use super::page::{escaped, head, put};

/// Counts by true and predicted class.
#[derive(Debug, Clone)]
pub struct Confusion {
    pub title: String,
    pub classes: Vec<String>,
    /// Row by row.
    pub counts: Vec<Vec<u64>>,
}

/// Space for the names, and for the title above them.
const NAMES: f64 = 76.0;
const TOP: f64 = 52.0;
/// Fractions below this are not written.
const WRITTEN: f64 = 0.01;
/// A cell this wide has its percentage in it.
const NUMBERED: f64 = 20.0;
/// Below the matrix, line by line.
const CAPTION: [&str; 2] = ["rows: true class; columns: predicted class", "per cent of the row"];
/// The height of a line.
const LINE: f64 = 17.0;
/// Maximum letters of a name.
const LETTERS: usize = 9;

impl Picture for Confusion {
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self) -> String {
        self.draw(760.0)
    }

    fn narrow_svg(&self) -> String {
        self.draw(400.0)
    }
}

impl Confusion {
    fn draw(&self, width: f64) -> String {
        let n = self.classes.len().max(1) as f64;
        let cell = ((width - NAMES - 16.0) / n).min(34.0);
        let (left, top) = (NAMES + 4.0, TOP + NAMES);
        let style = "  .full { fill: #ffffff; font-size: 10px } .faint { font-size: 10px }\n ";
        let mut out = head(&self.title, (width, top + cell * n + 34.0 + LINE), style);
        for (i, class) in self.classes.iter().enumerate() {
            let name: String = class.chars().take(LETTERS).collect();
            let (name, middle) = (escaped(&name), cell * (i as f64 + 0.5) + 4.0);
            let (x, y) = (left - 6.0, top + middle);
            put(&mut out, format!(r#"<text class="soft end" x="{x}" y="{y:.1}">{name}</text>"#));
            let (x, y) = (left + middle, top - 6.0);
            put(
                &mut out,
                format!(
                    r#"<text class="soft" transform="translate({x:.1} {y}) rotate(-90)">{name}</text>"#
                ),
            );
        }
        for (row, counts) in self.counts.iter().enumerate() {
            let all = counts.iter().map(|count| *count as f64).sum::<f64>().max(1.0);
            for (column, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let share = count as f64 / all;
                let (x, y) = (left + cell * column as f64, top + cell * row as f64);
                let class = if row == column { "c2" } else { "c0" };
                // The square root, so that small fractions are visible.
                let opacity = share.sqrt();
                put(
                    &mut out,
                    format!(
                        r#"<rect class="{class} mark" x="{x:.1}" y="{y:.1}" width="{cell:.1}" height="{cell:.1}" fill-opacity="{opacity:.2}"/>"#
                    ),
                );
                if cell >= NUMBERED && share >= WRITTEN {
                    let class = if share > 0.4 { "full" } else { "faint" };
                    let (x, y, percent) = (x + cell / 2.0, y + cell / 2.0 + 4.0, 100.0 * share);
                    put(
                        &mut out,
                        format!(
                            r#"<text class="mid {class}" x="{x:.1}" y="{y:.1}">{percent:.0}</text>"#
                        ),
                    );
                }
            }
        }
        let (right, bottom) = (left + cell * n, top + cell * n);
        put(
            &mut out,
            format!(r#"<path class="axis" d="M{left} {top}H{right:.1}V{bottom:.1}H{left}z"/>"#),
        );
        // Two short lines: one long one would be cut on a narrow screen.
        for (line, text) in CAPTION.iter().enumerate() {
            let below = bottom + 22.0 + LINE * line as f64;
            put(&mut out, format!(r#"<text class="soft" x="12" y="{below:.1}">{text}</text>"#));
        }
        out + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_of_shares() {
        let classes = vec!["A<".into(), "averylongname".into()];
        let counts = vec![vec![3, 1], vec![0, 5]];
        let text = Confusion { title: "T".into(), classes, counts }.svg();
        assert_eq!(text.matches("<rect").count(), 1 + 3); // and the background
        assert!(text.contains(">75<") && text.contains(">25<") && text.contains(">100<"), "{text}");
        assert!(text.contains("A&lt;") && !text.contains("averylongname"), "{text}");
        // About 7 units a letter: no line is wider than the narrow picture.
        assert!(CAPTION.iter().all(|line| 12 + 7 * line.len() < 400));
        assert!(CAPTION.iter().all(|line| text.contains(line)), "{text}");
        let none = Confusion { title: "T".into(), classes: Vec::new(), counts: Vec::new() };
        assert!(!none.narrow_svg().contains("NaN"));
    }
}
