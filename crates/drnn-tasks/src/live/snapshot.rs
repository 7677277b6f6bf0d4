//! The state of a live sequence as bytes.
//!
//! ```text
//! "DRNNLIV1"   length of the next u32   elements that wait, as JSON   the network's snapshot
//! ```
//!
//! The network's snapshot ([`drnn::Stream::snapshot`]) has a fingerprint of spec and parameters, so
//! bytes of another model are refused.

use super::model::LiveModel;
use super::sequence::Sequence;
use crate::error::Result;

const MAGIC: &[u8; 8] = b"DRNNLIV1";
/// Where a network's snapshot has the number of elements that the network has read.
const SEEN: usize = 16;

pub(super) fn save(sequence: &Sequence, network: &[u8]) -> Vec<u8> {
    // Numbers and strings can always be serialised; missing numbers become null.
    let json = serde_json::to_vec(sequence).unwrap_or_default();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(network);
    bytes
}

/// The sequence, and the network's snapshot, which is not checked yet.
pub(super) fn load<'b>(model: &LiveModel, bytes: &'b [u8]) -> Result<(Sequence, &'b [u8])> {
    parse(model, bytes).ok_or_else(|| {
        let why = "not a snapshot of a live sequence of this model";
        drnn::Error::Snapshot(why.into()).into()
    })
}

fn parse<'b>(model: &LiveModel, bytes: &'b [u8]) -> Option<(Sequence, &'b [u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (json, network) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let sequence: Sequence = serde_json::from_slice(json).ok()?;
    let seen = u64::from_le_bytes(*network.get(SEEN..)?.first_chunk()?);
    sequence.fits(model, seen).then_some((sequence, network))
}
