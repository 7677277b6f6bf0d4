//! A training as a file: everything that going on exactly as before takes.
//!
//! ```text
//! "DRNNCKP1"   length of header u64   header, JSON   parameters, m, v as f32   checksum u64
//! ```
//!
//! All little-endian. Written beside its place, synced and renamed; the one before is kept as
//! `NAME.previous`, and read where the newest is damaged.

use crate::adam::{Adam, AdamOptions};
use crate::engine::State;
use crate::error::{Error, Result};
use crate::fit::Progress;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"DRNNCKP1";

/// What the header says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    /// What is trained, on what, how: a checkpoint of anything else is refused.
    training: String,
    adam: AdamOptions,
    adam_steps: u64,
    progress: Progress,
}

/// A training, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Parameters and optimiser.
    pub state: State,
    /// How far it has come.
    pub progress: Progress,
}

fn previous(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".previous");
    name.into()
}

/// FNV-1a over bytes, eight at a time.
fn checksum(bytes: &[u8]) -> u64 {
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(0xCBF2_9CE4_8422_2325, |h, w| mix(h, u64::from_le_bytes(*w)));
    rest.iter().fold(mix(hash, bytes.len() as u64), |h, b| mix(h, u64::from(*b)))
}

/// Writes a checkpoint, keeping the one before.
pub(crate) fn write(
    path: &Path,
    training: &str,
    State { params, adam }: &State,
    progress: &Progress,
) -> Result<()> {
    let fail = |e: std::io::Error| Error::checkpoint(path, format!("cannot be written: {e}"));
    let header = Header {
        training: training.into(),
        adam: adam.options(),
        adam_steps: adam.steps,
        progress: progress.clone(),
    };
    let header = serde_json::to_vec(&header).map_err(|e| Error::checkpoint(path, e))?;
    let mut bytes = Vec::with_capacity(24 + header.len() + 12 * params.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&header);
    for values in [params, &adam.mean, &adam.square] {
        bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    }
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    // A link, so that there is a file of this name at every moment.
    let old = previous(path);
    if path.exists() {
        let _ = std::fs::remove_file(&old);
        let _ = std::fs::hard_link(path, &old).or_else(|_| std::fs::copy(path, &old).map(drop));
    }
    drnn::write_atomically(path, |file| file.write_all(&bytes)).map_err(fail)
}

/// Takes a checkpoint away, and the one before: of a training that nobody goes on with.
pub(crate) fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_file(previous(path));
}

/// Reads the newest checkpoint that is whole. Also says what was wrong with a newer one.
pub fn read(path: &Path, training: &str) -> Result<(Checkpoint, Option<Error>)> {
    match read_one(path, training) {
        Ok(found) => Ok((found, None)),
        Err(error) => match read_one(&previous(path), training) {
            Ok(found) => Ok((found, Some(error))),
            Err(_) => Err(error),
        },
    }
}

fn read_one(path: &Path, training: &str) -> Result<Checkpoint> {
    let refuse = |reason: &str| Error::checkpoint(path, reason);
    let bytes =
        std::fs::read(path).map_err(|e| Error::checkpoint(path, format!("cannot be read: {e}")))?;
    let damaged = || refuse("is damaged: it is cut short, or its checksum does not fit");
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or_else(damaged)?;
    if !body.starts_with(MAGIC) {
        return Err(refuse("is not a checkpoint"));
    }
    if checksum(body) != u64::from_le_bytes(*sum) {
        return Err(damaged());
    }
    let (len, rest) = body[8..].split_first_chunk::<8>().ok_or_else(damaged)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| damaged())?;
    let (header, values) = rest.split_at_checked(len).ok_or_else(damaged)?;
    let header: Header = serde_json::from_slice(header).map_err(|e| Error::checkpoint(path, e))?;
    if header.training != training {
        return Err(refuse(&format!(
            "is of another training:\n  there  {}\n  here   {training}",
            header.training
        )));
    }
    let n = values.len() / 12;
    if values.len() != n * 12 {
        return Err(damaged());
    }
    let floats = |part: usize| -> Vec<f32> {
        let part = &values[part * 4 * n..][..4 * n];
        part.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let mut adam = Adam::new(header.adam, 0);
    (adam.steps, adam.mean, adam.square) = (header.adam_steps, floats(1), floats(2));
    let state = State { params: floats(0), adam };
    Ok(Checkpoint { state, progress: header.progress })
}
