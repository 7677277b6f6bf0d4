//! `POST /v1/run`: whole sequences.

use crate::refusal::{Refusal, json_response};
use crate::request;
use crate::routes::Shared;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tokio::time::timeout;

pub async fn run(
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    // Also what keeps forms of other sites out: they cannot send this type unasked.
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::media_type("send the body as Content-Type: application/json"));
    }
    let limits = &shared.options.limits;
    let too_large = || Refusal::too_large(format!("the body has more than {} bytes", limits.body));
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|n: usize| n > limits.body) {
        return Err(too_large());
    }
    let body = match timeout(limits.patience, to_bytes(body, limits.body)).await {
        Err(_) => return Err(Refusal::too_slow("the body did not arrive in time")),
        Ok(Err(e)) if is_limit(&e) => return Err(too_large()),
        Ok(Err(_)) => return Err(Refusal::malformed("the body did not arrive whole")),
        Ok(Ok(body)) => body,
    };
    let request = request::parse(&body)?;
    let served = shared.models.get(request.model.as_deref())?;
    let sequences = request.elements(&served.model, limits.elements)?;
    let answers = served.runner.run(sequences)?;
    let answers = answers.await.map_err(|_| Refusal::stopping("the server ends"))??;
    Ok(json_response(answers))
}

/// Whether it was the limit that the body could not be read for.
fn is_limit(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = inner.source();
    }
    false
}
