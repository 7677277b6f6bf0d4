//! Arguments of calls: device addresses, checked as far as the host can.

use super::Recurrence;
use crate::error::{Error, Result};
use crate::step;

/// Parameters, or their gradients, of one direction of a layer: device addresses of f32 in
/// PyTorch's layout, gates in its order (LSTM i, f, g, o; GRU r, z, n).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerArrays {
    /// (gates n, inputs of the layer).
    pub w_ih: u64,
    /// (gates n, n).
    pub w_hh: u64,
    /// (gates n); 0 for a layer without biases, which are zeros then, and whose gradient is
    /// dropped.
    pub b_ih: u64,
    /// (gates n), or 0.
    pub b_hh: u64,
}

impl LayerArrays {
    /// Of recurrences whose parameters, or gradients, lie in one vector, where `at` says.
    pub(crate) fn in_vector<'r>(
        recurrences: impl IntoIterator<Item = &'r step::plan::Recurrence>,
        at: impl Fn(usize) -> u64,
    ) -> Vec<LayerArrays> {
        let of_one = |r: &step::plan::Recurrence| LayerArrays {
            w_ih: at(r.w_ih),
            w_hh: at(r.w_hh),
            b_ih: at(r.b_ih),
            b_hh: at(r.b_hh),
        };
        recurrences.into_iter().map(of_one).collect()
    }
}

/// Device address of the lengths of sequences, (B). A length is at least 0 and at most T; others
/// count as the nearest of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Lengths {
    /// All sequences have T steps.
    #[default]
    Full,
    /// i32.
    I32(u64),
    /// i64.
    I64(u64),
}

/// Arrays of a forward pass, as device addresses. 0 stands for an optional one that is not there.
/// T, B, q and n as in the specification; `directions` is 1 or 2. No two arrays may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForwardArguments<'a> {
    /// (T, B, q). What stands after a sequence's end is not read.
    pub x: u64,
    /// Layer by layer, forward before reverse.
    pub parameters: &'a [LayerArrays],
    /// Optional: first hidden states (layers directions, B, n) f32; zeros if there are none.
    pub h0: u64,
    /// Optional, LSTM only: first cell states, same shape.
    pub c0: u64,
    /// Steps of each sequence. The reverse direction begins at the sequence's own end.
    pub lengths: Lengths,
    /// Out, optional: (T, B, directions n), zeros after each sequence's end.
    pub y: u64,
    /// Out, optional: hidden states after each sequence's own last step, as `h0`.
    pub h_n: u64,
    /// Out, optional, LSTM only: cell states, as `c0`.
    pub c_n: u64,
    /// [`Recurrence::saved_bytes`], until the backward pass; 0 if there are none.
    pub saved: u64,
    /// [`Recurrence::workspace_bytes`], free for other work in the stream after the call.
    pub workspace: u64,
}

/// Arrays of a backward pass, as [`ForwardArguments`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackwardArguments<'a> {
    /// Those of the forward pass, with the same values.
    pub parameters: &'a [LayerArrays],
    /// Optional: gradient of `y`; zeros if there is none. What stands after a sequence's end is not
    /// read.
    pub d_y: u64,
    /// Optional: gradient of `h_n`.
    pub d_h_n: u64,
    /// Optional, LSTM only: gradient of `c_n`.
    pub d_c_n: u64,
    /// Out, optional: gradient of `x`, zeros after each sequence's end.
    pub d_x: u64,
    /// Out, optional: gradient of `h0`.
    pub d_h0: u64,
    /// Out, optional, LSTM only: gradient of `c0`.
    pub d_c0: u64,
    /// Out: gradients of the parameters, overwritten.
    pub gradients: &'a [LayerArrays],
    /// What the forward pass saved. It is overwritten, so there is one backward pass for each
    /// forward pass.
    pub saved: u64,
    /// [`Recurrence::workspace_bytes`], free for other work in the stream after the call.
    pub workspace: u64,
}

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Argument(what.into()))
}

/// An array that has to be there.
fn required(name: &str, at: u64, alignment: usize) -> Result<()> {
    if at == 0 {
        return wrong(format!("{name} is null; a device address is expected"));
    }
    optional(name, at, alignment)
}

fn optional(name: &str, at: u64, alignment: usize) -> Result<()> {
    if at.is_multiple_of(alignment as u64) {
        return Ok(());
    }
    wrong(format!("{name} is at address {at:#x}; a multiple of {alignment} is expected"))
}

impl Recurrence {
    fn check_arrays(&self, name: &str, arrays: &[LayerArrays]) -> Result<()> {
        let expected = self.plan.layers.iter().map(Vec::len).sum::<usize>();
        if arrays.len() != expected {
            let found = arrays.len();
            return wrong(format!("{name} of {found} layers and directions; {expected} expected"));
        }
        for (i, LayerArrays { w_ih, w_hh, b_ih, b_hh }) in arrays.iter().enumerate() {
            required(&format!("{name}[{i}].w_ih"), *w_ih, 4)?;
            required(&format!("{name}[{i}].w_hh"), *w_hh, 4)?;
            optional(&format!("{name}[{i}].b_ih"), *b_ih, 4)?;
            optional(&format!("{name}[{i}].b_hh"), *b_hh, 4)?;
        }
        Ok(())
    }

    /// States are f32, and only LSTMs have cell states.
    fn check_states(&self, hidden: [(&str, u64); 2], cell: [(&str, u64); 2]) -> Result<()> {
        for (name, at) in hidden.into_iter().chain(cell) {
            optional(name, at, 4)?;
        }
        let given = cell.into_iter().find(|(_, at)| *at != 0);
        match given.filter(|_| !self.plan.cell.has_cell_state()) {
            Some((name, _)) => wrong(format!("{name} for {}, which has no cell state", self.spec)),
            None => Ok(()),
        }
    }

    fn check_memory(&self, saved: u64, workspace: u64) -> Result<()> {
        if self.saved_bytes > 0 {
            required("saved", saved, Recurrence::ALIGNMENT)?;
        }
        required("workspace", workspace, Recurrence::ALIGNMENT)
    }

    pub(super) fn check_forward(&self, call: &ForwardArguments) -> Result<()> {
        let values = self.options.format.bytes();
        required("x", call.x, values)?;
        optional("y", call.y, values)?;
        self.check_arrays("parameters", call.parameters)?;
        match call.lengths {
            Lengths::Full => {}
            Lengths::I32(at) => required("lengths", at, 4)?,
            Lengths::I64(at) => required("lengths", at, 8)?,
        }
        let cell = [("c0", call.c0), ("c_n", call.c_n)];
        self.check_states([("h0", call.h0), ("h_n", call.h_n)], cell)?;
        self.check_memory(call.saved, call.workspace)
    }

    pub(super) fn check_backward(&self, call: &BackwardArguments) -> Result<()> {
        if !self.options.training {
            return wrong("a backward pass of a recurrence that was planned without training");
        }
        let values = self.options.format.bytes();
        optional("d_y", call.d_y, values)?;
        optional("d_x", call.d_x, values)?;
        self.check_arrays("parameters", call.parameters)?;
        self.check_arrays("gradients", call.gradients)?;
        let hidden = [("d_h_n", call.d_h_n), ("d_h0", call.d_h0)];
        self.check_states(hidden, [("d_c_n", call.d_c_n), ("d_c0", call.d_c0)])?;
        self.check_memory(call.saved, call.workspace)
    }
}
