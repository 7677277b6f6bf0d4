//! Every error, as JSON.
//!
//! ```json
//! {"error": {"code": "unknown_model", "message": "no model is called `x`; there are: chars-en, tagger-en"}}
//! ```

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::fmt;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

/// The errors that there are, each with its status.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $status:ident $code:literal;)*) => {
        impl Refusal {
            $($(#[$doc])* pub fn $name(message: impl Into<String>) -> Refusal {
                Refusal { status: StatusCode::$status, code: $code, message: message.into() }
            })*
        }
        /// Every code, with its status.
        #[cfg(test)]
        pub const CODES: &[(&str, StatusCode)] = &[$(($code, StatusCode::$status)),*];
    };
}

kinds! {
    /// A body or message that is not the JSON it should be.
    malformed BAD_REQUEST "malformed";
    /// No token, or another.
    unauthorized UNAUTHORIZED "unauthorized";
    /// A page of another origin, or a host of another name.
    forbidden FORBIDDEN "forbidden";
    /// No such path.
    not_found NOT_FOUND "not_found";
    /// No such model.
    unknown_model NOT_FOUND "unknown_model";
    /// A path that is asked another way.
    method METHOD_NOT_ALLOWED "method_not_allowed";
    /// A client that takes too long.
    too_slow REQUEST_TIMEOUT "too_slow";
    /// More than the limit.
    too_large PAYLOAD_TOO_LARGE "too_large";
    /// A body of another type.
    media_type UNSUPPORTED_MEDIA_TYPE "media_type";
    /// An element that the model does not read.
    element UNPROCESSABLE_ENTITY "element_refused";
    /// A model that answers whole sequences only.
    cannot_stream UNPROCESSABLE_ENTITY "cannot_stream";
    /// More streams than one client may have.
    too_many TOO_MANY_REQUESTS "too_many_streams";
    /// A fault of ours.
    internal INTERNAL_SERVER_ERROR "internal";
    /// More than can be done now.
    busy SERVICE_UNAVAILABLE "busy";
    /// The server ends.
    stopping SERVICE_UNAVAILABLE "stopping";
}

impl Refusal {
    /// For machines.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// For people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code, "message": self.message}}).to_string();
        let mut response = json_response(body);
        *response.status_mut() = self.status;
        let mut put =
            |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
        match self.status {
            StatusCode::UNAUTHORIZED => put(header::WWW_AUTHENTICATE, "Bearer"),
            // What is left of the body is not waited for.
            StatusCode::REQUEST_TIMEOUT => put(header::CONNECTION, "close"),
            // Connections are among what there is too little of.
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

/// A body of JSON.
pub fn json_response(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}
