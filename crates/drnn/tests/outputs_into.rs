//! Outputs written to the caller's memory are those of a pass that holds them itself.

use drnn::{Batch, Cell, Dropout, Gradient, Lane, Model, NetSpec, Padding, Rows, Steps, Tape};

fn spec() -> NetSpec {
    let builder = NetSpec::builder(Cell::Lstm).dense(3).units([7, 7]);
    builder.delay(2, Padding::Null).outputs(4).build().unwrap()
}

fn input(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i as f32 * 0.37).sin()).collect()
}

#[test]
fn runs() {
    let model = Model::init(&spec(), 3).unwrap();
    let (x, lengths) = (input(5 * 4 * 3), [5, 0, 3, 1]);
    let whole = Batch::dense(&x, Steps(5), Rows(4)).lengths(&lengths);
    for batch in [whole, whole.select_outputs(&[0, 2, 6])] {
        let expected = model.run(&batch, None).unwrap();
        let mut outputs = vec![f32::NAN; batch.output_shape(model.spec()).iter().product()];
        let last = model.run_into(&batch, None, &mut outputs).unwrap();
        assert_eq!(outputs, expected.values);
        assert_eq!(last, expected.last);
        let again = model.run(&batch, None).unwrap();
        assert_eq!(again.values, expected.values, "the next run has its own memory");
    }
    let error = model.run_into(&whole, None, &mut [0.0; 7]).unwrap_err().to_string();
    assert!(error.contains("outputs"), "{error}");
}

#[test]
fn training_passes_of_several_lanes() {
    let spec = spec();
    let models: Vec<Model> = (0..3).map(|seed| Model::init(&spec, seed).unwrap()).collect();
    let x = input(6 * 2 * 3);
    let batch = Batch::dense(&x, Steps(6), Rows(2));
    let lanes: Vec<Lane> =
        models.iter().map(|m| Lane { params: m.params().into(), batch, start: None }).collect();
    let factors: Vec<Dropout> = (0..3).map(|seed| Dropout::new(0.3, seed).unwrap()).collect();
    let len = 6 * 2 * 4;
    for dropout in [&[][..], &factors] {
        let mut tape = Tape::new(&spec).unwrap();
        let mut gradients = vec![vec![0.0; spec.parameters()]; 3];
        let upstream = input(len);
        let mut outputs = vec![vec![f32::NAN; len]; 3];
        let mut targets: Vec<&mut [f32]> = outputs.iter_mut().map(|o| &mut o[..]).collect();
        let pass = tape.forward_into(&lanes, dropout, &mut targets).unwrap();
        assert!(pass.outputs(0).is_empty());
        pass.backward(&mut wanted(&upstream, &mut gradients)).unwrap();

        let mut expected = vec![vec![0.0; spec.parameters()]; 3];
        let pass = match dropout {
            [] => tape.forward(&lanes).unwrap(),
            _ => tape.forward_with_dropout(&lanes, dropout).unwrap(),
        };
        for (lane, outputs) in outputs.iter().enumerate() {
            assert_eq!(outputs, pass.outputs(lane));
        }
        pass.backward(&mut wanted(&upstream, &mut expected)).unwrap();
        assert_eq!(gradients, expected);
    }
    let mut tape = Tape::new(&spec).unwrap();
    let (mut short, mut right) = (vec![0.0; len - 1], vec![0.0; len]);
    let mut targets = [&mut right[..], &mut short[..]];
    let error = tape.forward_into(&lanes[..2], &[], &mut targets).err().unwrap().to_string();
    assert!(error.contains("lane 1") && error.contains("outputs"), "{error}");
    assert!(tape.forward_into(&lanes, &[], &mut targets).is_err(), "three lanes, two slices");
}

fn wanted<'a>(upstream: &'a [f32], gradients: &'a mut [Vec<f32>]) -> Vec<Gradient<'a>> {
    let gradient =
        |params| Gradient { outputs: upstream, last: None, params, input: None, start: None };
    gradients.iter_mut().map(|params| gradient(&mut params[..])).collect()
}
