//! What every phase of a pass needs to know, and how its work is cut up.

use crate::cpu::Cpu;
use crate::cpu::denormals::FlushDenormals;
use crate::exec::params::Params;
use crate::exec::wavefront::Plan;
use crate::exec::weights::Weights;
use crate::kernel::dots::{Dots, NARROW};
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, Product, Term, Terms};
use crate::model::weight_format::WeightFormat;
use crate::spec::params::Layout;
use crate::spec::wiring::columns;
use crate::spec::{Direction, NetSpec};

/// Fewer rows than this per thread, and threads share columns instead.
pub(crate) const MIN_ROWS: usize = 4;
/// The same for weights that a core's own cache cannot hold: fewer rows per thread than one for each of so
/// many bytes of `W_hh`. A thread that shares rows reads all weights at every step, one that shares columns
/// its part of them; from so many rows on arithmetic takes longer than reading (measured).
const ROW_BYTES: usize = 192 << 10;
/// Multiplications in a row's step from which sharing columns pays for its barriers.
const PARALLEL_STEP_WORK: usize = 100_000;

/// A network and what it runs on.
#[derive(Clone, Copy)]
pub(crate) struct Net<'a> {
    pub cpu: &'a Cpu,
    pub spec: &'a NetSpec,
    pub layout: &'a Layout,
    /// Of the weights that products read.
    pub format: WeightFormat,
    /// Threads that a phase is shared among: the team's, or one where lanes run side by side.
    pub threads: usize,
}

impl<'a> Net<'a> {
    pub fn new(cpu: &'a Cpu, spec: &'a NetSpec, layout: &'a Layout) -> Net<'a> {
        Net { cpu, spec, layout, format: WeightFormat::F32, threads: cpu.threads() }
    }

    /// The same with weights of another format.
    pub fn with_format(self, format: WeightFormat) -> Net<'a> {
        Net { format, ..self }
    }

    /// The same, for a lane that has one thread to itself.
    pub fn alone(self) -> Net<'a> {
        Net { threads: 1, ..self }
    }

    /// Whether `lanes` are enough to keep every thread busy with lanes of its own. A lane then runs
    /// through all phases at once, while its data is in cache.
    pub fn lanes_alone(&self, lanes: usize) -> bool {
        lanes > 1 && (lanes.is_multiple_of(self.threads) || lanes >= 4 * self.threads)
    }

    /// Whether threads share the columns of a layer's steps, because there are too few rows for the
    /// `parts` that each recurrence would be cut into.
    pub fn shares_columns(&self, parts: usize, rows: usize, layer: usize) -> bool {
        let units = self.spec.units()[layer];
        let bytes =
            self.spec.cell().gates() * units * self.spec.hidden(layer) * self.format.bytes();
        let few = parts * MIN_ROWS.max(bytes / ROW_BYTES);
        parts > 1 && rows < few && self.step_work(layer) >= PARALLEL_STEP_WORK
    }

    /// Whether the layers of a stack run side by side. Measured: it pays where a step is too small to be
    /// shared by columns and there are too few rows to be shared either; with layers to spare, so that
    /// threads seldom wait for each other, also with a few more rows.
    pub fn in_waves(&self, lanes: usize, rows: usize) -> bool {
        let layers = self.spec.layers();
        let forward = self.spec.direction() == Direction::Forward;
        let can = self.threads > 1 && lanes == 1 && layers > 1 && forward;
        can && match self.cpu.plan {
            Plan::Auto => {
                let small = (0..layers).all(|layer| self.step_work(layer) < PARALLEL_STEP_WORK);
                let to_spare = layers >= 2 * self.threads;
                let max = if to_spare { 2 * MIN_ROWS * self.threads } else { MIN_ROWS };
                small && rows < max
            }
            Plan::LayerByLayer => false,
            Plan::Wavefront => true,
        }
    }

    /// Multiplications of one row's step.
    fn step_work(&self, layer: usize) -> usize {
        self.columns(layer) * self.spec.hidden(layer)
    }

    /// How many parts each of `recurrences` is cut into, to occupy every thread.
    pub fn parts(&self, recurrences: usize) -> usize {
        self.threads.div_ceil(recurrences.max(1))
    }

    /// Calls `f(i)` for each i in 0..items.
    pub fn each(&self, items: usize, f: impl Fn(usize) + Sync) {
        if self.threads > 1 {
            return self.cpu.team.each(items, f);
        }
        let _flush = FlushDenormals::on();
        (0..items).for_each(f);
    }

    pub fn directions(&self) -> usize {
        self.spec.direction().count()
    }

    /// Gate columns of a layer.
    pub fn columns(&self, layer: usize) -> usize {
        columns(self.spec.cell(), self.spec.units()[layer])
    }

    /// Place of (layer, direction) in vectors that hold one thing for each.
    pub fn place(&self, layer: usize, direction: usize) -> usize {
        layer * self.directions() + direction
    }

    /// A product over all columns.
    ///
    /// # Safety
    /// As [`crate::kernel::product::product`].
    pub unsafe fn product(
        &self,
        rows: usize,
        cols: usize,
        c: *mut f32,
        c_stride: usize,
        init: Init,
        terms: &[Term],
    ) {
        let panels = 0..panel_count(cols, self.cpu.kernels.width);
        // SAFETY: the caller's promise.
        unsafe {
            self.cpu.kernels.product(&Product {
                rows,
                cols,
                panels,
                backwards: false,
                c,
                c_stride,
                init,
                format: self.format,
                terms,
            })
        }
    }

    /// `to = b + sum h W_out^T` over the units that outputs are made of, one term per direction, whose `w` is
    /// filled in here; nothing without an output layer.
    ///
    /// # Safety
    /// As [`crate::kernel::product::product`].
    pub unsafe fn output(
        &self,
        weights: &Weights,
        params: Params,
        rows: usize,
        to: *mut f32,
        terms: &mut Terms,
    ) {
        let (Some([weight, bias]), Some(m)) = (self.layout.output(), self.spec.outputs()) else {
            return;
        };
        let (bias, w_stride) = (params.get(bias).as_ptr(), self.spec.hidden_width());
        let first = self.spec.output_units().start;
        let n = w_stride / self.directions();
        for (direction, term) in terms.as_mut_slice().iter_mut().enumerate() {
            term.w = match m <= NARROW {
                true => params.get(weight.clone())[direction * n + first..].as_ptr(),
                false => weights.output[direction].ptr(),
            };
        }
        let terms = terms.as_slice();
        // SAFETY: the caller's promise.
        unsafe {
            if m <= NARROW {
                let dots = Dots { rows, cols: m, c: to, c_stride: m, bias, w_stride, terms };
                (self.cpu.kernels.dots)(&dots);
            } else {
                let init = Init::Rows { from: bias, stride: 0 };
                self.product(rows, m, to, m, init, terms);
            }
        }
    }
}

/// How many pieces row-wise work of a lane is cut into: more than parts, so that threads end together.
pub(crate) fn pieces(parts: usize) -> usize {
    if parts == 1 { 1 } else { 4 * parts }
}
