//! Plots as SVG: lines with marks and bars over two axes, and a legend; heat maps.
//!
//! | file | what |
//! |---|---|
//! | `axis` | range, round ticks, positions in the picture |
//! | `svg` | the drawing |
//! | `heat` | heat maps |
//! | `confusion` | confusion matrices |
//! | `page` | what all pictures share: colours, style, the head of the file |
//! | `png` | an SVG as PNG |
//!
//! Written by hand, because one file must follow its reader's light or dark theme: colours are in a
//! style sheet, whereas plotters sets them in each element. A PNG is rendered from the same SVG.

mod axis;
mod confusion;
mod heat;
pub mod page;
pub mod png;
mod svg;

pub use confusion::Confusion;
pub use heat::{HeatMap, HeatMaps};

/// A plot.
#[derive(Debug, Clone)]
pub struct Plot {
    pub title: String,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    pub scale: Scale,
    /// A vertical line here.
    pub guide: Option<f64>,
    /// In the order of the legend; the first is drawn on top.
    pub lines: Vec<Line>,
}

/// The y axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    FromZero,
    /// From tick to tick around the values.
    Around,
    /// Logarithmic; values that are not positive are left out.
    Log,
}

/// A line of a plot.
#[derive(Debug, Clone)]
pub struct Line {
    /// In the legend; empty for a line that has none.
    pub name: String,
    pub style: Style,
    /// Which of the colours and marks: lines that belong together share one.
    pub colour: usize,
    /// Opacity, from 0 to 1.
    pub strength: f64,
    /// The line has a gap where y is NaN.
    pub points: Vec<(f64, f64)>,
    /// For each point, how far a bar reaches up and down; empty for none. One that a mark hides is
    /// not drawn.
    pub bars: Vec<f64>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Solid,
    /// A line below it stays visible.
    Dashed,
    /// Without marks, for reference values.
    Dotted,
    /// Solid without marks.
    Bare,
    /// Without marks, constant from each point up to the next: for functions of integers.
    Steps,
    /// Marks without a line.
    Marks,
    /// Small dots without a line, for many points.
    Dots,
}

/// A picture in two forms, for wide and for narrow screens.
pub trait Picture {
    fn title(&self) -> &str;
    /// The text of an SVG file.
    fn svg(&self) -> String;
    /// The same 400 wide, and as high as it needs to be.
    fn narrow_svg(&self) -> String;
}

impl Picture for Plot {
    fn title(&self) -> &str {
        &self.title
    }

    fn svg(&self) -> String {
        svg::draw(self, &svg::wide(self))
    }

    /// Upright, the legend below.
    fn narrow_svg(&self) -> String {
        svg::draw(self, &svg::narrow(self))
    }
}
