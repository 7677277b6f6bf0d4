//! Who may ask.
//!
//! | what | where | refused with |
//! |---|---|---|
//! | token | `/v1/..` and `/metrics`, where one is set | 401 |
//! | origin: a page of another site | `/v1/..` | 403 |
//! | host: another name than localhost, an address or an allowed origin | everywhere, where no token is set | 403 |
//! | host: several, or one that is none | everywhere | 400 |
//!
//! The last keeps a page from reaching a server on its visitor's own machine under a name that it controls.

use crate::http::api_error::Refusal;
use crate::limits::options::Options;
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderValue, header};
use std::fmt;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// What clients must show.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Fewer characters could be guessed.
const SHORTEST: usize = 16;
const LONGEST: usize = 256;
/// What may stand in a header, and in the name of a WebSocket protocol.
const SIGNS: &str = "!#$%&'*+-.^_`|~";
/// A browser cannot send a header with a WebSocket, but it can name protocols.
const IN_PROTOCOL: &str = "drnn.bearer.";

/// It is nobody's business, not even that of logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Token(..)")
    }
}

impl Token {
    /// The contents of a file; a line end behind them does not count.
    pub fn new(text: &str) -> Result<Token, String> {
        let token = text.trim_end_matches(['\r', '\n']);
        let good = |c: char| c.is_ascii_alphanumeric() || SIGNS.contains(c);
        let length = token.len();
        if !(SHORTEST..=LONGEST).contains(&length) {
            return Err(format!(
                "the token has {length} characters, expected {SHORTEST} to {LONGEST}; `openssl rand -hex 32` makes one"
            ));
        }
        match token.chars().all(good) {
            true => Ok(Token(token.into())),
            false => Err(format!("the token may have letters, digits and {SIGNS} only")),
        }
    }

    /// Takes as long whatever is right of it.
    fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

/// Checks a request for `uri`.
pub fn check(options: &Options, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let path = uri.path();
    let authority = host(uri, headers)?;
    let host = authority.as_ref().map_or("", Authority::as_str);
    let own = || authority.as_ref().is_some_and(|host| own_host(&options.origins, host));
    if options.token.is_none() && !options.any_host && !own() {
        return Err(Refusal::forbidden(
            "this server goes by localhost or its address; --origin allows another name, a token any",
        ));
    }
    if path.starts_with("/v1/")
        && let Some(origin) = headers.get(header::ORIGIN)
        && !allowed_origin(&options.origins, text(Some(origin)).unwrap_or_default(), host)
    {
        return Err(Refusal::forbidden("pages of this origin may not ask; --origin allows one"));
    }
    let secret = path.starts_with("/v1/") || path == "/metrics";
    match &options.token {
        Some(token) if secret && !shown(headers).any(|shown| token.is(shown)) => {
            Err(Refusal::unauthorized("a token is needed: Authorization: Bearer TOKEN"))
        }
        _ => Ok(()),
    }
}

/// The host that a request is for, as its Host header has it; and its target, where that has one too.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Option<Authority>, Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, another) = (hosts.next().map(|host| host.as_bytes()), hosts.next());
    let host = match host.unwrap_or_default() {
        b"" => None,
        host => match Authority::try_from(host) {
            Ok(host) if is_plain(&host) => Some(host),
            _ => return Err(Refusal::malformed("the Host header is no host")),
        },
    };
    if another.is_some() || uri.authority().is_some_and(|target| Some(target) != host.as_ref()) {
        return Err(Refusal::malformed("the request names several hosts"));
    }
    Ok(host)
}

/// Whether it is a host and maybe a port, and nothing else: no user before it, nothing behind an address's brackets.
fn is_plain(host: &Authority) -> bool {
    let name = host.host();
    match host.port_u16() {
        Some(port) => host.as_str() == format!("{name}:{port}"),
        None => host.as_str() == name,
    }
}

/// Tokens in the headers.
fn shown(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = text(headers.get(header::AUTHORIZATION))
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    bearer.into_iter().chain(protocols(headers).filter_map(|name| name.strip_prefix(IN_PROTOCOL)))
}

/// WebSocket protocols that the client names.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    all.filter_map(|value| text(Some(value))).flat_map(|names| names.split(',')).map(str::trim)
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value?.to_str().ok()
}

/// Behind `https://`.
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
