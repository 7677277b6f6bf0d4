//! What a stream is asked to do, and as a line of text.

use super::{Names, Recorder};
use crate::runtime::stream::Arg;
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
    /// For what is in another stream: beside this one, or what this one runs beside.
    Wait,
    /// From this machine.
    Receive {
        at: u64,
        bytes: usize,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// Which of the recorder's functions.
    pub function: usize,
    pub grid: [usize; 2],
    pub threads: usize,
    pub shared: usize,
    /// Whether its blocks wait for each other.
    pub together: bool,
    pub args: Vec<Arg>,
}

/// As cuBLAS is told, by columns: C (rows, columns) = A B + beta C.
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

/// A matrix of a product: where it is, and the distance between its columns.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    pub at: u64,
    pub stride: i32,
    pub kind: cudaDataType,
    pub operation: cublasOperation_t,
}

impl Product {
    /// Its matrices as the host names them, whose A is cuBLAS' B, each with its rows and columns as they lie.
    pub fn matrices(&self) -> [(&'static str, &Factor, [usize; 2]); 3] {
        let Product { rows, columns, depth, a, b, c, .. } = self;
        let lies = |m: &Factor, [rows, columns]: [i32; 2]| {
            let size = if m.is_turned() { [columns, rows] } else { [rows, columns] };
            size.map(|size| size as usize)
        };
        [
            ("B", a, lies(a, [*rows, *depth])),
            ("A", b, lies(b, [*depth, *columns])),
            ("C", c, lies(c, [*rows, *columns])),
        ]
    }
}

impl Factor {
    /// From its first value to its last, where it has so many rows and columns.
    pub fn bytes(&self, [rows, columns]: [usize; 2]) -> usize {
        let values = (columns - 1) * self.stride as usize + rows;
        values * if self.kind() == "f16" { 2 } else { 4 }
    }

    pub fn is_turned(&self) -> bool {
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
            Some((held, offset)) => format!("..{}", (offset + bytes) / held.size),
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
            Node::Wait => "wait     for the other".into(),
            Node::Receive { at, bytes } => {
                format!("receive  {}{}", place(*at), to_end(*at, *bytes))
            }
        }
    }

    /// A buffer's name, and the value of it that an address is that of.
    fn place(&self, at: u64, names: &Names) -> String {
        match self.memory.find(at) {
            _ if at == 0 => "null".into(),
            None => "nowhere".into(),
            Some((held, offset)) => format!("{}:{}", names.of(held.at), offset / held.size),
        }
    }

    fn launch_line(&self, launch: &Launch, names: &Names) -> String {
        let Launch { grid: [x, y], threads, shared, args, .. } = launch;
        let signature = &self.functions[&launch.function].signature;
        let args = signature.params.iter().zip(args).map(|(param, arg)| {
            let value = match arg {
                Arg::At(at) => self.place(*at, names),
                Arg::U32(value) => value.to_string(),
                Arg::F32(value) => format!("{value:?}"),
            };
            format!(" {}={value}", param.name)
        });
        let args: String = args.collect();
        let how = if launch.together { "together" } else { "launch  " };
        let grid = if *y == 1 { x.to_string() } else { format!("{x}x{y}") };
        let shared = if *shared == 0 { String::new() } else { format!(", {shared} bytes") };
        format!("{how} {}, {grid} blocks of {threads}{shared}:{args}", signature.name)
    }

    /// By rows, as the host thinks of it: its A is cuBLAS' B.
    fn product_line(&self, product: &Product, names: &Names) -> String {
        let Product { rows, columns, depth, a, b, c, alpha, beta, compute } = product;
        let matrix = |m: &Factor| format!("{}/{}", self.place(m.at, names), m.stride);
        let turned = |m: &Factor| if m.is_turned() { "^T" } else { "" };
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
            turned(b),
            turned(a),
            c.kind(),
            matrix(b),
            matrix(a),
            matrix(c),
        )
    }
}
