//! The page for people at `/`: files that are part of the program.

use crate::routes::Shared;
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const INDEX: &str = include_str!("page/index.html");
/// Nothing but what the page brings along, and talk with this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Its paths.
pub fn routes() -> Router<Shared> {
    Router::new().route("/", get(async || file("text/html; charset=utf-8", INDEX)))
}

fn file(media: &'static str, contents: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, media), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (headers, contents).into_response()
}
