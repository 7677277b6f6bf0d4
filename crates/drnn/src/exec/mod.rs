//! A whole network forward: sequences of any lengths as dense rows, layer by layer, step by step.

pub(crate) mod dropout;
pub(crate) mod net;
pub(crate) mod params;
pub(crate) mod pass;
pub(crate) mod recur;
pub(crate) mod schedule;
pub(crate) mod table;
pub(crate) mod wavefront;
pub(crate) mod weights;
