//! Providers that sign the URL. The public host differs from the host that the catcher sees.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_ssm::types::ParameterType;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use local::Options;
use serde_json::Value;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::{RejectedRequests, Verdict};
use shared::sources::Config;

use super::support::{Answer, Headers, Inbox, options, request, unique};

/// The URL that Twilio's SDK signed for the published test vector. The query is `foo=1&bar=2`.
const SIGNED_FOR: &str = "https://mycompany.com/myapp.php";

struct World {
    inbox: Inbox,
    config: Config,
    folder: std::path::PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl World {
    async fn start() -> Self {
        let source = |name: &str, more: &str| {
            format!(
                "[[source]]\nname = \"{name}\"\npreset = \"twilio\"\nsecret = \"twilio\"\n{more}\n\
                 action = [{{ kind = \"keep\" }}]\n"
            )
        };
        let text = format!(
            "schema = 1\n{}{}",
            source("behind", &format!("public_url = \"{SIGNED_FOR}\"")),
            source("plain", "")
        );
        let folder = std::env::temp_dir().join(format!("mitt-public-url-{}", unique()));
        std::fs::create_dir_all(&folder).unwrap();
        let sources = folder.join("sources.toml");
        std::fs::write(&sources, &text).unwrap();
        let inbox = Inbox::start(Options {
            sources_file: Some(sources),
            ..options()
        })
        .await;
        let path = inbox.stack.secrets_path("Catcher").unwrap();
        let put = inbox.stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/twilio/current"));
        let put = put.value("12345").r#type(ParameterType::SecureString);
        put.send().await.unwrap();
        Self {
            inbox,
            config: Config::parse(&text).unwrap(),
            folder,
        }
    }

    /// Posts the vector with the API's own host, as the API passes it.
    async fn post(&self, source: &str, query: &str) -> Answer {
        let (headers, body) = vector();
        let mut event = request("POST", &format!("/in/{source}"), &headers);
        event["rawQueryString"] = query.into();
        event["body"] = STANDARD.encode(body).into();
        event["isBase64Encoded"] = true.into();
        self.inbox.catch(&event).await
    }
}

fn vector() -> (Headers, Vec<u8>) {
    let file = include_str!("../../../../shared/tests/data/vectors.json");
    let file: Value = serde_json::from_str(file).unwrap();
    let mut all = file["vectors"].as_array().unwrap().iter();
    let found = all.find(|vector| vector["id"] == "twilio/sdk-default#s");
    let request = &found.unwrap()["request"];
    assert_eq!(request["url"], format!("{SIGNED_FOR}?foo=1&bar=2"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pairs = request["headers"].as_array().unwrap().iter();
    let pairs = pairs.map(|pair| (text(&pair[0]).to_lowercase(), text(&pair[1])));
    let unique: BTreeMap<String, String> = pairs.collect();
    let body = STANDARD.decode(text(&request["body_b64"])).unwrap();
    (unique.into_iter().collect(), body)
}

#[tokio::test]
async fn a_signed_url_is_that_of_the_provider_behind_a_proxy() {
    let world = World::start().await;
    let answer = world.post("behind", "foo=1&bar=2").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // Mitt verifies the query that arrived, so any other query is rejected.
    for query in ["", "foo=1", "bar=2&foo=1"] {
        let answer = world.post("behind", query).await;
        assert_eq!(answer.status, 401, "{query}: {answer:?}");
    }
    let answer = world.post("plain", "foo=1&bar=2").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_held_request_is_genuine_once_the_url_is_known() {
    let world = World::start().await;
    let answer = world.post("plain", "foo=1&bar=2").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let clients = world.inbox.stack.clients();
    let quarantine = RejectedRequests::new(clients.dynamodb, world.inbox.stack.table().unwrap());
    let now = UnixMillis::now();
    let from = now - Duration::from_secs(3600);
    let held = quarantine.held("plain", from, now, now).await.unwrap();
    let [held] = held.as_slice() else {
        panic!("{held:?}")
    };
    let secrets = [Secret::new("current.1", "12345")];
    let verdict = |source: &str| {
        let source = world.config.source(source).unwrap();
        held.verdict(&source.verifier, &secrets)
    };
    assert!(matches!(verdict("plain"), Verdict::Refused(_)));
    assert!(matches!(verdict("behind"), Verdict::Genuine(_)));
}
