//! `drnn serve` as a program: what it refuses to begin with, what it says, how it ends, and that it says nothing of
//! what clients send.

mod common;

use common::{done, refused, text};
use drnn_testing::{Need, skip};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

const CHARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/chars-en.safetensors");

/// A server on a free port.
struct Server {
    child: Child,
    address: String,
    /// What it has logged so far.
    said: String,
    stderr: BufReader<ChildStderr>,
}

impl Server {
    fn start(folder: &Path, arguments: &str) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
            .current_dir(folder)
            .args("serve --listen 127.0.0.1:0".split(' '))
            .args(arguments.split_whitespace())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        // Notes on the models may come first.
        while said.is_empty() || said.starts_with("note: ") {
            said.clear();
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended");
        }
        let after = said.split("http://").nth(1).unwrap_or_else(|| panic!("{said}"));
        let address = after.split([' ', '"', '\n']).next().unwrap().to_string();
        Server { child, address, said, stderr }
    }

    /// Sends a request; the body of the response.
    fn request(&self, request: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.into()
    }

    /// A client of a stream that has said this, in one frame, and waits.
    fn stream(&self, query: &str, message: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "GET /v1/stream{query} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut frame = vec![0x81, 0x80 | u8::try_from(message.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(message.as_bytes());
        stream.write_all(&frame).unwrap();
        stream
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// Reads its log until a line contains `text`.
    #[cfg(unix)]
    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "no line with {text}");
            self.said += &line;
        }
    }

    /// Its exit code, and everything it logged.
    fn end(mut self) -> (Option<i32>, String) {
        self.stderr.read_to_string(&mut self.said).unwrap();
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.said))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let net = "--net dgru --units 4 --delay 1 --inputs 2 -o";
    done(folder.path(), &format!("init {net} small.safetensors"));
    std::fs::create_dir(folder.path().join("other")).unwrap();
    std::fs::copy(
        folder.path().join("small.safetensors"),
        folder.path().join("other/small.safetensors"),
    )
    .unwrap();
    std::fs::copy(CHARS, folder.path().join("letters.safetensors")).unwrap();
    folder
}

#[test]
fn an_rnn_of_pytorch_is_served_with_the_activation_it_has() {
    let folder = folder();
    let folder = folder.path();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn/tests/golden/rnn_relu.safetensors");
    std::fs::copy(golden, folder.join("relu.safetensors")).unwrap();
    let x = [0.5f32, -1.0, 0.25, 2.0, 1.0, 1.0];
    common::write(&folder.join("x.npy"), &[2, 1, 3], &x);
    done(folder, "run relu.safetensors x.npy -o y.npy --nonlinearity relu");
    let (shape, y) = common::read(&folder.join("y.npy"));
    // Together with one of drnn's own, to which it does not apply.
    let options = "--nonlinearity relu --prefix net"; // without its dot
    let server = Server::start(folder, &format!("relu.safetensors small.safetensors {options}"));
    let body = r#"{"model": "relu", "sequences": [[[0.5, -1, 0.25], [2, 1, 1]]]}"#;
    let reply: serde_json::Value =
        serde_json::from_str(&server.request("POST /v1/run", body)).unwrap();
    for (t, y) in y.chunks(shape[2] as usize).enumerate() {
        let values: Vec<f32> =
            serde_json::from_value(reply["answers"][0][t]["values"].clone()).unwrap();
        assert_eq!(values, y, "{reply}");
    }
    drop(server);
    for (arguments, why) in [
        ("small.safetensors --nonlinearity relu", "are for files of PyTorch and other programs"),
        ("--prefix a.", "are for files of PyTorch and other programs, and no model is one"),
        ("relu.safetensors --prefix a.", "no recurrent network has the prefix `a.`"),
    ] {
        let said = refused(folder, &format!("serve {arguments}"));
        assert!(said.contains(why), "{arguments}: {said}");
    }
}

/// Options that follow a group with a heading of its own would stand under that heading.
#[test]
fn only_limits_stand_under_limits() {
    let folder = tempfile::tempdir().unwrap();
    let help = done(folder.path(), "serve --help");
    let (others, limits) = help.split_once("\nLimits:\n").unwrap();
    for option in ["--log ", "--log-json", "--prefix"] {
        assert!(others.contains(option) && !limits.contains(option), "{option}: {help}");
    }
    assert!(limits.contains("--max-body"), "{help}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let folder = folder();
    let folder = folder.path();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("short", "secret\n");
    write("spaces", "a token with spaces in it\n");
    write("sweep.json", r#"{"kind": "reversal"}"#);
    write("no json", "{");
    write("bad name.safetensors", "");
    std::fs::copy(folder.join("small.safetensors"), folder.join("ä.safetensors")).unwrap();
    for (arguments, why) in [
        (
            "small.safetensors other/small.safetensors",
            "other/small.safetensors: two models are called small; NAME=FILE",
        ),
        ("a=small.safetensors a=chars-en", "a=chars-en: two models are called a; NAME=FILE"),
        ("none.safetensors", "none.safetensors: cannot be read"),
        ("a/b=small.safetensors", "is not a name for a model"),
        ("=small.safetensors", "\"\" is not a name for a model"),
        ("ä.safetensors", "is not a name for a model"),
        (
            "--listen 0.0.0.0:0",
            "other machines can reach that address; use --token-file FILE, or --insecure",
        ),
        ("--listen [::]:0", "other machines can reach that"),
        ("--listen nowhere", "invalid socket address"),
        ("--token-file none", "none: cannot be read"),
        ("--token-file short", "short: the token has 6 characters, expected 16 to 256"),
        ("--token-file spaces", "spaces: the token may only have letters, digits"),
        ("--token-file short --insecure", "cannot be used with"),
        ("--sweep sweep.json", "sweep.json: not a results file of `drnn sweep`"),
        ("--sweep none", "none: cannot be read"),
        ("--origin example.org", "expected http:// or https://"),
        ("--origin https://example.org/path", "without a path"),
        ("--max-body 0", "from 1 to 1024M"),
        ("--max-message 2000M", "from 1 to 1024M"),
        ("--wait soon", "expected a time like 1ms"),
        ("--idle 2years", "more than a year"),
        ("--max-streams 0", "0 is not in 1..="),
    ] {
        let said = refused(folder, &format!("serve {arguments}"));
        assert!(said.contains(why), "{arguments}: {said}");
    }
    let server = Server::start(folder, "small.safetensors");
    let said = refused(folder, &format!("serve small.safetensors --listen {}", server.address));
    assert!(said.contains("cannot listen at"), "{said}");
}

#[test]
fn models_by_name_and_those_that_are_built_in() {
    let folder = folder();
    let names = |server: &Server| {
        let models: serde_json::Value =
            serde_json::from_str(&server.request("GET /v1/models", "")).unwrap();
        let names = models["models"].as_array().unwrap().iter().map(|m| m["name"].clone());
        names.map(|name| name.as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let built_in = ["chars-en", "chars-en-bilstm", "chars-en-lstm", "tagger-en"];
    assert_eq!(names(&Server::start(folder.path(), "")), built_in);
    let some = "small.safetensors b=other/small.safetensors c=chars-en tagger-en";
    assert_eq!(names(&Server::start(folder.path(), some)), ["b", "c", "small", "tagger-en"]);
}

#[test]
fn answers_are_those_of_the_other_commands() {
    let folder = folder();
    let server = Server::start(folder.path(), "letters.safetensors small.safetensors");
    // Masked characters by `drnn stream` as JSON, and by the server.
    let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
        .current_dir(folder.path())
        .args(["stream", "letters.safetensors", "--to", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"Th_ old m_n").unwrap();
    let lines = text(&child.wait_with_output().unwrap().stdout);
    let reply = server.request("POST /v1/run", r#"{"model": "letters", "texts": ["Th_ old m_n"]}"#);
    assert_eq!(lines.lines().count(), 2);
    for line in lines.lines() {
        assert!(reply.contains(line), "{line} in {reply}");
    }
    // Numbers by `drnn run`.
    common::write(&folder.path().join("x.npy"), &[3, 1, 2], &[0.5f32, -1.0, 0.25, 2.0, 1.0, 1.0]);
    done(folder.path(), "run small.safetensors x.npy -o y.npy");
    let (_, y) = common::read(&folder.path().join("y.npy"));
    let reply = server.request(
        "POST /v1/run",
        r#"{"model": "small", "sequences": [[[0.5, -1], [0.25, 2], [1, 1]]]}"#,
    );
    let answers: Vec<String> = y
        .chunks(4)
        .enumerate()
        .map(|(t, y)| {
            format!(r#"{{"position":{t},"values":{}}}"#, serde_json::to_string(y).unwrap())
        })
        .collect();
    assert_eq!(reply, format!(r#"{{"model":"small","answers":[[{}]]}}"#, answers.join(",")));
}

#[cfg(unix)]
#[test]
fn it_ends_in_order_and_says_nothing_of_what_clients_send() {
    let folder = folder();
    std::fs::write(folder.path().join("token"), "0123456789abcdef0123456789abcdef\n").unwrap();
    for (arguments, signal) in [("", "-TERM"), ("--log-json", "-INT")] {
        let server = Server::start(folder.path(), &format!("chars-en {arguments}"));
        server.request("POST /v1/run", r#"{"texts": ["Geheimnis"], "wrong": "Vertraulich"}"#);
        server.request("POST /v1/run", r#"{"texts": ["Geheimnis"]}"#);
        server.request("GET /Geheimnis?x=Vertraulich", "");
        let mut stream =
            server.stream("?model=chars-en", r#"{"text": "Geheimnis", "x": "Vertraulich"}"#);
        let mut closed = Vec::new();
        stream.read_to_end(&mut closed).unwrap();
        let mut stream = server.stream("", r#"{"text": "Geheimnis Vertraulich"}"#);
        let mut first = [0; 2000];
        while !String::from_utf8_lossy(&first).contains("\"position\":3") {
            assert!(stream.read(&mut first).unwrap() > 0);
        }
        server.signal(signal);
        let mut last = Vec::new();
        stream.read_to_end(&mut last).unwrap();
        assert!(String::from_utf8_lossy(&last).contains("the server is stopping"));
        let (code, said) = server.end();
        assert_eq!(code, Some(0), "{said}");
        for word in ["Geheimnis", "Vertraulich"] {
            assert!(!said.contains(word), "{said}");
        }
        for word in ["stream opened", "malformed", "stopping", "all accepted requests are finished"]
        {
            assert!(said.contains(word), "{word} in {said}");
        }
        if arguments == "--log-json" {
            assert!(
                said.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
            );
        }
    }
    let server = Server::start(folder.path(), "chars-en --token-file token --log debug");
    assert!(server.request("GET /v1/models", "").contains("unauthorized"));
    server.signal("-TERM");
    let (code, said) = server.end();
    assert_eq!(code, Some(0));
    assert!(!said.contains("0123456789abcdef"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let folder = folder();
    let mut server = Server::start(folder.path(), "chars-en --drain 1h");
    // A request whose body never arrives holds up the end. `100 Continue` says that the server waits
    // for the body.
    let mut slow = TcpStream::connect(&server.address).unwrap();
    let head = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 30\r\nExpect: 100-continue\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    let mut waits = [0; 12];
    slow.read_exact(&mut waits).unwrap();
    assert_eq!(&waits, b"HTTP/1.1 100");
    server.signal("-INT");
    server.wait_for("stopping");
    server.signal("-INT");
    assert_eq!(server.end().0, Some(130));
}

#[cfg(unix)]
#[test]
fn ctrl_c_is_caught_as_soon_as_the_address_is_announced() {
    let folder = folder();
    for _ in 0..20 {
        let server = Server::start(folder.path(), "small.safetensors");
        server.signal("-INT");
        let (code, said) = server.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("all accepted requests are finished"), "{said}");
    }
}

/// Python with this module; `DRNN_PYTHON` names another than `python3`.
fn python(module: &str) -> Option<PathBuf> {
    let python = std::env::var_os("DRNN_PYTHON").unwrap_or_else(|| "python3".into());
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    found.is_ok_and(|output| output.status.success()).then(|| python.into())
}

#[test]
fn the_client_in_python() {
    let Some(python3) = python("json") else {
        skip(Need::Python, "there is no python3 (DRNN_PYTHON names another)");
        return;
    };
    let folder = folder();
    std::fs::write(folder.path().join("token"), "0123456789abcdef").unwrap();
    let server = Server::start(folder.path(), "tagger-en chars-en --token-file token");
    let client = |python: &Path, arguments: &[&str], input: &str| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn-serve/examples/client.py");
        let mut child = Command::new(python)
            .current_dir(folder.path())
            .args([path, "--url", &format!("http://{}", server.address), "--token-file", "token"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, said) = client(&python3, &["models"], "");
    assert!(code == Some(0) && out.contains("tagger-en\tdelay 1\t"), "{out} {said}");
    let (_, out, said) = client(&python3, &["run", "tagger-en", "Ants run."], "");
    let tags = |out: &str| {
        out.lines()
            .map(|line| line.split("\"tag\": \"").nth(1).unwrap()[..4].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(tags(&out), ["NOUN", "VERB", "PUNC"], "{said}");
    let (code, _, said) = client(&python3, &["run", "none", "x"], "");
    assert!(code == Some(1) && said.contains("404: unknown model"), "{said}");
    let Some(python3) = python("websockets.asyncio.client") else {
        skip(Need::Websockets, "Python has no module websockets for `client.py stream`");
        return;
    };
    let (code, out, said) = client(&python3, &["stream", "tagger-en"], "Ants run.\n\nThe man\n");
    assert_eq!(
        (code, tags(&out).as_slice()),
        (Some(0), &["NOUN", "VERB", "PUNC", "DET\"", "NOUN"].map(String::from)[..]),
        "{said}"
    );
}
