//! The page without drnn's server: files, and models that the browser runs.

use super::browser::Browser;
use super::models::{ALPHABET, model};
use super::{LETTERS, all, filled, lane, shows, signs};
use drnn_serve::page_files;
use drnn_testing::{Need, found, wasm_package};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The page of these models as files, served by the least server there can be.
struct Site {
    folder: TempDir,
    address: SocketAddr,
}

impl Site {
    /// None where the WebAssembly module is not built: says so, and the test is skipped.
    fn start(names: &[&str]) -> Option<Site> {
        let package = found(Need::Wasm, wasm_package())?;
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, contents: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, contents).unwrap();
        };
        for (name, text) in page_files(false) {
            put(&name, text.as_bytes());
        }
        for name in ["drnn.js", "drnn.wasm"] {
            put(&format!("drnn/{name}"), &std::fs::read(package.join(name)).unwrap());
        }
        let models: Vec<_> = names.iter().map(|name| model(name)).collect();
        let infos: Vec<_> = models.iter().map(|model| model.info()).collect();
        put("models.json", json!(infos).to_string().as_bytes());
        for model in &models {
            let bytes = model.network().to_bytes().unwrap();
            put(&format!("models/{}.safetensors", model.name()), &bytes);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let root = folder.path().to_path_buf();
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let root = root.clone();
                std::thread::spawn(move || drop(respond(stream, &root)));
            }
        });
        Some(Site { folder, address })
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// Answers one request of a connection with a file.
fn respond(mut stream: TcpStream, root: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let path = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let path: PathBuf = root.join(if path.is_empty() { "index.html" } else { path });
    let media = match path.extension().and_then(|ending| ending.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    };
    let (status, body) = match std::fs::read(&path) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

/// The page, ready to be typed at.
fn opened(names: &[&str]) -> Option<(Browser, Site)> {
    let site = Site::start(names)?;
    let mut browser = Browser::start()?;
    browser.open(&site.url());
    browser.until("document.querySelector('.lane')");
    browser.until("[...document.querySelectorAll('.lane')].every(lane => lane.dataset.delay === 'end' || lane.dataset.state === 'live')");
    browser.eval("document.getElementById('text').focus()");
    Some((browser, site))
}

#[test]
fn without_a_server_letters_are_predicted_in_the_browser() {
    let Some((mut browser, site)) = opened(&LETTERS) else { return };
    assert_eq!(all(&mut browser, ".lane h3 .name"), LETTERS);
    let typed = "ab_ c_de _bc a_";
    for (at, c) in typed.chars().enumerate() {
        browser.write(&c.to_string());
        let sent = at + 1;
        shows(&mut browser, "letters-0", sent, 0);
        shows(&mut browser, "letters-3", sent.saturating_sub(3), sent.min(3));
        shows(&mut browser, "letters-both", 0, sent);
    }
    browser.press("Enter");
    let n = typed.chars().count();
    for name in LETTERS {
        shows(&mut browser, name, n, 0);
        let found = signs(&mut browser, name);
        for (found, typed) in found.chars().zip(typed.chars()) {
            assert!(if typed == '_' { ALPHABET.contains(found) } else { found == typed });
        }
        if name != "letters-both" {
            assert_eq!(found, filled(name, typed), "{name}");
        }
    }
    // An edit begins anew.
    browser.eval("text.value = 'ba'; text.dispatchEvent(new Event('input'))");
    shows(&mut browser, "letters-3", 0, 2);
    browser.press("Enter");
    shows(&mut browser, "letters-3", 2, 0);
    assert_eq!(signs(&mut browser, "letters-3"), "ba");
    let own = browser.requests.iter().all(|url| url.starts_with(&site.url()));
    assert!(own, "{:?}", browser.requests);
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn without_a_server_a_refused_row_waits_for_an_edit() {
    let Some((mut browser, _site)) = opened(&["rows"]) else { return };
    browser.write("1 2\n1 x\n3 4\n");
    browser.until(&format!("{}.dataset.state === 'refused'", lane("rows")));
    browser.eval("text.value = '1 2\\n1 5\\n3 4\\n'; text.dispatchEvent(new Event('input'))");
    shows(&mut browser, "rows", 1, 2);
    browser.eval("document.getElementById('end').click()");
    shows(&mut browser, "rows", 3, 0);
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_page_opened_as_a_file_says_what_it_needs() {
    let Some(site) = Site::start(&["rows"]) else { return };
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&format!("file://{}/index.html", site.folder.path().display()));
    browser.until("!trouble.hidden && trouble.textContent.includes('http.server')");
}
