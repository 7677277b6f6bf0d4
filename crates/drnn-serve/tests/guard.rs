//! Authorisation: token, Origin and Host.

mod common;

use common::serve;
use drnn_serve::{Options, Token};

const TOKEN: &str = "0123456789abcdef-_~";

fn with_token() -> Options {
    let mut options = Options::default();
    options.token = Some(Token::new(&format!("{TOKEN}\n")).unwrap());
    options
}

#[tokio::test]
async fn a_token_is_required() {
    let served = serve(&["tokens"], with_token()).await;
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for path in ["/v1/models", "/v1/sweep", "/metrics", "/v1/stream", "/v1/nothing"] {
        for headers in ["", &bearer("wrong"), &bearer(&TOKEN[1..]), "Authorization: Basic x\r\n"] {
            let reply = served.get(path, headers).await;
            assert_eq!((reply.status, reply.code().as_str()), (401, "unauthorized"), "{path}");
            assert!(reply.head.contains("www-authenticate: bearer"));
            assert!(!reply.body.contains(TOKEN));
        }
    }
    assert_eq!(served.get("/v1/models", &bearer(TOKEN)).await.status, 200);
    assert_eq!(served.post("{}", "Content-Type: application/json\r\n").await.status, 401);
    for path in ["/", "/healthz", "/openapi.json"] {
        assert_eq!(served.get(path, "").await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_stream_sends_its_token_as_a_header_or_a_subprotocol() {
    let served = serve(&["tokens"], with_token()).await;
    let protocol = format!("drnn.bearer.{TOKEN}");
    let both = format!("drnn.v1, {protocol}");
    let bearer = format!("Bearer {TOKEN}");
    for headers in [
        ("authorization", bearer.as_str()),
        ("sec-websocket-protocol", &both),
        ("sec-websocket-protocol", &protocol),
    ] {
        assert!(served.stream("", &[headers]).await.is_ok(), "{headers:?}");
    }
    for headers in [
        &[][..],
        &[("authorization", "Bearer x")],
        &[("sec-websocket-protocol", "drnn.v1, drnn.bearer.x")],
        &[("sec-websocket-protocol", "drnn.v1")],
    ] {
        assert_eq!(served.stream("", headers).await.err().unwrap().0, 401, "{headers:?}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let allowed = "https://example.org";
    let mut options = Options::default();
    options.origins = vec![allowed.into()];
    let served = serve(&["tokens"], options).await;
    let own = format!("http://{}", served.address);
    for origin in
        ["https://evil.example", "null", "", "http://127.0.0.1", "https://example.org.evil"]
    {
        let (status, body) = served.stream("", &[("origin", origin)]).await.err().unwrap();
        assert_eq!(status, 403, "{origin}");
        assert!(body.contains("forbidden"), "{body}");
        let reply = served.get("/v1/models", &format!("Origin: {origin}\r\n")).await;
        assert_eq!(reply.status, 403, "{origin}");
        assert!(!reply.head.contains("access-control-allow-origin"), "{}", reply.head);
    }
    for origin in [own.as_str(), allowed] {
        assert!(served.stream("", &[("origin", origin)]).await.is_ok(), "{origin}");
    }
    let reply = served.get("/v1/models", &format!("Origin: {allowed}\r\n")).await;
    assert!(reply.head.contains("access-control-allow-origin: https://example.org"));
    // By default no other origin is allowed.
    let served = serve(&["tokens"], Options::default()).await;
    assert_eq!(served.stream("", &[("origin", allowed)]).await.err().unwrap().0, 403);
    let preflight = format!(
        "OPTIONS /v1/run HTTP/1.1\r\nHost: localhost\r\nOrigin: {allowed}\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
    );
    assert!(!served.raw(preflight.as_bytes()).await.head.contains("access-control"));
}

#[tokio::test]
async fn other_host_names_are_refused_without_a_token() {
    let served = serve(&["tokens"], Options::default()).await;
    for (host, status) in [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("evil.example:8080", 403),
        ("localhost.evil.example", 403),
        ("[::1].evil.example", 400),
        ("[::1", 400),
        ("localhost:8080.evil.example", 400),
        ("localhost:99999", 400),
        ("localhost:", 400),
        ("evil@localhost", 400),
        ("localhost@evil.example", 400),
        ("localhost, evil.example", 400),
        ("localhost\r\nHost: evil.example", 400),
        ("localhost\r\nHost: localhost", 400),
        ("", 403),
    ] {
        let found = served.get("/v1/models", &format!("Host: {host}\r\n")).await;
        assert_eq!(found.status, status, "{host}");
    }
    // A target with an authority must agree with the Host header.
    for (target, status) in
        [("http://localhost/healthz", 200), ("http://evil.example/healthz", 400)]
    {
        assert_eq!(served.get(target, "Host: localhost\r\n").await.status, status, "{target}");
    }
    let none = served.raw(b"GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!((none.status, none.code().as_str()), (403, "forbidden"));
    let mut options = Options::default();
    options.any_host = true;
    let served = serve(&["tokens"], options).await;
    assert_eq!(served.get("/v1/models", "Host: box.example\r\n").await.status, 200);
    let served = serve(&["tokens"], with_token()).await;
    let bearer = format!("Host: box.example\r\nAuthorization: Bearer {TOKEN}\r\n");
    assert_eq!(served.get("/v1/models", &bearer).await.status, 200);
}

#[test]
fn invalid_tokens_are_refused() {
    for (text, why) in [
        ("", "has 0 characters"),
        ("\n", "has 0 characters"),
        ("short", "has 5 characters"),
        (&"x".repeat(257), "has 257 characters"),
        ("sixteen letters and spaces", "letters, digits and"),
        ("sixteen/letters/and=signs", "letters, digits and"),
        ("two\nlines-that-are-long", "letters, digits and"),
        ("ümlaute-sind-keine-zeichen", "letters, digits and"),
    ] {
        let error = Token::new(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    }
    assert_eq!(format!("{:?}", Token::new(TOKEN).unwrap()), "Token(..)");
}
