//! Plots as SVG: lines with marks over two linear axes, and a legend; heat maps.
//!
//! | file | what |
//! |---|---|
//! | `axis` | the range of the numbers, ticks at round ones, places on the paper |
//! | `svg` | the drawing |
//! | `heat` | heat maps |
//! | `page` | what it shares with other pictures: colours, style, the beginning |
//!
//! Written by hand, because one file is to follow its reader's light or dark theme: colours sit in a
//! style sheet, where plotters fixes them in each element. Where a bitmap is wanted, this same SVG
//! is to be rendered, rather than drawn a second time.

mod axis;
mod heat;
pub mod page;
mod svg;

pub use heat::{HeatMap, HeatMaps};

/// A plot.
#[derive(Debug, Clone)]
pub struct Plot {
    pub title: String,
    /// What stands below the x axis.
    pub x: String,
    /// What stands above the y axis.
    pub y: String,
    /// A vertical line here.
    pub guide: Option<f64>,
    /// In the order of the legend; the first is drawn on top.
    pub lines: Vec<Line>,
}

/// A line of a plot.
#[derive(Debug, Clone)]
pub struct Line {
    pub name: String,
    pub style: Style,
    /// Which of the colours and marks: lines that belong together share one.
    pub colour: usize,
    pub points: Vec<(f64, f64)>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Solid,
    /// Lets a line below it be seen.
    Dashed,
    /// Without marks, for what is only beside the point.
    Dotted,
}

impl Plot {
    /// The plot as the text of an SVG file.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }
}
