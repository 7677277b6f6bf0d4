//! A pass that is resumed has the bits of one that goes back at once.

#[path = "common/random.rs"]
mod random;

use drnn::params::Layout;
use drnn::{Cpu, Gradient, InputSpec, Lane, Params, Pass, Tape};
use random::{Sample, train};

/// Gradients of the parameters, of dense input and of the start.
fn back(pass: Pass, s: &Sample) -> (Vec<f32>, Vec<f32>, drnn::States) {
    let mut params = vec![f32::NAN; s.spec.parameters()];
    let mut start = s.start.clone();
    let width = match s.spec.input() {
        InputSpec::Dense(q) => q,
        InputSpec::Tokens { .. } => 0,
    };
    let mut input = vec![f32::NAN; s.batch().steps() * s.rows * width];
    pass.backward(&mut [Gradient {
        outputs: &s.d_outputs,
        last: Some(&s.d_last),
        params: &mut params,
        input: (width > 0).then_some(&mut input),
        start: Some(&mut start),
    }])
    .unwrap();
    (params, input, start)
}

#[test]
fn random_networks_resume_once() {
    let cpu = Cpu::new(2);
    let mut count = 0;
    for seed in 0..120 {
        let s = Sample::new(seed);
        let mut tape = Tape::on(&cpu, &s.spec);
        let lanes = [s.lane()];
        assert!(tape.resume(&lanes).is_err(), "nothing is saved yet");
        let Ok(pass) = tape.forward(&lanes) else { continue };
        let outputs = pass.outputs(0).to_vec();
        let expected = train(&cpu, &[&s]).remove(0);
        let pass = tape.resume(&lanes).unwrap();
        assert_eq!(pass.outputs(0), outputs, "{}", s.spec);
        assert_eq!(pass.last(0), expected.last, "{}", s.spec);
        let (params, input, start) = back(pass, &s);
        assert_eq!(params, expected.d_params, "{}", s.spec);
        assert_eq!(start, expected.d_start, "{}", s.spec);
        if !input.is_empty() {
            assert_eq!(input, expected.d_input, "{}", s.spec);
        }
        let error = tape.resume(&lanes).err().unwrap().to_string();
        assert!(error.contains("no forward pass is saved"), "{error}");
        count += 1;
    }
    assert!(count > 80, "{count}");
}

#[test]
fn other_batches_are_refused_and_the_pass_stays() {
    let cpu = Cpu::new(1);
    let samples = || (0..200).map(Sample::new);
    let s = samples().find(|s| {
        let runs = |row: &usize| s.spec.output_steps(s.lengths[*row]) > 1;
        s.rows > 1 && s.spec.blocks().is_none() && (0..s.rows).filter(runs).count() > 1
    });
    let s = s.unwrap();
    let mut other = s.clone();
    let longest = (0..s.rows).max_by_key(|&row| s.lengths[row]).unwrap();
    other.lengths[longest] -= 1;
    let mut tape = Tape::on(&cpu, &s.spec);
    let (lanes, others) = ([s.lane()], [other.lane()]);
    tape.forward(&lanes).unwrap();
    let error = tape.resume(&others).err().unwrap().to_string();
    assert!(error.contains("other lengths"), "{error}");
    assert!(tape.resume(&[]).is_err());
    assert!(tape.resume(&[s.lane(), s.lane()]).is_err());
    let expected = train(&cpu, &[&s]).remove(0);
    assert_eq!(back(tape.resume(&lanes).unwrap(), &s).0, expected.d_params);

    // A forward pass that is refused leaves the one before.
    tape.forward(&lanes).unwrap();
    let short = [drnn::Lane { params: s.params[1..].into(), ..s.lane() }];
    assert!(tape.forward(&short).is_err());
    assert_eq!(back(tape.resume(&lanes).unwrap(), &s).0, expected.d_params);
}

#[test]
fn parameters_may_lie_apart() {
    let cpu = Cpu::new(2);
    let mut count = 0;
    for seed in 0..120 {
        let s = Sample::new(seed);
        let layout = Layout::new(&s.spec);
        let tensors: Vec<Vec<f32>> =
            layout.tensors().iter().map(|tensor| s.params[tensor.range.clone()].to_vec()).collect();
        let tensors: Vec<&[f32]> = tensors.iter().map(Vec::as_slice).collect();
        let lanes = [Lane { params: Params::Tensors(&tensors), ..s.lane() }];
        let mut tape = Tape::on(&cpu, &s.spec);
        let Ok(pass) = tape.forward(&lanes) else { continue };
        let outputs = pass.outputs(0).to_vec();
        let expected = train(&cpu, &[&s]).remove(0);
        assert_eq!(outputs, expected.outputs, "{}", s.spec);
        let (params, ..) = back(tape.resume(&lanes).unwrap(), &s);
        assert_eq!(params, expected.d_params, "{}", s.spec);
        let short = [Lane { params: Params::Tensors(&tensors[1..]), ..lanes[0] }];
        assert!(tape.forward(&short).is_err(), "{}", s.spec);
        count += 1;
    }
    assert!(count > 100, "{count} of 120 networks were trained");
}
