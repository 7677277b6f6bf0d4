//! Hostile model files and snapshots through the C interface: read, or refused with a code and a
//! message. What was read can be used.

mod common;

use common::*;
use drnn::random::Rng;
use drnn::{Padding, Stream};
use drnn_c::run::*;
use drnn_c::status::drnn_status::*;
use drnn_c::stream::*;
use drnn_c::task::*;
use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::{null, null_mut};

/// Loads bytes; whether that succeeded. What was loaded runs, and streams.
fn read(bytes: &[u8], what: &str) -> bool {
    let (status, model) = load_bytes(bytes, 1);
    if status != DRNN_OK {
        assert_eq!(status, DRNN_ERROR_FORMAT, "{what}: {}", message());
        assert!(model.0.is_null());
        let message = message();
        let readable = !message.is_empty() && message.len() < 1000;
        assert!(readable && message.chars().all(|c| c != '\0'), "{what}: {message}");
        return false;
    }
    let info = info(&model);
    if info.network == 1 && info.outputs < 10_000 && info.inputs < 10_000 && info.delay < 10_000 {
        let (x, token) = (vec![0.5; info.inputs], [0]);
        let mut y = vec![0.0; info.outputs];
        let sequences = drnn_sequences {
            x: if info.symbols == 0 { x.as_ptr() } else { null() },
            x_len: x.len(),
            tokens: if info.symbols == 0 { null() } else { token.as_ptr() },
            tokens_len: (info.symbols > 0).into(),
            steps: 1,
            rows: 1,
            lengths: null(),
            batch_first: 0,
        };
        // SAFETY: a model, and arrays of the sizes stated.
        let status =
            unsafe { drnn_model_run(model.0, &sequences, null(), y.as_mut_ptr(), y.len(), null()) };
        // A flattened network whose start cannot be solved says so here.
        assert!([DRNN_OK, DRNN_ERROR_UNSUPPORTED].contains(&status), "{what}: {}", message());
        if info.streams == 1 && status == DRNN_OK {
            let stream = stream(&model);
            let pushed = match info.symbols {
                0 => push(&stream, info.outputs, &x, 1).0,
                _ => push_tokens(&stream, info.outputs, &token).0,
            };
            ok(pushed);
            finish(&stream, &info);
        }
    }
    push_text(&model);
    true
}

/// An element as text; its task may refuse it.
fn push_text(model: &Owned<drnn_c::model::drnn_model>) {
    let (mut stream, mut found) = (null_mut(), null());
    // SAFETY: a model, text that ends with NUL, and places for pointers.
    unsafe {
        if drnn_task_stream_new(model.0, &mut stream) == DRNN_OK {
            let element = CString::new("a").unwrap();
            let _ = drnn_task_stream_push(stream, element.as_ptr(), &mut found);
            while drnn_task_stream_finish(stream, &mut found) == DRNN_OK && !found.is_null() {}
        }
        drnn_task_stream_free(stream);
    }
}

/// All files of a folder of the repository, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}

#[test]
fn files_of_the_fuzzers_corpus_and_what_it_is_made_of() {
    // `fuzz/corpus` is there where someone has fuzzed; fuzz/seeds.py makes it from the golden files.
    let mut folders = vec!["crates/drnn/tests/golden", "crates/drnn/tests/regressions"];
    let corpus = ["model_file", "import", "tagger", "pt", "c_model"];
    let corpus = corpus.map(|target| format!("fuzz/corpus/{target}"));
    folders.extend(corpus.iter().map(String::as_str).filter(|path| repository(path).is_dir()));
    let (mut accepted, mut all) = (0, 0);
    for path in folders.into_iter().flat_map(files) {
        let bytes = std::fs::read(&path).unwrap();
        accepted += usize::from(read(&bytes, &path.display().to_string()));
        all += 1;
    }
    assert!(accepted > 30 && all > accepted, "{accepted} of {all}");
}

#[test]
fn truncated_anywhere_is_refused() {
    for model in networks() {
        let bytes = model.to_bytes().unwrap();
        for end in 0..bytes.len() {
            assert!(!read(&bytes[..end], "truncated"), "{} at {end}", model.spec());
        }
        assert!(read(&bytes, "whole"));
    }
}

#[test]
fn damaged_anywhere_is_read_or_refused() {
    let mut rng = Rng::new(1);
    for model in networks() {
        let bytes = model.to_bytes().unwrap();
        let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        let mut damaged = bytes.clone();
        for at in 0..header {
            damaged[at] ^= 1 << rng.below(8);
            read(&damaged, "one bit of the header");
            damaged[at] = bytes[at];
        }
        for _ in 0..100 {
            let at = header + rng.below(bytes.len() - header);
            damaged[at] = rng.below(256) as u8;
            read(&damaged, "values");
        }
    }
}

#[test]
fn files_of_other_programs_truncated_and_damaged() {
    let mut rng = Rng::new(2);
    let tagger = repository("crates/drnn-cli/models/tagger-en.safetensors");
    let mut paths = files("crates/drnn/tests/golden");
    paths.push(tagger);
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // The tagger is megabytes: its header is where damage is not simply another weight.
        let (tries, start) = if bytes.len() > 1 << 20 { (30, 1 << 16) } else { (100, bytes.len()) };
        for _ in 0..tries {
            read(&bytes[..rng.below(bytes.len())], &name);
            let mut damaged = bytes.clone();
            for _ in 0..1 + rng.below(3) {
                damaged[rng.below(start)] = rng.below(256) as u8;
            }
            read(&damaged, &name);
        }
    }
}

#[test]
fn no_damage_of_a_snapshot_is_overlooked() {
    let model = dense(2, Padding::Null);
    let handle = in_c(&model);
    let (stream, info) = (stream(&handle), info(&handle));
    let mut other = Stream::new(&model).unwrap();
    other.push(&[0.3, 0.4]).unwrap();
    let bytes = other.snapshot();
    let before = snapshot(&stream, &info);
    for at in 0..bytes.len() {
        for damaged in
            [bytes[..at].to_vec(), [&bytes[..at], &[!bytes[at]], &bytes[at + 1..]].concat()]
        {
            // SAFETY: a stream, and that many bytes.
            let status = unsafe { drnn_stream_restore(stream.0, damaged.as_ptr(), damaged.len()) };
            assert_eq!(status, DRNN_ERROR_SNAPSHOT, "{at}");
        }
    }
    assert_eq!(snapshot(&stream, &info), before);
    // SAFETY: as above.
    ok(unsafe { drnn_stream_restore(stream.0, bytes.as_ptr(), bytes.len()) });
    assert_eq!(snapshot(&stream, &info), bytes);
}
