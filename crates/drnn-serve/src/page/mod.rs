//! The web page at `/`. Its files are embedded in the program; it loads nothing from other servers.
//! [`files`] has it without the server.

mod files;

pub use files::page_files;

use crate::http::api_error::ApiError;
use crate::http::routes::Shared;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

struct File {
    name: &'static str,
    media: &'static str,
    contents: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! file {
    ($media:ident $name:literal) => {
        File { name: $name, media: $media, contents: include_str!(concat!("assets/", $name)) }
    };
}
macro_rules! files {
    ($($media:ident $name:literal,)*) => { &[$(file!($media $name)),*] };
}

const INDEX: File = file!(HTML "index.html");
const ASSETS: &[File] = files![
    STYLE "page.css",
    PICTURE "icon.svg",
    SCRIPT "backoff.js",
    SCRIPT "cells.js",
    SCRIPT "curve.js",
    SCRIPT "dom.js",
    SCRIPT "elements.js",
    SCRIPT "examples.js",
    SCRIPT "frame.js",
    SCRIPT "groups.js",
    SCRIPT "hint.js",
    SCRIPT "lane.js",
    SCRIPT "legend.js",
    SCRIPT "live.js",
    SCRIPT "main.js",
    SCRIPT "masks.js",
    SCRIPT "player.js",
    SCRIPT "plot.js",
    SCRIPT "server.js",
    SCRIPT "sweep.js",
    SCRIPT "tape.js",
    SCRIPT "whole.js",
    SCRIPT "words.js",
];

/// Allows the page's own files and connections to this server, and forbids turning text into markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether there is a sweep for the page to request: a browser would log a 404 as an error.
const NO_SWEEP: &str = "data-sweep=\"no\"";
const SWEEP: &str = "data-sweep=\"yes\"";

/// The page and its files.
pub fn routes() -> Router<Shared> {
    Router::new().route("/", get(index)).route("/page/{name}", get(asset))
}

async fn index(State(shared): State<Shared>, request: HeaderMap) -> Response {
    match shared.options.sweep {
        Some(_) => respond(INDEX.media, INDEX.contents.replace(NO_SWEEP, SWEEP).into(), &request),
        None => respond(INDEX.media, INDEX.contents.into(), &request),
    }
}

async fn asset(Path(name): Path<String>, request: HeaderMap) -> Response {
    match ASSETS.iter().find(|file| file.name == name) {
        Some(file) => respond(file.media, file.contents.into(), &request),
        None => ApiError::not_found("the page has no such file").into_response(),
    }
}

fn respond(media: &str, contents: Cow<'static, str>, request: &HeaderMap) -> Response {
    let tag = tag(&contents);
    // The browser revalidates each time, so that the page and its files always have one version; the
    // response is usually a short 304.
    let headers = [
        (header::ETAG, tag.as_str()),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_TYPE, media),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let known = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    match known.flat_map(|tags| tags.split(',')).any(|known| is_same(known.trim(), &tag)) {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, contents).into_response(),
    }
}

/// Compares entity tags weakly: proxies may have made them weak.
fn is_same(known: &str, tag: &str) -> bool {
    known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
}

/// An entity tag, made from a hash of the contents.
fn tag(contents: &str) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn all() -> impl Iterator<Item = &'static File> {
        ASSETS.iter().chain([&INDEX])
    }

    #[test]
    fn every_file_is_served_and_every_import_is_a_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/assets");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut served: Vec<&str> = all().map(|file| file.name).collect();
        found.sort();
        served.sort();
        assert_eq!(found, served);
        for file in all() {
            for part in file.contents.split("from \"./").skip(1) {
                let import = part.split('"').next().unwrap();
                assert!(served.contains(&import), "{} imports {import}", file.name);
            }
        }
    }

    /// What the policy would refuse in a browser, and APIs that make markup of text.
    #[test]
    fn nothing_is_loaded_from_other_servers_and_no_text_becomes_markup() {
        for file in all() {
            let elsewhere = file.contents.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !elsewhere.contains("http://") && !elsewhere.contains("https://"),
                "{}",
                file.name
            );
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!file.contents.contains(word), "{}: {word}", file.name);
            }
        }
        let index = INDEX.contents;
        assert_eq!(index.matches(NO_SWEEP).count(), 1);
        assert!(
            !index.contains("style=") && !index.contains("onclick") && !index.contains("<style")
        );
    }

    #[test]
    fn headers_and_revalidation() {
        let respond = |request: &HeaderMap| respond(SCRIPT, "let x;".into(), request);
        let first = respond(&HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        let header = |name| first.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header(header::CONTENT_TYPE), "text/javascript; charset=utf-8");
        assert_eq!(header(header::CACHE_CONTROL), "no-cache");
        assert!(header(header::CONTENT_SECURITY_POLICY).starts_with("default-src 'none'"));
        let tag = header(header::ETAG);
        for (known, status) in [
            (tag.to_string(), StatusCode::NOT_MODIFIED),
            (format!("\"a\", W/{tag}"), StatusCode::NOT_MODIFIED),
            ("\"a\"".into(), StatusCode::OK),
        ] {
            let mut request = HeaderMap::new();
            request.insert(header::IF_NONE_MATCH, HeaderValue::from_str(&known).unwrap());
            assert_eq!(respond(&request).status(), status, "{known}");
        }
    }
}
