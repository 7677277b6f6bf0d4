//! Operators that only move values: axes change their places, come and go, or lose all but some of
//! their elements.

use super::axes::{Factor, Size, all_at, at};
use super::constant::MAX_DIMENSIONS;
use super::message::Node;
use super::value::{Followed, Source, Steps, Value};
use crate::error::Result;

pub(super) fn transposed<'a>(node: &Node<'a>, value: &Value<'a>) -> Result<Option<Value<'a>>> {
    let rank = match value {
        Value::Constant(constant) => constant.shape.len(),
        Value::Followed(from) => from.axes.len(),
        Value::Filled { zero } => return Ok(Some(Value::Filled { zero: *zero })),
        _ => return Ok(None),
    };
    let order = match node.ints("perm")? {
        Some(order) => order.iter().map(|&i| at(i, rank)).collect::<Option<Vec<usize>>>(),
        None => Some((0..rank).rev().collect()),
    };
    let Some(order) = order.filter(|order| is_permutation(order, rank)) else { return Ok(None) };
    Ok(match value {
        Value::Constant(constant) => constant.transposed(&order).map(Value::Constant),
        Value::Followed(from) => {
            let axes = order.iter().map(|&i| from.axes[i].clone()).collect();
            Some(Value::Followed(Followed { axes, ..from.clone() }))
        }
        _ => None,
    })
}

fn is_permutation(order: &[usize], rank: usize) -> bool {
    order.len() == rank && (0..rank).all(|axis| order.contains(&axis))
}

pub(super) fn squeezed<'a>(value: &Value<'a>, axes: Option<&[i64]>) -> Option<Value<'a>> {
    match value {
        Value::Constant(constant) => {
            let ones = constant.shape.iter().enumerate().filter(|(_, n)| **n == 1);
            let axes = match axes {
                Some(axes) => all_at(axes, constant.shape.len())?,
                None => ones.map(|(i, _)| i).collect(),
            };
            constant.squeezed(&axes).map(Value::Constant)
        }
        Value::Followed(from) => {
            let ones = from.axes.iter().enumerate().filter(|(_, axis)| axis.is_empty());
            let axes = match axes {
                Some(axes) => all_at(axes, from.axes.len())?,
                None => ones.map(|(i, _)| i).collect(),
            };
            // Of an input nothing is known, so that a graph that removes an axis must be right.
            let fits = |&axis: &usize| from.axes[axis].is_empty() || from.source == Source::Input;
            let kept = from.axes.iter().enumerate().filter(|(i, _)| !axes.contains(i));
            let kept = kept.map(|(_, axis)| axis.clone()).collect();
            axes.iter().all(fits).then(|| Value::Followed(Followed { axes: kept, ..from.clone() }))
        }
        Value::Shape(list) => Some(Value::Shape(list.clone())),
        Value::Filled { zero } => Some(Value::Filled { zero: *zero }),
        Value::Joined(_) | Value::Unknown(_) => None,
    }
}

pub(super) fn unsqueezed<'a>(value: &Value<'a>, axes: &[i64]) -> Option<Value<'a>> {
    match value {
        Value::Constant(constant) => {
            let axes = all_at(axes, constant.shape.len() + axes.len())?;
            constant.unsqueezed(&axes).map(Value::Constant)
        }
        Value::Followed(from) => {
            let rank = from.axes.len() + axes.len();
            let mut places = all_at(axes, rank).filter(|_| rank <= MAX_DIMENSIONS)?;
            places.sort_unstable();
            let mut axes = from.axes.clone();
            places.into_iter().for_each(|place| axes.insert(place.min(axes.len()), Vec::new()));
            Some(Value::Followed(Followed { axes, ..from.clone() }))
        }
        Value::Shape(list) => Some(Value::Shape(list.clone())),
        Value::Filled { zero } => Some(Value::Filled { zero: *zero }),
        Value::Joined(_) | Value::Unknown(_) => None,
    }
}

/// Elements `start..end` of one axis.
pub(super) fn sliced(value: Value, axis: i64, start: i64, end: i64, own: bool) -> Option<Value> {
    let place = |i: i64, n: usize| {
        let i = if i < 0 { i.saturating_add_unsigned(n as u64).max(0) } else { i };
        usize::try_from(i).map_or(n, |i| i.min(n))
    };
    match value {
        Value::Constant(constant) => {
            let axis = at(axis, constant.shape.len())?;
            let n = constant.shape[axis];
            constant.sliced(axis, place(start, n), place(end, n)).map(Value::Constant)
        }
        Value::Shape(list) => {
            let (start, end) = (place(start, list.len()), place(end, list.len()));
            Some(Value::Shape(list.get(start..end).unwrap_or_default().to_vec()))
        }
        Value::Followed(mut from) => {
            let axis = at(axis, from.axes.len())?;
            let to_end = end >= i64::from(i32::MAX);
            if start == 0 && to_end {
                return Some(Value::Followed(from));
            }
            match from.axes[axis].as_slice() {
                [Factor::Time] if start == -1 && to_end => {
                    from.steps = Steps::Last;
                    from.axes[axis].clear();
                }
                [Factor::Time] if own && to_end => {}
                [Factor::Direction] if from.half.is_none() => {
                    let (start, end) = (place(start, 2), place(end, 2));
                    from.half = Some(start).filter(|start| end == start + 1);
                    from.half?;
                    from.axes[axis].clear();
                }
                _ => return None,
            }
            Some(Value::Followed(from))
        }
        Value::Filled { zero } => Some(Value::Filled { zero }),
        Value::Joined(_) | Value::Unknown(_) => None,
    }
}

/// Element `place` of one axis, which is gone if the place is a scalar.
pub(super) fn picked(mut from: Followed, axis: i64, place: i64, scalar: bool) -> Option<Followed> {
    let axis = at(axis, from.axes.len())?;
    match (from.axes[axis].as_slice(), place) {
        ([Factor::Time], -1) => from.steps = Steps::Last,
        ([Factor::Direction], -2..=1) if from.half.is_none() => {
            from.half = Some(usize::from(place == 1 || place == -1));
        }
        ([], 0 | -1) => {}
        _ => return None,
    }
    from.axes[axis].clear();
    if scalar {
        from.axes.remove(axis);
    }
    Some(from)
}

pub(super) fn shape<'a>(node: &Node<'a>, value: &Value<'a>) -> Result<Option<Value<'a>>> {
    let sizes: Vec<Size> = match value {
        Value::Followed(from) => from.axes.iter().cloned().map(Size::Factors).collect(),
        Value::Constant(constant) => {
            constant.shape.iter().map(|&n| Size::Number(n as i64)).collect()
        }
        _ => return Ok(None),
    };
    let (start, end) = (node.int("start", 0)?, node.int("end", i64::MAX)?);
    Ok(sliced(Value::Shape(sizes), 0, start, end, false))
}
