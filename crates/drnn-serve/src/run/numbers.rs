//! Fast path for sequences of plain numbers or tokens: JSON to elements without an intermediate value.

use drnn_tasks::live::{Element, ElementKind};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// The sequences, if they have nothing but finite numbers or tokens.
pub fn sequences(reads: ElementKind, json: &str) -> Option<Vec<Vec<Element>>> {
    match reads {
        ElementKind::Numbers(_) => all(json, |Numbers(numbers)| Element::Numbers(numbers)),
        ElementKind::Tokens(_) => all(json, Element::Token),
        ElementKind::Fields(_) | ElementKind::Characters | ElementKind::Words => None,
    }
}

fn all<'j, T: Deserialize<'j>>(
    json: &'j str,
    element: fn(T) -> Element,
) -> Option<Vec<Vec<Element>>> {
    let rows: Vec<Vec<T>> = serde_json::from_str(json).ok()?;
    Some(rows.into_iter().map(|row| row.into_iter().map(element).collect()).collect())
}

/// The numbers of an element.
struct Numbers(Vec<f32>);

impl<'d> Deserialize<'d> for Numbers {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Numbers, D::Error> {
        from.deserialize_seq(InOrder)
    }
}

struct InOrder;

impl<'d> Visitor<'d> for InOrder {
    type Value = Numbers;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "numbers")
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut from: A) -> Result<Numbers, A::Error> {
        let mut numbers = Vec::new();
        // Through f64, like the slow path: the two roundings can differ from one.
        while let Some(x) = from.next_element::<f64>()? {
            match x as f32 {
                x if x.is_finite() => numbers.push(x),
                _ => return Err(Error::custom("out of range")),
            }
        }
        Ok(Numbers(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, Model, NetSpec};
    use drnn_tasks::live::LiveModel;
    use serde_json::Value;

    #[test]
    fn the_fast_path_agrees_with_the_slow_one() {
        let net = NetSpec::builder(Cell::Gru).units([2]);
        let dense = Model::init(&net.clone().dense(2).build().unwrap(), 1).unwrap();
        let tokens = Model::init(&net.tokens(4, 2).build().unwrap(), 1).unwrap();
        let [dense, tokens] = [dense, tokens].map(|model| LiveModel::new("m", model).unwrap());
        for (model, json, plain) in [
            (&dense, "[]", true),
            (&dense, "[[], [[1, 2.5], [-0, 1e-50]], [[16777217, 18446744073709551615]]]", true),
            // Just above the midpoint of two f32 values: rounding twice gives another number.
            (&dense, "[[[1.000000059604644775390625001, 0.1]]]", true),
            (&dense, "[[[]], [[1]]]", true),
            (&dense, "[[[1, null]]]", false),
            (&dense, "[[[1, 1e39]]]", false),
            (&dense, "[[5]]", false),
            (&tokens, "[[0, 1, 4294967295], []]", true),
            (&tokens, "[[-1]]", false),
            (&tokens, "[[1.0]]", false),
            (&tokens, "[[4294967296]]", false),
        ] {
            let values: Vec<Vec<Value>> = serde_json::from_str(json).unwrap();
            let each = values.iter().map(|row| row.iter().map(|v| model.element(v)).collect());
            let each: Result<Vec<Vec<Element>>, _> = each.collect();
            let found = sequences(model.element_kind(), json);
            assert_eq!(found.is_some(), plain, "{json}");
            if let Some(found) = found {
                assert_eq!(found, each.unwrap(), "{json}");
            }
        }
    }
}
