//! What a runtime cannot check: the form of the file, and what is refused.

use super::{GraphKind, MAX_BYTES, Onnx, check_size, proto};
use crate::{Cell, Error, Model, NetSpec, Padding};
use prost::Message;

fn export(builder: crate::NetSpecBuilder, kind: GraphKind) -> (Onnx, proto::Model) {
    let model = Model::init(&builder.build().unwrap(), 1).unwrap();
    let onnx = model.to_onnx(kind).unwrap();
    let message = proto::Model::decode(onnx.bytes.as_slice()).unwrap();
    (onnx, message)
}

fn ports(ports: &[super::Port]) -> Vec<String> {
    ports.iter().map(|port| port.to_string()).collect()
}

/// The files of a plain RNN with tanh and with relu differ in the activation alone. This stands in for
/// a run: tract takes every RNN for one with tanh, so it can only check that one (`tests/onnx.rs`), and
/// `tools/check_onnx.py` runs both.
#[test]
fn relu_differs_from_tanh_by_its_name() {
    for kind in [GraphKind::Whole, GraphKind::Step] {
        let files = [(Cell::RnnTanh, "Tanh"), (Cell::RnnRelu, "Relu")].map(|(cell, name)| {
            let (_, file) = export(NetSpec::builder(cell).dense(2).units([3, 3]).outputs(1), kind);
            let mut graph = file.graph.unwrap();
            let mut found = 0;
            for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
                if attribute.name == "activations" {
                    assert_eq!(attribute.strings, [name.as_bytes()]);
                    attribute.strings.clear();
                    found += 1;
                }
            }
            assert_eq!(found, 2);
            graph
        });
        assert_eq!(files[0], files[1]);
    }
}

#[test]
fn nodes_are_the_standard_ones_and_as_few_as_can_be() {
    let nodes = |builder, kind| -> Vec<String> {
        let (_, file) = export(builder, kind);
        file.graph.unwrap().node.into_iter().map(|node| node.op_type).collect()
    };
    let lstm = || NetSpec::builder(Cell::Lstm).dense(2).units([3]);
    let gru = || NetSpec::builder(Cell::Gru).tokens(5, 2).units([3]).outputs(1);
    assert_eq!(nodes(lstm(), GraphKind::Whole), ["LSTM", "Squeeze"]);
    assert_eq!(nodes(lstm(), GraphKind::Step), ["Unsqueeze", "LSTM", "Squeeze"]);
    assert_eq!(nodes(lstm().bidirectional(), GraphKind::Whole), ["LSTM", "Transpose", "Reshape"]);
    assert_eq!(
        nodes(gru().delay(2, Padding::Null), GraphKind::Whole),
        ["Gather", "Pad", "GRU", "Squeeze", "Slice", "MatMul", "Add"]
    );
    assert_eq!(
        nodes(gru().delay(2, Padding::Symbol(4)), GraphKind::Whole),
        ["Pad", "Gather", "GRU", "Squeeze", "Slice", "MatMul", "Add"]
    );
    assert_eq!(
        nodes(gru().delay(2, Padding::LookAhead), GraphKind::Whole),
        ["Gather", "GRU", "Squeeze", "Slice", "MatMul", "Add"]
    );
    assert_eq!(
        nodes(gru().units([3, 3]).delay(2, Padding::Null), GraphKind::Step),
        ["Gather", "Unsqueeze", "Split", "GRU", "GRU", "Squeeze", "MatMul", "Add", "Concat"]
    );
}

#[test]
fn ports_have_pytorchs_shapes_or_one_for_each_layer() {
    let lstm = |units: [usize; 2]| NetSpec::builder(Cell::Lstm).dense(2).units(units).outputs(5);
    let (onnx, _) = export(lstm([3, 3]).bidirectional(), GraphKind::Whole);
    let inputs = ["x: float [T, B, 2]", "h0: float [4, B, 3]", "c0: float [4, B, 3]"];
    assert_eq!(ports(&onnx.inputs), inputs);
    let outputs = ["y: float [T, B, 5]", "h: float [4, B, 3]", "c: float [4, B, 3]"];
    assert_eq!(ports(&onnx.outputs), outputs);

    let (onnx, _) = export(lstm([3, 4]).delay(2, Padding::LookAhead), GraphKind::Whole);
    let inputs = ["h0_l0: float [1, B, 3]", "h0_l1: float [1, B, 4]"];
    assert_eq!(ports(&onnx.inputs)[..3], ["x: float [T + 2, B, 2]", inputs[0], inputs[1]]);
    assert_eq!(ports(&onnx.outputs)[3..], ["c_l0: float [1, B, 3]", "c_l1: float [1, B, 4]"]);

    let (onnx, _) = export(lstm([3, 4]).delay(2, Padding::LookAhead), GraphKind::Step);
    assert_eq!(ports(&onnx.inputs)[0], "x: float [B, 2]");
    assert_eq!(ports(&onnx.outputs)[0], "y: float [B, 5]");
}

#[test]
fn the_metadata_says_what_a_caller_must_know() {
    let gru = || NetSpec::builder(Cell::Gru).tokens(5, 2).units([3]);
    let entries = |padding, kind| {
        let (_, file) = export(gru().delay(2, padding), kind);
        let spec: NetSpec = serde_json::from_str(&file.metadata_props[0].value).unwrap();
        assert_eq!((spec.padding(), spec.delay()), (padding, 2));
        assert_eq!((file.producer_name.as_str(), file.opset_import[0].version), ("drnn", 17));
        let entries = file.metadata_props.iter().map(|e| format!("{}={}", e.key, e.value));
        let rest = entries.skip(1).collect::<Vec<_>>().join(" ");
        (rest, file.doc_string)
    };
    let (whole, text) = entries(Padding::Symbol(4), GraphKind::Whole);
    assert_eq!(whole, "kind=whole delay=2 padding=symbol");
    assert!(text.starts_with("dgru(3 units, delay 2): outputs 2 steps late; "), "{text}");
    let (step, text) = entries(Padding::Symbol(4), GraphKind::Step);
    assert_eq!(step, "kind=step delay=2 padding=symbol padding_token=4");
    assert!(text.ends_with("count for nothing; after the end feed token 4, 2 times."), "{text}");
    // A zero vector is no token's embedding, so there is one more.
    let (step, _) = entries(Padding::Null, GraphKind::Step);
    assert_eq!(step, "kind=step delay=2 padding=null padding_token=5");
    let (step, text) = entries(Padding::LookAhead, GraphKind::Step);
    assert_eq!(step, "kind=step delay=2 padding=look-ahead");
    assert!(text.ends_with("the first 2 answers to come out count for nothing."), "{text}");
}

#[test]
fn what_cannot_be_exported_is_refused_with_the_reason() {
    let spec = NetSpec::builder(Cell::Gru).dense(1).units([2]).bidirectional().build().unwrap();
    let error = Model::init(&spec, 1).unwrap().to_onnx(GraphKind::Step).unwrap_err();
    assert!(matches!(error, Error::Stream(_)), "{error}");
    assert!(error.to_string().contains("bidirectional network answers only when"), "{error}");

    assert_eq!(check_size(MAX_BYTES), Ok(()));
    assert_eq!(
        check_size(MAX_BYTES + 1).unwrap_err().to_string(),
        "too large: an ONNX file of 2,147,483,648 bytes (at most 2,147,483,647, which is what \
         protobuf allows)"
    );
}
