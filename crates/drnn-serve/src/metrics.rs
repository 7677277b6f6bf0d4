//! What is counted, for Prometheus.
//!
//! | name | labels | what |
//! |---|---|---|
//! | `drnn_requests_total` | route, status | HTTP requests |
//! | `drnn_streams`, `drnn_streams_opened_total` | model | live streams; all that there were |
//! | `drnn_stream_closes_total` | reason | why they ended |
//! | `drnn_elements_total`, `drnn_answers_total` | model, way | elements read, answers given, by `run` or `stream` |
//! | `drnn_batch` | model, way | streams of a step, or sequences of a run |
//! | `drnn_answer_seconds` | model, way | from the arrival of what makes an answer due until it is known |
//! | `drnn_waiting` | model, way | elements that wait to be read |

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;

/// All counters. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<Request, Counter>,
    closes: Family<Reason, Counter>,
    streams: Family<Model, Gauge>,
    opened: Family<Model, Counter>,
    elements: Family<Work, Counter>,
    answers: Family<Work, Counter>,
    batch: Family<Work, Histogram, fn() -> Histogram>,
    seconds: Family<Work, Histogram, fn() -> Histogram>,
    waiting: Family<Work, Gauge>,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    route: String,
    status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Model {
    model: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Work {
    model: String,
    way: &'static str,
}

/// Those of one model's work, one way.
#[derive(Debug, Clone)]
pub struct WorkMetrics {
    /// Read.
    pub elements: Counter,
    /// Given.
    pub answers: Counter,
    /// Streams of a step, or sequences of a run.
    pub batch: Histogram,
    seconds: Histogram,
    /// Elements that wait.
    pub waiting: Gauge,
}

impl WorkMetrics {
    /// An answer is known so long after it was due.
    pub fn answered_after(&self, time: Duration) {
        self.answers.inc();
        self.seconds.observe(time.as_secs_f64());
    }

    /// Several are.
    pub fn all_answered_after(&self, count: u64, time: Duration) {
        self.answers.inc_by(count);
        self.seconds.observe(time.as_secs_f64());
    }
}

fn sizes() -> Histogram {
    Histogram::new((0..11).map(|power| f64::from(1 << power)))
}

fn times() -> Histogram {
    Histogram::new([
        1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    ])
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("drnn");
        let (requests, closes) = (Family::default(), Family::default());
        let (streams, opened) = (Family::default(), Family::default());
        let (elements, answers, waiting) = Default::default();
        let batch = Family::new_with_constructor(sizes as fn() -> Histogram);
        let seconds = Family::new_with_constructor(times as fn() -> Histogram);
        registry.register("requests", "HTTP requests", Family::clone(&requests));
        registry.register("stream_closes", "Why streams ended", Family::clone(&closes));
        registry.register("streams", "Live streams", Family::clone(&streams));
        registry.register("streams_opened", "All streams", Family::clone(&opened));
        registry.register("elements", "Elements read", Family::clone(&elements));
        registry.register("answers", "Answers given", Family::clone(&answers));
        registry.register("batch", "Streams of a step, sequences of a run", batch.clone());
        let what = "From the arrival of what makes an answer due until it is known";
        registry.register("answer_seconds", what, seconds.clone());
        registry.register("waiting", "Elements that wait to be read", Family::clone(&waiting));
        let registry = Arc::new(registry);
        Metrics {
            registry,
            requests,
            closes,
            streams,
            opened,
            elements,
            answers,
            batch,
            seconds,
            waiting,
        }
    }

    /// A request was answered.
    pub fn request(&self, route: &str, status: u16) {
        self.requests.get_or_create(&Request { route: route.into(), status }).inc();
    }

    /// A stream has begun.
    pub fn stream_begins(&self, model: &str) {
        let model = Model { model: model.into() };
        self.streams.get_or_create(&model).inc();
        self.opened.get_or_create(&model).inc();
    }

    /// A stream has ended.
    pub fn stream_ends(&self, model: &str, reason: &'static str) {
        self.streams.get_or_create(&Model { model: model.into() }).dec();
        self.closes.get_or_create(&Reason { reason }).inc();
    }

    /// Those of a model's work, by `run` or `stream`.
    pub fn work(&self, model: &str, way: &'static str) -> WorkMetrics {
        let work = Work { model: model.into(), way };
        WorkMetrics {
            elements: self.elements.get_or_create_owned(&work),
            answers: self.answers.get_or_create_owned(&work),
            batch: self.batch.get_or_create_owned(&work),
            seconds: self.seconds.get_or_create_owned(&work),
            waiting: self.waiting.get_or_create_owned(&work),
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
