//! The handler of `POST /v1/run`.

use crate::http::api_error::{ApiError, json_response};
use crate::http::client::Client;
use crate::http::routes::Shared;
use crate::http::server::Peer;
use crate::limits::budget::{Budget, Lease};
use crate::limits::cost::{self, FREE_RECEIVED, FREE_RESPONSE};
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
) -> Result<Response, ApiError> {
    // Also a CSRF check: forms of other sites cannot send this type without a preflight request.
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::media_type("send the body as Content-Type: application/json"));
    }
    let (limits, client) = (&shared.options.limits, connection.client());
    // A body without a Content-Length may have up to the limit.
    let length =
        body.size_hint().upper().map_or(limits.body, |n| n.try_into().unwrap_or(usize::MAX));
    if length > limits.body {
        return Err(too_large(limits.body));
    }
    let bytes = length.saturating_sub(FREE_RECEIVED);
    let mut received = lease(&shared, &shared.received, client, bytes).await?;
    let body = match timeout(limits.io_timeout, to_bytes(body, limits.body)).await {
        Err(_) => return Err(ApiError::too_slow("the body did not arrive in time")),
        Ok(Err(e)) if is_limit(&e) => return Err(too_large(limits.body)),
        Ok(Err(_)) => return Err(ApiError::malformed("the body ended early")),
        Ok(Ok(body)) => body,
    };
    let request = request::parse(&body)?;
    let served = shared.models.get(request.model.as_deref())?;
    let encoded = request.encoded_bytes(&served.model)?;
    if encoded > 0 && !received.try_grow_to((length + encoded).saturating_sub(FREE_RECEIVED)) {
        return Err(busy());
    }
    let sequences = request.elements(&served.model, limits.elements)?;
    drop(body);
    let bytes = cost::elements(&sequences).saturating_sub(FREE_RECEIVED);
    received.shrink_to(bytes);
    if !received.try_grow_to(bytes) {
        return Err(busy());
    }
    let bytes = cost::response(&served, &sequences).saturating_sub(FREE_RESPONSE);
    let mut lease = lease(&shared, &shared.responses, client, bytes).await?;
    let _guard = connection.protect();
    let response = served.runner.run(sequences)?;
    let stopped = |_| ApiError::stopping("the server is stopping");
    let json = response.await.map_err(stopped)??;
    lease.shrink_to(json.len().saturating_sub(FREE_RESPONSE));
    Ok(json_response(Bytes::from_owner(LeasedJson { json, _lease: lease })))
}

/// Waits for bytes of a budget, for less time than a client that does not read can occupy them.
async fn lease(
    shared: &Shared,
    budget: &Budget,
    client: Client,
    bytes: usize,
) -> Result<Lease, ApiError> {
    match timeout(shared.options.limits.io_timeout / 2, budget.lease(client, bytes)).await {
        Ok(Some(lease)) => Ok(lease),
        Ok(None) => Err(ApiError::too_large(format!(
            "the request and its response may take {bytes} bytes, more than the {} that one client \
             can have; send fewer elements at a time",
            budget.share()
        ))),
        Err(_) => Err(busy()),
    }
}

fn busy() -> ApiError {
    ApiError::busy("too many requests are waiting; retry later")
}

fn too_large(max: usize) -> ApiError {
    ApiError::too_large(format!("the body has more than {max} bytes"))
}

/// A response body that returns its lease when it has been sent.
struct LeasedJson {
    json: String,
    _lease: Lease,
}

impl AsRef<[u8]> for LeasedJson {
    fn as_ref(&self) -> &[u8] {
        self.json.as_bytes()
    }
}

/// Whether reading the body failed because it exceeds the limit.
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
