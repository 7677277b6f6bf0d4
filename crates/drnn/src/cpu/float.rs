//! Functions of floats that std has and core has not.
//!
//! ```text
//! #[cfg(not(feature = "std"))]
//! use crate::cpu::float::Float;
//! ```
//!
//! and the code that calls them is the same with std and without.

/// By the crate `libm`. Results may differ from std's in the last place.
#[allow(dead_code, reason = "each type has all of them, needed or not")]
pub(crate) trait Float {
    fn sqrt(self) -> Self;
    fn ln(self) -> Self;
    fn cos(self) -> Self;
    fn floor(self) -> Self;
    fn round(self) -> Self;
    fn round_ties_even(self) -> Self;
}

macro_rules! by_libm {
    ($float:ty, $sqrt:ident, $ln:ident, $cos:ident, $floor:ident, $round:ident, $even:ident) => {
        impl Float for $float {
            fn sqrt(self) -> $float {
                libm::$sqrt(self)
            }
            fn ln(self) -> $float {
                libm::$ln(self)
            }
            fn cos(self) -> $float {
                libm::$cos(self)
            }
            fn floor(self) -> $float {
                libm::$floor(self)
            }
            fn round(self) -> $float {
                libm::$round(self)
            }
            fn round_ties_even(self) -> $float {
                libm::$even(self)
            }
        }
    };
}

by_libm!(f32, sqrtf, logf, cosf, floorf, roundf, roundevenf);
by_libm!(f64, sqrt, log, cos, floor, round, roundeven);
