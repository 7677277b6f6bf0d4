//! The state of a stream as bytes.
//!
//! ```text
//! "DRNNSNP2"   network's fingerprint u64   elements seen u64   states f32 ..   checksum u64
//! ```
//!
//! All little-endian. The fingerprint ([`Model::fingerprint`]) covers spec and parameters, so bytes
//! of another network, or of the same network trained further, are refused; so are bytes that are
//! damaged or cut short. `DRNNSNP1` differs in the fingerprint alone, which hashes the `Debug` text of
//! the spec as version 0.1.0 had it; it is read and no longer written.

use crate::error::{Error, Result};
use crate::exec::net::Net;
use crate::io::checksum::rotated_17;
use crate::model::Model;
use crate::prelude::*;
use crate::stream::step::Steps;

const MAGIC: &[u8; 8] = b"DRNNSNP2";
const MAGIC_OF_0_1: &[u8; 8] = b"DRNNSNP1";
const HEAD: usize = 24;

fn checksum(bytes: &[u8]) -> u64 {
    rotated_17(bytes.iter().map(|&b| u32::from(b)))
}

/// Bytes of a slot.
pub(crate) fn save(net: &Net, model: &Model, steps: &mut Steps, slot: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + 4 * Steps::state_len(net.spec) + 8);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&model.fingerprint().to_le_bytes());
    bytes.extend_from_slice(&steps.seen(slot).to_le_bytes());
    steps.each_state(net, slot, |state| {
        for x in state {
            bytes.extend_from_slice(&x.to_le_bytes());
        }
    });
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

/// Puts saved bytes into a slot; where they are refused the slot is as before.
pub(crate) fn load(
    net: &Net,
    model: &Model,
    steps: &mut Steps,
    slot: usize,
    bytes: &[u8],
) -> Result<()> {
    let refuse = |why: String| Err(Error::Snapshot(why));
    let fingerprint = match bytes.first_chunk() {
        Some(MAGIC) if bytes.len() >= HEAD + 8 => model.fingerprint(),
        Some(MAGIC_OF_0_1) if bytes.len() >= HEAD + 8 => model.fingerprint_of_0_1(),
        _ => return refuse("not a snapshot of a stream".into()),
    };
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    if word(8) != fingerprint {
        return refuse(format!("of another network than {}, or of other weights", net.spec));
    }
    let expected = HEAD + 4 * Steps::state_len(net.spec) + 8;
    if bytes.len() != expected {
        return refuse(format!("{} bytes, expected {expected}", bytes.len()));
    }
    let (body, sum) = (&bytes[..expected - 8], word(expected - 8));
    let mut values =
        body[HEAD..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    if checksum(body) != sum {
        return refuse("damaged: the checksum does not fit".into());
    }
    if values.clone().any(|x| !x.is_finite()) {
        return refuse("the state it holds has run out of range (infinity or NaN)".into());
    }
    steps.each_state(net, slot, |state| {
        for (to, x) in state.iter_mut().zip(&mut values) {
            *to = x;
        }
    });
    steps.set_seen(slot, word(16));
    Ok(())
}
