//! The description of the API, OpenAPI 3.1, written by hand in `openapi.json`. Tests compare the
//! server with it.

use crate::http::api_error::json_response;
use axum::response::Response;

const DOCUMENT: &str = include_str!("openapi.json");

pub async fn document() -> Response {
    json_response(DOCUMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::api_error::CODES;
    use crate::stream::socket::CLOSE_REASONS;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    fn strings(list: &Value) -> BTreeSet<&str> {
        list.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
    }

    #[test]
    fn it_has_every_route_and_no_other() {
        let (document, source) = (document(), include_str!("routes.rs"));
        let page = include_str!("../page/mod.rs");
        let routes = |source: &'static str| source.split(".route(\"").skip(1);
        let routes = routes(source).chain(routes(page)).map(|rest| rest.split('"').next().unwrap());
        // The page's own files are not part of the API.
        let routes: BTreeSet<&str> = routes.filter(|path| !path.starts_with("/page/")).collect();
        let paths = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(routes, paths);
    }

    #[test]
    fn it_has_every_code_with_its_status() {
        let document = document();
        let codes: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
        let schemas = &document["components"]["schemas"];
        assert_eq!(
            strings(&schemas["Error"]["properties"]["error"]["properties"]["code"]["enum"]),
            codes
        );
        let reasons =
            CLOSE_REASONS.iter().copied().chain(["element_refused"]).collect::<BTreeSet<_>>();
        assert_eq!(strings(&schemas["StreamError"]["properties"]["code"]["enum"]), reasons);
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (status, response) in methods
                .as_object()
                .unwrap()
                .values()
                .flat_map(|m| m["responses"].as_object().unwrap().iter())
            {
                let example = &response["content"]["application/json"]["example"]["error"]["code"];
                if let Some(code) = example.as_str() {
                    let (_, expected) = CODES.iter().find(|(known, _)| *known == code).unwrap();
                    assert_eq!(expected.as_str(), status, "{code} of {path}");
                }
            }
        }
    }

    /// Every `example` with the schema next to it, and every schema's own `examples`.
    fn examples<'d>(value: &'d Value, found: &mut Vec<(&'d Value, &'d Value)>) {
        if let (Some(schema), Some(example)) = (value.get("schema"), value.get("example")) {
            found.push((schema, example));
        }
        if let (Some(schema), Some(Value::Object(map))) =
            (value.get("schema"), value.get("examples"))
        {
            found.extend(map.values().map(|example| (schema, &example["value"])));
        }
        if let Some(Value::Array(list)) = value.get("examples") {
            found.extend(list.iter().map(|example| (value, example)));
        }
        let inner = value.as_object().into_iter().flat_map(|map| map.values());
        inner.chain(value.as_array().into_iter().flatten()).for_each(|v| examples(v, found));
    }

    #[test]
    fn its_examples_match_its_schemas() {
        let document = document();
        let mut found = Vec::new();
        examples(&document, &mut found);
        assert!(found.len() > 20, "{}", found.len());
        for (schema, example) in found {
            let schema = json!({"allOf": [schema], "components": document["components"]});
            let validator = jsonschema::draft202012::new(&schema).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(example).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{example}: {errors:?}");
        }
    }
}
