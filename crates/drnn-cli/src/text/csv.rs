//! Fields of CSV that is written.

use std::borrow::Cow;

/// A field, in quotes where it needs them.
pub fn csv_field(field: &str, delimiter: char) -> Cow<'_, str> {
    let special = |c| [delimiter, '"', '\n', '\r'].contains(&c);
    match field.contains(special) || field.trim() != field {
        true => Cow::Owned(format!("\"{}\"", field.replace('"', "\"\""))),
        false => Cow::Borrowed(field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_need_quotes_have_them() {
        let fields = ["a b", "a,b", "say \"x\"", "two\nlines", " ", ""];
        let written = ["a b", "\"a,b\"", "\"say \"\"x\"\"\"", "\"two\nlines\"", "\" \"", ""];
        assert_eq!(fields.map(|field| csv_field(field, ',').into_owned()), written);
        assert_eq!(csv_field("a,b", ';'), "a,b");
    }
}
