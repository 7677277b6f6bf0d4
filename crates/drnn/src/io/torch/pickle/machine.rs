//! The stack machine of pickles: every instruction that plain data needs, by its name in Python's
//! `pickletools`.

use crate::error::{Error, Result};
use crate::io::file::refuse;
use crate::io::limits::MAX_PICKLE_VALUES;
use crate::io::torch::pickle::class::Class;
use crate::io::torch::pickle::{Id, Value};
use std::collections::HashMap;

/// The stack machine.
#[derive(Default)]
pub(crate) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// What messages call the file.
    file: &'static str,
    values: Vec<Value<'a>>,
    stack: Vec<Id>,
    /// Heights of the stack at which marks stand.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// Items of lists that became those of dictionaries too.
    copied: usize,
}

impl<'a> Machine<'a> {
    /// All values of the pickle at byte `at`, which of them it stands for, and the place after its end.
    pub fn run(
        bytes: &'a [u8],
        at: usize,
        file: &'static str,
    ) -> Result<(Vec<Value<'a>>, Id, usize)> {
        let mut machine = Machine { bytes, at, file, ..Machine::default() };
        let root = machine.steps()?;
        Ok((machine.values, root, machine.at))
    }

    /// Instructions that push a new value, up to the last one.
    fn steps(&mut self) -> Result<Id> {
        loop {
            let value = match self.byte()? {
                b'.' => return self.pop(),                             // STOP
                b'N' | 0x88 | 0x89 => Value::Other,                    // NONE, NEWTRUE, NEWFALSE
                b'K' => Value::Int(self.number(1)? as i64),            // BININT1
                b'M' => Value::Int(self.number(2)? as i64),            // BININT2
                b'J' => Value::Int(i64::from(self.number(4)? as i32)), // BININT
                0x8A => self.long()?,                                  // LONG1
                b'G' => self.take(8).map(|_| Value::Other)?,           // BINFLOAT
                b'C' => self.sized(1).map(|_| Value::Other)?,          // SHORT_BINBYTES
                b'B' => self.sized(4).map(|_| Value::Other)?,          // BINBYTES
                0x8E | 0x96 => self.sized(8).map(|_| Value::Other)?,   // BINBYTES8, BYTEARRAY8
                b'U' => self.old_text(1)?,                             // SHORT_BINSTRING
                b'T' => self.old_text(4)?,                             // BINSTRING
                0x8C => self.text(1)?,                                 // SHORT_BINUNICODE
                b'X' => self.text(4)?,                                 // BINUNICODE
                0x8D => self.text(8)?,                                 // BINUNICODE8
                b')' => Value::Tuple(Vec::new()),                      // EMPTY_TUPLE
                b't' => Value::Tuple(self.pop_mark()?),                // TUPLE
                few @ 0x85..=0x87 => {
                    // TUPLE1 to TUPLE3
                    let mut items = vec![0; usize::from(few - 0x84)];
                    for item in items.iter_mut().rev() {
                        *item = self.pop()?;
                    }
                    Value::Tuple(items)
                }
                b']' | 0x8F => Value::List(Vec::new()), // EMPTY_LIST, EMPTY_SET
                0x91 => Value::List(self.pop_mark()?),  // FROZENSET
                b'}' => Value::Dict(Vec::new()),        // EMPTY_DICT
                b'c' => {
                    // GLOBAL
                    let (module, name) = (self.line()?, self.line()?);
                    Class::value(module, name)
                }
                0x93 => {
                    // STACK_GLOBAL
                    let (name, module) = (self.pop_text()?, self.pop_text()?);
                    Class::value(module, name)
                }
                other => {
                    self.change(other)?;
                    continue;
                }
            };
            let id = self.add(value)?;
            self.stack.push(id);
        }
    }

    /// Instructions that change what is there.
    fn change(&mut self, instruction: u8) -> Result<()> {
        match instruction {
            0x80 => match self.number(1)? {
                // PROTO
                2..=5 => {}
                n => return Err(self.error(&format!("protocol {n}, expected 2 to 5"))),
            },
            0x95 => drop(self.take(8)?), // FRAME: a length, of use to streams only
            b'(' => self.marks.push(self.stack.len()), // MARK
            b'0' => drop(self.pop()?),   // POP
            b'1' => drop(self.pop_mark()?), // POP_MARK
            b'q' | b'r' | 0x94 => {
                // BINPUT, LONG_BINPUT, MEMOIZE
                let number = match instruction {
                    b'q' => self.number(1)?,
                    b'r' => self.number(4)?,
                    _ => self.memo.len() as u64,
                };
                let top = self.top()?;
                if self.memo.insert(number, top).is_none() && self.memo.len() > MAX_PICKLE_VALUES {
                    return Err(
                        self.error(&format!("more than {MAX_PICKLE_VALUES} values remembered"))
                    );
                }
            }
            b'h' | b'j' => {
                // BINGET, LONG_BINGET
                let number = self.number(if instruction == b'h' { 1 } else { 4 })?;
                match self.memo.get(&number) {
                    Some(&id) => self.stack.push(id),
                    None => return Err(self.error(&format!("number {number} was never stored"))),
                }
            }
            b'a' | b'e' | 0x90 => {
                // APPEND, APPENDS, ADDITEMS
                let new = if instruction == b'a' { vec![self.pop()?] } else { self.pop_mark()? };
                let top = self.top()?;
                match self.values.get_mut(top as usize) {
                    Some(Value::List(items)) => items.extend(new),
                    Some(Value::Object { .. }) => {} // of a class that is a list, in Python
                    _ => return Err(self.error("appends to what is no list")),
                }
            }
            b's' | b'u' => {
                // SETITEM, SETITEMS
                let new = if instruction == b's' { self.pop_pair()? } else { self.pop_mark()? };
                let top = self.top()?;
                match self.values.get_mut(top as usize) {
                    Some(Value::Dict(items)) if new.len() % 2 == 0 => {
                        items.extend(new.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                    }
                    Some(Value::Object { .. }) => {}
                    _ => return Err(self.error("sets an item of what is no dictionary")),
                }
            }
            b'b' => {
                // BUILD: attributes; a state dict's are the versions of the modules that it came from, a
                // parameter's of PyTorch 0.3 are flags, and hooks that it does not have.
                let new = self.pop()?;
                let top = self.top()?;
                let is_other = |id: &Id| matches!(self.get(*id), Value::Other);
                let flags = matches!(self.get(new), Value::Tuple(all) if all.iter().all(is_other));
                match self.values.get_mut(top as usize) {
                    Some(Value::Object { attributes, .. }) => *attributes = Some(new),
                    Some(Value::Dict(_)) => {}
                    Some(Value::Tensor(_)) if flags => {}
                    _ => return Err(self.error("attributes of what is no dictionary")),
                }
            }
            0x81 | 0x92 => {
                // NEWOBJ, NEWOBJ_EX
                if instruction == 0x92 {
                    self.pop()?;
                }
                let [class, arguments] = self.pop_pair()?[..] else { return Err(self.short()) };
                let id = match self.get(class) {
                    Value::Global(..) => self.add(Value::Object { class, attributes: None })?,
                    _ => self.call(class, arguments)?,
                };
                self.stack.push(id);
            }
            b'R' => {
                // REDUCE
                let [class, arguments] = self.pop_pair()?[..] else { return Err(self.short()) };
                let id = self.call(class, arguments)?;
                self.stack.push(id);
            }
            b'Q' => {
                // BINPERSID
                let reference = self.pop()?;
                let id = self.persistent(reference)?;
                self.stack.push(id);
            }
            other => {
                let what = format!("instruction {other:#04x}, which plain data does not need");
                return Err(self.error(&what));
            }
        }
        Ok(())
    }

    /// An error with the place in the pickle.
    pub fn error(&self, what: &str) -> Error {
        refuse(format!("{}, byte {}: {what}", self.file, self.at.saturating_sub(1)))
    }

    fn short(&self) -> Error {
        self.error("takes more from the stack than there is")
    }

    pub fn get(&self, id: Id) -> &Value<'a> {
        self.values.get(id as usize).unwrap_or(&Value::Other)
    }

    pub fn add(&mut self, value: Value<'a>) -> Result<Id> {
        if self.values.len() >= MAX_PICKLE_VALUES {
            return Err(self.error(&format!("more than {MAX_PICKLE_VALUES} values")));
        }
        self.values.push(value);
        Ok((self.values.len() - 1) as Id)
    }

    /// Counts items that are there a second time: one list may be named again and again.
    pub fn pay_copied(&mut self, items: usize) -> Result<()> {
        self.copied += items;
        match self.copied > MAX_PICKLE_VALUES {
            true => Err(self.error(&format!("more than {MAX_PICKLE_VALUES} items copied"))),
            false => Ok(()),
        }
    }

    /// Height below which nothing may be taken.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id> {
        let above = self.stack.get(self.floor()..).unwrap_or(&[]);
        above.last().copied().ok_or_else(|| self.short())
    }

    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// The two topmost, in the order in which they were pushed.
    fn pop_pair(&mut self) -> Result<Vec<Id>> {
        let (second, first) = (self.pop()?, self.pop()?);
        Ok(vec![first, second])
    }

    /// All above the last mark.
    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            _ => Err(self.error("no mark on the stack")),
        }
    }

    fn pop_text(&mut self) -> Result<&'a str> {
        let id = self.pop()?;
        match *self.get(id) {
            Value::Text(text) => Ok(text),
            _ => Err(self.error("a name that is no text")),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes = bytes.ok_or_else(|| self.error("ends too early"))?;
        self.at += len;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }

    /// A little-endian number of at most eight bytes.
    fn number(&mut self, width: usize) -> Result<u64> {
        Ok(self.take(width)?.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }

    /// As many bytes as the number before them says.
    fn sized(&mut self, width: usize) -> Result<&'a [u8]> {
        let len = self.number(width)?;
        self.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn text(&mut self, width: usize) -> Result<Value<'a>> {
        let bytes = self.sized(width)?;
        let text = core::str::from_utf8(bytes).map_err(|_| self.error("text that is not UTF-8"))?;
        Ok(Value::Text(text))
    }

    /// Text of Python 2, which has no encoding; bytes where it is no text.
    fn old_text(&mut self, width: usize) -> Result<Value<'a>> {
        let text = core::str::from_utf8(self.sized(width)?);
        Ok(text.map_or(Value::Other, Value::Text))
    }

    /// An integer of any length, in two's complement.
    fn long(&mut self) -> Result<Value<'a>> {
        let bytes = self.sized(1)?;
        let sign = if bytes.last().is_some_and(|byte| byte >> 7 == 1) { 0xFF } else { 0 };
        let mut all = [sign; 8];
        match all.get_mut(..bytes.len()) {
            Some(low) => low.copy_from_slice(bytes),
            None => return Ok(Value::Other), // a random seed, say; no size and no key
        }
        Ok(Value::Int(i64::from_le_bytes(all)))
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let len = rest.iter().position(|&byte| byte == b'\n');
        let len = len.ok_or_else(|| self.error("ends too early"))?;
        let line = self.take(len)?;
        self.take(1)?;
        core::str::from_utf8(line).map_err(|_| self.error("a name that is not UTF-8"))
    }
}
