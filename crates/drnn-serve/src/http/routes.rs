//! Routes, and what is done for every request: checks, CORS, metrics, panics.

use crate::http::api_error::{ApiError, json_response};
use crate::http::guard;
use crate::http::openapi;
use crate::limits::budget::Budget;
use crate::limits::options::Options;
use crate::limits::streams::StreamCounts;
use crate::metrics::Metrics;
use crate::models::ServedModels;
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

/// State that all requests share.
pub type Shared = Arc<Inner>;

pub struct Inner {
    pub options: Options,
    pub models: ServedModels,
    pub metrics: Metrics,
    pub streams: Arc<StreamCounts>,
    /// Bytes of requests and messages that wait.
    pub received: Budget,
    /// Bytes of responses, from before they are computed until they are sent.
    pub responses: Budget,
    /// Whether the server is stopping.
    pub stopping: watch::Receiver<bool>,
    /// Closed when the last connection and stream have dropped this state.
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
        .fallback(async || ApiError::not_found("no such path; /openapi.json lists all of them"))
        .method_not_allowed_fallback(async || {
            ApiError::method(
                "this path does not allow that method; /openapi.json lists the methods",
            )
        });
    let router = router
        .layer(from_fn_with_state(shared.clone(), guarded))
        .layer(CatchPanicLayer::custom(panicked as fn(Box<dyn Any + Send>) -> Response));
    let router = match cors(&shared.options.origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.layer(from_fn_with_state(shared.clone(), counted)).with_state(shared)
}

/// Lets pages of these origins read responses.
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
        Err(error) => error.into_response(),
    }
}

async fn counted(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    // Unknown paths share one label, or clients could create labels without end.
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
    ApiError::internal("the server failed on this request").into_response()
}

async fn health(State(shared): State<Shared>) -> Result<Response, ApiError> {
    match *shared.stopping.borrow() {
        true => Err(ApiError::stopping("the server is stopping")),
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

async fn sweep(State(shared): State<Shared>) -> Result<Response, ApiError> {
    let none =
        || ApiError::not_found("no sweep results are served; start the server with --sweep FILE");
    shared.options.sweep.clone().map(json_response).ok_or_else(none)
}
