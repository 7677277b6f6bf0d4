//! Elements of live sequences, with every kind of model: each accepted element gets its output in
//! time; a rejected one changes nothing.
//!
//! ```text
//! choices u8    lines of text
//! ```
#![no_main]

mod models;

use drnn_tasks::live::{Element, LiveStream};
use drnn_train::read::{ElementRow, ElementRows};
use libfuzzer_sys::fuzz_target;
use models::MODELS;

fuzz_target!(|input: &[u8]| {
    let Some((&choices, bytes)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let model = &MODELS[usize::from(choices & 15) % MODELS.len()];
    let mut rows = ElementRows::new(model);
    let mut read = |line: &str| -> Option<Element> {
        match choices >> 6 {
            0 => model.line(line).ok(),
            1 => model.json(line).ok(),
            _ => match rows.read(line).ok()? {
                ElementRow::Header => None,
                ElementRow::Element { element, .. } => Some(element),
            },
        }
    };
    let elements: Vec<Element> = text.lines().take(20).filter_map(|line| read(line)).collect();
    let (mut stream, mut good) = (LiveStream::new(model).unwrap(), Vec::new());
    let mut answers = Vec::new();
    for element in elements {
        let position = stream.position();
        match stream.push(&element) {
            Ok(answer) => {
                answers.extend(answer.map(|answer| answer.json()));
                good.push(element);
            }
            Err(e) => {
                assert!(e.to_string().starts_with(&format!("element {position}: ")), "{e}");
                assert_eq!(stream.position(), position);
            }
        }
        assert_eq!(answers.len(), good.len().saturating_sub(model.latency()));
    }
    answers.extend(stream.flush().unwrap().iter().map(|answer| answer.json()));
    assert_eq!(answers.len(), good.len());
    // The good ones alone, in the stream that was used: as new.
    let mut again = Vec::new();
    for element in &good {
        again.extend(stream.push(element).unwrap().map(|answer| answer.json()));
    }
    again.extend(stream.flush().unwrap().iter().map(|answer| answer.json()));
    assert_eq!(again, answers);
});
