//! The functions of the WebAssembly module, for `npm/drnn.js`.
//!
//! JavaScript writes arguments to the input buffer ([`drnn_input`]), calls a function, and reads what
//! it left in the result buffer ([`drnn_result`], [`drnn_result_length`]): JSON, text or numbers, or the
//! message of an error. A function returns [`FAILED`], [`NONE`], or something above: a handle or
//! [`DONE`].

use crate::sequences::u32s;
use crate::session::{self, Result, Session};
use std::cell::RefCell;

/// The result is an error's message.
const FAILED: u32 = 0;
/// There is a result.
const DONE: u32 = 1;
/// There is no output yet.
const NONE: u32 = 2;

#[derive(Default)]
struct State {
    session: Session,
    input: Vec<u8>,
    result: Vec<u8>,
    /// The last output of a network, kept so that a push allocates nothing.
    output: Vec<f32>,
}

thread_local! {
    /// A module has one thread: a page that wants more loads it in several workers.
    static STATE: RefCell<State> = RefCell::default();
}

/// What a function leaves in the result buffer, and returns.
enum Reply {
    Handle(u32),
    Text(String),
    Bytes(Vec<u8>),
    Numbers(Vec<f32>),
    /// The output of a network is there, or not.
    Output(bool),
    Nothing,
}

/// Calls `act` with the session, the input, and space for an output of a network.
fn reply(act: impl FnOnce(&mut Session, &[u8], &mut Vec<f32>) -> Result<Reply>) -> u32 {
    STATE.with_borrow_mut(|State { session, input, result, output }| {
        let status;
        (*result, status) = match act(session, input, output) {
            Ok(Reply::Handle(handle)) => (Vec::new(), handle),
            Ok(Reply::Text(text)) => (text.into_bytes(), DONE),
            Ok(Reply::Bytes(bytes)) => (bytes, DONE),
            Ok(Reply::Numbers(numbers)) => (bytes_of(&numbers), DONE),
            Ok(Reply::Output(true)) => (bytes_of(output), DONE),
            Ok(Reply::Output(false)) => (Vec::new(), NONE),
            Ok(Reply::Nothing) => (Vec::new(), DONE),
            Err(message) => (message.into_bytes(), FAILED),
        };
        status
    })
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| format!("not UTF-8: {e}"))
}

/// Space for `length` bytes of input; null where there is no memory. Long inputs are released by
/// requesting 0 bytes.
#[unsafe(no_mangle)]
extern "C" fn drnn_input(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input.clear();
        if length == 0 {
            state.input = Vec::new();
        }
        if state.input.try_reserve_exact(length).is_err() {
            return std::ptr::null_mut();
        }
        state.input.resize(length, 0);
        state.input.as_mut_ptr()
    })
}

#[unsafe(no_mangle)]
extern "C" fn drnn_result() -> *const u8 {
    STATE.with_borrow(|state| state.result.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn drnn_result_length() -> usize {
    STATE.with_borrow(|state| state.result.len())
}

/// Version and instruction set, as JSON.
#[unsafe(no_mangle)]
extern "C" fn drnn_about() -> u32 {
    reply(|_, _, _| Ok(Reply::Text(session::about())))
}

/// Reads a model: its name, then the bytes of its file. Returns a handle.
#[unsafe(no_mangle)]
extern "C" fn drnn_load(name_length: usize) -> u32 {
    reply(|session, input, _| {
        let (name, bytes) = input.split_at_checked(name_length).ok_or("the name is cut off")?;
        session.load(text(name)?, bytes).map(Reply::Handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn drnn_free(handle: u32) -> u32 {
    reply(|session, _, _| {
        session.free(handle);
        Ok(Reply::Nothing)
    })
}

#[unsafe(no_mangle)]
extern "C" fn drnn_info(model: u32) -> u32 {
    reply(|session, _, _| session.info(model).map(Reply::Text))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_run(model: u32) -> u32 {
    reply(|session, input, _| session.run(model, text(input)?).map(Reply::Text))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_run_network(model: u32, steps: usize, rows: usize, lengths: u32) -> u32 {
    reply(|session, input, _| {
        session.run_network(model, input, (steps, rows), lengths != 0).map(Reply::Numbers)
    })
}

#[unsafe(no_mangle)]
extern "C" fn drnn_fill(model: u32) -> u32 {
    reply(|session, input, _| session.fill(model, text(input)?).map(Reply::Text))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_tag(model: u32, words: u32) -> u32 {
    reply(|session, input, _| session.tag(model, text(input)?, words != 0).map(Reply::Text))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_stream(model: u32) -> u32 {
    reply(|session, _, _| session.stream(model).map(Reply::Handle))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_push(stream: u32) -> u32 {
    reply(|session, input, _| {
        let found = session.push(stream, text(input)?)?;
        Ok(found.map_or(Reply::Output(false), Reply::Text))
    })
}

#[unsafe(no_mangle)]
extern "C" fn drnn_flush(stream: u32) -> u32 {
    reply(|session, _, _| session.flush(stream).map(Reply::Text))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_reset(stream: u32) -> u32 {
    reply(|session, _, _| session.reset(stream).map(|()| Reply::Nothing))
}

/// The position as text: it may exceed the numbers of this interface.
#[unsafe(no_mangle)]
extern "C" fn drnn_position(stream: u32) -> u32 {
    reply(|session, _, _| session.position(stream).map(|at| Reply::Text(at.to_string())))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_snapshot(stream: u32) -> u32 {
    reply(|session, _, _| session.snapshot(stream).map(Reply::Bytes))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_restore(stream: u32) -> u32 {
    reply(|session, input, _| session.restore(stream, input).map(|()| Reply::Nothing))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_network_stream(model: u32) -> u32 {
    reply(|session, _, _| session.network_stream(model).map(Reply::Handle))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_push_numbers(stream: u32) -> u32 {
    reply(|session, input, output| {
        let x: Vec<f32> = u32s(input).map(f32::from_bits).collect();
        session.push_numbers(stream, &x, output).map(Reply::Output)
    })
}

#[unsafe(no_mangle)]
extern "C" fn drnn_push_token(stream: u32, token: u32) -> u32 {
    reply(|session, _, output| session.push_token(stream, token, output).map(Reply::Output))
}

#[unsafe(no_mangle)]
extern "C" fn drnn_finish(stream: u32) -> u32 {
    reply(|session, _, _| session.finish(stream).map(Reply::Numbers))
}
