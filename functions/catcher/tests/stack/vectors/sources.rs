//! Starts the stack with a source for each preset, variant and set of secrets in the vectors.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aws_sdk_ssm::types::ParameterType;
use futures::{StreamExt as _, stream};
use local::Options;
use serde_json::{Value, json};
use shared::sources::Config;

use super::file::{Vector, params};
use crate::support::{Inbox, options};

pub(super) async fn start(vectors: &[Vector]) -> Inbox {
    let by_source: BTreeMap<_, _> = vectors.iter().map(|it| (&it.source, it)).collect();
    let folder = Folder::new();
    let file = folder.0.join("sources.toml");
    let sources = by_source.values().map(|vector| source(vector));
    std::fs::write(
        &file,
        format!("schema = 1\n{}", sources.collect::<String>()),
    )
    .unwrap();
    let inbox = Inbox::start(Options {
        sources_file: Some(file),
        parameters: [("AllowArming".to_owned(), "true".to_owned())].into(),
        ..options()
    })
    .await;
    // The catcher tries the newest secret first, so the test stores it last.
    stream::iter(by_source.values())
        .for_each_concurrent(8, |vector| put_secrets(&inbox, vector))
        .await;
    // The first request is a cold start, which reads the file.
    is_warm(&inbox).await;
    inbox
}

/// Splits off the vectors whose source the configuration check refuses, such as one without a
/// required parameter. The functions do not start with such a source.
pub(super) fn configurable(vectors: Vec<Vector>) -> (Vec<Vector>, Vec<Vector>) {
    let mut known = BTreeMap::new();
    vectors.into_iter().partition(|vector| {
        let parses = || Config::parse(&format!("schema = 1\n{}", source(vector))).is_ok();
        *known.entry(vector.source.clone()).or_insert_with(parses)
    })
}

/// Returns the settings of a source. Texts are written as JSON, because JSON strings are also valid
/// in TOML.
fn source(vector: &Vector) -> String {
    let given = &vector.given;
    let mut text = format!(
        "[[source]]\nname = {:?}\npreset = {:?}\nvariant = {:?}\nmax_body = 2000000\n\
         quarantine = {{ per_day = {} }}\naction = [{{ kind = \"keep\" }}]\nparams = {}\n",
        vector.source,
        vector.verifier.preset.id,
        vector.verifier.variant,
        // A source with requests that wait for a key needs the quarantine.
        u8::from(vector.verifier.fetches()),
        table(&params(&vector.verifier.preset.id, given)),
    );
    text.push_str("[source.trust]\n");
    if vector.verifier.fetch().is_some() {
        text.push_str("api_secret = \"of-a-stranger\"\n");
    }
    if let Some(arming) = given["arming"].as_bool() {
        writeln!(text, "arming = {arming}").unwrap();
    }
    if !given["jwks"].is_null() {
        writeln!(text, "jwks = {}", json!(given["jwks"].to_string())).unwrap();
    }
    if let Some(roots) = given["roots_pem"].as_str() {
        let certificates = given["certs"].as_object().into_iter().flatten();
        let owned = |(url, pem): (&String, &Value)| (url.clone(), pem.as_str().unwrap().to_owned());
        let by_url = table(&certificates.map(owned).collect());
        let roots = json!(roots);
        writeln!(
            text,
            "certificates = {{ roots = {roots}, by_url = {by_url} }}"
        )
        .unwrap();
    }
    text
}

fn table(entries: &BTreeMap<String, String>) -> String {
    let entries = entries.iter();
    let entries = entries.map(|(key, value)| format!("{} = {}", json!(key), json!(value)));
    format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
}

async fn put_secrets(inbox: &Inbox, vector: &Vector) {
    let path = inbox.stack.secrets_path("Catcher").unwrap();
    let ssm = inbox.stack.clients().ssm;
    for (slot, value) in vector.secrets.iter().enumerate().rev() {
        // The store accepts no empty values, so a source with an empty secret gets no secret.
        if value.is_empty() {
            continue;
        }
        if value.len() >= 8 {
            inbox.must_not_log(value);
        }
        let put = ssm
            .put_parameter()
            .name(format!("{path}/{}/{slot}", vector.source));
        let put = put.value(value).r#type(ParameterType::SecureString);
        put.send().await.unwrap();
    }
}

async fn is_warm(inbox: &Inbox) {
    for _ in 0..100 {
        let answer = inbox.post("unknown", &[], b"").await;
        if answer.status == 404 {
            return;
        }
    }
    panic!("the catcher does not answer");
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("mitt-vectors-{}", super::unique()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
