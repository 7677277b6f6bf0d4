//! Kernels' parameters, as their sources name them.
//!
//! ```text
//! extern "C" __global__ void __launch_bounds__(THREADS, 1) name(const float* from, u16* to, u32 count, float rate) {
//! ```

use super::{Refused, refuse};
use crate::runtime::compile::Source;
use std::collections::HashMap;

/// What a kernel's source says of it.
#[derive(Debug, PartialEq)]
pub(super) struct Signature {
    pub name: String,
    pub params: Vec<Param>,
    /// Blocks that a multiprocessor has registers for: what the source has the compiler see to.
    pub at_once: usize,
    /// What it is compiled with: numbers by name.
    pub defines: HashMap<String, usize>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Param {
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// Of what, and whether it is only read.
    Address {
        of: String,
        constant: bool,
    },
    U32,
    F32,
}

const BEGIN: &str = "extern \"C\" __global__ void";
const DEFINE: &str = "#define ";

/// A source as it stands for machine code: its text, behind what it is compiled with.
pub(super) fn text(source: &Source) -> String {
    let define = |d: &String| format!("{DEFINE}{}\n", d.replacen('=', " ", 1));
    source.defines.iter().map(define).collect::<String>() + &source.parts.concat()
}

/// All kernels of such a text.
pub(super) fn signatures(text: &str) -> Result<Vec<Signature>, Refused> {
    let defines = || {
        let lines = text.lines().filter_map(|line| line.strip_prefix(DEFINE)?.split_once(' '));
        lines.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
    };
    let plain: String =
        text.lines().flat_map(|l| [l.split("//").next().unwrap_or(""), "\n"]).collect();
    plain.split(BEGIN).skip(1).map(|kernel| signature(kernel, defines())).collect()
}

/// That of a text that begins behind `void`.
fn signature(text: &str, defines: HashMap<String, usize>) -> Result<Signature, Refused> {
    let text = text.trim_start();
    let (at_once, text) = match text.strip_prefix("__launch_bounds__(") {
        None => (1, text),
        Some(rest) => {
            let Some((bounds, rest)) = rest.split_once(')') else {
                return refuse("launch bounds without an end");
            };
            let blocks = bounds.split_once(',').map_or(Ok(1), |(_, blocks)| blocks.trim().parse());
            (blocks.map_err(|_| Refused(format!("launch bounds {bounds}")))?, rest)
        }
    };
    let Some((name, rest)) = text.split_once('(') else { return refuse("a kernel without a name") };
    let name = name.trim().to_string();
    let Some((params, _)) = rest.split_once(')') else {
        return refuse(format!("{name}: no end of its parameters"));
    };
    let params = params.split(',').map(|param| self::param(&name, param));
    Ok(Signature { params: params.collect::<Result<_, _>>()?, name, at_once, defines })
}

fn param(kernel: &str, text: &str) -> Result<Param, Refused> {
    let spaced = text.replace('*', " * ");
    let mut words: Vec<&str> = spaced.split_whitespace().filter(|w| *w != "__restrict__").collect();
    let name = words.pop().unwrap_or_default().to_string();
    let kind = match words[..] {
        ["u32"] => Kind::U32,
        ["float"] => Kind::F32,
        [of, "*"] => Kind::Address { of: of.into(), constant: false },
        ["const", of, "*"] => Kind::Address { of: of.into(), constant: true },
        _ => return refuse(format!("{kernel}: nobody knows what `{}` is", text.trim())),
    };
    Ok(Param { name, kind })
}
