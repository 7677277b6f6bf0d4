//! Which path is answered by what.

use crate::http::api_error::{Refusal, json_response};
use crate::http::guard;
use crate::http::openapi;
use crate::limits::budget::Budget;
use crate::limits::options::Options;
use crate::limits::streams::Seats;
use crate::metrics::Metrics;
use crate::models::AllServed;
use crate::page;
use crate::run::handler;
use crate::stream::socket;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use std::any::Any;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// What all requests share.
pub type Shared = Arc<Inner>;

pub struct Inner {
    pub options: Options,
    pub models: AllServed,
    pub metrics: Metrics,
    pub seats: Arc<Seats>,
    /// Bytes of requests and messages that wait.
    pub received: Budget,
    /// Bytes of answers to requests, from when they are made until they are sent.
    pub answers: Budget,
    /// Whether the server ends.
    pub stopping: watch::Receiver<bool>,
    /// Every connection and stream holds this; it is over when nobody does.
    pub _alive: mpsc::Sender<()>,
}

pub fn router(shared: Shared) -> Router {
    let router = page::routes()
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/v1/models", get(models))
        .route("/v1/run", post(handler::run))
        .route("/v1/stream", get(socket::open))
        .route("/v1/sweep", get(sweep))
        .fallback(async || Refusal::not_found("no such path; /openapi.json has them all"))
        .method_not_allowed_fallback(async || Refusal::method("this path is asked another way"));
    let router = router
        .layer(from_fn_with_state(shared.clone(), guarded))
        .layer(CatchPanicLayer::custom(panicked as fn(Box<dyn Any + Send>) -> Response));
    let router = match cors(&shared.options.origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.layer(from_fn_with_state(shared.clone(), counted)).with_state(shared)
}

/// Lets pages of these origins read answers.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([Method::GET, Method::POST])
            .allow_headers([header::CONTENT_TYPE, header::AUTHORIZATION])
    })
}

async fn guarded(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match guard::check(&shared.options, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn counted(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    // A path that is none has no name of its own, or clients could make names without end.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("other", |path| path.as_str());
    let method = request.method().clone();
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    shared.metrics.request(route, status);
    tracing::debug!(%method, route, status, "request");
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn panicked(_: Box<dyn Any + Send>) -> Response {
    Refusal::internal("the server failed on this request").into_response()
}

async fn health(State(shared): State<Shared>) -> Result<Response, Refusal> {
    match *shared.stopping.borrow() {
        true => Err(Refusal::stopping("the server ends")),
        false => Ok(json_response(json!({"status": "ok"}).to_string())),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media)], shared.metrics.text()).into_response()
}

async fn models(State(shared): State<Shared>) -> Response {
    let models: Vec<&str> = shared.models.iter().map(|served| served.facts.as_str()).collect();
    json_response(format!("{{\"models\":[{}]}}", models.join(",")))
}

async fn sweep(State(shared): State<Shared>) -> Result<Response, Refusal> {
    let none = || Refusal::not_found("no results of a sweep are served; --sweep FILE names some");
    shared.options.sweep.clone().map(json_response).ok_or_else(none)
}
