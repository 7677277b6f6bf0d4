//! A campaign comes to the same results however it is split, killed and resumed.

use drnn::Cpu;
use drnn_train::lanes::Control;
use drnn_train::sine::campaign::{
    Checkpoints, Event, Gamma, GridCell, Pool, Protocol, Shard, grid, run, run_pools,
};
use drnn_train::sine::results::{Record, Records, Results, merge, read, write};
use drnn_train::{Options, PaperNet, Reason};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn protocol() -> Protocol {
    let training = Options { epochs: 1, batch: 5, rate: 1e-2, ..Protocol::default().training };
    Protocol { sequences: [10, 4, 4], training }
}

fn cells() -> Vec<GridCell> {
    let pairs = [(5, 0), (5, 7), (10, 7)].map(|(g, a)| (Gamma::tenths(g).unwrap(), a));
    grid(&pairs, &[PaperNet::Lstm, PaperNet::BiLstm, PaperNet::DLstm(5)], &[0, 1])
}

/// Trains cells into a file.
fn straight(path: &Path, cells: &[GridCell], threads: usize) -> Records {
    let mut results = Results::open(path, &protocol()).unwrap();
    assert!(run(cells, &Cpu::new(threads), &mut results, &|_| Control::Continue).unwrap());
    results.records().clone()
}

/// The file of these records but for the time they took.
fn text(path: &Path, records: &Records) -> String {
    let records = records
        .iter()
        .map(|(cell, r)| (*cell, Record { seconds: 0.0, machine: None, ..r.clone() }));
    write(path, &protocol(), &records.collect()).unwrap();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn shards_merged_and_interrupted_runs_resumed_are_the_straight_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cells = cells();
    let all = straight(&at("straight"), &cells, 2);
    assert_eq!(all.len(), 3 * 3 * 2);
    let expected = text(&at("text"), &all);

    let shards: Vec<PathBuf> = (1..=4).map(|i| at(&format!("shard{i}"))).collect();
    for (i, path) in shards.iter().enumerate() {
        straight(path, &Shard { index: i + 1, count: 4 }.of(&cells), 1);
    }
    let (found, merged) = merge(&shards).unwrap();
    assert_eq!(found, protocol());
    assert_eq!(text(&at("text"), &merged), expected);
    // In another order, with some twice: the same, times included.
    let mut others = shards.clone();
    others.reverse();
    others.push(at("shard2"));
    assert!(merge(&others).unwrap().1 == merged);

    // Stopped after two cells, then killed in the middle of a line, then gone on with.
    let (path, done) = (at("stopped"), AtomicUsize::new(0));
    let mut results = Results::open(&path, &protocol()).unwrap();
    let stop = |event: Event| match event {
        Event::Done(_) if done.fetch_add(1, Ordering::Relaxed) == 1 => Control::Stop,
        _ => Control::Continue,
    };
    assert!(!run(&cells, &Cpu::new(1), &mut results, &stop).unwrap());
    drop(results);
    let bytes = std::fs::read(&path).unwrap();
    let header = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    for cut in [bytes.len(), bytes.len() - 1, bytes.len() - 40, header, header - 1, 5, 0] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let mut results = Results::open(&path, &protocol()).unwrap();
        let lost = if cut == bytes.len() { 2 } else { usize::from(cut > header) };
        assert_eq!(results.records().len(), lost, "{cut}");
        assert_eq!(results.was_torn(), ![bytes.len(), header, 0].contains(&cut), "{cut}");
        if cut == bytes.len() - 40 {
            assert!(run(&cells, &Cpu::new(3), &mut results, &|_| Control::Continue).unwrap());
            assert_eq!(text(&at("text"), results.records()), expected);
            assert_eq!(text(&at("text"), &read(&path).unwrap().1), expected);
        }
    }
}

/// Interrupted again and again within its cells, and once killed: every cell in progress has left a checkpoint.
#[test]
fn cells_in_flight_go_on_from_their_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut longer = protocol();
    longer.training.epochs = 4;
    let cells = &cells()[..3];
    let mut results = Results::open(&at("straight"), &longer).unwrap();
    assert!(run(cells, &Cpu::new(2), &mut results, &|_| Control::Continue).unwrap());
    let expected = text(&at("text"), results.records());

    let checkpoints = Checkpoints { folder: at("checkpoints"), every: Duration::ZERO };
    std::fs::create_dir(&checkpoints.folder).unwrap();
    let there = || std::fs::read_dir(&checkpoints.folder).unwrap().count();
    let mut results = Results::open(&at("stopped"), &longer).unwrap();
    let mut batches = 0;
    for killed in [false, false, true, false] {
        let steps = AtomicUsize::new(0);
        let observe = |event: Event| match event {
            Event::Step(..) if steps.fetch_add(1, Ordering::Relaxed) == 4 => {
                if killed {
                    panic!("killed, after two epochs");
                }
                Control::Stop
            }
            _ => Control::Continue,
        };
        let pools = [Pool::on_cpu(cells, &Cpu::new(1))];
        let run = || run_pools(&pools, Some(&checkpoints), &mut results, &observe);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(ended) => assert!(!ended.unwrap()),
            Err(_) => assert!(killed),
        }
        batches += steps.into_inner();
        assert!(!killed || there() > 0);
    }
    // Two pools, on threads of their own.
    let (one, others) = cells.split_at(2);
    let pools = [one, others].map(|cells| Pool::on_cpu(cells, &Cpu::new(1)));
    let count = AtomicUsize::new(batches);
    let observe = |event: Event| {
        count.fetch_add(usize::from(matches!(event, Event::Step(..))), Ordering::Relaxed);
        Control::Continue
    };
    assert!(run_pools(&pools, Some(&checkpoints), &mut results, &observe).unwrap());
    assert_eq!(text(&at("text"), results.records()), expected);
    assert_eq!(there(), 0);
    // 8 batches a cell, and its end; the one that was killed has lost an epoch at most.
    assert!((27..=29).contains(&count.into_inner()), "{batches}");
}

#[test]
fn a_damaged_checkpoint_of_a_cell_is_reported_and_the_previous_one_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut longer = protocol();
    longer.training.epochs = 4;
    let pools = [Pool::on_cpu(&cells()[..1], &Cpu::new(1))];
    let mut results = Results::open(&at("straight"), &longer).unwrap();
    assert!(run_pools(&pools, None, &mut results, &|_| Control::Continue).unwrap());
    let expected = text(&at("text"), results.records());

    let checkpoints = Checkpoints { folder: at("checkpoints"), every: Duration::ZERO };
    std::fs::create_dir(&checkpoints.folder).unwrap();
    let mut results = Results::open(&at("stopped"), &longer).unwrap();
    let run = |results: &mut Results, stop: usize| {
        let (steps, notes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let observe = |event: Event| match event {
            Event::Step(..) if steps.fetch_add(1, Ordering::Relaxed) == stop => Control::Stop,
            Event::Note(note) => {
                notes.lock().unwrap().push(note.to_string());
                Control::Continue
            }
            _ => Control::Continue,
        };
        let ended = run_pools(&pools, Some(&checkpoints), results, &observe);
        (ended, notes.into_inner().unwrap())
    };
    assert_eq!(run(&mut results, 4), (Ok(false), vec![]));
    let files: Vec<_> = std::fs::read_dir(&checkpoints.folder).unwrap().flatten().collect();
    let newest = files.iter().find(|file| file.path().extension() == Some("ckpt".as_ref()));
    let path = newest.unwrap().path();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[1..]).unwrap();
    let (ended, notes) = run(&mut results, usize::MAX);
    assert_eq!(ended, Ok(true));
    assert!(notes.len() == 1 && notes[0].contains("-set-0.ckpt: is damaged"), "{notes:?}");
    assert!(notes[0].contains("-set-0.ckpt.previous is used instead"), "{notes:?}");
    assert_eq!(text(&at("text"), results.records()), expected);
}

#[test]
fn what_is_of_another_campaign_or_damaged_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = at("results");
    let cell = cells()[0];
    let record = straight(&path, &[cell], 1)[&cell].clone();
    assert_eq!((record.epochs, record.reason, record.parameters), (1, Reason::Epochs, 41_301));
    let whole = std::fs::read(&path).unwrap();
    let refused = |protocol: &Protocol| {
        let before = std::fs::read(&path).unwrap();
        let error = Results::open(&path, protocol).unwrap_err().to_string();
        assert!(std::fs::read(&path).unwrap() == before);
        error
    };

    let mut other = protocol();
    other.training.seed = 9;
    assert!(refused(&other).contains("results of another campaign:\n  there  {\"sequences\""));
    write(&at("other"), &other, &Records::new()).unwrap();
    let error = merge(&[path.clone(), at("other")]).unwrap_err().to_string();
    assert!(error.contains("other: holds results of another campaign"), "{error}");

    std::fs::write(&path, [&whole[..], b"{\"set\":0}\n"].concat()).unwrap();
    assert!(refused(&protocol()).contains("line 3 is damaged"));
    for (field, value) in [("test_mse", "-1.0"), ("seconds", "-1.0"), ("ahead", "21")] {
        let text = String::from_utf8(whole.clone()).unwrap();
        let (before, after) = text.split_once(&format!("\"{field}\":")).unwrap();
        let after = &after[after.find(',').unwrap()..];
        std::fs::write(&path, format!("{before}\"{field}\":{value}{after}")).unwrap();
        let error = refused(&protocol());
        assert!(error.contains(&format!("line 2 is damaged ({field} is ")), "{error}");
    }
    for foreign in ["my notes", "my notes\n", "{\"campaign\":\"x\",\"format\":1}\n"] {
        std::fs::write(&path, foreign).unwrap();
        assert!(refused(&protocol()).contains("holds no results of a campaign"), "{foreign}");
    }

    // Two results of a cell: the same are one, different ones are refused.
    let line = |record: &Record| serde_json::to_vec(record).unwrap();
    let slower = Record { seconds: 1e9, ..record.clone() };
    std::fs::write(&path, [&whole[..], &line(&slower), b"\n"].concat()).unwrap();
    assert!(read(&path).unwrap().1[&cell] == record);
    let differs = Record { epochs: 2, ..record.clone() };
    std::fs::write(&path, [&whole[..], &line(&differs), b"\n"].concat()).unwrap();
    assert!(refused(&protocol()).contains("gamma 0.5 a 0 lstm set 0 has two results that differ"));

    std::fs::write(&path, &whole).unwrap();
    let held = Results::open(&path, &protocol()).unwrap();
    assert!(refused(&protocol()).contains("is being written by another program"));
    drop(held);
    assert!(Results::open(&path, &protocol()).is_ok());
    let nowhere = Results::open(&at("nowhere/results"), &protocol()).unwrap_err().to_string();
    assert!(nowhere.contains("cannot be written"), "{nowhere}");
}

#[test]
fn a_training_that_runs_away_is_a_result_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results");
    let mut wild = protocol();
    (wild.training.rate, wild.training.clip, wild.training.epochs) = (f32::MAX, None, 20);
    let mut results = Results::open(&path, &wild).unwrap();
    assert!(run(&cells()[..2], &Cpu::new(1), &mut results, &|_| Control::Continue).unwrap());
    drop(results);
    let records = read(&path).unwrap().1;
    assert_eq!(records.len(), 2);
    for record in records.values() {
        assert_eq!((record.reason, record.test_mse), (Reason::NotFinite, None));
    }
}
