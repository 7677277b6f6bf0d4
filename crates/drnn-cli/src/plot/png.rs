//! Renders an SVG as PNG, in its light colours.
//!
//! The machine's fonts are not used: there may be none, and pictures would differ between machines.
//! The text is set in a font that is part of the program (`fonts/`: DejaVu Sans, reduced to Latin
//! letters, digits and a few signs, 60 kB). A character that it does not have is left out or drawn as
//! an empty box.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};
use std::sync::Arc;

const FONTS: [&[u8]; 2] = [
    include_bytes!("../../fonts/DejaVuSans.ttf"),
    include_bytes!("../../fonts/DejaVuSans-Bold.ttf"),
];
/// Pixels per unit of the SVG.
const ZOOM: f32 = 2.0;

/// The contents of a PNG file. An error does not occur for our own pictures.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut fonts = Database::new();
    FONTS.iter().for_each(|font| fonts.load_font_data(font.to_vec()));
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree.size().to_int_size().scale_by(ZOOM).ok_or("a picture without size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("too large a picture")?;
    resvg::render(&tree, Transform::from_scale(ZOOM, ZOOM), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixels of an SVG that are neither white nor transparent.
    fn dark(svg: &str) -> usize {
        let pixels = Pixmap::decode_png(&png(svg).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (200, 80));
        pixels.pixels().iter().filter(|p| p.alpha() > 128 && p.red() < 128).count()
    }

    #[test]
    fn text_is_drawn_without_the_machines_fonts() {
        let svg = |text: &str| {
            crate::plot::page::head("", (100.0, 40.0), "")
                + &format!("<text x=\"5\" y=\"30\">{text}</text></svg>")
        };
        let (nothing, something) = (dark(&svg("")), dark(&svg("d-LSTM \u{2212}0.5 \u{394}t")));
        assert!(nothing == 0 && something > 300, "{nothing} {something}");
        assert!(png("<svg").is_err());
    }
}
