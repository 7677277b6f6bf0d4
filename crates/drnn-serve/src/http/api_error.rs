//! Errors of the API, as JSON.
//!
//! ```json
//! {"error": {"code": "unknown_model", "message": "unknown model; available: chars-en, tagger-en"}}
//! ```

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request was refused: an HTTP status, a code for programs, a message for people.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

/// Defines a constructor for each error, and the list of all codes.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $status:ident $code:literal;)*) => {
        impl ApiError {
            $($(#[$doc])* pub fn $name(message: impl Into<String>) -> ApiError {
                ApiError { status: StatusCode::$status, code: $code, message: message.into() }
            })*
        }
        /// All codes with their status.
        #[cfg(test)]
        pub const CODES: &[(&str, StatusCode)] = &[$(($code, StatusCode::$status)),*];
    };
}

errors! {
    /// A body or message that is not valid JSON, or not what the API expects.
    malformed BAD_REQUEST "malformed";
    /// A missing or wrong token.
    unauthorized UNAUTHORIZED "unauthorized";
    /// An Origin or Host that is not allowed.
    forbidden FORBIDDEN "forbidden";
    /// An unknown path.
    not_found NOT_FOUND "not_found";
    /// An unknown model.
    unknown_model NOT_FOUND "unknown_model";
    /// A path that does not allow the method.
    method METHOD_NOT_ALLOWED "method_not_allowed";
    /// A client that sends its request too slowly.
    too_slow REQUEST_TIMEOUT "too_slow";
    /// More bytes or elements than a limit allows.
    too_large PAYLOAD_TOO_LARGE "too_large";
    /// A body that is not JSON by its Content-Type.
    media_type UNSUPPORTED_MEDIA_TYPE "media_type";
    /// An element that the model does not accept.
    element UNPROCESSABLE_ENTITY "element_refused";
    /// A bidirectional model, which runs on whole sequences only.
    cannot_stream UNPROCESSABLE_ENTITY "cannot_stream";
    /// More streams than one client may open.
    too_many TOO_MANY_REQUESTS "too_many_streams";
    /// A fault of the server.
    internal INTERNAL_SERVER_ERROR "internal";
    /// The server is overloaded; retry later.
    busy SERVICE_UNAVAILABLE "busy";
    /// The server is stopping.
    stopping SERVICE_UNAVAILABLE "stopping";
}

impl ApiError {
    /// The code for programs, as in the JSON.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code, "message": self.message}}).to_string();
        let mut response = json_response(body);
        *response.status_mut() = self.status;
        let mut put =
            |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
        match self.status {
            StatusCode::UNAUTHORIZED => put(header::WWW_AUTHENTICATE, "Bearer"),
            // The rest of the body is not read.
            StatusCode::REQUEST_TIMEOUT => put(header::CONNECTION, "close"),
            // Under overload, connections are scarce too.
            StatusCode::SERVICE_UNAVAILABLE => {
                put(header::CONNECTION, "close");
                put(header::RETRY_AFTER, "1")
            }
            StatusCode::TOO_MANY_REQUESTS => put(header::RETRY_AFTER, "1"),
            _ => None,
        };
        response
    }
}

/// A response with a JSON body.
pub fn json_response(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}
