//! A headless Chromium, driven over its DevTools protocol: commands out, answers and events back, as JSON.

use drnn_testing::{Need, skip};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Tests share their machine with others, so nothing is late before it is very late.
const LONG: Duration = Duration::from_secs(40);

pub struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    commands: u64,
    /// Errors of the page, and the URLs that it requested.
    pub errors: Vec<String>,
    pub requests: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// None where there is none: says so, and the test is skipped.
    pub fn start() -> Option<Browser> {
        let Some(program) = find() else {
            let names = NAMES.join(", ");
            skip(Need::Chromium, format!("no DRNN_CHROMIUM, and none of {names} on the path"));
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(&program);
        command.args([
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.args(["--disable-background-networking", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        // Its sandbox does not work for root, which containers often are.
        if std::fs::metadata(profile.path()).unwrap().uid() == 0 {
            command.arg("--no-sandbox");
        }
        let mut process =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a browser starts");
        let Some((port, path)) = listening(profile.path(), &mut process) else {
            skip(Need::Chromium, format!("{} does not start", program.display()));
            let _ = process.kill();
            return None;
        };
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let url = format!("ws://127.0.0.1:{port}{path}");
        let socket = tungstenite::client(url, stream).expect("the browser talks").0;
        let (session, errors, requests) = Default::default();
        let mut browser =
            Browser { process, socket, session, commands: 0, errors, requests, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().unwrap().into();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.look(1200, "light");
        Some(browser)
    }

    /// Gives a command, and waits for what comes of it.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.commands += 1;
        let id = self.commands;
        let mut command = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        self.socket.send(Message::text(command.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().expect("the browser answers") else {
                continue;
            };
            let mut said: Value = serde_json::from_str(&text).unwrap();
            if said["id"] == id {
                assert!(said["error"].is_null(), "{method}: {}", said["error"]);
                return said["result"].take();
            }
            self.event(&said);
        }
    }

    fn event(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self.errors.push(params["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" if params["type"] == "error" => {
                self.errors.push(params["args"].to_string());
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.errors.push(params["entry"].to_string());
            }
            "Network.requestWillBeSent" => self.requests.push(text(&params["request"]["url"])),
            "Network.webSocketCreated" => self.requests.push(text(&params["url"])),
            _ => {}
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until("document.readyState === 'complete'");
    }

    /// The value of an expression in the page, waited for where it is a promise.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut found = self.call("Runtime.evaluate", params);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {}", found["exceptionDetails"]);
        found["result"]["value"].take()
    }

    /// Waits until this is true.
    pub fn until(&mut self, condition: &str) {
        let begun = Instant::now();
        while self.eval(&format!("!!({condition})")) != true {
            if begun.elapsed() > LONG {
                let page = self.eval("document.body.innerText");
                panic!("never: {condition}\n{}\nerrors: {:?}", text(&page), self.errors);
            }
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Writes where the focus is.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses a key, by its name.
    pub fn press(&mut self, key: &str) {
        let (code, types) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            "ArrowRight" => (39, None),
            "Home" => (36, None),
            other => panic!("no key {other}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut params =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if let (Some(types), "keyDown") = (types, kind) {
                params["text"] = types.into();
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// A picture of the page down to `height`.
    pub fn picture(&mut self, height: f64, path: &Path) {
        let width = self.eval("innerWidth");
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1.2});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let data = text(&self.call("Page.captureScreenshot", params)["data"]);
        std::fs::write(path, from_base64(&data)).unwrap();
    }

    /// As wide as this, light or dark.
    pub fn look(&mut self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": scheme }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A string of JSON.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

fn from_base64(text: &str) -> Vec<u8> {
    let signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for sign in text.chars() {
        let Some(value) = signs.find(sign) else { break }; // the padding
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("DRNN_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

/// Port and path at which the browser listens: it writes them into its profile.
fn listening(profile: &Path, process: &mut Child) -> Option<(u16, String)> {
    let begun = Instant::now();
    while begun.elapsed() < LONG && process.try_wait().ok()?.is_none() {
        let written =
            std::fs::read_to_string(profile.join("DevToolsActivePort")).unwrap_or_default();
        if let [port, path] = written.lines().collect::<Vec<_>>()[..] {
            return Some((port.parse().ok()?, path.into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}
