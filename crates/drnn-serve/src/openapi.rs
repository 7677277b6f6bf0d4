//! The API for machines: OpenAPI 3.1, written by hand in `openapi.json`.

use crate::refusal::json_response;
use axum::response::Response;

const DOCUMENT: &str = include_str!("openapi.json");

pub async fn document() -> Response {
    json_response(DOCUMENT)
}
