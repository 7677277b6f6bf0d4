//! Metrics for Prometheus.
//!
//! | name | labels | value |
//! |---|---|---|
//! | `drnn_requests_total` | route, status | HTTP requests |
//! | `drnn_streams`, `drnn_streams_opened_total` | model | live streams; streams opened |
//! | `drnn_stream_closes_total` | reason | streams closed, by reason |
//! | `drnn_elements_total`, `drnn_answers_total` | model, way | elements read, predictions made, by `run` or `stream` |
//! | `drnn_batch` | model, way | streams in a step, or sequences in a run |
//! | `drnn_answer_seconds` | model, way | from the arrival of the message or request that makes a prediction due until it is computed |
//! | `drnn_waiting` | model, way | elements that wait |

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;

/// All metrics. Clones share them.
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

/// The metrics of one model's runs, or of its streams.
#[derive(Debug, Clone)]
pub struct WorkMetrics {
    /// Elements read.
    pub elements: Counter,
    /// Predictions made.
    pub predictions: Counter,
    /// Streams in a step, or sequences in a run.
    pub batch: Histogram,
    seconds: Histogram,
    /// Elements that wait.
    pub waiting: Gauge,
}

impl WorkMetrics {
    /// Records a prediction, computed this long after it became due.
    pub fn predicted_after(&self, time: Duration) {
        self.predictions.inc();
        self.seconds.observe(time.as_secs_f64());
    }

    /// Records several predictions that were computed together.
    pub fn all_predicted_after(&self, count: u64, time: Duration) {
        self.predictions.inc_by(count);
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
    /// All metrics at zero.
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("drnn");
        let (requests, closes) = (Family::default(), Family::default());
        let (streams, opened) = (Family::default(), Family::default());
        let (elements, answers, waiting) = Default::default();
        let batch = Family::new_with_constructor(sizes as fn() -> Histogram);
        let seconds = Family::new_with_constructor(times as fn() -> Histogram);
        registry.register("requests", "HTTP requests", Family::clone(&requests));
        registry.register("stream_closes", "Streams closed, by reason", Family::clone(&closes));
        registry.register("streams", "Live streams", Family::clone(&streams));
        registry.register("streams_opened", "Streams opened", Family::clone(&opened));
        registry.register("elements", "Elements read", Family::clone(&elements));
        registry.register("answers", "Predictions made", Family::clone(&answers));
        registry.register("batch", "Streams in a step, sequences in a run", batch.clone());
        let what = "Time from the arrival of what makes a prediction due until it is computed";
        registry.register("answer_seconds", what, seconds.clone());
        registry.register("waiting", "Elements that wait", Family::clone(&waiting));
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

    /// Counts a response.
    pub fn request(&self, route: &str, status: u16) {
        self.requests.get_or_create(&Request { route: route.into(), status }).inc();
    }

    /// Counts an opened stream.
    pub fn stream_opened(&self, model: &str) {
        let model = Model { model: model.into() };
        self.streams.get_or_create(&model).inc();
        self.opened.get_or_create(&model).inc();
    }

    /// Counts a closed stream.
    pub fn stream_closed(&self, model: &str, reason: &'static str) {
        self.streams.get_or_create(&Model { model: model.into() }).dec();
        self.closes.get_or_create(&Reason { reason }).inc();
    }

    /// The metrics of a model's work; `way` is `run` or `stream`.
    pub fn work(&self, model: &str, way: &'static str) -> WorkMetrics {
        let work = Work { model: model.into(), way };
        WorkMetrics {
            elements: self.elements.get_or_create_owned(&work),
            predictions: self.answers.get_or_create_owned(&work),
            batch: self.batch.get_or_create_owned(&work),
            seconds: self.seconds.get_or_create_owned(&work),
            waiting: self.waiting.get_or_create_owned(&work),
        }
    }

    /// All metrics in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
