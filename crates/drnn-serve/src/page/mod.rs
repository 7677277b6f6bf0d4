//! The page for people at `/`: files that are part of the program. It needs nothing from elsewhere.

use crate::http::api_error::Refusal;
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
const PARTS: &[File] = files![
    STYLE "page.css",
    PICTURE "icon.svg",
    SCRIPT "backoff.js",
    SCRIPT "cells.js",
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

/// Nothing but what the page brings along, and talk with this server; and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// So that the page asks for a sweep only where there is one: a browser takes a 404 for an error of the page.
const NO_SWEEP: &str = "data-sweep=\"no\"";
const SWEEP: &str = "data-sweep=\"yes\"";

/// Its paths.
pub fn routes() -> Router<Shared> {
    Router::new().route("/", get(index)).route("/page/{name}", get(part))
}

async fn index(State(shared): State<Shared>, asked: HeaderMap) -> Response {
    match shared.options.sweep {
        Some(_) => answer(INDEX.media, INDEX.contents.replace(NO_SWEEP, SWEEP).into(), &asked),
        None => answer(INDEX.media, INDEX.contents.into(), &asked),
    }
}

async fn part(Path(name): Path<String>, asked: HeaderMap) -> Response {
    match PARTS.iter().find(|file| file.name == name) {
        Some(file) => answer(file.media, file.contents.into(), &asked),
        None => Refusal::not_found("the page has no such file").into_response(),
    }
}

fn answer(media: &str, contents: Cow<'static, str>, asked: &HeaderMap) -> Response {
    let tag = tag(&contents);
    // It is asked for each time, so that a page and its parts are always of one version; mostly the answer is short.
    let headers = [
        (header::ETAG, tag.as_str()),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_TYPE, media),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let known = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    match known.flat_map(|tags| tags.split(',')).any(|known| is_same(known.trim(), &tag)) {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, contents).into_response(),
    }
}

/// Weak tags, which proxies make of ours, count too.
fn is_same(known: &str, tag: &str) -> bool {
    known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
}

/// Another for other contents.
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
        PARTS.iter().chain([&INDEX])
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

    /// What the policy would refuse in a browser, and what has no business in the page.
    #[test]
    fn nothing_is_from_elsewhere_and_nothing_is_markup() {
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
    fn headers_and_what_is_known_already() {
        let answer = |asked: &HeaderMap| answer(SCRIPT, "let x;".into(), asked);
        let first = answer(&HeaderMap::new());
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
            let mut asked = HeaderMap::new();
            asked.insert(header::IF_NONE_MATCH, HeaderValue::from_str(&known).unwrap());
            assert_eq!(answer(&asked).status(), status, "{known}");
        }
    }
}
