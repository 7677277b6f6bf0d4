//! A report as Markdown. Pictures are separate files in the same folder.

use super::page::{MAX_CELL, MAX_TITLE, Page, Part, Table};
use super::paper::Claim;
use drnn::text::shortened;
use std::fmt::Write;

pub fn page(page: &Page) -> String {
    let mut out = format!("# {}\n", escaped(&shortened(&page.title, MAX_TITLE)));
    for part in &page.parts {
        out.push('\n');
        let _ = match part {
            Part::Heading(text) => writeln!(out, "## {}", escaped(text)),
            Part::Text(text) | Part::Lead(text) => writeln!(out, "{}", escaped(text)),
            Part::Contents(_) => Ok(()), // pages of Markdown have their own
            Part::Claims(claims) => {
                let head = ["claim", "verdict", "evidence"].map(String::from);
                let rows = claims.iter().map(|Claim { claim, verdict, evidence }| {
                    vec![claim.clone(), verdict.text().into(), evidence.clone()]
                });
                claims_table(&mut out, &head, &rows.collect::<Vec<_>>())
            }
            Part::Alarm(text) => writeln!(out, "**{}**", escaped(text)),
            Part::List(items) => {
                items.iter().try_for_each(|item| writeln!(out, "- {}", escaped(item)))
            }
            Part::Code(text) => {
                // Longer than any run of backticks in the text.
                let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
                writeln!(out, "{fence}text\n{text}\n{fence}")
            }
            Part::Facts(facts) => {
                let head = [String::new(), String::new()];
                let rows = facts.iter().map(|(name, value)| vec![name.to_string(), value.clone()]);
                table(&mut out, &head, &rows.collect::<Vec<_>>(), "---")
            }
            Part::Table(Table { caption, head, rows }) => table(&mut out, head, rows, "--:")
                .and_then(|()| writeln!(out, "\n{}", escaped(caption))),
            Part::Figure(figure) => {
                let title = escaped(&shortened(figure.picture.title(), MAX_TITLE));
                let name = figure.name;
                writeln!(out, "![{title}]({name}.svg)\n\n{}", escaped(&figure.caption))
            }
        };
    }
    out
}

/// As [`table`], with whole cells.
fn claims_table(out: &mut String, head: &[String], rows: &[Vec<String>]) -> std::fmt::Result {
    for row in [head].into_iter().chain(rows.iter().map(Vec::as_slice)).enumerate() {
        let (i, cells) = row;
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
        if i == 0 {
            writeln!(out, "|{}", "---|".repeat(head.len()))?;
        }
    }
    Ok(())
}

fn table(out: &mut String, head: &[String], rows: &[Vec<String>], align: &str) -> std::fmt::Result {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let cell = |cell: &String| escaped(&shortened(cell, MAX_CELL));
    out.push_str(&line(head.iter().map(cell).collect()));
    writeln!(out, "|---{}|", format!("|{align}").repeat(head.len().saturating_sub(1)))?;
    rows.iter().for_each(|row| out.push_str(&line(row.iter().map(cell).collect())));
    Ok(())
}

/// Escapes text for Markdown, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            // It begins a quotation only at the beginning of a line.
            '>' if out.trim_end().is_empty() => out.push_str("\\>"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself() {
        assert_eq!(escaped("a|b <i> `c`\n[d](e)"), "a\\|b &lt;i> \\`c\\` \\[d\\](e)");
        assert_eq!((escaped("x -> y"), escaped(" > z")), ("x -> y".into(), " \\> z".into()));
        let code = Part::Code("a ```` b".into());
        let text = page(&Page { title: "T".into(), parts: vec![code] });
        assert_eq!(text, "# T\n\n`````text\na ```` b\n`````\n");
    }
}
