//! Bytes that requests and messages occupy while they wait, and those of their responses.
//!
//! For responses and messages these are upper bounds, computed before the memory is allocated.

use crate::models::Served;
use drnn_tasks::live::Element;

/// Bytes of a request or message that need no lease.
pub const FREE_RECEIVED: usize = 16 << 10;
/// Bytes of a response that need no lease.
pub const FREE_RESPONSE: usize = 32 << 10;

/// Bytes of a message in addition to its text.
const MESSAGE: usize = 256;
/// Overhead of an allocation.
const ALLOCATION: usize = 16;
/// Bytes of heap per byte of text: `[0],` becomes a float in an allocation of its own.
const HEAP: usize = 8;

/// Bytes of a message of `bytes` bytes with at most `elements` elements. The shortest element is one
/// character; `encoded` is [`drnn_tasks::live::LiveModel::encoded_bytes`].
pub fn message(bytes: usize, elements: usize, encoded: usize) -> usize {
    MESSAGE + (1 + HEAP) * bytes + elements.min(bytes) * (size_of::<Element>() + encoded)
}

/// Bytes of a request's elements, with the overhead of their allocations.
pub fn elements(sequences: &[Vec<Element>]) -> usize {
    let heap = |element: &Element| match element {
        Element::Numbers(numbers) => ALLOCATION + numbers.capacity() * size_of::<f32>(),
        Element::Word(word) => ALLOCATION + word.capacity(),
        _ => 0,
    };
    let vectors = sequences.iter().map(|elements| {
        size_of::<Vec<Element>>() + ALLOCATION + elements.capacity() * size_of::<Element>()
    });
    vectors.chain(sequences.iter().flatten().map(heap)).sum()
}

/// Bytes of the response to these sequences. While it is assembled, its predictions exist twice.
pub fn response(served: &Served, sequences: &[Vec<Element>]) -> usize {
    let longest = served.max_prediction;
    let each = sequences.iter().flatten();
    2 * each.map(|element| served.model.max_prediction_bytes_to(element, longest)).sum::<usize>()
}
