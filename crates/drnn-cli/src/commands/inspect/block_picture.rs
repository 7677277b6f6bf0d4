//! A picture of the connections between the blocks of a network, after the paper's figure.
//!
//! ```text
//! (a) the equivalent stack,                (b)         from x   0   1
//!     unrolled in time                         to 0    [W_ih] [      ]
//!         y     y     y                           1    [    ] [ W_hh ]
//!     1   o --> o --> o                           y           [W_out ]
//!     0   o --> o --> o
//!         x     x     x                    each block in the colour of its arrows, darker for larger norms
//! ```
//!
//! With x as layer -1 and y as layer k, all arrows go from layer j at step t to layer i at step
//! t + j - i + 1. Those that a stack does not have are drawn from one step only, t: then they all end
//! in different states, and do not cross any other state.

use super::block_table::{Connection, MAX_BLOCKS, short};
use crate::plot::page::{escaped, head, put};
use drnn::{BlockMap, Direction, NetSpec};

/// Style in addition to that of plots.
const STYLE: &str = "  .arrow { stroke-width: 1.6 } .arrow.dashed { stroke-dasharray: 5 4 } .small { font-size: 11px }
  .bold { font-weight: 600 } .now { stroke-width: 2 }
";
const LEFT: f64 = 12.0;
/// Top of the two halves, below their headings.
const TOP: f64 = 98.0;
/// Radius of a state.
const RADIUS: f64 = 9.0;
/// Minimum side of a block.
const SIDE: f64 = 34.0;
/// Length of an arrow's head.
const HEAD: (f64, f64) = (7.0, 3.2);

/// The picture as the text of an SVG file; an error if there is nothing to draw.
pub fn svg(map: Option<&BlockMap>, spec: &NetSpec) -> Result<String, String> {
    let Some(map) = map else {
        let why = match spec.direction() {
            Direction::Bidirectional => "it is bidirectional",
            Direction::Forward => "it is one layer without blocks",
        };
        return Err(format!(
            "nothing to draw for --svg: {why}; stacks and flattened stacks can be drawn"
        ));
    };
    match map.blocks.count() {
        k if k > MAX_BLOCKS => Err(format!(
            "{k} blocks are too many for --svg (at most {MAX_BLOCKS}); --json has the norms"
        )),
        _ => Ok(Picture::new(map, spec).draw()),
    }
}

/// Blocks of weights by what they connect, W_ih and W_out included.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WeightPart {
    Input,
    Blocks(Connection),
    Output,
}

impl WeightPart {
    const ALL: [WeightPart; 6] = [
        WeightPart::Input,
        WeightPart::Blocks(Connection::Same),
        WeightPart::Blocks(Connection::Above),
        WeightPart::Output,
        WeightPart::Blocks(Connection::Lower),
        WeightPart::Blocks(Connection::Upper),
    ];

    /// Which of the colours.
    fn colour(self) -> usize {
        match self {
            WeightPart::Blocks(Connection::Lower) => 0,
            WeightPart::Blocks(Connection::Same) => 1,
            WeightPart::Blocks(Connection::Above) => 2,
            WeightPart::Output => 3,
            WeightPart::Input => 4,
            WeightPart::Blocks(Connection::Upper) => 5,
        }
    }

    fn words(self) -> String {
        match self {
            WeightPart::Input => "W_ih: from the input".into(),
            WeightPart::Output => "W_out: to the output".into(),
            WeightPart::Blocks(kind) => format!("{}: {}", kind.place(), kind.words()),
        }
    }
}

/// A block of weights.
#[derive(Clone, Copy)]
struct Link {
    /// Layers, x being -1 and y being k.
    from: i32,
    to: i32,
    part: WeightPart,
    /// Whether it may be non-zero.
    allowed: bool,
    norm: f64,
}

impl Link {
    /// Steps from one end to the other.
    fn steps(&self) -> i32 {
        self.from - self.to + 1
    }

    /// Whether a stack has it: to the same layer or the next.
    fn is_stacked(&self) -> bool {
        self.steps() >= 0 && self.steps() <= 1
    }
}

struct Picture<'a> {
    spec: &'a NetSpec,
    k: i32,
    widths: &'a [usize],
    links: Vec<Link>,
    out: String,
}

impl<'a> Picture<'a> {
    fn new(map: &'a BlockMap, spec: &'a NetSpec) -> Picture<'a> {
        let (blocks, k) = (&map.blocks, map.blocks.count());
        let mut links = Vec::new();
        for i in 0..k {
            let (to, part) = (i as i32, WeightPart::Input);
            let (allowed, norm) = (blocks.reads_input(i), map.input[i]);
            links.push(Link { from: -1, to, part, allowed, norm });
            for j in 0..k {
                let (from, part) = (j as i32, WeightPart::Blocks(Connection::of(i, j)));
                let (allowed, norm) = (blocks.allows(i, j), map.norms[i][j]);
                links.push(Link { from, to, part, allowed, norm });
            }
        }
        for (i, &norm) in map.output.iter().enumerate() {
            let (part, allowed) = (WeightPart::Output, blocks.feeds_output(i));
            links.push(Link { from: i as i32, to: k as i32, part, allowed, norm });
        }
        Picture { spec, k: k as i32, widths: blocks.widths(), links, out: String::new() }
    }

    fn draw(mut self) -> String {
        let matrices = Matrices::new(&self);
        let unrolled = Unrolled::new(&self, matrices.height());
        let right = unrolled.right + 64.0;
        let parts: Vec<WeightPart> =
            WeightPart::ALL.into_iter().filter(|&p| self.is_drawn(p)).collect();
        let bottom = TOP + matrices.height().max(unrolled.height) + 36.0;
        let end = bottom + 22.0 * parts.len().div_ceil(2) as f64;

        self.heading(LEFT, "(a) unrolled in time, as the equivalent stack");
        unrolled.draw(&mut self);
        self.heading(right, "(b) as one layer: its matrices, with the norm of each block");
        let width = matrices.draw(&mut self, right).max(right + 386.0).max(740.0) + LEFT;
        let title = self.title();
        let width = width.max(9.0 * title.len() as f64);
        for (n, &part) in parts.iter().enumerate() {
            let (row, column) = (n % parts.len().div_ceil(2), n / parts.len().div_ceil(2));
            let (x, y) = (LEFT + 364.0 * column as f64, bottom + 22.0 * row as f64);
            let stacked =
                !matches!(part, WeightPart::Blocks(Connection::Lower | Connection::Upper));
            self.arrow((x, y - 4.0), (x + 34.0, y - 4.0), part, !stacked);
            self.text("", x + 44.0, y, &part.words());
        }
        let mut note = String::from(
            "Block (i, j) connects layer j at step t to layer i at step t + j \u{2212} i + 1.",
        );
        if self.links.iter().any(|l| l.norm > 0.0 && !l.is_stacked()) {
            note.push_str(" Dashed arrows are drawn from one step only, t.");
        }
        self.text("soft", LEFT, end + 4.0, &note);
        head(&title, (width.ceil(), (end + 18.0).ceil()), STYLE) + &self.out + "</svg>\n"
    }

    fn title(&self) -> String {
        let text = self.spec.to_string();
        let name = text.split_once("): ").map_or(text.as_str(), |(name, _)| name);
        match self.spec.blocks() {
            Some(_) => format!("{name})"),
            None => format!("{name}), and as it would be flattened"),
        }
    }

    /// Of a row or column: what it is and how wide.
    fn names(&self, layer: i32) -> (String, String) {
        if layer < 0 {
            ("x".into(), self.spec.input().width().to_string())
        } else if layer == self.k {
            ("y".into(), self.spec.outputs().unwrap_or(0).to_string())
        } else {
            (layer.to_string(), self.widths[layer as usize].to_string())
        }
    }

    fn has_output(&self) -> bool {
        self.spec.outputs().is_some()
    }

    /// The delay of the equivalent stack.
    fn own_delay(&self) -> i32 {
        let flattened = if self.spec.blocks().is_some() { self.k - 1 } else { 0 };
        self.spec.delay() as i32 - flattened
    }

    fn is_drawn(&self, part: WeightPart) -> bool {
        self.links.iter().any(|l| l.part == part && l.norm > 0.0)
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = escaped(text);
        let class = if class.is_empty() { "".into() } else { format!(r#" class="{class}""#) };
        put(&mut self.out, format!(r#"<text{class} x="{x:.1}" y="{y:.1}">{text}</text>"#));
    }

    fn heading(&mut self, x: f64, text: &str) {
        self.text("soft", x, 56.0, text);
    }

    /// An arrow from point to point.
    fn arrow(&mut self, from: (f64, f64), to: (f64, f64), part: WeightPart, dashed: bool) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let (dx, dy) = (dx / length, dy / length);
        let (long, wide) = HEAD;
        let base = (to.0 - long * dx, to.1 - long * dy);
        let (class, colour) = (if dashed { " dashed" } else { "" }, part.colour());
        let ((x, y), (bx, by)) = (from, base);
        put(
            &mut self.out,
            format!(
                r#"<path class="line arrow{class} c{colour}" d="M{x:.1} {y:.1}L{bx:.1} {by:.1}"/>"#
            ),
        );
        let ((lx, ly), (rx, ry)) =
            ((bx - wide * dy, by + wide * dx), (bx + wide * dy, by - wide * dx));
        let (x, y) = to;
        put(
            &mut self.out,
            format!(
                r#"<path class="mark c{colour}" d="M{x:.1} {y:.1}L{lx:.1} {ly:.1}L{rx:.1} {ry:.1}z"/>"#
            ),
        );
    }
}

/// The stack over a few steps: layers upwards, time to the right.
struct Unrolled {
    /// Steps, counted from t.
    first: i32,
    last: i32,
    /// Between states.
    dx: f64,
    dy: f64,
    height: f64,
    left: f64,
    right: f64,
}

impl Unrolled {
    fn new(picture: &Picture, height: f64) -> Unrolled {
        let others = || picture.links.iter().filter(|l| l.norm > 0.0 && !l.is_stacked());
        let first = others().map(Link::steps).fold(-1, i32::min);
        let last = others().map(Link::steps).fold(2, i32::max);
        let rows = f64::from(picture.k) + if picture.has_output() { 1.0 } else { 0.0 };
        let dy = ((height - 40.0) / rows).clamp(50.0, 84.0);
        let dx = (620.0 / f64::from(last - first)).clamp(44.0, 76.0);
        let left = LEFT + 92.0;
        let right = left + dx * f64::from(last - first) + 30.0;
        Unrolled { first, last, dx, dy, height: dy * rows + 40.0, left, right }
    }

    fn at(&self, layer: i32, step: i32) -> (f64, f64) {
        let x = self.left + self.dx * f64::from(step - self.first);
        (x, TOP + self.height - 30.0 - self.dy * f64::from(layer + 1))
    }

    fn draw(&self, picture: &mut Picture) {
        let links: Vec<Link> = picture.links.iter().filter(|l| l.norm > 0.0).copied().collect();
        for link in &links {
            if link.is_stacked() {
                (self.first..=self.last).for_each(|t| self.arrow(picture, link, t));
            } else {
                self.arrow(picture, link, 0);
            }
        }
        let top = if picture.has_output() { picture.k } else { picture.k - 1 };
        for layer in -1..=top {
            self.row(picture, layer);
        }
    }

    /// An arrow that leaves at step t; only begun where it would end beyond the last step.
    fn arrow(&self, picture: &mut Picture, link: &Link, t: i32) {
        let (from, to) = (self.at(link.from, t), self.at(link.to, t + link.steps()));
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let gap = RADIUS + 3.0;
        let (ux, uy) = (dx / dx.hypot(dy) * gap, dy / dx.hypot(dy) * gap);
        if t + link.steps() > self.last {
            let (x, y, c) = (from.0 + ux, from.1, link.part.colour());
            let path = format!(r#"<path class="line arrow c{c}" d="M{x:.1} {y:.1}h16"/>"#);
            return put(&mut picture.out, path);
        }
        let (from, to) = ((from.0 + ux, from.1 + uy), (to.0 - ux, to.1 - uy));
        picture.arrow(from, to, link.part, !link.is_stacked());
    }

    /// The states of a layer, or x or y, with its label.
    fn row(&self, picture: &mut Picture, layer: i32) {
        let y = self.at(layer, 0).1 + 4.5;
        let own = picture.own_delay();
        let (name, under) = if layer < 0 {
            ("x".into(), format!("{} wide", picture.spec.input().width()))
        } else if layer == picture.k {
            ("y".into(), format!("{} wide", picture.spec.outputs().unwrap_or(0)))
        } else {
            (format!("layer {layer}"), format!("{} units", picture.widths[layer as usize]))
        };
        picture.text("", LEFT, y - 5.0, &name);
        picture.text("soft small", LEFT, y + 9.0, &under);
        for step in self.first..=self.last {
            let (x, y) = self.at(layer, step);
            let is_now = picture.links.iter().any(|l| l.norm > 0.0 && !l.is_stacked()) && step == 0;
            if layer < 0 {
                picture.text("mid", x, y + 4.5, "x");
                let class = if is_now { "mid small bold" } else { "soft mid small" };
                picture.text(class, x, y + 24.0, &moment(step));
            } else if layer == picture.k {
                picture.text("mid", x, y + 4.5, "y");
                if own != 0 {
                    picture.text("soft mid small", x, y - 10.0, &moment(step - own));
                }
            } else {
                let class = if is_now { "bg axis now" } else { "bg axis" };
                let circle =
                    format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{RADIUS}"/>"#);
                put(&mut picture.out, circle);
            }
        }
    }
}

/// `t`, `t+2`, `t−1`
fn moment(step: i32) -> String {
    match step {
        0 => "t".into(),
        1.. => format!("t+{step}"),
        _ => format!("t\u{2212}{}", step.unsigned_abs()),
    }
}

/// W_hh with W_ih at its left and W_out below.
struct Matrices {
    /// Sides of the blocks of x, of each layer, of y.
    x: f64,
    sides: Vec<f64>,
    y: f64,
}

/// Between matrices.
const GAP: f64 = 12.0;
/// For names of rows, and of columns.
const NAMES: (f64, f64) = (52.0, 34.0);

impl Matrices {
    fn new(picture: &Picture) -> Matrices {
        let k = f64::from(picture.k);
        let all = (64.0 * k).clamp(180.0, 448.0).max(44.0 * k);
        let total: usize = picture.widths.iter().sum();
        // To scale, with a minimum side.
        let side = |width: usize| SIDE + (all - SIDE * k) * width as f64 / total as f64;
        let sides: Vec<f64> = picture.widths.iter().map(|&n| side(n)).collect();
        let widest = sides.iter().fold(SIDE, |a, &b| a.max(b));
        let scaled = |width: usize| side(width).min(widest).min(80.0);
        let y = picture.spec.outputs().map_or(0.0, scaled);
        Matrices { x: scaled(picture.spec.input().width()), sides, y }
    }

    fn height(&self) -> f64 {
        let below = if self.y > 0.0 { GAP + self.y } else { 0.0 };
        NAMES.1 + self.sides.iter().sum::<f64>() + below
    }

    /// Where row or column `layer` begins, and how long it is, if those of layer 0 begin at `start`.
    fn span(&self, layer: i32, start: f64) -> (f64, f64) {
        match usize::try_from(layer) {
            Err(_) => (start - GAP - self.x, self.x),
            Ok(i) if i < self.sides.len() => {
                (start + self.sides[..i].iter().sum::<f64>(), self.sides[i])
            }
            Ok(_) => (start + self.sides.iter().sum::<f64>() + GAP, self.y),
        }
    }

    /// Returns how far it reaches to the right.
    fn draw(&self, picture: &mut Picture, left: f64) -> f64 {
        let (start, top) = (left + NAMES.0 + self.x + GAP, TOP + NAMES.1);
        let right = self.span(picture.k - 1, start);
        let right = right.0 + right.1;
        let (x, side) = self.span(-1, start);
        picture.text("soft small mid bold", x + side / 2.0, TOP - 14.0, "W_ih");
        picture.text("soft small mid bold", (start + right) / 2.0, TOP - 14.0, "W_hh");
        if picture.has_output() {
            let (y, side) = self.span(picture.k, top);
            picture.text("soft small bold", right + 8.0, y + side / 2.0 + 4.0, "W_out");
        }
        picture.text("soft small", left, TOP + 6.0, "from \u{2192}");
        picture.text("soft small", left, TOP + 24.0, "to \u{2193}");
        for layer in -1..picture.k {
            let (x, side) = self.span(layer, start);
            let (name, width) = picture.names(layer);
            picture.text("mid", x + side / 2.0, TOP + 6.0, &name);
            picture.text("soft small mid", x + side / 2.0, TOP + 24.0, &width);
        }
        let last = if picture.has_output() { picture.k } else { picture.k - 1 };
        for layer in 0..=last {
            let (y, side) = self.span(layer, top);
            let (name, width) = picture.names(layer);
            picture.text("", left, y + side / 2.0 - 1.0, &name);
            picture.text("soft small", left, y + side / 2.0 + 12.0, &width);
        }
        let largest = picture.links.iter().fold(f64::MIN_POSITIVE, |a, l| a.max(l.norm));
        for link in picture.links.clone() {
            let ((x, w), (y, h)) = (self.span(link.from, start), self.span(link.to, top));
            if link.norm > 0.0 {
                let (colour, strength) = (link.part.colour(), 0.15 + 0.45 * link.norm / largest);
                put(
                    &mut picture.out,
                    format!(
                        r#"<rect class="mark c{colour}" fill-opacity="{strength:.2}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"/>"#
                    ),
                );
            }
            put(
                &mut picture.out,
                format!(
                    r#"<rect class="grid" fill="none" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"/>"#
                ),
            );
            if link.allowed {
                let class = if link.norm > 0.0 { "small mid" } else { "soft small mid" };
                picture.text(class, x + w / 2.0, y + h / 2.0 + 4.0, &short(link.norm, 3));
            }
        }
        right + 48.0
    }
}
