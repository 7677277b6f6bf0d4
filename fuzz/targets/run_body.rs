//! Bodies of `POST /v1/run`: every accepted body can be run, with every kind of model, and gives the
//! outputs of a stream.
//!
//! ```text
//! choice u8    the body
//! ```
#![no_main]

mod models;

use drnn_serve::request::parse;
use drnn_tasks::live::{LiveRun, LiveStream};
use libfuzzer_sys::fuzz_target;
use models::MODELS;

const MAX_ELEMENTS: usize = 200;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, body)) = input.split_first() else { return };
    let model = &MODELS[usize::from(choice) % MODELS.len()];
    let Ok(request) = parse(body) else { return };
    let Ok(sequences) = request.elements(model, MAX_ELEMENTS) else { return };
    assert!(sequences.iter().map(|elements| elements.len().max(1)).sum::<usize>() <= MAX_ELEMENTS);
    let mut run = LiveRun::new(model);
    for elements in &sequences {
        // Each sequence alone: one that is rejected is rejected by run and stream alike.
        let whole = run.read(elements);
        let mut stream = LiveStream::new(model).unwrap();
        let mut answers = Vec::new();
        let pushed = elements.iter().try_for_each(|element| {
            answers.extend(stream.push(element)?.map(|answer| answer.json()));
            Ok::<(), drnn_train::Error>(())
        });
        assert_eq!(
            whole.as_ref().err().map(ToString::to_string),
            pushed.err().map(|e| e.to_string())
        );
        let Ok(whole) = whole else { continue };
        answers.extend(stream.flush().unwrap().iter().map(|answer| answer.json()));
        let mut found = Vec::new();
        run.run(&mut [whole], |_, answer| found.push(answer.json())).unwrap();
        assert_eq!(found, answers);
    }
});
