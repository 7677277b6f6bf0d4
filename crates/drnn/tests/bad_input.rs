//! Bad input gets a typed error that names the thing and both shapes; nothing panics, nothing moves.

use drnn::{
    Batch, Cell, Cpu, Element, Error, Gradient, Lane, Model, NetSpec, Padding, Rows, States, Steps,
    Stream, StreamBatch, Tape,
};

fn dense() -> Model {
    let spec = NetSpec::builder(Cell::Lstm).dense(3).units([4]).outputs(2);
    Model::init(&spec.delay(2, Padding::Null).build().unwrap(), 1).unwrap()
}

fn tokens() -> Model {
    let spec = NetSpec::builder(Cell::Gru).tokens(5, 3).units([4]).build().unwrap();
    Model::init(&spec, 1).unwrap()
}

fn run_error(model: &Model, batch: &Batch, start: Option<&States>) -> String {
    model.run(batch, start).unwrap_err().to_string()
}

#[test]
fn shapes() {
    let x = [0.0; 12];
    let found = run_error(&dense(), &Batch::dense(&x, Steps(2), Rows(3)), None);
    assert_eq!(found, "`x` has 12 values, expected shape [2, 3, 3] (18 values)");
    let found = run_error(&dense(), &Batch::dense(&x, Steps(usize::MAX), Rows(3)), None);
    assert!(found.starts_with("`x` has 12 values, expected shape"), "{found}");
    let found = run_error(&tokens(), &Batch::tokens(&[0; 5], Steps(2), Rows(3)), None);
    assert_eq!(found, "`tokens` has 5 values, expected shape [2, 3] (6 values)");
    let found = run_error(&dense(), &Batch::dense(&x, Steps(2), Rows(2)).lengths(&[1]), None);
    assert_eq!(found, "`lengths` has 1 value, expected shape [2] (2 values)");
    let found = run_error(&dense(), &Batch::dense(&x, Steps(2), Rows(2)).lengths(&[1, 3]), None);
    assert_eq!(found, "length 3 of sequence 1 is more than the 2 steps of the batch");
    let start = States { h: vec![0.0; 8], c: vec![0.0; 7] };
    let found = run_error(&dense(), &Batch::dense(&x, Steps(2), Rows(2)), Some(&start));
    assert_eq!(found, "`start.c` has 7 values, expected shape [1, 2, 4] (8 values)");
    let start = States { h: vec![0.0; 8], c: vec![0.0; 8] };
    let found = run_error(&tokens(), &Batch::tokens(&[0; 4], Steps(2), Rows(2)), Some(&start));
    assert_eq!(found, "`start.c` has 8 values, expected 0 values");
}

#[test]
fn kinds_tokens_and_numbers() {
    let found = run_error(&tokens(), &Batch::dense(&[0.0; 6], Steps(2), Rows(1)), None);
    assert_eq!(found, "input is vectors, but the network reads tokens below 5");
    let found = run_error(&dense(), &Batch::tokens(&[0; 2], Steps(2), Rows(1)), None);
    assert_eq!(found, "input is tokens, but the network reads vectors of 3 values");
    let found = run_error(&tokens(), &Batch::tokens(&[0, 1, 2, 5], Steps(2), Rows(2)), None);
    assert_eq!(found, "token 5 at step 1 of sequence 1 is not below 5, the number of symbols");
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = [0.0; 12];
        x[7] = bad;
        let whole = run_error(&dense(), &Batch::dense(&x, Steps(2), Rows(2)), None);
        let ragged =
            run_error(&dense(), &Batch::dense(&x, Steps(2), Rows(2)).lengths(&[2, 1]), None);
        assert_eq!(whole, format!("`x` holds {bad} at position 7"));
        assert_eq!(whole, ragged);
        let mut start = States { h: vec![0.0; 8], c: vec![0.0; 8] };
        start.c[3] = bad;
        let found = run_error(&dense(), &Batch::dense(&[0.0; 12], Steps(2), Rows(2)), Some(&start));
        assert_eq!(found, format!("`start.c` holds {bad} at position 3"));
        let mut params = dense().into_params();
        let at = dense().layout().find("weight_hh_l0").unwrap().range.start + 5;
        params[at] = bad;
        let error = Model::from_params(dense().spec(), params).unwrap_err().to_string();
        assert_eq!(error, format!("`weight_hh_l0` holds {bad} at position 5"));
    }
    let error = Model::from_params(dense().spec(), vec![0.0; 7]).unwrap_err().to_string();
    assert_eq!(error, "`params` has 7 values, expected shape [154] (154 values)");
}

#[test]
fn positions_that_cannot_be_selected() {
    let x = [0.0; 18];
    let batch = Batch::dense(&x, Steps(3), Rows(2)).lengths(&[3, 1]);
    let error = |slots: &[u32]| run_error(&dense(), &batch.select_outputs(slots), None);
    assert_eq!(
        error(&[0, 4, 2]),
        "selected output 2, at position 2 of the list: comes after 4; slots must increase"
    );
    assert_eq!(
        error(&[1, 1]),
        "selected output 1, at position 1 of the list: comes after 1; slots must increase"
    );
    let none = "no step 1 among the 1 outputs of sequence 1";
    assert_eq!(error(&[2, 3]), format!("selected output 3, at position 1 of the list: {none}"));
    let none = "no step 3 among the 3 outputs of sequence 0";
    assert_eq!(error(&[6]), format!("selected output 6, at position 0 of the list: {none}"));
    let found = dense().run(&batch.select_outputs(&[u32::MAX]), None);
    assert!(
        matches!(found, Err(Error::Selection { slot: u32::MAX, position: 0, .. })),
        "{found:?}"
    );
    let found =
        run_error(&dense(), &Batch::dense(&[], Steps(3), Rows(0)).select_outputs(&[0]), None);
    assert_eq!(found, "selected output 0, at position 0 of the list: there are no sequences");

    // The last d elements have no outputs of their own where they are there to be looked at.
    let spec = NetSpec::builder(Cell::Gru).dense(3).units([4]).delay(2, Padding::LookAhead);
    let ahead = Model::init(&spec.build().unwrap(), 1).unwrap();
    assert_eq!(ahead.run(&batch.select_outputs(&[0]), None).unwrap().shape(), [1, 1, 4]);
    let none = "no step 1 among the 1 outputs of sequence 0";
    let found = run_error(&ahead, &batch.select_outputs(&[2]), None);
    assert_eq!(found, format!("selected output 2, at position 0 of the list: {none}"));

    // Gradients are those of the selected outputs.
    let (model, mut params) = (dense(), [0.0; 154]);
    let mut tape = Tape::new(model.spec()).unwrap();
    let selecting =
        [Lane { params: model.params().into(), batch: batch.select_outputs(&[0, 4]), start: None }];
    let mut backward = |outputs: &[f32]| {
        let (last, params, input, start) = (None, &mut params[..], None, None);
        let gradient = Gradient { outputs, last, params, input, start };
        tape.forward(&selecting).unwrap().backward(&mut [gradient]).unwrap_err().to_string()
    };
    let expected = "`gradient of outputs` has 12 values, expected shape [2, 2] (4 values)";
    assert_eq!(backward(&[0.0; 12]), expected);
    let expected = "`gradient of outputs` holds NaN at position 3";
    assert_eq!(backward(&[0.0, 0.0, 0.0, f32::NAN]), expected);
}

#[test]
fn what_cannot_be_addressed_is_refused() {
    for (steps, rows) in [(0, u32::MAX as usize), (0, usize::MAX), (usize::MAX, 0)] {
        let found = dense().run(&Batch::dense(&[], Steps(steps), Rows(rows)), None);
        assert!(matches!(found, Err(Error::TooLarge(_))), "{steps} by {rows}: {found:?}");
    }
    let spec = NetSpec::builder(Cell::Lstm).dense(1).units([1]).delay(1 << 20, Padding::Null);
    let model = Model::init(&spec.build().unwrap(), 1).unwrap();
    let found =
        model.run(&Batch::dense(&[0.0; 5000], Steps(1), Rows(5000)), None).unwrap_err().to_string();
    let expected = "too large: 1 steps and a delay of 1048576, by 5000 sequences, by 4 values";
    assert_eq!(found, expected);
}

#[test]
fn empty_batches_are_legal() {
    for (steps, rows) in [(0, 0), (0, 3), (3, 0)] {
        let outputs = dense().run(&Batch::dense(&[], Steps(steps), Rows(rows)), None).unwrap();
        assert_eq!(outputs.shape(), [steps, rows, 2]);
        assert!(outputs.values.is_empty());
        assert_eq!(outputs.last.h.len(), 4 * rows);
    }
    // All sequences empty: states come out as they went in.
    let start = States { h: vec![0.5; 8], c: vec![-0.5; 8] };
    let batch = Batch::dense(&[f32::NAN; 12], Steps(2), Rows(2)).lengths(&[0, 0]);
    let outputs = dense().run(&batch, Some(&start)).unwrap();
    assert_eq!((outputs.values, outputs.last), (vec![0.0; 8], start));
}

#[test]
fn gradients_of_nothing_are_zero() {
    for model in [dense(), tokens()] {
        let spec = model.spec().clone();
        let (x, t) = ([0.0; 6], [0; 2]);
        let batch = match spec.outputs() {
            Some(_) => Batch::dense(&x, Steps(1), Rows(2)),
            None => Batch::tokens(&t, Steps(1), Rows(2)),
        };
        let d_outputs = vec![1.0; 2 * spec.output_width()];
        let lanes =
            [Lane { params: model.params().into(), batch: batch.lengths(&[0, 0]), start: None }];
        let mut tape = Tape::new(&spec).unwrap();
        let mut params = vec![f32::NAN; spec.parameters()];
        tape.forward(&lanes)
            .unwrap()
            .backward(&mut [Gradient {
                outputs: &d_outputs,
                last: None,
                params: &mut params,
                input: None,
                start: None,
            }])
            .unwrap();
        assert!(params.iter().all(|&g| g == 0.0), "{spec}");
    }
}

#[test]
fn training_passes() {
    let model = dense();
    let spec = model.spec().clone();
    let mut tape = Tape::new(&spec).unwrap();
    let good = Lane {
        params: model.params().into(),
        batch: Batch::dense(&[0.0; 6], Steps(2), Rows(1)),
        start: None,
    };
    let short = Lane { params: model.params()[1..].into(), ..good };
    let error = tape.forward(&[short]).err().unwrap().to_string();
    assert_eq!(error, "`params` has 153 values, expected shape [154] (154 values)");
    let error = tape.forward(&[good, short]).err().unwrap().to_string();
    assert_eq!(error, "lane 1: `params` has 153 values, expected shape [154] (154 values)");

    let mut wrong = |outputs: &[f32], params: usize, input: Option<usize>, count: usize| {
        let lanes = [good];
        let mut params: Vec<Vec<f32>> = vec![vec![0.0; params]; count];
        let mut input = input.map(|n| vec![0.0; n]);
        let mut gradients: Vec<Gradient> = params
            .iter_mut()
            .map(|params| Gradient { outputs, last: None, params, input: None, start: None })
            .collect();
        if let Some(gradient) = gradients.first_mut() {
            gradient.input = input.as_deref_mut();
        }
        tape.forward(&lanes).unwrap().backward(&mut gradients).unwrap_err().to_string()
    };
    let found = wrong(&[0.0; 3], 154, None, 1);
    assert_eq!(found, "`gradient of outputs` has 3 values, expected shape [2, 1, 2] (4 values)");
    let found = wrong(&[0.0, 0.0, f32::NAN, 0.0], 154, None, 1);
    assert_eq!(found, "`gradient of outputs` holds NaN at position 2");
    let found = wrong(&[0.0; 4], 150, None, 1);
    assert_eq!(found, "`gradient of params` has 150 values, expected shape [154] (154 values)");
    let found = wrong(&[0.0; 4], 154, Some(5), 1);
    assert_eq!(found, "`gradient of input` has 5 values, expected shape [2, 1, 3] (6 values)");
    let found = wrong(&[0.0; 4], 154, None, 2);
    assert_eq!(found, "`gradients` has 2 values, expected 1 value");
}

#[test]
fn streams_refuse_and_stay_as_they_were() {
    let model = dense();
    let mut stream = Stream::new(&model).unwrap();
    stream.push(&[0.1, 0.2, 0.3]).unwrap();
    let before = stream.snapshot();
    let bad: [Element; 3] =
        [Element::Dense(&[0.1]), Element::Dense(&[0.1, f32::NAN, 0.0]), Element::Token(0)];
    for element in bad {
        stream.push(element).unwrap_err();
        assert_eq!(stream.snapshot(), before);
    }
    let vocabulary = tokens();
    let error = Stream::new(&vocabulary).unwrap().push(5).err().unwrap();
    assert_eq!(error, Error::Token { token: 5, step: 0, row: 0, symbols: 5 });

    let both = NetSpec::builder(Cell::Lstm).dense(1).units([2]).bidirectional().build().unwrap();
    let both = Model::init(&both, 1).unwrap();
    let error = Stream::new(&both).err().unwrap().to_string();
    assert!(
        error.starts_with("cannot stream: a bidirectional network answers only when"),
        "{error}"
    );
    assert!(StreamBatch::new(&both).is_err());
}

#[test]
fn batches_of_streams_refuse_as_a_whole() {
    let model = dense();
    let mut batch = StreamBatch::new(&model).unwrap();
    let (a, b) = (batch.join(), batch.join());
    let x = Element::Dense(&[0.1, 0.2, 0.3]);
    batch.step(&[(a, x), (b, x)], |_, _| {}).unwrap();
    let before = batch.snapshot(a).unwrap();
    let nan = Element::Dense(&[f32::NAN; 3]);
    assert!(batch.step(&[(a, x), (b, nan)], |_, _| {}).is_err());
    let twice = batch.step(&[(a, x), (a, x)], |_, _| {}).unwrap_err().to_string();
    assert!(twice.contains("named twice"), "{twice}");
    assert_eq!(batch.snapshot(a).unwrap(), before, "a moved although b was refused");

    // A name means nothing to another batch.
    let mut other = StreamBatch::new(&model).unwrap();
    let foreign = other.join();
    assert_ne!(foreign, a);
    assert!(batch.step(&[(foreign, x)], |_, _| {}).unwrap_err().to_string().contains("not live"));

    batch.leave(b).unwrap();
    let c = batch.join(); // gets b's place, but not its name or state
    assert!(batch.step(&[(b, x)], |_, _| {}).unwrap_err().to_string().contains("not live"));
    assert!(batch.leave(b).is_err());
    assert_eq!((batch.seen(c).unwrap(), batch.len()), (0, 2));
    assert!(batch.finish(&[a, a], |_, _| {}).is_err());
    assert_eq!(batch.len(), 2);
}

#[test]
fn snapshots_of_others_and_damaged_ones_are_refused() {
    let model = dense();
    let mut stream = Stream::new(&model).unwrap();
    stream.push(&[0.1, 0.2, 0.3]).unwrap();
    let bytes = stream.snapshot();
    let refused = |bytes: &[u8]| {
        let mut fresh = Stream::new(&model).unwrap();
        let before = fresh.snapshot();
        let error = fresh.restore(bytes).unwrap_err().to_string();
        assert!(error.starts_with("snapshot: "), "{error}");
        assert_eq!(fresh.snapshot(), before);
        error
    };
    assert_eq!(refused(b""), "snapshot: not a snapshot of a stream");
    for len in 0..bytes.len() {
        refused(&bytes[..len]);
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        refused(&damaged);
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(refused(&longer).ends_with("65 bytes, expected 64"), "{}", refused(&longer));

    // Same shape, other weights; other shape.
    for other in [Model::init(model.spec(), 2).unwrap(), tokens()] {
        let mut stream = Stream::new(&other).unwrap();
        let error = stream.restore(&bytes).unwrap_err().to_string();
        assert!(error.contains("another network"), "{error}");
    }
    let mut again = Stream::new(&model).unwrap();
    again.restore(&bytes).unwrap();
    assert_eq!(again.seen(), 1);
}

#[test]
fn a_state_that_ran_away_is_not_restored() {
    let spec = NetSpec::builder(Cell::RnnRelu).dense(1).units([1]).build().unwrap();
    let model = Model::from_params(&spec, vec![1e30, 1e30, 0.0, 0.0]).unwrap();
    let mut stream = Stream::new(&model).unwrap();
    for _ in 0..3 {
        stream.push(&[1.0]).unwrap();
    }
    let bytes = stream.snapshot();
    let error = stream.restore(&bytes).unwrap_err().to_string();
    assert!(error.contains("out of range"), "{error}");
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "no threads")]
fn sharing_a_model_between_threads_is_safe() {
    let model = dense().on(&Cpu::new(2));
    let x: Vec<f32> = (0..60).map(|i| (i as f32 * 0.1).sin()).collect();
    let batch = Batch::dense(&x, Steps(5), Rows(4));
    let expected = model.run(&batch, None).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(model.run(&batch, None).unwrap(), expected);
                }
            });
        }
    });
}
