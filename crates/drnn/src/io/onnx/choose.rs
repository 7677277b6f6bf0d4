//! Which recurrence of a graph is the model: nodes that feed each other are the layers of one stack.

use super::recurrence::{Feed, Recurrence};
use super::walk::Found;
use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use alloc::collections::BTreeSet;

/// Recurrences that a message names.
const MAX_LISTED: usize = 12;
/// What may stand between the parts of a name.
const SEPARATORS: [char; 4] = ['.', '_', '/', ':'];

/// Nodes of a stack, the lowest first, as places in [`Found::recurrences`].
pub(super) type Chain = Vec<usize>;

/// All stacks of a graph, in the order of their first nodes.
pub(super) fn chains(found: &Found) -> Vec<Chain> {
    let all = &found.recurrences;
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    for (index, node) in all.iter().enumerate() {
        if let Feed::Below(below) = node.feed
            && let Some(list) = above.get_mut(below)
        {
            list.push(index);
        }
    }
    let continues = |below: usize| match above[below].as_slice() {
        &[next] if fits(&all[below], &all[next]) => Some(next),
        _ => None,
    };
    let mut inner = BTreeSet::new();
    inner.extend((0..all.len()).filter_map(continues));
    let starts = (0..all.len()).filter(|index| !inner.contains(index));
    starts.map(|start| core::iter::successors(Some(start), |&at| continues(at)).collect()).collect()
}

/// Whether two nodes may be layers of one network.
fn fits(below: &Recurrence, above: &Recurrence) -> bool {
    let inputs = above.weights.as_ref().ok().map(|weights| weights.inputs);
    (below.cell, below.directions) == (above.cell, above.directions)
        && below.width().is_some()
        && below.width() == inputs
}

/// The only stack, or the one that a user's prefix names.
pub(super) fn choose(found: &Found, prefix: Option<&str>) -> Result<Chain> {
    let all = chains(found);
    if let Some(prefix) = prefix {
        return named(found, &all, prefix).ok_or_else(|| {
            let (prefix, listed) = (short(prefix), listed(found, &all));
            refuse(format!(
                "no recurrent node is called `{prefix}`, or several are; there are: {listed}"
            ))
        });
    }
    match all.as_slice() {
        [chain] => Ok(chain.clone()),
        all => {
            let (count, listed) = (all.len(), listed(found, all));
            let first = all.first().map_or(String::new(), |chain| title(found, chain));
            refused(count, &listed, &first)
        }
    }
}

fn refused(count: usize, listed: &str, first: &str) -> Result<Chain> {
    let first = short(first);
    Err(refuse(format!(
        "holds {count} recurrent networks: {listed}; choose one by its name, such as --prefix {first}"
    )))
}

/// The name of a stack: those of its nodes.
pub(super) fn title(found: &Found, chain: &[usize]) -> String {
    let titles: Vec<&str> =
        chain.iter().map(|&index| found.recurrences[index].title.as_str()).collect();
    titles.join("+")
}

/// The stack of this name, or the node; by one of its names, whole or by some of its parts, if that
/// is unambiguous.
fn named(found: &Found, all: &[Chain], prefix: &str) -> Option<Chain> {
    let plain = |text: &str| text.trim_matches(SEPARATORS).replace(['/', ':'], ".");
    let wanted = plain(prefix);
    if let Some(chain) = all.iter().find(|chain| plain(&title(found, chain)) == wanted) {
        return Some(chain.clone());
    }
    let nodes = found.recurrences.iter().enumerate();
    let with = |matches: &dyn Fn(&str) -> bool, aliases: bool| -> Vec<usize> {
        let names = |node: &Recurrence| {
            let others = node.aliases.iter().filter(|_| aliases).any(|name| matches(&plain(name)));
            matches(&plain(&node.title)) || others
        };
        nodes.clone().filter(|(_, node)| names(node)).map(|(index, _)| index).collect()
    };
    let exactly = |name: &str| name == wanted;
    let within =
        |name: &str| !wanted.is_empty() && format!(".{name}.").contains(&format!(".{wanted}."));
    let attempts =
        [with(&exactly, false), with(&exactly, true), with(&within, false), with(&within, true)];
    let matching = attempts.into_iter().find(|matching| !matching.is_empty())?;
    match matching.as_slice() {
        [one] => Some(vec![*one]),
        many => all.iter().find(|chain| chain.as_slice() == many).cloned(),
    }
}

/// Stacks for a message: names, cell and widths.
fn listed(found: &Found, all: &[Chain]) -> String {
    let described = all.iter().take(MAX_LISTED).map(|chain| {
        let name = short(&title(found, chain));
        let nodes: Vec<&Recurrence> = chain.iter().map(|&i| &found.recurrences[i]).collect();
        let Some(Ok(first)) = nodes.first().map(|node| node.weights.as_ref()) else {
            return format!("`{name}`");
        };
        let cell = match nodes[0].cell.gates() {
            4 => "lstm",
            3 => "gru",
            _ => "rnn",
        };
        let both = if nodes[0].directions == 2 { "bi" } else { "" };
        let widths = nodes.iter().filter_map(|node| node.width()).map(|n| n.to_string());
        let widths: Vec<String> = widths.collect();
        format!("`{name}` ({both}{cell} {} -> {})", first.inputs, widths.join(" -> "))
    });
    let mut described: Vec<String> = described.collect();
    if all.len() > MAX_LISTED {
        described.push(format!("and {} more", all.len() - MAX_LISTED));
    }
    match described.is_empty() {
        true => "none".into(),
        false => described.join(", "),
    }
}
