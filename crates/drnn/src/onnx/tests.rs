//! What a runtime cannot check: the form of the file, and what is refused.

use super::{
    ColumnScaling, GraphKind, GraphOptions, MAX_BYTES, Onnx, OutputUnits, check_size, proto,
};
use crate::{Cell, Error, Model, NetSpec, Padding};
use prost::Message;

/// With states that must be given.
fn export(builder: crate::NetSpecBuilder, kind: GraphKind) -> (Onnx, proto::Model) {
    export_with(builder, GraphOptions { optional_states: false, ..kind.into() })
}

fn export_with(builder: crate::NetSpecBuilder, options: GraphOptions) -> (Onnx, proto::Model) {
    let model = Model::init(&builder.build().unwrap(), 1).unwrap();
    let onnx = model.to_onnx(options).unwrap();
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
    assert_eq!(whole, "kind=whole delay=2 padding=symbol units=standardised");
    assert!(text.starts_with("dgru(3 units, delay 2): outputs 2 steps late; "), "{text}");
    let (step, text) = entries(Padding::Symbol(4), GraphKind::Step);
    assert_eq!(step, "kind=step delay=2 padding=symbol padding_token=4 units=standardised");
    assert!(text.ends_with("count for nothing; after the end feed token 4, 2 times."), "{text}");
    // A zero vector is no token's embedding, so there is one more.
    let (step, _) = entries(Padding::Null, GraphKind::Step);
    assert_eq!(step, "kind=step delay=2 padding=null padding_token=5 units=standardised");
    let (step, text) = entries(Padding::LookAhead, GraphKind::Step);
    assert_eq!(step, "kind=step delay=2 padding=look-ahead units=standardised");
    assert!(text.ends_with("the first 2 outputs to come out count for nothing."), "{text}");
}

#[test]
fn optional_states_are_inputs_with_a_default_that_is_expanded() {
    let lstm = NetSpec::builder(Cell::Lstm).dense(2).units([3, 3]);
    let (onnx, file) = export_with(lstm, GraphKind::Whole.into());
    assert_eq!(
        onnx.inputs.iter().map(|port| port.optional).collect::<Vec<_>>(),
        [false, true, true]
    );
    let graph = file.graph.unwrap();
    for state in ["h0", "c0"] {
        let default = graph.initializer.iter().find(|tensor| tensor.name == state).unwrap();
        assert_eq!(default.dims, [2, 1, 3]);
        assert!(default.raw_data.iter().all(|byte| *byte == 0));
        assert!(graph.input.iter().any(|input| input.name == state));
    }
    let expands = graph.node.iter().filter(|node| node.op_type == "Expand").count();
    assert_eq!(expands, 2);
    let needed = GraphOptions { optional_states: true, ..GraphKind::Step.into() };
    let spec = NetSpec::builder(Cell::Gru).dense(1).units([2]).build().unwrap();
    let error = Model::init(&spec, 1).unwrap().to_onnx(needed).unwrap_err();
    assert!(error.to_string().contains("one step needs its states"), "{error}");
}

#[test]
fn own_units_are_in_the_metadata_and_must_fit() {
    let scaling = |mean: &[f64]| ColumnScaling { mean: mean.to_vec(), sd: vec![0.5; mean.len()] };
    let gru = || NetSpec::builder(Cell::Gru).dense(2).units([3]).outputs(1).delay(2, Padding::Null);
    let options = GraphOptions {
        input_scaling: Some(scaling(&[1013.25, -2.0])),
        output_units: OutputUnits::Scaled(scaling(&[7.5])),
        metadata: vec![("inputs".into(), "[\"p\", \"t\"]".into())],
        ..GraphKind::Step.into()
    };
    let (onnx, file) = export_with(gru(), options.clone());
    let entries: Vec<String> =
        file.metadata_props.iter().skip(1).map(|e| format!("{}={}", e.key, e.value)).collect();
    assert_eq!(
        entries.join(" "),
        "kind=step delay=2 padding=null units=own nan=mean input_mean=[1013.25, -2] input_sd=[0.5, 0.5] \
         target_mean=[7.5] target_sd=[0.5] inputs=[\"p\", \"t\"]"
    );
    assert!(onnx.usage.contains("after the end feed NaN, 2 times"));
    let model = Model::init(&gru().build().unwrap(), 1).unwrap();
    for wrong in [
        GraphOptions { input_scaling: Some(scaling(&[1.0])), ..options.clone() },
        GraphOptions { output_units: OutputUnits::Scaled(scaling(&[1.0, 2.0])), ..options },
    ] {
        let error = model.to_onnx(wrong).unwrap_err().to_string();
        assert!(error.contains("does not fit"), "{error}");
    }
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
