//! Calls into CUDA: all that keep something on a card, or put work into a stream.
//!
//! `card` is CUDA itself, by cudarc. Where this crate tests itself, `recorder` takes its place: functions of the same names, which
//! need no GPU and do nothing but look. So what the host asks for can be seen, and is refused where it cannot be right.

#[cfg_attr(test, allow(dead_code, unused_imports))]
mod card;
#[cfg(test)]
pub(crate) mod recorder;

#[cfg(not(test))]
pub(crate) use card::*;
#[cfg(test)]
pub(crate) use recorder::calls::*;
