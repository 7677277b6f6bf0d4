//! What all pictures share: colours for light and dark, text, the head of the file.

use drnn::text::shortened;
use std::fmt::Write;

/// Colours of lines, light and dark: of similar contrast, distinguishable for most
/// colour-blind readers, and each with a mark of its own.
pub const COLOURS: [(&str, &str); 6] = [
    ("#bc4c00", "#f0883e"),
    ("#0969da", "#58a6ff"),
    ("#1a7f37", "#3fb950"),
    ("#8250df", "#bc8cff"),
    ("#57606a", "#9da7b3"),
    ("#bf3989", "#f778ba"),
];

/// The head of a picture: its title, and the style of all elements. `more` is additional style for
/// light and dark.
pub fn head(title: &str, (w, h): (f64, f64), more: &str) -> String {
    let title = label(title);
    let (mut light, mut dark) = (String::new(), String::new());
    for (i, (in_light, in_dark)) in COLOURS.iter().enumerate() {
        let _ = write!(light, " .c{i} {{ color: {in_light} }}");
        let _ = write!(dark, " .c{i} {{ color: {in_dark} }}");
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="title">
<title id="title">{title}</title>
<style>
  .bg {{ fill: #ffffff }} text {{ fill: #24292f }} .soft {{ fill: #57606a }}
  .mid {{ text-anchor: middle }} .end {{ text-anchor: end }} .title {{ font-size: 15px; font-weight: 600 }}
  path {{ fill: none }} .grid {{ stroke: #d8dee4 }} .axis {{ stroke: #57606a }} .guide {{ stroke: #57606a; stroke-dasharray: 2 4 }}
  .line {{ stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round }}
  .dashed {{ stroke-dasharray: 9 6 }} .dotted {{ stroke-dasharray: 2 4; stroke-width: 1.8 }}
  .mark {{ fill: currentColor }}
{more} {light}
  @media (prefers-color-scheme: dark) {{
    .bg {{ fill: #0d1117 }} text {{ fill: #e6edf3 }} .soft {{ fill: #9da7b3 }}
    .grid {{ stroke: #30363d }} .axis {{ stroke: #9da7b3 }} .guide {{ stroke: #9da7b3 }}
   {dark}
  }}
</style>
<rect class="bg" width="{w}" height="{h}"/>
<text class="title" x="12" y="28">{title}</text>
"##
    )
}

/// Maximum characters of a name or a title in a picture, because a renderer lays out all of them.
const MAX_LABEL: usize = 120;

/// A name or a title that may come from a file, cut to the maximum length.
pub fn label(text: &str) -> String {
    escaped(&shortened(text, MAX_LABEL))
}

/// Appends an element, on a line of its own.
pub fn put(out: &mut String, element: String) {
    out.push_str(&element);
    out.push('\n');
}

/// Escapes text for XML. Characters that XML does not allow become U+FFFD.
pub fn escaped(text: &str) -> String {
    let allowed = |c: char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => c >= ' ',
    };
    let text: String = text.chars().map(|c| if allowed(c) { c } else { '\u{fffd}' }).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
