//! A checkpoint as bytes.
//!
//! ```text
//! "DRNNCKP1"   length of header u64   header, JSON   parameters, m, v as f32   checksum u64
//! ```
//!
//! All little-endian.

use crate::error::{Error, Result};
use crate::optim::{Adam, AdamOptions};
use crate::training::{Progress, State};
use drnn::io::checksum::rotated_23 as checksum;
use serde::{Deserialize, Serialize};
use std::path::Path;

const MAGIC: &[u8; 8] = b"DRNNCKP1";
const DAMAGED: &str = "is damaged: it is cut short, or its checksum does not fit";

/// What the header says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    training: String,
    adam: AdamOptions,
    adam_steps: u64,
    progress: Progress,
}

/// A training between two batches: everything needed to continue it bit for bit.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What is trained, on what, how: a checkpoint of anything else is refused.
    pub training: String,
    /// Parameters and optimiser.
    pub state: State,
    /// How far it has come.
    pub progress: Progress,
}

/// What lies between the first bytes of a checkpoint and its checksum; None where one of them is
/// not as it must be.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    let inside = body.strip_prefix(MAGIC)?;
    (checksum(body) == u64::from_le_bytes(*sum)).then_some(inside)
}

/// Whether these are the bytes of a checkpoint, as they were written.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    body(bytes).is_some()
}

impl Checkpoint {
    /// As the bytes of a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let State { params, adam } = &self.state;
        let header = Header {
            training: self.training.clone(),
            adam: adam.options(),
            adam_steps: adam.steps,
            progress: self.progress.clone(),
        };
        let header = serde_json::to_vec(&header).map_err(|e| Error::Options(e.to_string()))?;
        let mut bytes = Vec::with_capacity(24 + header.len() + 12 * params.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        for values in [params, &adam.mean, &adam.square] {
            bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        }
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// From the bytes of the file `path`. Takes memory in proportion to them, whatever they claim.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Checkpoint> {
        let refuse = |reason: &str| Error::checkpoint(path, reason);
        if !bytes.starts_with(MAGIC) && bytes.len() >= MAGIC.len() {
            return Err(refuse("is damaged, or not a checkpoint"));
        }
        let damaged = || refuse(DAMAGED);
        let (len, rest) =
            body(bytes).and_then(|body| body.split_first_chunk::<8>()).ok_or_else(damaged)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| damaged())?;
        let (header, values) = rest.split_at_checked(len).ok_or_else(damaged)?;
        // Without what the reader says, which may quote the file.
        let header: Header = serde_json::from_slice(header).map_err(|e| {
            refuse(&format!("is damaged: its header makes no sense at byte {}", e.column()))
        })?;
        let (n, over) = (values.len() / 12, values.len() % 12);
        if over > 0 {
            return Err(damaged());
        }
        let floats = |part: usize| -> Vec<f32> {
            let part = &values[part * 4 * n..][..4 * n];
            part.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
        };
        let Header { training, adam, adam_steps, progress } = header;
        let mut adam = Adam::new(adam, 0);
        (adam.steps, adam.mean, adam.square) = (adam_steps, floats(1), floats(2));
        let state = State { params: floats(0), adam };
        let checkpoint = Checkpoint { training, state, progress };
        if !checkpoint.is_finite() {
            return Err(refuse("is damaged: some of its values are not finite"));
        }
        Ok(checkpoint)
    }

    /// Whether a training can go on from here: parameters and means are finite, and what else there
    /// is are numbers. Mean squares of gradients may be infinite where nothing clips them.
    pub(crate) fn is_finite(&self) -> bool {
        let State { params, adam } = &self.state;
        let AdamOptions { beta1, beta2, eps, weight_decay } = adam.options();
        let rates = self.progress.history.iter().map(|epoch| epoch.rate);
        params.iter().chain(&adam.mean).all(|x| x.is_finite())
            && !adam.square.iter().any(|x| x.is_nan())
            && [beta1, beta2, eps, weight_decay].into_iter().chain(rates).all(f32::is_finite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"training":"t","adam":{"beta1":0.9,"beta2":0.999,"eps":1e-8},"adam_steps":3,"#,
        r#""progress":{"history":[{"epoch":1,"train_loss":0.5,"valid_loss":0.25,"norm":1.5,"#,
        r#""rate":0.001}],"batches":1,"loss":0.5,"count":4,"norms":1.5,"ended":null,"#,
        r#""seconds":0.1}}"#
    );
    const VALUES: [f32; 3] = [0.5, -0.25, f32::INFINITY];

    /// A file with this header and these values, whatever length it claims for the header.
    fn file(len: u64, header: &str, values: &[f32]) -> Vec<u8> {
        let mut bytes = [MAGIC, &len.to_le_bytes(), header.as_bytes()].concat();
        bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    fn with_header(header: &str) -> Vec<u8> {
        file(header.len() as u64, header, &VALUES)
    }

    fn read(bytes: &[u8]) -> Result<Checkpoint> {
        Checkpoint::from_bytes(Path::new("last"), bytes)
    }

    #[test]
    fn files_stay_as_they_are() {
        let bytes = with_header(HEADER);
        assert!(bytes.ends_with(&0x298F_5C73_31AD_60B7_u64.to_le_bytes()));
        let found = read(&bytes).unwrap();
        let State { params, adam } = &found.state;
        assert_eq!([params[0], adam.mean[0], adam.square[0]], VALUES);
        assert_eq!((adam.steps, adam.options()), (3, AdamOptions::default()));
        assert_eq!((found.training.as_str(), found.progress.batches), ("t", 1));
        assert_eq!(found.progress.history[0].valid_loss, 0.25);
        assert!(found.to_bytes().unwrap() == bytes);
    }

    #[test]
    fn what_no_training_writes_is_refused() {
        let len = HEADER.len() as u64;
        let refused = |bytes: &[u8], what: &str| {
            let said = read(bytes).unwrap_err().to_string();
            assert!(said.starts_with("last: is damaged") && said.contains(what), "{said}");
        };
        let whole = with_header(HEADER);
        for cut in 0..whole.len() {
            refused(&whole[..cut], "");
        }
        refused(b"something else that is no checkpoint", "not a checkpoint");
        for len in [len - 1, len + 1, len + 13, u64::MAX] {
            refused(&file(len, HEADER, &VALUES), "");
        }
        refused(&file(len, HEADER, &[0.5; 4]), "");
        for values in [[f32::NAN, 0.0, 0.0], [f32::INFINITY, 0.0, 0.0], [0.0, 0.0, f32::NAN]] {
            refused(&file(len, HEADER, &values), "not finite");
        }
        refused(&with_header(&HEADER.replace("0.999", "1e300")), "header");
        refused(&with_header(&HEADER.replace(r#""batches":1"#, r#""batches":-1"#)), "header");
        let nested = format!(r#"{{"more":{}"#, "[".repeat(1 << 20));
        refused(&with_header(&nested), "header makes no sense at byte ");
        refused(&with_header(&HEADER.replace("null", r#""\u001b[2J""#)), "header");
    }
}
