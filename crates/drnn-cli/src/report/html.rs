//! A report as one HTML page with inline pictures: no script, nothing fetched, which its content
//! security policy enforces.
//!
//! Each picture is included in a wide and a narrow form; the style sheet shows the one that fits.
//! Tables scroll sideways under a fixed first column. Light or dark follows the reader's system; in
//! print it is light.

use super::page::{Figure, MAX_CELL, MAX_TITLE, Page, Part, Table};
use super::paper::{Claim, Verdict};
use crate::plot::page::escaped as xml;
use drnn::text::shortened;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

pub fn page(page: &Page) -> String {
    let title = escaped(&shortened(&page.title, MAX_TITLE));
    let mut out = format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
"#
    );
    let linked = page.parts.iter().any(|part| matches!(part, Part::Contents(_)));
    for part in &page.parts {
        let _ = match part {
            Part::Heading(text) if linked => {
                writeln!(out, "<h2 id=\"{}\">{}</h2>", anchor(text), escaped(text))
            }
            Part::Heading(text) => writeln!(out, "<h2>{}</h2>", escaped(text)),
            Part::Lead(text) => writeln!(out, "<p class=\"lead\">{}</p>", escaped(text)),
            Part::Contents(headings) => {
                let link =
                    |text: &&str| format!("<a href=\"#{}\">{}</a>\n", anchor(text), escaped(text));
                let links: String = headings.iter().map(link).collect();
                writeln!(out, "<nav aria-label=\"Contents\">\n{links}</nav>")
            }
            Part::Claims(found) => claims(&mut out, found),
            Part::Text(text) => writeln!(out, "<p>{}</p>", escaped(text)),
            Part::Alarm(text) => {
                writeln!(out, "<p class=\"alarm\" role=\"alert\">{}</p>", escaped(text))
            }
            Part::List(items) => {
                let items = items.iter().map(|item| format!("<li>{}</li>\n", escaped(item)));
                writeln!(out, "<ul>\n{}</ul>", items.collect::<String>())
            }
            Part::Code(text) => {
                writeln!(out, "<pre tabindex=\"0\"><code>{}</code></pre>", escaped(text))
            }
            Part::Facts(facts) => {
                let facts = facts.iter().map(|(name, value)| {
                    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value))
                });
                writeln!(out, "<dl>\n{}</dl>", facts.collect::<String>())
            }
            Part::Table(part) => table(&mut out, part),
            Part::Figure(part) => figure(&mut out, part),
        };
    }
    out + "</main>\n</body>\n</html>\n"
}

/// The id of a heading: its letters and digits in lower case, with hyphens between words.
fn anchor(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

/// How many claims have each verdict, then a card for each claim.
fn claims(out: &mut String, claims: &[Claim]) -> std::fmt::Result {
    writeln!(out, "<p class=\"tally\">")?;
    for verdict in Verdict::ALL {
        let count = claims.iter().filter(|claim| claim.verdict == verdict).count();
        let (class, text) = (verdict.class(), verdict.text());
        writeln!(out, "<span class=\"verdict {class}\"><b>{count}</b> {text}</span>")?;
    }
    writeln!(out, "</p>\n<ol class=\"claims\">")?;
    for Claim { claim, verdict, evidence } in claims {
        let (class, text) = (verdict.class(), verdict.text());
        let (claim, evidence) = (escaped(claim), escaped(evidence));
        writeln!(
            out,
            "<li class=\"{class}\"><span class=\"verdict {class}\">{text}</span><h3>{claim}</h3><p>{evidence}</p></li>"
        )?;
    }
    writeln!(out, "</ol>")
}

fn table(out: &mut String, Table { caption, head, rows }: &Table) -> std::fmt::Result {
    let caption = escaped(caption);
    writeln!(
        out,
        "<div class=\"scroll\" role=\"region\" aria-label=\"Table\" tabindex=\"0\">\n<table>"
    )?;
    let head = head
        .iter()
        .map(|cell| format!("<th scope=\"col\">{}</th>", escaped(&shortened(cell, MAX_CELL))));
    writeln!(out, "<thead><tr>{}</tr></thead>\n<tbody>", head.collect::<String>())?;
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let cell = escaped(&shortened(cell, MAX_CELL));
            match i {
                0 => write!(out, "<th scope=\"row\">{cell}</th>")?,
                _ => write!(out, "<td>{cell}</td>")?,
            }
        }
        out.push_str("</tr>\n");
    }
    writeln!(out, "</tbody>\n</table>\n</div>\n<p class=\"note\">{caption}</p>")
}

fn figure(out: &mut String, Figure { name, picture, caption }: &Figure) -> std::fmt::Result {
    writeln!(out, "<figure>")?;
    for (class, svg) in [("wide", picture.svg()), ("narrow", picture.narrow_svg())] {
        // Ids are unique in a page. Only the first occurrence is ours; later ones may come from a file.
        let id = format!("{name}-{class}");
        let svg = svg
            .replacen(
                "aria-labelledby=\"title\"",
                &format!("class=\"{class}\" aria-labelledby=\"{id}\""),
                1,
            )
            .replacen("<title id=\"title\">", &format!("<title id=\"{id}\">"), 1);
        out.push_str(&svg);
    }
    writeln!(out, "<figcaption>{}</figcaption>\n</figure>", escaped(caption))
}

/// Escapes text for HTML, also within quotes.
fn escaped(text: &str) -> String {
    xml(text).replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself() {
        assert_eq!(
            escaped("<a b=\"c\" d='e'>&\0"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{fffd}"
        );
    }
}
