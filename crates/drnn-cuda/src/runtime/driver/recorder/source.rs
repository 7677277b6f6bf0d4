//! What a kernel's source says of it: name, parameter struct, launch bounds, definitions.
//!
//! ```text
//! extern "C" __global__ void __launch_bounds__(THREADS, 1) name(const Params p) {
//! ```

use super::{Rejected, reject};
use crate::runtime::compile::Source;
use std::collections::HashMap;

#[derive(Debug, PartialEq)]
pub(super) struct Signature {
    pub name: String,
    /// Name of the struct that it takes.
    pub params: String,
    /// Blocks per multiprocessor for which the launch bounds reserve registers.
    pub blocks_by_registers: usize,
    /// Numbers among the preprocessor definitions.
    pub defines: HashMap<String, usize>,
}

const BEGIN: &str = "extern \"C\" __global__ void";
const DEFINE: &str = "#define ";

/// The text that stands for a source's machine code: its definitions, then its parts.
pub(super) fn text(source: &Source) -> String {
    let define = |d: &String| format!("{DEFINE}{}\n", d.replacen('=', " ", 1));
    source.defines.iter().map(define).collect::<String>() + &source.parts.concat()
}

/// All kernels of such a text.
pub(super) fn signatures(text: &str) -> Result<Vec<Signature>, Rejected> {
    let defines = || {
        let lines = text.lines().filter_map(|line| line.strip_prefix(DEFINE)?.split_once(' '));
        lines.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
    };
    let code: String =
        text.lines().flat_map(|l| [l.split("//").next().unwrap_or(""), "\n"]).collect();
    code.split(BEGIN).skip(1).map(|kernel| signature(kernel, defines())).collect()
}

/// The signature at the beginning of a text, after `void`.
fn signature(text: &str, defines: HashMap<String, usize>) -> Result<Signature, Rejected> {
    let text = text.trim_start();
    let (blocks_by_registers, text) = match text.strip_prefix("__launch_bounds__(") {
        None => (1, text),
        Some(rest) => {
            let Some((bounds, rest)) = rest.split_once(')') else {
                return reject("launch bounds without an end");
            };
            let blocks = bounds.split_once(',').map_or(Ok(1), |(_, blocks)| blocks.trim().parse());
            (blocks.map_err(|_| Rejected(format!("launch bounds {bounds}")))?, rest)
        }
    };
    let Some((name, rest)) = text.split_once('(') else { return reject("a kernel without a name") };
    let name = name.trim().to_string();
    let parameters = rest.split_once(')').map(|(parameters, _)| parameters).unwrap_or_default();
    let words = parameters.split_whitespace().filter(|word| *word != "__grid_constant__");
    match words.collect::<Vec<_>>()[..] {
        ["const", params, "p"] => {
            Ok(Signature { params: params.into(), name, blocks_by_registers, defines })
        }
        _ => reject(format!("{name} takes `{parameters}`, not one parameter struct")),
    }
}
