//! What is refused.

use super::memory::Held;
use super::node::{Factor, Launch, Node, Product};
use super::reach::{Call, Reach, reach};
use super::source::{Kind, Param};
use super::{Recorder, Refused, refuse};
use crate::runtime::stream::Arg;
use std::ops::Range;

/// Shared memory that a kernel has without being allowed more.
pub(super) const ALLOWED: usize = 48 << 10;
/// The most threads of a block, and of a multiprocessor.
const THREADS: [usize; 2] = [1024, 2048];
/// The most blocks along x, and along y.
const BLOCKS: [usize; 2] = [(1 << 31) - 1, (1 << 16) - 1];
/// Shared memory that every block has besides its own.
const RESERVED: usize = 1 << 10;

/// Addresses that may be null: kernels ask.
const NULLS: [(&str, &str); 4] = [
    ("halve", "header"),
    ("sum_chunks", "again"),
    ("persistent_forward", "tokens"),
    ("group_answers", "shown_answers"),
];

/// Words (u32) that are written as f32: targets, which may be classes too.
const WRITTEN: [(&str, &str); 1] = [("make_sine", "y")];

/// Elements of buffers in which kernels may find what they call by another name. Words (u32) of a batch may be anything, so they
/// may be read as f32; what is written must be what the buffer says it is.
fn may_be(of: &str, element: &str, constant: bool) -> bool {
    match of {
        "float" => element == "f32" || element == "u32" && constant,
        "u16" => element == "u16" || element == "u8",
        "u8" | "uint2" => element == "u8",
        "uint4" => element == "u16",
        "u32" | "Header" | "Task" | "Coefficients" | "Recipe" => element == "u32",
        "double" | "Totals" | "Progress" => element == "f64",
        _ => false,
    }
}

impl Recorder {
    pub(super) fn check(&self, node: &Node) -> Result<(), Refused> {
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
                    return refuse(format!("a copy of {} to {}", from.element, to.element));
                }
                Ok(())
            }
        }
    }

    /// The array in which all of `bytes` lie.
    pub(super) fn within(&self, what: &str, at: u64, bytes: usize) -> Result<Held, Refused> {
        let Some((held, offset)) = self.memory.find(at) else {
            return refuse(format!("{what} outside of all that is allocated"));
        };
        let Held { len, element, size, .. } = held;
        if offset % size != 0 {
            return refuse(format!("{what} between two values"));
        }
        if offset + bytes > held.bytes() {
            let (from, end) = (offset / size, (offset + bytes).div_ceil(size));
            return refuse(format!("{what} of values {from}..{end} of {len} {element}"));
        }
        Ok(held)
    }

    /// Blocks of a kernel that a multiprocessor runs at once.
    pub(super) fn at_once(&self, function: usize, threads: usize, shared: usize) -> usize {
        if shared > self.card.shared || threads == 0 || threads > THREADS[0] {
            return 0;
        }
        let by_registers = self.functions.get(&function).map_or(0, |f| f.signature.at_once);
        let by_shared = (self.card.shared + RESERVED) / (shared + RESERVED);
        by_registers.min(by_shared).min(THREADS[1] / threads)
    }

    fn check_launch(&self, launch: &Launch) -> Result<(), Refused> {
        let Launch { function, grid, threads, shared, together, args } = launch;
        let Some(kernel) = self.functions.get(function) else {
            return refuse("a kernel that there is not");
        };
        let name = &kernel.signature.name;
        let params = &kernel.signature.params;
        if grid.contains(&0) || grid[0] > BLOCKS[0] || grid[1] > BLOCKS[1] {
            return refuse(format!("{name}: {grid:?} blocks"));
        }
        if !(1..=THREADS[0]).contains(threads) || (grid[0] * threads) as u64 > 1 << 32 {
            return refuse(format!("{name}: {} blocks of {threads} threads", grid[0]));
        }
        if *shared > kernel.allowed {
            let allowed = kernel.allowed;
            return refuse(format!("{name}: {shared} bytes of shared memory, allowed {allowed}"));
        }
        let most = self.card.multiprocessors * self.at_once(*function, *threads, *shared);
        if *together && grid[0] > most {
            return refuse(format!("{name}: {} blocks wait for each other, {most} fit", grid[0]));
        }
        if args.len() != params.len() {
            return refuse(format!("{name}: {} arguments for {}", args.len(), params.len()));
        }
        for (param, arg) in params.iter().zip(args) {
            self.check_argument(name, param, arg)?;
        }
        self.check_reach(&Call { signature: &kernel.signature, launch })
    }

    fn check_argument(&self, kernel: &str, param: &Param, arg: &Arg) -> Result<(), Refused> {
        let Param { name, kind } = param;
        match (kind, arg) {
            (Kind::U32, Arg::U32(_)) | (Kind::F32, Arg::F32(_)) => Ok(()),
            (Kind::Address { .. }, Arg::At(0)) if NULLS.contains(&(kernel, name)) => Ok(()),
            (Kind::Address { of, constant }, Arg::At(at)) => {
                let held = self.within(&format!("{kernel}: {name}"), *at, 0)?;
                let read = *constant || WRITTEN.contains(&(kernel, name));
                if !may_be(of, held.element, read) {
                    return refuse(format!("{kernel}: {name} is {of}, there is {}", held.element));
                }
                Ok(())
            }
            _ => refuse(format!("{kernel}: {arg:?} for {name}")),
        }
    }

    fn check_reach(&self, call: &Call) -> Result<(), Refused> {
        let kernel = &call.signature.name;
        let Some(Reach { threads, arrays }) = reach(call) else {
            return refuse(format!("{kernel}: nobody says how far it reaches; see reach.rs"));
        };
        let [x, y] = call.launch.grid;
        if x * y * call.launch.threads < threads {
            let there = x * y * call.launch.threads;
            return refuse(format!("{kernel}: {there} threads for {threads}"));
        }
        for (name, bytes) in self.extents(call, &arrays) {
            let held = self.within(
                &format!("{kernel}: {name}"),
                bytes.start,
                (bytes.end - bytes.start) as usize,
            )?;
            if held.received.is_some_and(|end| bytes.end > held.at + end as u64) {
                return refuse(format!("{kernel}: {name} reaches behind what was received"));
            }
        }
        Ok(())
    }

    /// Bytes of a launch's arrays, but for those that it does not have.
    pub(super) fn extents<'a>(
        &self,
        call: &Call,
        arrays: &'a [(&'static str, usize)],
    ) -> Vec<(&'a str, Range<u64>)> {
        let there = arrays.iter().filter(|(name, values)| *values > 0 && call.address(name) != 0);
        let extent = |(name, values): &(&'static str, usize)| {
            let at = call.address(name);
            let size = self.memory.find(at).map_or(1, |(held, _)| held.size);
            (*name, at..at + (values * size) as u64)
        };
        there.map(extent).collect()
    }

    fn check_product(&self, product: &Product) -> Result<(), Refused> {
        let Product { rows, columns, depth, .. } = product;
        if [rows, columns, depth].iter().any(|size| **size <= 0) {
            return refuse(format!("a product of {columns} x {rows} over {depth}"));
        }
        let [in_a, in_b, in_c] =
            product.matrices().map(|(name, m, size)| self.check_factor(name, m, size));
        let (in_a, in_b, in_c) = (in_a?, in_b?, in_c?);
        if in_c == in_a || in_c == in_b {
            return refuse("a product that writes where it reads");
        }
        if in_c.element == "u32" {
            return refuse("a product that is written to words");
        }
        Ok(())
    }

    /// The array that a matrix lies in.
    fn check_factor(&self, name: &str, m: &Factor, size: [usize; 2]) -> Result<Held, Refused> {
        let (what, rows) = (format!("a product's {name}"), size[0]);
        if m.stride < rows as i32 {
            return refuse(format!("{what} has rows of {rows}, {} apart", m.stride));
        }
        let element = match m.kind() {
            "f16" => "u16",
            "f32" => "f32",
            other => return refuse(format!("{what} is {other}")),
        };
        let held = self.within(&what, m.at, m.bytes(size))?;
        // A batch's words may be anything.
        if held.element != element && !(held.element == "u32" && element == "f32") {
            return refuse(format!("{what} is {}, there is {}", m.kind(), held.element));
        }
        Ok(held)
    }
}
