//! The cases of `golden/torch.json` and `golden/variants.json`: inputs, and what PyTorch made of them
//! (`tools/golden.py`).
//!
//! A test runs a case its own way, puts what it found in [`Results`] and hands it to [`Case::check`].

use drnn::params::Layout;
use drnn::{NetSpec, Padding};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One network, one batch, one upstream gradient, and PyTorch's answers. Arrays are flat:
/// `inputs` [T, B, q] or `tokens` [T, B] (T + d for look-ahead), outputs [T, B, m],
/// states [layers * directions, B, n] (c empty for cells without it).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub spec: NetSpec,
    /// Outputs of each row.
    pub lengths: Vec<usize>,
    params: BTreeMap<String, Vec<f64>>,
    pub inputs: Vec<f64>,
    pub tokens: Vec<u32>,
    pub h0: Vec<f64>,
    pub c0: Vec<f64>,
    pub d_outputs: Vec<f64>,
    pub d_hn: Vec<f64>,
    pub d_cn: Vec<f64>,
    outputs: Vec<f64>,
    hn: Vec<f64>,
    cn: Vec<f64>,
    d_params: BTreeMap<String, Vec<f64>>,
    d_inputs: Vec<f64>,
    d_h0: Vec<f64>,
    d_c0: Vec<f64>,
}

/// What drnn made of a case: the same arrays, parameters as one flat vector.
pub struct Results {
    pub outputs: Vec<f64>,
    pub hn: Vec<f64>,
    pub cn: Vec<f64>,
    pub d_params: Vec<f64>,
    /// Empty for tokens.
    pub d_inputs: Vec<f64>,
    pub d_h0: Vec<f64>,
    pub d_c0: Vec<f64>,
}

/// All of them.
pub fn cases() -> Vec<Case> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let files = [include_str!("../golden/torch.json"), include_str!("../golden/variants.json")];
    let cases = |text: &&str| serde_json::from_str::<File>(text).unwrap().cases;
    files.iter().flat_map(cases).collect()
}

impl Case {
    /// B
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// T, the most answers of a row.
    pub fn steps(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// Elements of each row: one per output, and d more to look ahead.
    pub fn elements(&self) -> Vec<usize> {
        let more = match self.spec.padding() {
            Padding::LookAhead => self.spec.delay(),
            _ => 0,
        };
        self.lengths.iter().map(|length| length + more).collect()
    }

    /// The flat parameter vector.
    pub fn params(&self) -> Vec<f64> {
        let layout = Layout::new(&self.spec);
        assert_eq!(layout.tensors().len(), self.params.len(), "{}: tensors", self.name);
        let values = layout.tensors().iter().flat_map(|t| &self.params[&t.name]);
        values.copied().collect()
    }

    /// Panics unless each array is PyTorch's, within `tolerance` times its largest value.
    pub fn check(&self, found: &Results, tolerance: f64) {
        let close = |what: &str, found: &[f64], wanted: &[f64]| {
            assert_eq!(found.len(), wanted.len(), "{}: length of {what}", self.name);
            let largest = wanted.iter().fold(0.0f64, |a, x| a.max(x.abs()));
            for (i, (x, y)) in found.iter().zip(wanted).enumerate() {
                // NaN is not close.
                let is_close = (x - y).abs() <= tolerance * largest;
                assert!(is_close, "{}: {what}[{i}] is {x}, PyTorch says {y}", self.name);
            }
        };
        let size = self.steps() * self.rows() * self.spec.output_width();
        assert_eq!(found.outputs.len(), size, "{}: outputs are not [T, B, m]", self.name);
        close("outputs", &found.outputs, &self.outputs);
        close("hn", &found.hn, &self.hn);
        close("cn", &found.cn, &self.cn);
        let layout = Layout::new(&self.spec);
        assert_eq!(found.d_params.len(), layout.len(), "{}: length of d_params", self.name);
        for tensor in layout.tensors() {
            let found = &found.d_params[tensor.range.clone()];
            close(&format!("d {}", tensor.name), found, &self.d_params[&tensor.name]);
        }
        close("d_inputs", &found.d_inputs, &self.d_inputs);
        close("d_h0", &found.d_h0, &self.d_h0);
        close("d_c0", &found.d_c0, &self.d_c0);
    }
}
