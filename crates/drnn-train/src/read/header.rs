//! The header of a table: its delimiter, and whether rows have names of their own.
//!
//! ```text
//! "x" "y"            as R writes it: the header is one column short,
//! "1" 0.5 7          and the first column has the rows' names
//! ```

/// What separates the columns of CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delimiter {
    /// This character.
    Exactly(u8),
    /// This character, or another common one if the first two rows agree better with it.
    Likely(u8),
}

impl Default for Delimiter {
    fn default() -> Delimiter {
        Delimiter::Likely(b',')
    }
}

/// Delimiters that are recognised; a space (R's own) only where nothing else makes columns.
pub(super) const COMMON: [u8; 5] = [b',', b';', b'\t', b'|', b' '];

impl Delimiter {
    /// The delimiter of a table with these first rows. A row may have one more column than the
    /// header, the name of the row.
    pub(super) fn of(self, header: &str, row: Option<&str>) -> u8 {
        let likely = match self {
            Delimiter::Exactly(delimiter) => return delimiter,
            Delimiter::Likely(delimiter) => delimiter,
        };
        let columns = |delimiter: u8| -> usize {
            let names = fields_of(header.trim_end_matches('\n'), delimiter).unwrap_or(0);
            match row.map(|row| fields_of(row.trim_end_matches('\n'), delimiter).unwrap_or(0)) {
                Some(found) if found != names && found != names + 1 => 0,
                _ => names,
            }
        };
        let mut best = likely;
        for other in COMMON {
            let best_columns = columns(best).max(1);
            if columns(other) > best_columns && (other != b' ' || best_columns == 1) {
                best = other;
            }
        }
        best
    }
}

/// The number of fields of a row, if its quotes pair.
pub(super) fn fields_of(row: &str, delimiter: u8) -> Option<usize> {
    let (mut count, mut quoted) = (1, false);
    for byte in row.bytes() {
        match byte {
            b'"' => quoted = !quoted,
            other if other == delimiter && !quoted => count += 1,
            _ => {}
        }
    }
    (!quoted).then_some(count)
}

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Names of all columns, also of the rows' names.
    pub names: Vec<String>,
    /// Whether the first column has the rows' names: the header has no name for it.
    pub row_names: bool,
    pub delimiter: u8,
}

impl Header {
    /// Of these names and the row that follows them. A row that only ends with a delimiter has no
    /// name.
    pub fn new(mut names: Vec<String>, row: Option<&str>, delimiter: u8) -> Header {
        let is_short = row.is_some_and(|row| {
            let ends_empty = row.trim_end_matches([' ', '\n']).ends_with(char::from(delimiter));
            fields_of(row, delimiter) == Some(names.len() + 1) && !ends_empty
        });
        if is_short {
            names.insert(0, String::new());
        }
        let row_names = names.first().is_some_and(String::is_empty);
        if row_names {
            let free = |name: &&str| !names.iter().any(|other| other == name);
            names[0] = ["row", "row_name", "row.names"].into_iter().find(free).unwrap_or("").into();
        }
        Header { names, row_names, delimiter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters() {
        let likely = |header: &str, row: &str| {
            char::from(Delimiter::Likely(b',').of(header, (!row.is_empty()).then_some(row)))
        };
        for (header, row, expected) in [
            ("a,b", "1,2", ','),
            ("a;b", "1,5;2,5", ';'), // decimal commas
            ("a\tb", "1\t2", '\t'),
            ("a|b|c", "1|2|3", '|'),
            ("\"a;b\",c", "1,2", ','),
            ("time;degrees (C, mean);y", "1;2;3", ';'),
            ("x;y", "n;1;2", ';'), // names of rows
            ("a;b", "", ';'),
            ("a", "1", ','),
            ("date", "2016-07-01 00:00", ','),
            ("date,my x", "2016-07-01 00:00,1", ','),
            ("\"x\" \"y\"", "\"1\" 0.5 7", ' '),
            ("a,b", "1;2", ','),
        ] {
            assert_eq!(likely(header, row), expected, "{header}");
        }
        assert_eq!(Delimiter::Exactly(b'|').of("a,b", Some("1,2")), b'|');
        assert_eq!(Delimiter::Likely(b':').of("a:b", Some("1:2")), b':');
    }

    #[test]
    fn names_of_rows() {
        let header = |names: &[&str], row: &str| {
            let row = (!row.is_empty()).then_some(row);
            Header::new(names.iter().map(|name| name.to_string()).collect(), row, b',')
        };
        let short = header(&["x", "y"], "\"1,\",2,3\n");
        assert_eq!((short.names.join(" "), short.row_names), ("row x y".into(), true));
        let unnamed = header(&["", "row"], "1,2\n");
        assert_eq!((unnamed.names.join(" "), unnamed.row_names), ("row_name row".into(), true));
        for row in ["", "1\n", "1,2\n", "1,2,3,4\n", "1,2,\n", "1,2, \n"] {
            assert!(!header(&["x", "y"], row).row_names, "{row}");
        }
    }
}
