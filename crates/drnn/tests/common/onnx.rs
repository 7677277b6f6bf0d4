//! ONNX files for tests, written field by field, so that they may be wrong in any way.

/// A field of bytes: text, or a message.
pub fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [varint(u64::from(number) << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A field that is a number.
pub fn number(field: u8, value: i64) -> Vec<u8> {
    [varint(u64::from(field) << 3), varint(value.cast_unsigned())].concat()
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A tensor of these bytes; type 1 is float.
pub fn tensor(name: &str, kind: i64, dims: &[i64], bytes: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&n| number(1, n)).collect();
    [dims, number(2, kind), field(8, name), field(9, bytes)].concat()
}

/// Floats that differ from each other.
pub fn floats(name: &str, dims: &[i64]) -> Vec<u8> {
    let count: i64 = dims.iter().product();
    let seed = name.bytes().map(f32::from).sum::<f32>();
    let values = (0..count).map(|i| ((i as f32 + 1.0) * 0.7 + seed).sin() / 2.0);
    tensor(name, 1, dims, &values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
}

/// A list of integers.
pub fn ints(name: &str, values: &[i64]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|i| i.to_le_bytes()).collect();
    tensor(name, 7, &[values.len() as i64], &bytes)
}

/// A node; `more` are its attributes.
pub fn node(operator: &str, inputs: &[&str], outputs: &[&str], more: &[Vec<u8>]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|name| field(1, name));
    let outputs = outputs.iter().flat_map(|name| field(2, name));
    let more = more.iter().flat_map(|attribute| field(5, attribute));
    inputs.chain(outputs).chain(field(4, operator)).chain(more).collect()
}

pub fn int(name: &str, value: i64) -> Vec<u8> {
    [field(1, name), number(3, value)].concat()
}

pub fn int_list(name: &str, values: &[i64]) -> Vec<u8> {
    let values = values.iter().flat_map(|&value| number(8, value));
    field(1, name).into_iter().chain(values).collect()
}

pub fn text(name: &str, value: &str) -> Vec<u8> {
    [field(1, name), field(4, value)].concat()
}

pub fn texts(name: &str, values: &[&str]) -> Vec<u8> {
    let values = values.iter().flat_map(|value| field(9, value));
    field(1, name).into_iter().chain(values).collect()
}

/// A graph; its input is `x`, of three dimensions.
pub fn graph(nodes: &[Vec<u8>], initializers: &[Vec<u8>]) -> Vec<u8> {
    let nodes = nodes.iter().flat_map(|node| field(1, node));
    let initializers = initializers.iter().flat_map(|tensor| field(5, tensor));
    let shape = field(1, field(2, "T")).into_iter().chain(field(1, field(2, "B")));
    let shape: Vec<u8> = shape.chain(field(1, field(2, "q"))).collect();
    let kind = field(1, [number(1, 1), field(2, shape)].concat());
    let input = [field(1, "x"), field(2, kind)].concat();
    nodes.chain(initializers).chain(field(11, input)).collect()
}

/// A file with that graph.
pub fn model(graph: &[u8]) -> Vec<u8> {
    let opset = field(8, number(2, 14));
    [number(1, 8), field(2, "test"), field(7, graph), opset].concat()
}

/// Weights of a recurrent node with 2 inputs and 3 units: `W`, `R` and `B` with a suffix.
pub fn weights(gates: i64, directions: i64, inputs: i64, suffix: &str) -> Vec<Vec<u8>> {
    let n = 3;
    vec![
        floats(&format!("W{suffix}"), &[directions, gates * n, inputs]),
        floats(&format!("R{suffix}"), &[directions, gates * n, n]),
        floats(&format!("B{suffix}"), &[directions, 2 * gates * n]),
    ]
}
