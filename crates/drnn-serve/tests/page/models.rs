//! Small models, made here, and a server of them.

use drnn::{Cell, Cpu, Model, NetSpec, NetSpecBuilder, Padding};
use drnn_serve::{Models, Options, Server, StopHandle};
use drnn_tasks::chars::{Alphabet, CharTask};
use drnn_tasks::live::LiveModel;
use serde_json::json;
use std::net::SocketAddr;
use std::thread::JoinHandle;

const TAGGER: &[u8] = include_bytes!("../../../drnn-cli/models/tagger-en.safetensors");
pub const ALPHABET: &str = " abcde";

/// `letters-0`, `letters-3`, `letters-both`, `tags`, `rows`, `values`.
pub fn model(name: &str) -> LiveModel {
    let lstm = || NetSpec::builder(Cell::Lstm).units([9]);
    let init = |net: NetSpecBuilder| Model::init(&net.build().unwrap(), 3).unwrap();
    let letters = |net: NetSpecBuilder| {
        let symbols = ALPHABET.chars().count();
        let task = CharTask::new(Alphabet::new(ALPHABET.chars().collect()).unwrap(), 20, 0.2);
        task.put_into(init(net.tokens(symbols + 1, 3).outputs(symbols))).unwrap()
    };
    let model = match name {
        "letters-0" => letters(lstm()),
        "letters-3" => letters(lstm().delay(3, Padding::LookAhead)),
        "letters-both" => letters(lstm().bidirectional()),
        "rows" => init(lstm().delay(2, Padding::Null).dense(2).outputs(1)),
        "values" => init(lstm().dense(1).outputs(2)).with_task(json!({
            "task": "series", "inputs": ["x"], "targets": ["warm", "cold"], "classes": null,
            "scaling": {
                "inputs": {"mean": [20.0], "sd": [5.0]},
                "targets": {"mean": [100.0, -3.0], "sd": [10.0, 1.0]},
            },
            "missing": "refuse", "sequence": null, "delimiter": ",",
        })),
        _ => return LiveModel::from_bytes(name, TAGGER).unwrap(),
    };
    LiveModel::new(name, model).unwrap()
}

pub struct Served {
    pub address: SocketAddr,
    handle: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Models that are made here, by their names.
    pub fn start(names: &[&str], options: Options) -> Served {
        Served::with(names.iter().map(|name| model(name)), options)
    }

    /// On a free port, unless the options say which.
    pub fn with(all: impl Iterator<Item = LiveModel>, mut options: Options) -> Served {
        if options.listen == Options::default().listen {
            options.listen = "127.0.0.1:0".parse().unwrap();
        }
        let mut models = Models::new();
        all.for_each(|model| models.add(model.on(&Cpu::new(1))).unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let server = runtime.block_on(Server::bind(options, models)).unwrap();
        let (address, handle) = (server.address().unwrap(), server.stop_handle());
        let thread = std::thread::spawn(move || {
            runtime.block_on(server.serve());
            runtime.shutdown_background();
        });
        Served { address, handle, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops it and waits for its end.
    pub fn stop(&mut self) {
        self.handle.stop();
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
    }
}
