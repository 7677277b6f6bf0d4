//! Work that is submitted to a stream, and its line in a plan.

use super::{Names, Recorder};
use crate::kernels::params::Value;
use cudarc::cublas::sys::{cublasComputeType_t, cublasOperation_t, cudaDataType};

#[derive(Debug, Clone)]
pub(super) enum Node {
    Launch(Launch),
    Product(Product),
    /// All bytes from an address on.
    Fill {
        at: u64,
        byte: u8,
        bytes: usize,
    },
    Copy {
        from: u64,
        to: u64,
        bytes: usize,
    },
    /// Waits for the other stream.
    Wait,
    /// From the host.
    Receive {
        at: u64,
        bytes: usize,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// Number of the function.
    pub function: usize,
    pub grid: [usize; 2],
    pub threads: usize,
    pub shared: usize,
    pub cooperative: bool,
    /// Name of the parameter struct, and its fields.
    pub params: &'static str,
    pub fields: Vec<(&'static str, Value)>,
}

/// cuBLAS's arguments, column-major: C (rows, columns) = A B + beta C.
#[derive(Debug, Clone)]
pub(super) struct Product {
    pub rows: i32,
    pub columns: i32,
    pub depth: i32,
    pub a: Factor,
    pub b: Factor,
    pub c: Factor,
    pub alpha: f32,
    pub beta: f32,
    pub compute: cublasComputeType_t,
}

/// A matrix of a product: its address, and the distance between its columns.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    pub at: u64,
    pub stride: i32,
    pub kind: cudaDataType,
    pub operation: cublasOperation_t,
}

impl Product {
    /// The matrices by the host's names, whose A is cuBLAS's B, with their rows and columns in
    /// memory.
    pub fn matrices(&self) -> [(&'static str, &Factor, [usize; 2]); 3] {
        let Product { rows, columns, depth, a, b, c, .. } = self;
        let in_memory = |m: &Factor, [rows, columns]: [i32; 2]| {
            let size = if m.is_transposed() { [columns, rows] } else { [rows, columns] };
            size.map(|size| size as usize)
        };
        [
            ("B", a, in_memory(a, [*rows, *depth])),
            ("A", b, in_memory(b, [*depth, *columns])),
            ("C", c, in_memory(c, [*rows, *columns])),
        ]
    }
}

impl Factor {
    /// Bytes from its first value to its last.
    pub fn bytes(&self, [rows, columns]: [usize; 2]) -> usize {
        let values = (columns - 1) * self.stride as usize + rows;
        values * if self.kind() == "f16" { 2 } else { 4 }
    }

    pub fn is_transposed(&self) -> bool {
        self.operation != cublasOperation_t::CUBLAS_OP_N
    }

    pub fn kind(&self) -> &'static str {
        match self.kind {
            cudaDataType::CUDA_R_16F => "f16",
            cudaDataType::CUDA_R_32F => "f32",
            _ => "something else",
        }
    }
}

impl Recorder {
    pub(super) fn line(&self, node: &Node, names: &Names) -> String {
        let place = |at: u64| self.place(at, names);
        let to_end = |at: u64, bytes: usize| match self.memory.find(at) {
            Some((found, offset)) => format!("..{}", (offset + bytes) / found.size),
            None => String::new(),
        };
        match node {
            Node::Launch(launch) => self.launch_line(launch, names),
            Node::Product(product) => self.product_line(product, names),
            Node::Fill { at, byte, bytes } => {
                format!("fill     {}{} with {byte:02x}", place(*at), to_end(*at, *bytes))
            }
            Node::Copy { from, to, bytes } => {
                format!("copy     {}{} to {}", place(*from), to_end(*from, *bytes), place(*to))
            }
            Node::Wait => "wait     for the other stream".into(),
            Node::Receive { at, bytes } => {
                format!("receive  {}{}", place(*at), to_end(*at, *bytes))
            }
        }
    }

    /// A buffer's name, and the index of the value at an address.
    fn place(&self, at: u64, names: &Names) -> String {
        match self.memory.find(at) {
            _ if at == 0 => "null".into(),
            None => "nowhere".into(),
            Some((found, offset)) => format!("{}:{}", names.of(found.at), offset / found.size),
        }
    }

    fn launch_line(&self, launch: &Launch, names: &Names) -> String {
        let Launch { grid: [x, y], threads, shared, fields, .. } = launch;
        let name = &self.functions[&launch.function].signature.name;
        let fields = fields.iter().map(|(field, value)| {
            let value = match value {
                Value::Address { at, .. } => self.place(*at, names),
                Value::U32(value) => value.to_string(),
                Value::U64(value) => value.to_string(),
                Value::F32(value) => format!("{value:?}"),
            };
            format!(" {field}={value}")
        });
        let fields: String = fields.collect();
        let how = if launch.cooperative { "cooperative" } else { "launch  " };
        let grid = if *y == 1 { x.to_string() } else { format!("{x}x{y}") };
        let shared = if *shared == 0 { String::new() } else { format!(", {shared} bytes") };
        format!("{how} {name}, {grid} blocks of {threads}{shared}:{fields}")
    }

    /// Row-major, as the host sees it: its A is cuBLAS's B.
    fn product_line(&self, product: &Product, names: &Names) -> String {
        let Product { rows, columns, depth, a, b, c, alpha, beta, compute } = product;
        let matrix = |m: &Factor| format!("{}/{}", self.place(m.at, names), m.stride);
        let transposed = |m: &Factor| if m.is_transposed() { "^T" } else { "" };
        let factors = if [*alpha, *beta] == [1.0, 0.0] {
            String::new()
        } else {
            format!(", alpha={alpha} beta={beta}")
        };
        let how = match compute {
            cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32 => " by tf32",
            _ => "",
        };
        format!(
            "product  {} A{} B{} to {}{how}, {columns} x {rows} over {depth}: A={} B={} to {}{factors}",
            a.kind(),
            transposed(b),
            transposed(a),
            c.kind(),
            matrix(b),
            matrix(a),
            matrix(c),
        )
    }
}
