//! Names of buffers: the path to each through the fields of its owner, from its `{:#?}` output.
//!
//! ```text
//! work: Some(
//!     Work {
//!         h: [
//!             Buffer {
//!                 address: 1099511627776,                        1099511627776 is work.h[0]
//! ```

use std::collections::HashMap;
use std::fmt::Debug;

/// By address.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<u64, String>);

/// A line that others are inside of.
struct Level {
    indent: usize,
    /// Of a field; that of an element of a list is its place.
    label: String,
    is_list: bool,
    /// Elements seen so far.
    elements: usize,
}

impl Names {
    /// Of all that `owner` has.
    pub fn new(owner: &dyn Debug) -> Names {
        let text = format!("{owner:#?}");
        let (mut levels, mut names) = (Vec::<Level>::new(), HashMap::new());
        for line in text.lines() {
            let content = line.trim_start();
            let indent = line.len() - content.len();
            levels.truncate(levels.partition_point(|level| level.indent < indent));
            if content.starts_with([')', ']', '}']) {
                continue;
            }
            let field = content.split_once(": ");
            if let Some(("address", value)) = field
                && let Ok(address) = value.trim_end_matches(',').parse()
            {
                let path: String = levels.iter().map(|level| level.label.as_str()).collect();
                names.insert(address, path.trim_start_matches('.').to_string());
            }
            let label = match (levels.last_mut(), field) {
                (Some(list), _) if list.is_list => {
                    list.elements += 1;
                    format!("[{}]", list.elements - 1)
                }
                (_, Some((name, _))) => format!(".{name}"),
                _ => String::new(),
            };
            levels.push(Level { indent, label, is_list: content.ends_with('['), elements: 0 });
        }
        Names(names)
    }

    pub fn of(&self, address: u64) -> &str {
        self.0.get(&address).map_or("unnamed", String::as_str)
    }
}
