//! Authorisation: token, Origin and Host.
//!
//! | check | paths | status if it fails |
//! |---|---|---|
//! | the token, if one is set | `/v1/..`, `/metrics` | 401 |
//! | Origin: this server, or one of `--origin` | `/v1/..` | 403 |
//! | Host: localhost, an IP address or a host of `--origin`, if no token is set | all | 403 |
//! | Host: exactly one valid host | all | 400 |
//!
//! The Host checks prevent DNS rebinding: a web page cannot reach a server on its visitor's machine
//! under a name that the page's owner controls.

use crate::error::ConfigError;
use crate::http::api_error::ApiError;
use crate::limits::options::Options;
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderValue, header};
use std::fmt;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// The bearer token that clients must send. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A shorter token could be guessed.
const MIN_LENGTH: usize = 16;
const MAX_LENGTH: usize = 256;
/// Punctuation that is allowed both in a header and in the name of a WebSocket subprotocol.
const PUNCTUATION: &str = "!#$%&'*+-.^_`|~";
/// Prefix of a subprotocol that carries the token: browsers cannot set headers of a WebSocket.
const TOKEN_PROTOCOL: &str = "drnn.bearer.";

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Token(..)")
    }
}

impl Token {
    /// A token of 16 to 256 letters, digits and punctuation. Line ends at the end, as in a file, are
    /// ignored.
    pub fn new(text: &str) -> Result<Token, ConfigError> {
        let token = text.trim_end_matches(['\r', '\n']);
        let allowed = |c: char| c.is_ascii_alphanumeric() || PUNCTUATION.contains(c);
        let length = token.len();
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&length) {
            return Err(ConfigError::Token(format!(
                "the token has {length} characters, expected {MIN_LENGTH} to {MAX_LENGTH}; \
                 `openssl rand -hex 32` makes one"
            )));
        }
        match token.chars().all(allowed) {
            true => Ok(Token(token.into())),
            false => Err(ConfigError::Token(format!(
                "the token may only have letters, digits and {PUNCTUATION}"
            ))),
        }
    }

    /// Compares in constant time.
    fn is(&self, candidate: &str) -> bool {
        self.0.as_bytes().ct_eq(candidate.as_bytes()).into()
    }
}

/// Checks whether a request is authorised.
pub fn check(options: &Options, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let path = uri.path();
    let authority = host(uri, headers)?;
    let host = authority.as_ref().map_or("", Authority::as_str);
    let own = || authority.as_ref().is_some_and(|host| own_host(&options.origins, host));
    if options.token.is_none() && !options.any_host && !own() {
        return Err(ApiError::forbidden(
            "the Host header must be localhost or an IP address; --origin allows another name, and \
             --token-file any",
        ));
    }
    if path.starts_with("/v1/")
        && let Some(origin) = headers.get(header::ORIGIN)
        && !allowed_origin(&options.origins, text(Some(origin)).unwrap_or_default(), host)
    {
        return Err(ApiError::forbidden(
            "pages of this origin are not allowed; --origin allows one",
        ));
    }
    let secret = path.starts_with("/v1/") || path == "/metrics";
    match &options.token {
        Some(token) if secret && !tokens(headers).any(|candidate| token.is(candidate)) => {
            Err(ApiError::unauthorized("a token is required: Authorization: Bearer TOKEN"))
        }
        _ => Ok(()),
    }
}

/// The host of a request, from its Host header; a request target with an authority must agree.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Option<Authority>, ApiError> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, another) = (hosts.next().map(|host| host.as_bytes()), hosts.next());
    let host = match host.unwrap_or_default() {
        b"" => None,
        host => match Authority::try_from(host) {
            Ok(host) if is_plain(&host) => Some(host),
            _ => return Err(ApiError::malformed("the Host header is not a valid host")),
        },
    };
    if another.is_some() || uri.authority().is_some_and(|target| Some(target) != host.as_ref()) {
        return Err(ApiError::malformed("the request names more than one host"));
    }
    Ok(host)
}

/// Whether it is a host with an optional port and nothing else: no user name before it, nothing
/// after an address's brackets.
fn is_plain(host: &Authority) -> bool {
    let name = host.host();
    match host.port_u16() {
        Some(port) => host.as_str() == format!("{name}:{port}"),
        None => host.as_str() == name,
    }
}

/// Tokens that the headers carry.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = text(headers.get(header::AUTHORIZATION))
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    bearer
        .into_iter()
        .chain(protocols(headers).filter_map(|name| name.strip_prefix(TOKEN_PROTOCOL)))
}

/// WebSocket subprotocols that the client offers.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    all.filter_map(|value| text(Some(value))).flat_map(|names| names.split(',')).map(str::trim)
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value?.to_str().ok()
}

/// The host of an origin: what follows `://`.
fn host_of(origin: &str) -> &str {
    origin.split_once("://").map_or("", |(_, host)| host)
}

fn allowed_origin(origins: &[String], origin: &str, host: &str) -> bool {
    let own = !host.is_empty() && host_of(origin).eq_ignore_ascii_case(host);
    own || origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
}

fn own_host(origins: &[String], host: &Authority) -> bool {
    let name = host.host();
    let address = name.strip_prefix('[').and_then(|v6| v6.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok()
        || origins.iter().any(|origin| host_of(origin).eq_ignore_ascii_case(host.as_str()))
}
