//! Streams answer as runs do: checked on random networks.

#[path = "common/random.rs"]
mod random;

use drnn::random::Rng;
use drnn::{Cell, Cpu, NetSpec, Stream, StreamBatch, StreamId, memory};
use random::{Sample, element, streams};

#[test]
fn a_single_stream_shared_by_threads_answers_as_a_run_does() {
    let mut rng = Rng::new(3);
    let projected = NetSpec::builder(Cell::Lstm).units([400, 40]).projection(30);
    let nets = Cell::ALL.map(|cell| {
        // Wide enough for threads to share each step, fast enough for them to stay awake.
        let n = if cell.gates() == 1 { 500 } else { 250 };
        NetSpec::builder(cell).units([n, 40])
    });
    for net in nets.into_iter().chain([projected]) {
        let spec = net.dense(5).outputs(6).build().unwrap();
        let mut s = Sample::of(spec, 200, 1, &mut rng);
        s.lengths = vec![200];
        let model = s.model(&Cpu::new(2));
        let run = model.run(&s.batch(), None).unwrap();
        let mut stream = Stream::new(&model).unwrap();
        for t in 0..200 {
            let output = stream.push(element(&s, t, 0)).unwrap().unwrap();
            assert_eq!(output, run.at(t, 0), "{}", s.spec);
        }
    }
}

fn streaming_samples(first: u64) -> impl Iterator<Item = Sample> {
    (first..first + 80).map(Sample::new).filter(|s| streams(&s.spec))
}

#[test]
fn a_stream_answers_as_a_run_does() {
    for s in streaming_samples(5000) {
        let model = s.model(&Cpu::new(2));
        let run = model.run(&s.batch(), None).unwrap();
        let mut stream = Stream::new(&model).unwrap();
        for row in 0..s.rows {
            let mut outputs = Vec::new();
            for t in 0..s.lengths[row] {
                if t == s.lengths[row] / 2 {
                    // Break off, go on elsewhere.
                    let bytes = stream.snapshot();
                    assert_eq!(bytes.len(), memory::snapshot(&s.spec), "{}", s.spec);
                    stream = Stream::new(&model).unwrap();
                    let new = stream.snapshot();
                    stream.push(element(&s, 0, row)).unwrap();
                    stream.reset();
                    assert_eq!(stream.snapshot(), new, "{}", s.spec);
                    stream.restore(&bytes).unwrap();
                }
                outputs.extend(stream.push(element(&s, t, row)).unwrap().map(<[f32]>::to_vec));
                assert_eq!(outputs.len(), (t + 1).saturating_sub(s.spec.delay()));
            }
            outputs.extend(stream.finish());
            let expected: Vec<_> =
                s.answer_slots(row).map(|slot| run.at(slot / s.rows, row)).collect();
            assert_eq!(outputs, expected, "{}", s.spec);
        }
    }
}

#[test]
fn streams_come_and_go_and_answer_as_runs_do() {
    for (seed, s) in streaming_samples(6000).enumerate() {
        let model = s.model(&Cpu::new(2));
        let run = model.run(&s.batch(), None).unwrap();
        let mut rng = Rng::new(seed as u64);
        let mut batch = StreamBatch::new(&model).unwrap();
        let mut outputs: Vec<Vec<Vec<f32>>> = vec![Vec::new(); s.rows];
        let mut live: Vec<(StreamId, usize, usize)> = Vec::new(); // id, row, position
        let mut waiting: Vec<usize> = (0..s.rows).rev().collect();
        while !live.is_empty() || !waiting.is_empty() {
            if rng.below(2) == 0
                && let Some(row) = waiting.pop()
            {
                live.push((batch.join(), row, 0));
            }
            let row_of = |live: &[(StreamId, usize, usize)], id| {
                live.iter().find(|l| l.0 == id).map(|l| l.1).unwrap()
            };
            let (done, going): (Vec<_>, Vec<_>) =
                live.iter().copied().partition(|&(_, row, at)| at == s.lengths[row]);
            let ended: Vec<StreamId> = done.iter().map(|d| d.0).collect();
            batch.finish(&ended, |id, y| outputs[row_of(&live, id)].push(y.to_vec())).unwrap();
            live = going;
            // Some of the others have an element now.
            let now: Vec<usize> = (0..live.len()).filter(|_| rng.below(3) > 0).collect();
            let elements: Vec<_> =
                now.iter().map(|&i| (live[i].0, element(&s, live[i].2, live[i].1))).collect();
            batch.step(&elements, |id, y| outputs[row_of(&live, id)].push(y.to_vec())).unwrap();
            now.iter().for_each(|&i| live[i].2 += 1);
            assert_eq!(batch.len(), live.len());
        }
        for (row, outputs) in outputs.iter().enumerate() {
            let expected: Vec<_> =
                s.answer_slots(row).map(|slot| run.at(slot / s.rows, row)).collect();
            assert_eq!(outputs, &expected, "{}", s.spec);
        }
    }
}

#[test]
fn many_streams_on_many_threads_answer_as_one() {
    let spec = NetSpec::builder(Cell::Lstm).dense(10).units([128]).outputs(5).build().unwrap();
    let mut rng = Rng::new(1);
    let mut s = Sample::of(spec, 6, 40, &mut rng);
    s.lengths = vec![6; 40];
    let model = s.model(&Cpu::new(4));
    let run = model.run(&s.batch(), None).unwrap();
    let mut batch = StreamBatch::new(&model).unwrap();
    let ids: Vec<_> = (0..40).map(|_| batch.join()).collect();
    for t in 0..6 {
        let elements: Vec<_> =
            ids.iter().enumerate().map(|(row, &id)| (id, element(&s, t, row))).collect();
        let mut seen = 0;
        batch
            .step(&elements, |id, y| {
                let row = ids.iter().position(|&i| i == id).unwrap();
                assert_eq!(y, run.at(t, row));
                seen += 1;
            })
            .unwrap();
        assert_eq!(seen, 40);
    }
}
