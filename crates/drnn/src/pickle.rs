//! Python's pickles, as far as they are plain data. Nothing is executed.
//!
//! A pickle is a program for a stack machine: `K 5` pushes the integer 5, `(` marks a place, `t` makes a
//! tuple of what lies above the mark, `q 0` remembers the top as number 0, `h 0` pushes it again. `c`
//! pushes a class or function by its name and `R` calls it, which is how a hostile pickle runs what it
//! likes. Here `c` knows the few names that `torch.save` writes for tensors and dictionaries, and `R`
//! calls nothing: it notes down what a tensor is made of (`pickle_class`). Any other name is refused, and
//! so is any instruction beyond plain data.
//!
//! Values lie in one vector and refer to each other by number: a value may contain itself, and however
//! deep they nest, dropping them does not recurse. An instruction makes at most one value, and text is
//! borrowed, so memory is in proportion to the pickle.

use crate::error::{Error, Result};
use crate::file::refuse;
use crate::pickle_class::Class;
use safetensors::Dtype;
use std::collections::HashMap;

/// A value's place among all.
pub(crate) type Id = u32;

/// What a pickle is made of.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Int(i64),
    Text(&'a str),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Class(Class),
    Storage(Storage),
    Tensor(Tensor),
    /// None, booleans, floats, bytes, integers beyond 64 bits: nothing that we look at.
    Other,
}

/// An entry of the archive, `data/<key>`, of `len` elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Storage {
    pub dtype: Dtype,
    pub key: Id,
    pub len: Id,
}

/// A view of a storage. What its parts are is for the reader to check, who knows the tensor's name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tensor {
    pub storage: Id,
    pub offset: Id,
    pub shape: Id,
    pub strides: Id,
    /// Where it is not the storage's.
    pub dtype: Option<Dtype>,
}

/// The most values: some hundred thousand tensors.
const MOST_VALUES: usize = 1 << 22;

/// All values of a pickle, and the one that it stands for.
pub(crate) struct Pickle<'a> {
    values: Vec<Value<'a>>,
    pub root: Id,
}

impl<'a> Pickle<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Pickle<'a>> {
        let mut machine = Machine { bytes, ..Machine::default() };
        let root = machine.run()?;
        Ok(Pickle { values: machine.values, root })
    }

    pub fn get(&self, id: Id) -> &Value<'a> {
        self.values.get(id as usize).unwrap_or(&Value::Other)
    }

    /// A number that counts something.
    pub fn size(&self, id: Id) -> Option<usize> {
        match *self.get(id) {
            Value::Int(n) => usize::try_from(n).ok(),
            _ => None,
        }
    }

    /// A tuple of such numbers.
    pub fn sizes(&self, id: Id) -> Option<Vec<usize>> {
        match self.get(id) {
            Value::Tuple(items) => items.iter().map(|&id| self.size(id)).collect(),
            _ => None,
        }
    }
}

/// The stack machine.
#[derive(Default)]
pub(crate) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value<'a>>,
    stack: Vec<Id>,
    /// Heights of the stack at which marks stand.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Id> {
        loop {
            let value = match self.byte()? {
                b'.' => return self.pop(),
                b'N' | 0x88 | 0x89 => Value::Other, // None, True, False
                b'K' => Value::Int(self.number(1)? as i64),
                b'M' => Value::Int(self.number(2)? as i64),
                b'J' => Value::Int(i64::from(self.number(4)? as i32)),
                0x8A => self.long()?,
                b'G' => self.take(8).map(|_| Value::Other)?, // float
                b'C' => self.sized(1).map(|_| Value::Other)?, // bytes
                b'B' => self.sized(4).map(|_| Value::Other)?,
                0x8C => self.text(1)?,
                b'X' => self.text(4)?,
                0x8D => self.text(8)?,
                b')' => Value::Tuple(Vec::new()),
                b't' => Value::Tuple(self.pop_mark()?),
                few @ 0x85..=0x87 => {
                    let mut items = vec![0; usize::from(few - 0x84)];
                    for item in items.iter_mut().rev() {
                        *item = self.pop()?;
                    }
                    Value::Tuple(items)
                }
                b']' => Value::List(Vec::new()),
                b'}' => Value::Dict(Vec::new()),
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    Value::Class(Class::find(module, name)?)
                }
                0x93 => {
                    let (name, module) = (self.pop_text()?, self.pop_text()?);
                    Value::Class(Class::find(module, name)?)
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
                2..=5 => {}
                n => return Err(self.error(&format!("protocol {n}, expected 2 to 5"))),
            },
            0x95 => drop(self.take(8)?), // a frame's length, of use to streams only
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_mark()?),
            b'q' | b'r' | 0x94 => {
                let number = match instruction {
                    b'q' => self.number(1)?,
                    b'r' => self.number(4)?,
                    _ => self.memo.len() as u64,
                };
                let top = self.top()?;
                self.memo.insert(number, top);
            }
            b'h' | b'j' => {
                let number = self.number(if instruction == b'h' { 1 } else { 4 })?;
                match self.memo.get(&number) {
                    Some(&id) => self.stack.push(id),
                    None => return Err(self.error(&format!("number {number} was never stored"))),
                }
            }
            b'a' | b'e' => {
                let new = if instruction == b'a' { vec![self.pop()?] } else { self.pop_mark()? };
                let top = self.top()?;
                match self.values.get_mut(top as usize) {
                    Some(Value::List(items)) => items.extend(new),
                    _ => return Err(self.error("appends to what is no list")),
                }
            }
            b's' | b'u' => {
                let new = if instruction == b's' { self.pop_pair()? } else { self.pop_mark()? };
                let top = self.top()?;
                match self.values.get_mut(top as usize) {
                    Some(Value::Dict(items)) if new.len() % 2 == 0 => {
                        items.extend(new.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                    }
                    _ => return Err(self.error("sets an item of what is no dictionary")),
                }
            }
            b'b' => {
                // Attributes; a state dict's are the versions of the modules that it came from.
                let _attributes = self.pop()?;
                let top = self.top()?;
                if !matches!(self.get(top), Value::Dict(_)) {
                    return Err(self.error("attributes of what is no dictionary"));
                }
            }
            b'R' => {
                let [class, arguments] = self.pop_pair()?[..] else { return Err(self.short()) };
                let id = self.call(class, arguments)?;
                self.stack.push(id);
            }
            b'Q' => {
                let reference = self.pop()?;
                let storage = self.storage(reference)?;
                let id = self.add(storage)?;
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
        refuse(format!("data.pkl, byte {}: {what}", self.at.saturating_sub(1)))
    }

    fn short(&self) -> Error {
        self.error("takes more from the stack than there is")
    }

    pub fn get(&self, id: Id) -> &Value<'a> {
        self.values.get(id as usize).unwrap_or(&Value::Other)
    }

    pub fn add(&mut self, value: Value<'a>) -> Result<Id> {
        if self.values.len() >= MOST_VALUES {
            return Err(self.error(&format!("more than {MOST_VALUES} values")));
        }
        self.values.push(value);
        Ok((self.values.len() - 1) as Id)
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
        let text = std::str::from_utf8(bytes).map_err(|_| self.error("text that is not UTF-8"))?;
        Ok(Value::Text(text))
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
        std::str::from_utf8(line).map_err(|_| self.error("a name that is not UTF-8"))
    }
}
