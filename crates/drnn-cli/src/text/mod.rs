//! Text as it arrives: UTF-8 in pieces, and the masks in it.

pub mod decode;
pub mod masks;
