//! The page as files for any web server, without drnn's: models run in the browser, by WebAssembly.
//!
//! ```text
//! index.html, page/       from here; page/server.js is another one, page/worker.js runs the models
//! drnn/                   the npm package: drnn.js, drnn.wasm
//! models/NAME.safetensors, models.json, sweep.json
//! ```

use super::{ASSETS, INDEX, NO_SWEEP, SWEEP};

/// What the policy in the headers of the server allows, and a worker.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
                      require-trusted-types-for 'script'; trusted-types drnn-worker";

/// What the server's index says of itself, and what is true of files.
const REPLACED: [(&str, &str); 4] = [
    (
        "<meta charset=\"utf-8\">",
        "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"POLICY\">",
    ),
    (
        "Your program can do what this page does: <a href=\"/openapi.json\">the API</a>.\n  The page loads nothing from other servers, and what you type goes to this server only.",
        "The models run in your browser, by WebAssembly: what you type stays on this machine.",
    ),
    (
        "This page needs JavaScript. The API does not: see /openapi.json.",
        "This page needs JavaScript.",
    ),
    ("</body>", "<script src=\"page/file.js\"></script>\n</body>"),
];

/// The same in the plot's file, where there is no sweep.
const PLOT: [(&str, &str); 2] =
    [("drnn serve --sweep", "drnn page --sweep"), ("No sweep is served.", "No sweep is shown.")];

const SERVER: &str = include_str!("static/server.js");
const WORKER: &str = include_str!("static/worker.js");
const FILE: &str = include_str!("static/file.js");

/// Names and contents of the page's own files. `sweep` is whether there is a `sweep.json`.
///
/// The caller adds `drnn/drnn.js` and `drnn/drnn.wasm` of the npm package, `models.json` (an array of
/// [`drnn_tasks::live::ModelInfo`]), and `models/NAME.safetensors` for each of them.
pub fn page_files(sweep: bool) -> Vec<(String, String)> {
    let mut index = INDEX.contents.to_string();
    for (served, here) in REPLACED {
        index = index.replace(served, &here.replace("POLICY", POLICY));
    }
    if sweep {
        index = index.replace(NO_SWEEP, SWEEP);
    }
    let mut files = vec![("index.html".into(), index)];
    let own = [("server.js", SERVER), ("worker.js", WORKER), ("file.js", FILE)];
    let shared = ASSETS.iter().map(|file| (file.name, file.contents));
    let shared = shared.filter(|(name, _)| own.iter().all(|(other, _)| other != name));
    let replaced =
        |text: &str| PLOT.iter().fold(text.to_string(), |text, (a, b)| text.replace(a, b));
    files.extend(shared.chain(own).map(|(name, text)| (format!("page/{name}"), replaced(text))));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_there_once_and_nothing_names_the_server() {
        for (served, _) in REPLACED {
            assert_eq!(INDEX.contents.matches(served).count(), 1, "{served}");
        }
        let plot = ASSETS.iter().find(|file| file.name == "plot.js").unwrap();
        assert!(PLOT.iter().all(|(served, _)| plot.contents.matches(served).count() == 1));
        let files = page_files(true);
        let (_, index) = &files[0];
        assert!(index.contains(SWEEP) && index.contains("trusted-types drnn-worker"));
        for (name, text) in &files {
            assert!(!text.contains("/v1/") && !text.contains("openapi"), "{name}");
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{name}");
        }
        assert_eq!(files.iter().filter(|(name, _)| name == "page/server.js").count(), 1);
    }

    /// What the page's other files import of the server's door, the other one has too.
    #[test]
    fn the_two_doors_have_the_same_exports() {
        let exports = |text: &'static str| {
            let mut names: Vec<&str> = text
                .split("export ")
                .skip(1)
                .map(|rest| rest.trim_start_matches("async ").split([' ', '(']).nth(1).unwrap())
                .collect();
            names.sort();
            names
        };
        let served = ASSETS.iter().find(|file| file.name == "server.js").unwrap();
        assert_eq!(exports(SERVER), exports(served.contents));
    }
}
