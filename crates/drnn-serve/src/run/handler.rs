//! `POST /v1/run`: whole sequences.

use crate::http::api_error::{Refusal, json_response};
use crate::http::client::Client;
use crate::http::routes::Shared;
use crate::http::server::Peer;
use crate::limits::budget::{Budget, Lease};
use crate::limits::cost::{self, FREE_ANSWERS, FREE_RECEIVED};
use crate::run::request;
use axum::Extension;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tokio::time::timeout;

pub async fn run(
    State(shared): State<Shared>,
    Extension(Peer(connection)): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    // Also what keeps forms of other sites out: they cannot send this type unasked.
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::media_type("send the body as Content-Type: application/json"));
    }
    let (limits, client) = (&shared.options.limits, connection.client());
    // Without a length there may be as much as is allowed.
    let length =
        body.size_hint().upper().map_or(limits.body, |n| n.try_into().unwrap_or(usize::MAX));
    if length > limits.body {
        return Err(too_large(limits.body));
    }
    let bytes = length.saturating_sub(FREE_RECEIVED);
    let mut received = lease(&shared, &shared.received, client, bytes).await?;
    let body = match timeout(limits.patience, to_bytes(body, limits.body)).await {
        Err(_) => return Err(Refusal::too_slow("the body did not arrive in time")),
        Ok(Err(e)) if is_limit(&e) => return Err(too_large(limits.body)),
        Ok(Err(_)) => return Err(Refusal::malformed("the body did not arrive whole")),
        Ok(Ok(body)) => body,
    };
    let request = request::parse(&body)?;
    let served = shared.models.get(request.model.as_deref())?;
    let sequences = request.elements(&served.model, limits.elements)?;
    drop(body);
    let bytes = cost::elements(&sequences).saturating_sub(FREE_RECEIVED);
    received.shrink_to(bytes);
    if !received.try_grow_to(bytes) {
        return Err(busy());
    }
    let bytes = cost::answers(&served, &sequences).saturating_sub(FREE_ANSWERS);
    let mut lease = lease(&shared, &shared.answers, client, bytes).await?;
    let _held = connection.hold();
    let answers = served.runner.run(sequences)?;
    let answers = answers.await.map_err(|_| Refusal::stopping("the server ends"))??;
    lease.shrink_to(answers.len().saturating_sub(FREE_ANSWERS));
    Ok(json_response(Bytes::from_owner(Answers { json: answers, _lease: lease })))
}

/// Waits for bytes of a budget, but not for as long as those who do not read their answers can keep them.
async fn lease(
    shared: &Shared,
    budget: &Budget,
    client: Client,
    bytes: usize,
) -> Result<Lease, Refusal> {
    match timeout(shared.options.limits.patience / 2, budget.lease(client, bytes)).await {
        Ok(Some(lease)) => Ok(lease),
        Ok(None) => Err(Refusal::too_large(format!(
            "the request and its answers may take {bytes} bytes, more than the {} that one client can have; \
             send fewer elements at a time",
            budget.share()
        ))),
        Err(_) => Err(busy()),
    }
}

fn busy() -> Refusal {
    Refusal::busy("too many requests and answers are waiting; retry later")
}

fn too_large(most: usize) -> Refusal {
    Refusal::too_large(format!("the body has more than {most} bytes"))
}

/// Answers on their way to the client: their bytes are given back when they are sent.
struct Answers {
    json: String,
    _lease: Lease,
}

impl AsRef<[u8]> for Answers {
    fn as_ref(&self) -> &[u8] {
        self.json.as_bytes()
    }
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
