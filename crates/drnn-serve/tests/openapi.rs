//! The server agrees with its OpenAPI document.

mod common;

use common::{Reply, serve};
use drnn_serve::Options;
use jsonschema::Validator;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

struct Description(Value);

impl Description {
    fn schema(&self, schema: &Value) -> Validator {
        let components = &self.0["components"];
        jsonschema::draft202012::new(&json!({"allOf": [schema], "components": components})).unwrap()
    }

    fn named(&self, name: &str) -> Validator {
        self.schema(&json!({"$ref": format!("#/components/schemas/{name}")}))
    }

    /// Asserts that the document describes this response to this path.
    fn check(&self, path: &str, method: &str, reply: &Reply) {
        let described = &self.0["paths"][path][method]["responses"][reply.status.to_string()];
        let content = described["content"].as_object();
        let (media, content) =
            content.unwrap_or_else(|| panic!("{path} {}", reply.status)).iter().next().unwrap();
        assert!(reply.head.contains(&format!("content-type: {media}")), "{path}: {}", reply.head);
        if media == "application/json" {
            let (validator, body) = (self.schema(&content["schema"]), reply.json());
            assert!(validator.is_valid(&body), "{path}: {body}");
        }
    }
}

#[tokio::test]
async fn replies_and_frames_are_as_described() {
    let names = ["dense", "tokens", "chars", "tagger", "both"];
    let served = serve(&names, Options::default()).await;
    let description = Description(served.get("/openapi.json", "").await.json());
    for path in ["/", "/healthz", "/metrics", "/openapi.json", "/v1/models", "/v1/sweep"] {
        description.check(path, "get", &served.get(path, "").await);
    }
    let stream = served.get("/v1/stream", "").await;
    description.check("/v1/stream", "get", &stream);
    let [request, frame, message] =
        ["RunRequest", "StreamFrame", "StreamMessage"].map(|name| description.named(name));
    for (name, elements) in [
        ("dense", json!([[1, 2], [3, 4]])),
        ("tokens", json!([1, 2, 3])),
        ("chars", json!(["a", null])),
        ("tagger", json!(["Ants", "run"])),
        ("both", json!([[1, 2]])),
    ] {
        let body = json!({"model": name, "sequences": [elements, []]});
        assert!(request.is_valid(&body), "{body}");
        let reply = served.run(&body.to_string()).await;
        assert_eq!(reply.status, 200);
        description.check("/v1/run", "post", &reply);
        if name == "both" {
            continue;
        }
        let mut client = served.stream(&format!("?model={name}"), &[]).await.unwrap();
        let good = json!({"elements": elements, "position": 0, "flush": true});
        let bad = json!({"element": {"no": "such"}});
        for sent in [&good, &bad] {
            assert!(message.is_valid(sent), "{sent}");
            client.say(&sent.to_string()).await;
        }
        client.send(Message::binary(vec![0])).await;
        let mut frames = 0;
        while let Some(received) = client.frame().await {
            let received: Value = serde_json::from_str(&received).unwrap();
            assert!(frame.is_valid(&received), "{received}");
            frames += 1;
        }
        assert_eq!(
            frames,
            4 + elements.as_array().unwrap().len(),
            "ready, predictions, flushed, two errors"
        );
    }
    for bad in ["{", r#"{"model": "x", "texts": []}"#, r#"{"model": "tokens", "sequences": [[9]]}"#]
    {
        description.check("/v1/run", "post", &served.run(bad).await);
    }
    // The server refuses what the document does not allow.
    for bad in [
        json!({}),
        json!({"texts": [], "sequences": []}),
        json!({"texts": [1]}),
        json!({"x": 1, "texts": []}),
    ] {
        assert!(!request.is_valid(&bad), "{bad}");
        assert_eq!(served.run(&bad.to_string()).await.status, 400, "{bad}");
    }
    for bad in [
        json!({}),
        json!({"flush": false}),
        json!({"element": 1, "text": ""}),
        json!({"flush": true, "position": 1}),
    ] {
        assert!(!message.is_valid(&bad), "{bad}");
    }
}
