//! Specs: the paper's parameter counts, what is printed, what is refused.

use drnn::{Cell, Error, Model, NetSpec, NetSpecBuilder, Padding};

/// Size, net, layers, delay, units and parameters of the paper's tables of masked characters.
const PAPER: &str = include_str!("paper/mlm_params.csv");

#[test]
fn parameter_counts_are_the_papers() {
    let mut rows = 0;
    for line in PAPER.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, net, layers, delay, units, params] = fields[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<usize>().unwrap();
        let mut builder = NetSpec::builder(Cell::Lstm)
            .tokens(28, 10)
            .units(vec![number(units); number(layers)])
            .delay(number(delay), Padding::LookAhead)
            .outputs(27);
        if net == "bilstm" {
            builder = builder.bidirectional();
        }
        let spec = builder.build().unwrap();
        assert_eq!(spec.parameters(), number(params), "{line}");
        assert_eq!(Model::init(&spec, 0).unwrap().params().len(), number(params), "{line}");
        rows += 1;
    }
    assert_eq!(rows, 23);
}

#[test]
fn display_states_size_parameters_and_latency() {
    let b = |cell| NetSpec::builder(cell).dense(10);
    let shown = |b: NetSpecBuilder| b.build().unwrap().to_string();
    assert_eq!(
        shown(b(Cell::Lstm).units([100]).delay(5, Padding::Null)),
        "dlstm(100 units, delay 5): outputs 5 steps late; 10 -> 100; 44,800 parameters"
    );
    assert_eq!(
        shown(b(Cell::RnnRelu).units([8, 8]).delay(1, Padding::Null).outputs(2)),
        "drnn(2 x 8 units, relu, delay 1): outputs 1 step late; 10 -> 8 -> 8 -> 2; 322 parameters"
    );
    assert_eq!(
        shown(b(Cell::Gru).units([8, 4]).bidirectional()),
        "bigru(8 + 4 units per direction): needs the whole sequence; \
         10 -> 16 -> 8; 1,488 parameters"
    );
    assert_eq!(
        shown(b(Cell::GruResetBefore).units([8]).outputs(2)),
        "gru(8 units, reset before): no delay; 10 -> 8 -> 2; 498 parameters"
    );
    assert_eq!(
        shown(b(Cell::Lstm).units([8, 7]).projection(3).delay(1, Padding::Null).outputs(2)),
        "dlstm(8 + 7 units, projected to 3, delay 1): outputs 1 step late; 10 -> 3 -> 3 -> 2; \
         757 parameters"
    );
    assert_eq!(
        shown(NetSpec::builder(Cell::RnnTanh).tokens(5, 2).units([3])),
        "rnn(3 units): no delay; 5 symbols -> 2 -> 3; 31 parameters"
    );
}

#[test]
fn nonsense_is_refused_with_the_reason() {
    let lstm = || NetSpec::builder(Cell::Lstm);
    let why = |b: NetSpecBuilder| b.build().unwrap_err().to_string();
    let cases = [
        (lstm().units([1]), "network spec: no input"),
        (lstm().dense(1), "network spec: no layers"),
        (lstm().dense(1).units([3, 0]), "network spec: layer 1 has no units"),
        (lstm().dense(0).units([3]), "network spec: dense input of width 0"),
        (lstm().tokens(0, 2).units([3]), "network spec: an alphabet of 0 symbols"),
        (lstm().tokens(2, 0).units([3]), "network spec: an embedding of 0 dimensions"),
        (lstm().dense(1).units([3]).outputs(0), "network spec: an output layer of 0 values"),
        (
            lstm().dense(1).units([3]).bidirectional().delay(2, Padding::Null),
            "network spec: a delay of 2 on a bidirectional network",
        ),
        (
            lstm().dense(1).units([3]).delay(2, Padding::Symbol(0)),
            "network spec: padding with symbol 0 needs token input",
        ),
        (
            lstm().tokens(4, 2).units([3]).delay(2, Padding::Symbol(4)),
            "network spec: padding symbol 4 is not among the 4 symbols",
        ),
        (
            lstm().dense(1).units([9, 4]).projection(4),
            "network spec: a projection to 4 values of layer 1, which has 4 units",
        ),
        (
            lstm().dense(1).units([9]).projection(0),
            "network spec: a projection to 0 values of layer 0, which has 9 units",
        ),
        (
            NetSpec::builder(Cell::Gru).dense(1).units([9]).projection(4),
            "network spec: a projection of the states of a gru: only an LSTM has one",
        ),
        (
            lstm().dense(1).blocks(drnn::Blocks::new([9])).projection(4),
            "network spec: blocks of an LSTM with a projection",
        ),
        (lstm().dense(1).units([usize::MAX / 2]), "too large"),
        (lstm().dense(1).units(vec![1; 1001]), "too large: 1001 layers"),
        (lstm().dense(1).units(vec![usize::MAX / 8; 3]), "too large"),
        (lstm().dense(1).units([3]).delay(usize::MAX, Padding::Null), "too large: a delay"),
    ];
    for (builder, expected) in cases {
        let found = why(builder);
        assert!(found.starts_with(expected), "{found:?}, expected {expected:?} ..");
    }
}

#[test]
fn specs_survive_json_and_bad_json_is_refused() {
    let spec = NetSpec::builder(Cell::Gru).tokens(9, 3).units([4, 5]).delay(2, Padding::Symbol(8));
    let spec = spec.outputs(2).build().unwrap();
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<NetSpec>(&text).unwrap(), spec);
    assert!(!text.contains("projection"), "unknown to earlier versions: {text}");
    let projected = NetSpec::builder(Cell::Lstm).dense(2).units([4, 5]).projection(3);
    let projected = projected.build().unwrap();
    let json = serde_json::to_string(&projected).unwrap();
    assert_eq!(serde_json::from_str::<NetSpec>(&json).unwrap(), projected);
    let bad = text.replace("[4,5]", "[4,0]");
    let error = serde_json::from_str::<NetSpec>(&bad).unwrap_err().to_string();
    assert!(error.contains("layer 1 has no units"), "{error}");
}

#[test]
fn too_large_is_its_own_error() {
    let spec = NetSpec::builder(Cell::Lstm).dense(1).units([usize::MAX / 2]).build();
    assert!(matches!(spec, Err(Error::TooLarge(_))));
}
