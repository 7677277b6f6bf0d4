//! What operators make of values that are followed: joined constants, embeddings, linear layers.

use super::axes::{Factor, Size, at, reshaped};
use super::constant::{Constant, MAX_DIMENSIONS};
use super::message::Node;
use super::moves::{picked, shape, sliced, squeezed, transposed, unsqueezed};
use super::value::{Followed, Source, Steps, Value};
use super::walk::{Embedding, Linear, Walk};
use crate::error::Result;

/// Layers whose last states are followed when they are joined.
const MAX_JOINED: usize = 64;

impl<'a> Walk<'a> {
    /// The result of a node, where it can be followed.
    pub fn result(&mut self, node: &Node<'a>) -> Result<Option<Value<'a>>> {
        let first = match node.input(0) {
            Some(name) => self.value(name),
            None => return Ok(None),
        };
        Ok(match node.operator {
            "Identity" | "Dropout" => Some(first),
            "Cast" => self.cast(node, first)?,
            "Transpose" => transposed(node, &first)?,
            "Squeeze" => {
                let axes = self.list(node, "axes", 1)?;
                squeezed(&first, axes.as_deref())
            }
            "Unsqueeze" => {
                let axes = self.list(node, "axes", 1)?;
                axes.and_then(|axes| unsqueezed(&first, &axes))
            }
            "Reshape" => self.reshape(node, &first)?,
            "Slice" => self.slice(node, first)?,
            "Concat" => self.concat(node)?,
            "Gather" => self.gather(node, first)?,
            "Shape" => shape(node, &first)?,
            "Mul" => match (first, node.input(1).map(|name| self.value(name))) {
                (Value::Shape(a), Some(Value::Shape(b))) => product(&a, &b),
                _ => None,
            },
            "ReduceProd" => match first {
                Value::Shape(sizes) => {
                    let mut product = Some(Size::Number(1));
                    sizes.iter().for_each(|n| product = product.as_ref().and_then(|p| p.times(n)));
                    product.map(|product| Value::Shape(vec![product]))
                }
                _ => None,
            },
            "Expand" => match first {
                Value::Constant(constant) if constant.len() == 1 => {
                    Some(Value::Filled { zero: constant.is_zero() })
                }
                _ => None,
            },
            "ConstantOfShape" => Some(Value::Filled { zero: is_zero(node)? }),
            "MatMul" | "Gemm" => self.linear(node, &first)?,
            "Add" => self.bias(node, first),
            "Pad" if self.own => Some(first),
            _ => None,
        })
    }
    /// A list of integers: an attribute in older versions of an operator, an input in newer ones.
    fn list(&self, node: &Node<'a>, attribute: &str, input: usize) -> Result<Option<Vec<i64>>> {
        if let Some(list) = node.ints(attribute)? {
            return Ok(Some(list).filter(|list| list.len() <= MAX_DIMENSIONS));
        }
        let value = node.input(input).map(|name| self.value(name));
        Ok(match value {
            Some(Value::Constant(constant)) => constant.ints(),
            _ => None,
        })
    }

    fn cast(&self, node: &Node<'a>, first: Value<'a>) -> Result<Option<Value<'a>>> {
        let to_float = matches!(node.int("to", 0)?, 1 | 10 | 11 | 16);
        Ok(match first {
            Value::Constant(constant) if to_float => {
                constant.as_f32(&self.budget).map(Value::Constant)
            }
            Value::Constant(constant) => {
                (!constant.is_float()).then_some(Value::Constant(constant))
            }
            other => Some(other),
        })
    }

    fn reshape(&self, node: &Node<'a>, first: &Value<'a>) -> Result<Option<Value<'a>>> {
        let target = match node.ints("shape")? {
            Some(list) => Some(list.into_iter().map(Size::Number).collect()),
            None => node.input(1).and_then(|name| sizes(&self.value(name))),
        };
        let target: Option<Vec<Size>> = target.filter(|list: &Vec<_>| list.len() <= MAX_DIMENSIONS);
        let Some(target) = target else { return Ok(None) };
        Ok(match first {
            Value::Constant(constant) => {
                let numbers = target.iter().map(|size| match size {
                    Size::Number(n) => Some(*n),
                    Size::Factors(_) => None,
                });
                let numbers: Option<Vec<i64>> = numbers.collect();
                numbers
                    .and_then(|numbers| constant.reshaped(&numbers, &self.budget))
                    .map(Value::Constant)
            }
            Value::Followed(from) => reshaped(&from.axes, &target)
                .map(|axes| Value::Followed(Followed { axes, ..from.clone() })),
            // A single size becomes a list of one, or the other way round.
            Value::Shape(list) => (list.len() == 1).then(|| Value::Shape(list.clone())),
            Value::Filled { zero } => Some(Value::Filled { zero: *zero }),
            Value::Joined(_) | Value::Unknown(_) => None,
        })
    }

    fn slice(&self, node: &Node<'a>, first: Value<'a>) -> Result<Option<Value<'a>>> {
        let starts = self.list(node, "starts", 1)?;
        let ends = self.list(node, "ends", 2)?;
        let axes = self.list(node, "axes", 3)?;
        let steps = self.list(node, "steps", 4)?;
        let (Some(starts), Some(ends)) = (starts, ends) else {
            let filled = matches!(first, Value::Filled { .. });
            return Ok(filled.then_some(first));
        };
        let default = (0..starts.len() as i64).collect();
        let axes = axes.unwrap_or(default);
        let lens = [ends.len(), axes.len()];
        if lens != [starts.len(); 2] || steps.is_some_and(|steps| steps.iter().any(|&n| n != 1)) {
            return Ok(None);
        }
        let mut value = first;
        for ((start, end), axis) in starts.into_iter().zip(ends).zip(axes) {
            let own = self.own;
            match sliced(value, axis, start, end, own) {
                Some(part) => value = part,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    fn concat(&self, node: &Node<'a>) -> Result<Option<Value<'a>>> {
        let axis = node.int("axis", 1)?;
        let values: Vec<Value> = node.inputs.iter().map(|name| self.value(name)).collect();
        if values.iter().all(|value| matches!(value, Value::Constant(_))) {
            let parts = values.iter().filter_map(|value| match value {
                Value::Constant(constant) => Some(constant),
                _ => None,
            });
            let parts: Vec<&Constant> = parts.collect();
            let rank = parts.first().map_or(0, |part| part.shape.len());
            let joined =
                at(axis, rank).and_then(|axis| Constant::joined(&parts, axis, &self.budget));
            return Ok(joined.map(Value::Constant));
        }
        if let Some(lists) = values.iter().map(sizes).collect::<Option<Vec<_>>>() {
            let list = lists.concat();
            return Ok((list.len() <= MAX_DIMENSIONS).then_some(Value::Shape(list)));
        }
        Ok(match values.as_slice() {
            [Value::Filled { zero: true }, ..] => {
                let zero = values.iter().all(|value| matches!(value, Value::Filled { zero: true }));
                zero.then_some(Value::Filled { zero })
            }
            [Value::Followed(a), Value::Followed(b)] if a.half.is_some() => {
                at(axis, a.axes.len()).and_then(|axis| a.joined(b, axis)).map(Value::Followed)
            }
            values if axis == 0 => {
                let parts = values.iter().map(|value| match value {
                    Value::Followed(one) if is_state(one) => Some(one.clone()),
                    _ => None,
                });
                let parts: Option<Vec<Followed>> = parts.collect();
                parts.filter(|parts| parts.len() <= MAX_JOINED).map(Value::Joined)
            }
            _ => None,
        })
    }

    /// A row of an embedding for each token, or one element of an axis.
    fn gather(&mut self, node: &Node<'a>, first: Value<'a>) -> Result<Option<Value<'a>>> {
        let axis = node.int("axis", 0)?;
        let indices = node.input(1).map(|name| self.value(name));
        let (places, scalar) = match &indices {
            Some(Value::Constant(constant)) => (constant.ints(), constant.shape.is_empty()),
            _ => (None, false),
        };
        Ok(match (first, places) {
            (Value::Constant(table), None) if axis == 0 && table.is_float() => {
                let &[_, width] = table.shape.as_slice() else { return Ok(None) };
                let axes = match indices {
                    Some(Value::Followed(tokens)) => tokens.axes,
                    _ => vec![vec![Factor::Any(0)], vec![Factor::Any(1)]],
                };
                let axes = [axes, vec![vec![Factor::Units(width)]]].concat();
                let source = Source::Embedding(self.found.embeddings.len());
                self.found.embeddings.push(Embedding { table });
                Some(Value::Followed(Followed::new(source, axes, Steps::All)))
            }
            (Value::Shape(list), Some(places)) => {
                let picked = places.iter().map(|&i| list.get(at(i, list.len())?).cloned());
                picked.collect::<Option<_>>().map(Value::Shape)
            }
            (Value::Followed(from), Some(places)) => match places.as_slice() {
                &[place] => picked(from, axis, place, scalar).map(Value::Followed),
                _ => None,
            },
            (Value::Joined(parts), Some(places)) => match places.as_slice() {
                // Layers of one direction each: one row for each of them.
                &[place] if axis == 0 && has_one_row(&parts) => {
                    let part = at(place, parts.len()).and_then(|i| parts.get(i).cloned());
                    part.and_then(|part| picked(part, 0, 0, scalar)).map(Value::Followed)
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// A matrix product with states.
    fn linear(&mut self, node: &Node<'a>, first: &Value<'a>) -> Result<Option<Value<'a>>> {
        let Value::Followed(from) = first else { return Ok(None) };
        let weight = match node.input(1).map(|name| self.value(name)) {
            Some(Value::Constant(constant)) if constant.is_float() => constant,
            _ => return Ok(None),
        };
        let is_recurrence = matches!(from.source, Source::Recurrence(_));
        let Some(width) = from.width().filter(|_| is_recurrence) else { return Ok(None) };
        let mut bias = None;
        let mut rows_are_outputs = false;
        if node.operator == "Gemm" {
            let one = |name: &str| -> Result<bool> {
                Ok(node.attribute(name)?.and_then(|a| a.float).is_none_or(|x| x == 1.0))
            };
            if !one("alpha")? || !one("beta")? || node.int("transA", 0)? != 0 {
                return Ok(None);
            }
            rows_are_outputs = node.int("transB", 0)? != 0;
            bias = match node.input(2).map(|name| self.value(name)) {
                None => None,
                Some(Value::Constant(constant)) => Some(constant),
                Some(_) => return Ok(None),
            };
        }
        let weight = if rows_are_outputs { Some(weight) } else { weight.transposed(&[1, 0]) };
        let Some(weight) = weight else { return Ok(None) };
        let &[m, n] = weight.shape.as_slice() else { return Ok(None) };
        if n != width || m == 0 || bias.as_ref().is_some_and(|bias| !is_bias(bias, m)) {
            return Ok(None);
        }
        let (source, steps, name) = (from.source, from.steps, node.title());
        let mut axes = from.axes.clone();
        axes.pop();
        axes.push(vec![Factor::Units(m)]);
        let index = self.found.linears.len();
        self.found.linears.push(Linear { name, weight, bias, source, steps, replaced: false });
        Ok(Some(Value::Followed(Followed::new(Source::Linear(index), axes, steps))))
    }

    /// The bias of a linear layer, added after the product.
    fn bias(&mut self, node: &Node<'a>, first: Value<'a>) -> Option<Value<'a>> {
        let second = node.input(1).map(|name| self.value(name))?;
        let (from, bias) = match (first, second) {
            (Value::Followed(from), Value::Constant(bias)) => (from, bias),
            (Value::Constant(bias), Value::Followed(from)) => (from, bias),
            _ => return None,
        };
        let Source::Linear(index) = from.source else { return None };
        let layer = self.found.linears.get_mut(index)?;
        let outputs = *layer.weight.shape.first()?;
        let last = from.axes.last().map(Vec::as_slice) == Some(&[Factor::Units(outputs)]);
        if layer.bias.is_some() || !is_bias(&bias, outputs) || !last {
            return None;
        }
        layer.replaced = true;
        let (name, weight, source, steps) =
            (layer.name, layer.weight.clone(), layer.source, layer.steps);
        let index = self.found.linears.len();
        let bias = Some(bias);
        self.found.linears.push(Linear { name, weight, bias, source, steps, replaced: false });
        Some(Value::Followed(Followed { source: Source::Linear(index), ..from }))
    }
}

/// Whether a value is a layer's state after the last step, or after the only one.
fn is_state(value: &Followed) -> bool {
    let one_row = value.axes.first().is_some_and(Vec::is_empty);
    value.steps == Steps::Final || (one_row && matches!(value.source, Source::Recurrence(_)))
}

/// Whether each of these has one row on its first axis.
fn has_one_row(parts: &[Followed]) -> bool {
    parts.iter().all(|part| part.axes.first().is_some_and(Vec::is_empty))
}

fn is_bias(bias: &Constant, outputs: usize) -> bool {
    bias.is_float() && bias.len() == outputs && bias.shape.last() == Some(&outputs)
}

/// A value as a list of sizes.
fn sizes(value: &Value) -> Option<Vec<Size>> {
    match value {
        Value::Shape(list) => Some(list.clone()),
        Value::Constant(constant) => Some(constant.ints()?.into_iter().map(Size::Number).collect()),
        _ => None,
    }
}

fn product<'a>(a: &[Size], b: &[Size]) -> Option<Value<'a>> {
    match (a, b) {
        ([a], [b]) => a.times(b).map(|product| Value::Shape(vec![product])),
        _ => None,
    }
}

/// Whether a `ConstantOfShape` has the value 0, which is its default.
fn is_zero(node: &Node) -> Result<bool> {
    let Some(attribute) = node.attribute("value")? else { return Ok(true) };
    let Some(bytes) = attribute.tensor else { return Ok(true) };
    Ok(super::constant::tensor(bytes)?.1.is_ok_and(|value| value.len() == 1 && value.is_zero()))
}
