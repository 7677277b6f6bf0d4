//! Masked characters: some characters of a text are hidden, and the network predicts them.
//!
//! ```text
//! x_t = mask with probability 0.2, else c_t          t = 1 .. T + d, drawn anew on every visit
//! BPC = mean of -log2 p(c_t)                         over the masked t of 1 .. T
//! ```
//!
//! A delayed network looks ahead at the d characters that really follow its window. Symbols are the alphabet's
//! characters, then the mask: what the alphabet does not have is read as the mask, and never predicted.
//!
//! What a model's file says of its characters is [`drnn_tasks::chars::CharTask`].
//!
//! | file | what |
//! |---|---|
//! | `masked` | windows of a text as a [`Dataset`](crate::Dataset) |
//! | `split` | which part of a text is for what |
//! | `paper` | the networks of the paper's table |

mod masked;
pub mod paper;
mod split;

pub use masked::{Masked, Masking};
pub use split::{Held, split};

/// The paper's window, T.
pub const WINDOW: usize = 180;
/// The paper's share of masked characters.
pub const SHARE: f64 = 0.2;
/// The paper's embedding.
pub const EMBEDDING: usize = 10;

/// Bits per masked target, as the paper's authors print them: divided by the masks among all T + d characters that
/// are read, though only those among T are predicted.
///
/// ```text
/// paper_bpc = BPC T / (T + d)
/// ```
pub fn paper_bpc(bpc: f64, window: usize, delay: usize) -> f64 {
    bpc * window as f64 / (window + delay) as f64
}

/// The other way: bits per masked target of what the paper prints.
pub fn corrected_bpc(printed: f64, window: usize, delay: usize) -> f64 {
    printed * (window + delay) as f64 / window as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_division() {
        let shown = |printed, delay| format!("{:.3}", corrected_bpc(printed, WINDOW, delay));
        assert_eq!(
            (shown(0.706, 8), shown(1.390, 1), shown(0.755, 5)),
            ("0.737".into(), "1.398".into(), "0.776".into())
        );
        assert_eq!(corrected_bpc(2.075, WINDOW, 0), 2.075);
        assert!((paper_bpc(corrected_bpc(0.9, 180, 8), 180, 8) - 0.9).abs() < 1e-15);
    }
}
