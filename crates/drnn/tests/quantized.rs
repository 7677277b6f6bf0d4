//! Networks with weights of 16 bits and int8: every way to run them agrees, files come back as they were,
//! and outputs are close to those of f32.

#[path = "common/random.rs"]
mod random;

use drnn::random::Rng;
use drnn::{
    Cell, Cpu, Import, InstructionSet, Model, NetSpec, Precision, Stream, StreamBatch,
    WeightFormat, memory,
};
use random::{Sample, element, streams};

const SMALL: [WeightFormat; 3] = [WeightFormat::F16, WeightFormat::Bf16, WeightFormat::Int8];

/// Random networks with weights of every small format.
fn models(first: u64, cpu: &Cpu) -> impl Iterator<Item = (Sample, Model)> {
    (first..first + 60).map(Sample::new).flat_map(move |s| {
        let model = s.model(cpu);
        SMALL.map(|format| (s.clone(), model.quantize(format).unwrap()))
    })
}

#[test]
fn weights_of_16_bits_give_the_bits_of_f32_on_rounded_weights() {
    for set in InstructionSet::available() {
        let cpu = Cpu::with_instruction_set(set, 2).unwrap();
        for (s, model) in models(100, &cpu).filter(|(_, m)| m.weight_format() != WeightFormat::Int8)
        {
            let rounded = Model::from_params(&s.spec, model.params().to_vec()).unwrap().on(&cpu);
            let expected = rounded.run(&s.batch(), Some(&s.start)).unwrap();
            assert_eq!(model.run(&s.batch(), Some(&s.start)).unwrap(), expected, "{}", s.spec);
        }
    }
}

#[test]
fn int8_is_close_to_f32_on_rounded_weights() {
    let mut rng = Rng::new(4);
    for cell in [Cell::Lstm, Cell::Gru, Cell::GruResetBefore, Cell::RnnTanh] {
        for (n, q) in [(64, 16), (200, 3)] {
            let net = NetSpec::builder(cell).dense(q).units([n, n / 2]).outputs(6);
            let mut s = Sample::of(net.build().unwrap(), 20, 3, &mut rng);
            s.lengths = vec![20; 3];
            // Trained networks have smaller weights than the chaotic ones of the other tests.
            s.params.iter_mut().for_each(|p| *p /= 1.5);
            let model = s.model(&Cpu::new(2)).quantize(WeightFormat::Int8).unwrap();
            let rounded = Model::from_params(&s.spec, model.params().to_vec()).unwrap();
            let found = model.run(&s.batch(), None).unwrap();
            let expected = rounded.run(&s.batch(), None).unwrap();
            let pairs = found.values.iter().zip(&expected.values);
            let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far > 0.0 && far < 0.02, "{cell:?} {n} {q}: {far}");
        }
    }
}

#[test]
fn threads_change_no_bit() {
    for (s, model) in models(200, &Cpu::new(1)) {
        let alone = model.run(&s.batch(), Some(&s.start)).unwrap();
        let model = model.on(&Cpu::new(3));
        assert_eq!(model.run(&s.batch(), Some(&s.start)).unwrap(), alone, "{}", s.spec);
    }
    // Wide enough for threads to share the columns of a step.
    let spec = NetSpec::builder(Cell::Lstm).dense(30).units([300]).outputs(9).build().unwrap();
    for format in SMALL {
        let s = Sample::of(spec.clone(), 12, 3, &mut Rng::new(8));
        let model = s.model(&Cpu::new(1)).quantize(format).unwrap();
        let alone = model.run(&s.batch(), None).unwrap();
        assert_eq!(model.on(&Cpu::new(2)).run(&s.batch(), None).unwrap(), alone, "{format}");
    }
}

#[test]
fn streams_answer_as_runs_do() {
    for (s, model) in models(300, &Cpu::new(2)).filter(|(s, _)| streams(&s.spec)) {
        let run = model.run(&s.batch(), None).unwrap();
        let mut stream = Stream::new(&model).unwrap();
        for row in 0..s.rows {
            let mut outputs = Vec::new();
            for t in 0..s.lengths[row] {
                if t == s.lengths[row] / 2 {
                    let bytes = stream.snapshot();
                    stream = Stream::new(&model).unwrap();
                    stream.restore(&bytes).unwrap();
                }
                outputs.extend(stream.push(element(&s, t, row)).unwrap().map(<[f32]>::to_vec));
            }
            outputs.extend(stream.finish());
            let expected: Vec<_> =
                s.answer_slots(row).map(|slot| run.at(slot / s.rows, row)).collect();
            assert_eq!(outputs, expected, "{} {}", s.spec, model.weight_format());
        }
    }
}

#[test]
fn many_streams_answer_as_runs_do() {
    let spec = NetSpec::builder(Cell::Gru).dense(10).units([128]).outputs(5).build().unwrap();
    for format in SMALL {
        let mut s = Sample::of(spec.clone(), 6, 40, &mut Rng::new(1));
        s.lengths = vec![6; 40];
        let model = s.model(&Cpu::new(2)).quantize(format).unwrap();
        let run = model.run(&s.batch(), None).unwrap();
        let mut batch = StreamBatch::new(&model).unwrap();
        let ids: Vec<_> = (0..40).map(|_| batch.join()).collect();
        for t in 0..6 {
            let elements: Vec<_> =
                ids.iter().enumerate().map(|(row, &id)| (id, element(&s, t, row))).collect();
            let check = |id, y: &[f32]| {
                let row = ids.iter().position(|&i| i == id).unwrap();
                assert_eq!(y, run.at(t, row));
            };
            batch.step(&elements, check).unwrap();
        }
    }
}

#[test]
fn files_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    for (s, model) in models(400, &Cpu::new(1)) {
        let model = model.with_task(serde_json::json!({"task": "test"}));
        model.save(&path).unwrap();
        let found = Model::load(&path).unwrap().on(&Cpu::new(1));
        assert_eq!(found.weight_format(), model.weight_format());
        assert_eq!(found.params(), model.params());
        assert_eq!(found.task(), model.task());
        assert_eq!(found.fingerprint(), model.fingerprint());
        assert_eq!(found.run(&s.batch(), None).unwrap(), model.run(&s.batch(), None).unwrap());
        assert_eq!(Model::import(&path, &Import::default()).unwrap().params(), model.params());
        // Rounding what is rounded changes nothing.
        assert_eq!(found.quantize(model.weight_format()).unwrap().params(), model.params());
    }
}

#[test]
fn a_file_of_int8_is_a_quarter_of_f32_and_says_what_it_is() {
    let spec =
        NetSpec::builder(Cell::Lstm).tokens(28, 10).units([200]).outputs(27).build().unwrap();
    let model = Model::init(&spec, 1).unwrap();
    let whole = model.to_bytes().unwrap().len();
    let small = model.quantize(WeightFormat::Int8).unwrap();
    let bytes = small.to_bytes().unwrap();
    assert!(bytes.len() * 100 < whole * 28, "{} {whole}", bytes.len());
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor("weight_hh_l0").unwrap();
    assert_eq!((tensor.dtype(), tensor.shape()), (safetensors::Dtype::I8, &[800, 200][..]));
    let scale = file.tensor("weight_hh_l0.scale").unwrap();
    assert_eq!((scale.dtype(), scale.shape()), (safetensors::Dtype::F32, &[800][..]));
    assert_eq!(file.tensor("bias_hh_l0").unwrap().dtype(), safetensors::Dtype::F32);
    let scale = f32::from_le_bytes(scale.data()[..4].try_into().unwrap());
    let first = f32::from(tensor.data()[0].cast_signed()) * scale;
    assert_eq!(first, small.tensor("weight_hh_l0").unwrap()[0]);
    assert!(memory::model_as(&spec, WeightFormat::Int8) * 100 < memory::model(&spec) * 65);
}

#[test]
fn snapshots_belong_to_one_format() {
    let spec = NetSpec::builder(Cell::Lstm).dense(2).units([8]).build().unwrap();
    let model = Model::init(&spec, 1).unwrap();
    let small = model.quantize(WeightFormat::Int8).unwrap();
    let rounded = Model::from_params(&spec, small.params().to_vec()).unwrap();
    let mut snapshot = Vec::new();
    for model in [&small, &rounded] {
        let mut stream = Stream::new(model).unwrap();
        stream.push(&[1.0, 2.0]).unwrap();
        assert!(snapshot.is_empty() || stream.restore(&snapshot).is_err());
        snapshot = stream.snapshot();
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let spec = NetSpec::builder(Cell::Lstm).dense(2).units([3]).build().unwrap();
    let mut params = Model::init(&spec, 1).unwrap().into_params();
    params[5] = 70_000.0;
    let model = Model::from_params(&spec, params.clone()).unwrap();
    let error = model.quantize(WeightFormat::F16).unwrap_err().to_string();
    assert!(error.contains("`weight_ih_l0` has values that are too large for f16"), "{error}");
    assert!(model.quantize(WeightFormat::Bf16).is_ok());
    assert!(model.quantize(WeightFormat::Int8).is_ok());
    let mut small = Model::init(&spec, 2).unwrap().quantize(WeightFormat::F16).unwrap();
    let before = small.params().to_vec();
    assert!(small.set_params(&params).is_err());
    assert_eq!(small.params(), before);
    params[5] = 0.1;
    small.set_params(&params).unwrap();
    assert_eq!(small.params()[5], half::f16::from_f32(0.1).to_f32());
}

#[test]
fn damaged_files_are_refused() {
    let spec = NetSpec::builder(Cell::Gru).dense(3).units([9]).outputs(7).build().unwrap();
    let model = Model::init(&spec, 1).unwrap().quantize(WeightFormat::Int8).unwrap();
    let bytes = model.to_bytes().unwrap();
    for len in (0..bytes.len()).step_by(7) {
        assert!(Model::from_bytes(&bytes[..len]).is_err());
    }
    let replaced = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        assert_eq!(from.len(), to.len());
        let mut bytes = bytes.clone();
        bytes[at..][..to.len()].copy_from_slice(to.as_bytes());
        Model::from_bytes(&bytes).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("weight_hh_l0.scale", "weight_hh_l0.scald", "weight_hh_l0.scal"),
        ("\\\"weights\\\":\\\"int8\\\"", "\\\"weights\\\":\\\"int9\\\"", "unknown variant"),
    ] {
        let error = replaced(from, to);
        assert!(error.contains(expected), "{error}");
    }
    // A scale that is not a number: scales are the first values of the file.
    let mut nan = bytes.clone();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    nan[8 + header..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(Model::from_bytes(&nan).unwrap_err().to_string().contains("weight_ih_l0"));
    model.save_as(std::env::temp_dir().join("no/such/folder"), Precision::F16).unwrap_err();
}
