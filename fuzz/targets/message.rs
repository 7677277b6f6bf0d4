//! Messages of clients of a live stream: every accepted message can be processed by every kind of
//! model.
//!
//! ```text
//! choice u8    a message per line
//! ```
#![no_main]

mod models;

use drnn_serve::message::parse;
use drnn_tasks::live::LiveStream;
use libfuzzer_sys::fuzz_target;
use models::MODELS;

const MAX_ELEMENTS: usize = 50;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let model = &MODELS[usize::from(choice) % MODELS.len()];
    let mut stream = LiveStream::new(model).unwrap();
    for line in String::from_utf8_lossy(bytes).lines().take(10) {
        let Ok(message) = parse(model, line, MAX_ELEMENTS) else { continue };
        assert!(message.elements.len() <= MAX_ELEMENTS);
        let says = !message.elements.is_empty() || message.refused.is_some() || message.flush;
        assert!(says || line.contains("elements") || line.contains("text"), "{line}");
        for element in &message.elements {
            let _ = stream.push(element);
        }
        if message.flush {
            stream.flush().unwrap();
        }
    }
});
