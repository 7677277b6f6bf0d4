//! Several networks and tables that belong together, as one `.safetensors` file.
//!
//! Tensors of network `word` are named `word.weight_ih_l0` and so on; a table is a tensor of its own name. The
//! metadata entry `drnn` holds the rest:
//!
//! ```json
//! {"format": 1, "networks": {"char": {..}, "word": {..}}, "task": {..}}
//! ```
//!
//! Quantised networks ([`Model::quantize`]) are stored as in a file of one; tables then have their format.
//!
//! Written and read with the care that [`Model::save`] and [`Model::load`] take.

use crate::error::text::short;
use crate::error::{Error, Result};
#[cfg(feature = "std")]
use crate::io::atomic::write_atomically;
#[cfg(feature = "std")]
use crate::io::file::in_file;
use crate::io::file::{
    Precision, checked, is_expected, is_f32, named_tensors, read_network, refuse, refuse_because,
};
#[cfg(feature = "std")]
use crate::io::read::read_model_file;
use crate::io::tensors::{SCALE, TensorFile};
use crate::io::write::{Named, write_tensors};
use crate::model::Model;
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::params::Layout;
use alloc::collections::BTreeMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
#[cfg(feature = "std")]
use std::path::Path;

/// Rows of numbers: word vectors, say.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Rows.
    pub rows: usize,
    /// Of a row.
    pub width: usize,
    /// Row after row.
    pub values: Vec<f32>,
}

/// Networks and tables by name, and what a program needs to use them.
#[derive(Debug)]
pub struct Bundle {
    /// Never looked at here.
    pub task: Value,
    /// Networks.
    pub networks: BTreeMap<String, Model>,
    /// Tables.
    pub tables: BTreeMap<String, Table>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    networks: BTreeMap<String, NetSpec>,
    #[serde(default, skip_serializing_if = "is_f32")]
    weights: WeightFormat,
    task: Value,
}

impl Bundle {
    /// The same with weights of all networks, and tables, in another format.
    pub fn quantize(&self, format: WeightFormat) -> Result<Bundle> {
        let networks = self.networks.iter();
        let networks = networks
            .map(|(name, model)| Ok((name.clone(), model.quantize(format)?)))
            .collect::<Result<_>>()?;
        let mut tables = self.tables.clone();
        for (name, table) in &mut tables {
            format.round(name, &mut table.values, table.width)?;
        }
        Ok(Bundle { task: self.task.clone(), networks, tables })
    }

    /// The format of all weights. An error if networks have different ones, which a file cannot say.
    pub fn weight_format(&self) -> Result<WeightFormat> {
        let mut formats = self.networks.values().map(Model::weight_format);
        let first = formats.next().unwrap_or_default();
        match formats.all(|format| format == first) {
            true => Ok(first),
            false => Err(Error::Spec("networks of a bundle have different weight formats".into())),
        }
    }

    /// Writes them to `path`. Where that fails, what was there before is untouched.
    #[cfg(feature = "std")]
    pub fn save(&self, path: impl AsRef<Path>, precision: Precision) -> Result<()> {
        let path = path.as_ref();
        let (header, tensors) = self.contents(precision).map_err(|e| in_file(e, path))?;
        write_atomically(path, |file| write_tensors(file, &header, &tensors))
            .map_err(|e| in_file(refuse_because(format!("cannot be written: {e}"), e), path))
    }

    /// They as the bytes of such a file.
    pub fn to_bytes(&self, precision: Precision) -> Result<Vec<u8>> {
        let (header, tensors) = self.contents(precision)?;
        let mut bytes = Vec::new();
        write_tensors(&mut bytes, &header, &tensors)
            .map_err(|e| refuse_because(format!("cannot be written: {e}"), e))?;
        Ok(bytes)
    }

    /// The metadata and all tensors.
    fn contents(&self, precision: Precision) -> Result<(String, Vec<Named<'_>>)> {
        let specs = self.networks.iter().map(|(name, model)| (name.clone(), model.spec().clone()));
        let weights = self.weight_format()?;
        let (networks, task) = (specs.collect(), self.task.clone());
        let header = Header { format: 1, networks, weights, task };
        let header = serde_json::to_string(&header)
            .map_err(|e| refuse_because(format!("cannot be written: {e}"), e))?;
        let networks = self.networks.iter();
        let mut tensors: Vec<_> = networks
            .flat_map(|(name, model)| named_tensors(&format!("{name}."), model, precision))
            .collect();
        let format = if is_f32(&weights) { precision.format() } else { weights };
        for (name, Table { rows, width, values }) in &self.tables {
            if name.contains('.') || rows.checked_mul(*width) != Some(values.len()) {
                let values = values.len();
                return Err(refuse(format!(
                    "cannot be written: {values} values of table `{name}`"
                )));
            }
            let (name, dims) = (name.clone(), vec![*rows, *width]);
            tensors.push(Named { name, dims, values, format });
        }
        Ok((header, tensors))
    }

    /// Whether the file holds several networks: None where it cannot be read, or is not ours.
    pub fn is_bundle(bytes: &[u8]) -> Option<bool> {
        let file = TensorFile::parse(bytes).ok()?;
        Some(checked(file.header()?).ok()?.get("networks").is_some())
    }

    /// Reads what [`Bundle::save`] wrote.
    #[cfg(feature = "std")]
    pub fn load(path: impl AsRef<Path>) -> Result<Bundle> {
        let path = path.as_ref();
        Bundle::from_bytes(&read_model_file(path)?).map_err(|e| in_file(e, path))
    }

    /// Reads the bytes of such a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Bundle> {
        let file = TensorFile::parse(bytes)?;
        let header = file.header().ok_or_else(|| refuse("is not a file of drnn"))?;
        let header = checked(header)?;
        if header.get("networks").is_none() {
            return Err(refuse("holds one model, not several networks that belong together"));
        }
        let header: Header = serde_json::from_value(header)
            .map_err(|e| refuse_because(format!("metadata `drnn`: {e}"), e))?;
        let (mut networks, mut tables) = (BTreeMap::new(), BTreeMap::new());
        for (name, spec) in &header.networks {
            networks.insert(
                name.clone(),
                read_network(&file, &format!("{name}."), spec, header.weights)?,
            );
        }
        for name in file.names() {
            let Some((network, tensor)) = name.split_once('.') else {
                let &[rows, width] = file.shape(name)? else {
                    let name = short(name);
                    return Err(refuse(format!("table `{name}` has not two dimensions")));
                };
                let values = file.values(name, &[rows, width])?;
                if let Some(at) = values.iter().position(|x| !x.is_finite()) {
                    return Err(refuse(format!("table `{}` holds {}", short(name), values[at])));
                }
                tables.insert(name.to_string(), Table { rows, width, values });
                continue;
            };
            let of_table = name.strip_suffix(SCALE).is_some_and(|table| table == network);
            let expected = match header.networks.get(network) {
                None => of_table && file.is_int8(network),
                Some(spec) => {
                    is_expected(&file, &format!("{network}."), tensor, &Layout::new(spec))
                }
            };
            if !expected {
                return Err(refuse(format!("unexpected tensor `{}`", short(name))));
            }
        }
        Ok(Bundle { task: header.task, networks, tables })
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::spec::Cell;
    use serde_json::json;

    fn bundle() -> Bundle {
        let net = |q: usize, seed| {
            let spec = NetSpec::builder(Cell::Gru).dense(q).units([3]).build().unwrap();
            Model::init(&spec, seed).unwrap()
        };
        let networks = [("char", net(2, 1)), ("word", net(4, 2))];
        let table = Table { rows: 2, width: 3, values: vec![0.5, 1.0, -2.0, 0.25, 0.0, 3.0] };
        Bundle {
            task: json!({"kind": "test"}),
            networks: networks.map(|(name, model)| (name.into(), model)).into(),
            tables: [("vectors".into(), table)].into(),
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.safetensors");
        let bundle = bundle();
        for (precision, far) in [(Precision::F32, 0.0), (Precision::F16, 1e-3)] {
            bundle.save(&path, precision).unwrap();
            let found = Bundle::load(&path).unwrap();
            assert_eq!((&found.task, &found.tables), (&bundle.task, &bundle.tables));
            for (name, model) in &bundle.networks {
                let params = found.networks[name].params().iter().zip(model.params());
                assert!(params.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) <= far);
            }
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes, bundle.to_bytes(Precision::F16).unwrap());
        assert_eq!(Bundle::is_bundle(&bytes), Some(true));
        for format in WeightFormat::ALL {
            let quantized = bundle.quantize(format).unwrap();
            quantized.save(&path, Precision::F32).unwrap();
            let found = Bundle::load(&path).unwrap();
            assert_eq!(found.weight_format(), Ok(format));
            assert_eq!((&found.task, &found.tables), (&quantized.task, &quantized.tables));
            for (name, model) in &quantized.networks {
                assert_eq!(found.networks[name].params(), model.params());
            }
        }
        let error = Model::load(&path).unwrap_err().to_string();
        assert!(error.contains("holds several networks"), "{error}");
    }

    #[test]
    fn what_does_not_belong_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.safetensors");
        bundle().networks["char"].save(&path).unwrap();
        assert!(Bundle::load(&path).unwrap_err().to_string().contains("holds one model"));
        let mut wrong = bundle();
        wrong.tables.insert("a".into(), Table { rows: 2, width: 2, values: vec![0.0] });
        assert!(wrong.save(&path, Precision::F32).is_err());
        let mut nan = bundle();
        nan.tables.insert("a".into(), Table { rows: 1, width: 1, values: vec![f32::NAN] });
        nan.save(&path, Precision::F32).unwrap();
        assert!(Bundle::load(&path).unwrap_err().to_string().contains("table `a` holds NaN"));
    }
}
