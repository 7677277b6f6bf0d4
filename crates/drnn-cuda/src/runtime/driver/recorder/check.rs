//! What is rejected.

use super::extents::{Call, Extents, extents};
use super::memory::Allocation;
use super::node::{Factor, Launch, Node, Product};
use super::{Recorder, Rejected, reject};
use crate::kernels::params::Value;
use std::ops::Range;

/// Dynamic shared memory that a kernel may have by default.
pub(super) const DEFAULT_SHARED: usize = 48 << 10;
/// Maximal threads of a block, and of a multiprocessor.
const MAX_THREADS: [usize; 2] = [1024, 2048];
/// Maximal grid along x, and along y.
const MAX_GRID: [usize; 2] = [(1 << 31) - 1, (1 << 16) - 1];
/// Shared memory that the system reserves in every block.
const RESERVED: usize = 1 << 10;

/// Fields that may be null.
const NULLABLE: [(&str, &str); 46] = [
    ("to_half", "header"),
    ("sum_chunks", "copy"),
    ("persistent_forward", "tokens"),
    ("group_outputs", "outputs"),
    ("begin_forward", "lengths32"),
    ("begin_forward", "lengths64"),
    ("begin_forward", "to"),
    ("begin_forward", "to_half"),
    ("begin_forward", "exchange"),
    ("begin_forward", "parity"),
    ("end_forward_half", "y"),
    ("end_forward_half", "last"),
    ("read_values_half", "header"),
    ("write_values", "header"),
    ("largest", "d_y"),
    ("largest", "d_h"),
    ("largest", "d_c"),
    ("place_states", "given"),
    ("pack_single_block", "forward"),
    ("pack_single_block", "backward"),
    ("pack_single_block", "bias"),
    ("pack_single_block", "b_ih"),
    ("pack_single_block", "b_hh"),
    ("place_states_half", "exchange"),
    ("slots_forward", "sums"),
    ("slots_forward", "table"),
    ("slots_forward", "tokens"),
    ("slots_forward", "first"),
    ("slots_forward", "last"),
    ("slots_backward", "d_h"),
    ("slots_backward", "d_last_h"),
    ("slots_backward", "d_last_c"),
    ("slots_backward", "d_first_h"),
    ("first_gradients", "d_last_h"),
    ("first_gradients", "d_first_h"),
    ("first_gradients", "d_first_c"),
    ("place_states_half", "first_h"),
    ("place_states_half", "first_c"),
    ("persistent_forward_from_states", "table"),
    ("persistent_forward_from_states", "tokens"),
    ("persistent_forward_from_states", "first"),
    ("persistent_forward_from_states", "last"),
    ("persistent_backward_from_states", "d_last_h"),
    ("persistent_backward_from_states", "d_last_c"),
    ("persistent_backward_from_states", "d_first_h"),
    ("persistent_backward_from_states", "d_first_c"),
];

/// Fields of persistent kernels that are null where a block has all units.
const OF_EXCHANGES: [&str; 6] =
    ["h_exchange_even", "h_exchange_odd", "below_even", "below_odd", "parity", "dh_partials"];

/// Fields that write f32 into a buffer of u32: targets, which may also be classes.
const WRITES_WORDS: [(&str, &str); 1] = [("make_sine", "y")];

/// Whether a pointer to the C type `of` may point into a buffer of `element`. A staged batch is a
/// buffer of u32 that may hold anything, so it may be read as f32; writes must match the buffer.
fn matches_buffer(of: &str, element: &str, constant: bool) -> bool {
    match of {
        "float" => element == "f32" || element == "u32" && constant,
        "u16" => element == "u16" || element == "u8",
        "u8" | "uint2" => element == "u8",
        "uint4" => element == "u16",
        "u32" | "Header" | "Task" | "Coefficients" | "Recipe" => element == "u32",
        "u64" => element == "u64",
        "Values" => element == "f32" || element == "u16",
        "double" | "Totals" | "Progress" => element == "f64",
        _ => false,
    }
}

impl Recorder {
    pub(super) fn check(&self, node: &Node) -> Result<(), Rejected> {
        match node {
            Node::Launch(launch) => self.check_launch(launch),
            Node::Product(product) => self.check_product(product),
            Node::Wait => Ok(()),
            Node::Fill { at, bytes, .. } => self.within("a fill", *at, *bytes).map(drop),
            Node::Receive { at, bytes } => self.within("a copy", *at, *bytes).map(drop),
            Node::Copy { from, to, bytes } => {
                let (from, to) =
                    (self.within("a copy", *from, *bytes)?, self.within("a copy", *to, *bytes)?);
                if from.element != to.element {
                    return reject(format!("a copy of {} to {}", from.element, to.element));
                }
                Ok(())
            }
        }
    }

    /// The allocation that contains all of `bytes`.
    pub(super) fn within(&self, what: &str, at: u64, bytes: usize) -> Result<Allocation, Rejected> {
        let Some((found, offset)) = self.memory.find(at) else {
            return reject(format!("{what} outside of all allocations"));
        };
        let Allocation { len, element, size, .. } = found;
        if offset % size != 0 {
            return reject(format!("{what} between two values"));
        }
        if offset + bytes > found.bytes() {
            let (from, end) = (offset / size, (offset + bytes).div_ceil(size));
            return reject(format!("{what} of values {from}..{end} of {len} {element}"));
        }
        Ok(found)
    }

    /// Blocks of a kernel that fit one multiprocessor at a time.
    pub(super) fn max_active_blocks(
        &self,
        function: usize,
        threads: usize,
        shared: usize,
    ) -> usize {
        if shared > self.limits.shared || threads == 0 || threads > MAX_THREADS[0] {
            return 0;
        }
        let by_registers =
            self.functions.get(&function).map_or(0, |f| f.signature.blocks_by_registers);
        let by_shared = (self.limits.shared + RESERVED) / (shared + RESERVED);
        by_registers.min(by_shared).min(MAX_THREADS[1] / threads)
    }

    fn check_launch(&self, launch: &Launch) -> Result<(), Rejected> {
        let Launch { function, grid, threads, shared, cooperative, params, fields } = launch;
        let Some(kernel) = self.functions.get(function) else {
            return reject("a kernel that does not exist");
        };
        let signature = &kernel.signature;
        let name = &signature.name;
        if grid.contains(&0) || grid[0] > MAX_GRID[0] || grid[1] > MAX_GRID[1] {
            return reject(format!("{name}: {grid:?} blocks"));
        }
        if !(1..=MAX_THREADS[0]).contains(threads) || (grid[0] * threads) as u64 > 1 << 32 {
            return reject(format!("{name}: {} blocks of {threads} threads", grid[0]));
        }
        if *shared > kernel.allowed {
            let allowed = kernel.allowed;
            return reject(format!("{name}: {shared} bytes of shared memory, allowed {allowed}"));
        }
        let active = self.max_active_blocks(*function, *threads, *shared);
        let max = self.limits.multiprocessors * active;
        if *cooperative && grid[0] > max {
            return reject(format!("{name}: {} cooperative blocks, {max} fit", grid[0]));
        }
        if signature.params != *params {
            return reject(format!("{name}: {params} for {}", signature.params));
        }
        let defined = |name: &str, value: usize| signature.defines.get(name) == Some(&value);
        let (alone, one_layer) = (defined("SINGLE_BLOCK", 1), defined("STACKED", 0));
        let fields = fields.iter().filter(|(field, value)| {
            let null = matches!(value, Value::Address { at: 0, .. });
            let absent =
                alone && OF_EXCHANGES.contains(field) || one_layer && *field == "read_counts";
            !(null && absent)
        });
        let mut fields = fields.into_iter();
        fields.try_for_each(|(field, value)| self.check_field(name, field, value))?;
        self.check_extents(&Call { signature, launch })
    }

    /// An address must lie in a buffer of the type that the kernel expects.
    fn check_field(&self, kernel: &str, field: &str, value: &Value) -> Result<(), Rejected> {
        let Value::Address { at, of, constant } = *value else { return Ok(()) };
        if at == 0 && NULLABLE.contains(&(kernel, field)) {
            return Ok(());
        }
        let found = self.within(&format!("{kernel}: {field}"), at, 0)?;
        let reads = constant || WRITES_WORDS.contains(&(kernel, field));
        if !matches_buffer(of, found.element, reads) {
            return reject(format!("{kernel}: {field} is {of}, there is {}", found.element));
        }
        Ok(())
    }

    fn check_extents(&self, call: &Call) -> Result<(), Rejected> {
        let kernel = &call.signature.name;
        let Some(Extents { threads, arrays }) = extents(call) else {
            return reject(format!("{kernel}: extents.rs does not know how much it accesses"));
        };
        let [x, y] = call.launch.grid;
        if x * y * call.launch.threads < threads {
            let launched = x * y * call.launch.threads;
            return reject(format!("{kernel}: {launched} threads for {threads}"));
        }
        for (name, bytes) in self.ranges(call, &arrays) {
            let found = self.within(
                &format!("{kernel}: {name}"),
                bytes.start,
                (bytes.end - bytes.start) as usize,
            )?;
            if found.received.is_some_and(|end| bytes.end > found.at + end as u64) {
                return reject(format!("{kernel}: {name} extends beyond what was received"));
            }
        }
        Ok(())
    }

    /// Addresses of a launch's arrays, without those that are null or empty.
    pub(super) fn ranges<'a>(
        &self,
        call: &Call,
        arrays: &'a [(&'static str, usize)],
    ) -> Vec<(&'a str, Range<u64>)> {
        let exists =
            |(name, values): &&(&'static str, usize)| *values > 0 && call.address(name) != 0;
        let range = |(name, values): &(&'static str, usize)| {
            let at = call.address(name);
            let size = self.memory.find(at).map_or(1, |(found, _)| found.size);
            (*name, at..at + (values * size) as u64)
        };
        arrays.iter().filter(exists).map(range).collect()
    }

    fn check_product(&self, product: &Product) -> Result<(), Rejected> {
        let Product { rows, columns, depth, .. } = product;
        if [rows, columns, depth].iter().any(|size| **size <= 0) {
            return reject(format!("a product of {columns} x {rows} over {depth}"));
        }
        let [in_a, in_b, in_c] =
            product.matrices().map(|(name, m, size)| self.check_factor(name, m, size));
        let (in_a, in_b, in_c) = (in_a?, in_b?, in_c?);
        if in_c == in_a || in_c == in_b {
            return reject("a product that writes to a buffer that it reads");
        }
        if in_c.element == "u32" {
            return reject("a product that writes to a buffer of u32");
        }
        Ok(())
    }

    /// The allocation that contains a matrix.
    fn check_factor(
        &self,
        name: &str,
        m: &Factor,
        size: [usize; 2],
    ) -> Result<Allocation, Rejected> {
        let (what, rows) = (format!("a product's {name}"), size[0]);
        if m.stride < rows as i32 {
            return reject(format!("{what} has rows of {rows}, {} apart", m.stride));
        }
        let element = match m.kind() {
            "f16" => "u16",
            "f32" => "f32",
            other => return reject(format!("{what} is {other}")),
        };
        let found = self.within(&what, m.at, m.bytes(size))?;
        // A staged batch may hold anything.
        if found.element != element && !(found.element == "u32" && element == "f32") {
            return reject(format!("{what} is {}, there is {}", m.kind(), found.element));
        }
        Ok(found)
    }
}
