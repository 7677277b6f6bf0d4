//! Plots as SVG: lines with marks and bars over two axes, and a legend; heat maps.
//!
//! | file | what |
//! |---|---|
//! | `axis` | the range of the numbers, ticks at round ones, places on the paper |
//! | `svg` | the drawing |
//! | `heat` | heat maps |
//! | `confusion` | what is taken for what |
//! | `page` | what it shares with other pictures: colours, style, the beginning |
//! | `png` | an SVG as a bitmap |
//!
//! Written by hand, because one file is to follow its reader's light or dark theme: colours sit in a
//! style sheet, where plotters fixes them in each element. Where a bitmap is wanted, this same SVG
//! is rendered, rather than drawn a second time.

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
    /// What stands below the x axis.
    pub x: String,
    /// What stands above the y axis.
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
    /// From tick to tick around what there is.
    Around,
    /// Logarithmic: what is not above zero is left out.
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
    /// From 0, not to be seen, to 1.
    pub strength: f64,
    /// The line has a gap where y is no number.
    pub points: Vec<(f64, f64)>,
    /// For each point, how far a bar reaches up and down; empty for none. One that a mark hides is
    /// not drawn.
    pub bars: Vec<f64>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Solid,
    /// Lets a line below it be seen.
    Dashed,
    /// Without marks, for what is only beside the point.
    Dotted,
    /// Solid without marks.
    Bare,
    /// Marks without a line.
    Marks,
}

/// What can be drawn, for a wide paper and for a narrow screen.
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
        svg::draw(self, &svg::WIDE)
    }

    /// Upright, the legend below.
    fn narrow_svg(&self) -> String {
        svg::draw(self, &svg::narrow(self))
    }
}
