//! Reads the file of test vectors, and converts them to requests for the sources of the test.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use shared::webhook::preset::{Part, Preset, Scheme};
use shared::webhook::verify::{Trust, Verifier};

use crate::support::{Headers, with};

/// A request and its expected result.
pub(super) struct Vector {
    pub(super) id: String,
    /// The name of the source. Vectors with the same preset, secrets and trust use the same source.
    pub(super) source: String,
    pub(super) verifier: Verifier,
    pub(super) secrets: Vec<String>,
    /// The settings of the source in addition to its secrets.
    pub(super) given: Value,
    pub(super) post: Post,
    pub(super) expect: Value,
}

#[derive(Clone)]
pub(super) struct Post {
    pub(super) method: String,
    /// The path and the query.
    pub(super) target: String,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
}

pub(super) fn vectors() -> Vec<Vector> {
    let file = include_str!("../../../../../shared/tests/data/vectors.json");
    let file: Value = serde_json::from_str(file).unwrap();
    let mut sources = BTreeMap::new();
    let vectors = file["vectors"].as_array().unwrap().iter();
    vectors.map(|vector| read(vector, &mut sources)).collect()
}

fn read(vector: &Value, sources: &mut BTreeMap<String, String>) -> Vector {
    let (provider, variant) = (text(&vector["provider"]), text(&vector["variant"]));
    let given = &vector["params"];
    let alike = format!("{provider} {variant} {} {given}", vector["secrets"]);
    let next = format!("{provider}-{}", sources.len());
    let source = sources.entry(alike).or_insert(next).clone();
    let secrets = vector["secrets"].as_array().unwrap().iter();
    Vector {
        id: text(&vector["id"]).into(),
        verifier: Verifier {
            source: source.clone(),
            preset: Preset::embedded(provider, &params(provider, given)).unwrap(),
            variant: variant.into(),
            trust: Trust::default(),
            config: "test".into(),
        },
        secrets: secrets.map(|secret| text(secret).to_owned()).collect(),
        given: given.clone(),
        post: post(&source, &vector["request"]),
        source,
        expect: vector["expect"].clone(),
    }
}

fn post(source: &str, request: &Value) -> Post {
    let query = text(&request["url"]).split_once('?');
    let query = query.map_or(String::new(), |(_, query)| format!("?{query}"));
    let headers = request["headers"].as_array().unwrap().iter();
    let headers = headers.map(|pair| (text(&pair[0]).to_owned(), text(&pair[1]).to_owned()));
    let body = body(request);
    let mut headers: Headers = headers.collect();
    if std::str::from_utf8(&body).is_err() {
        // With a content type of text, the gateway would change the bytes of the body.
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        headers = with(headers, "content-type", "application/octet-stream");
    }
    Post {
        method: text(&request["method"]).into(),
        target: format!("/in/{source}{query}"),
        headers,
        body,
    }
}

fn body(request: &Value) -> Vec<u8> {
    let decoded = |value: &Value| STANDARD.decode(text(value)).unwrap();
    let rule = &request["body_rule"];
    if rule.is_null() {
        return decoded(&request["body_b64"]);
    }
    let count = rule["count"].as_u64().unwrap().try_into().unwrap();
    [
        decoded(&rule["prefix_b64"]),
        decoded(&rule["unit_b64"]).repeat(count),
        decoded(&rule["suffix_b64"]),
    ]
    .concat()
}

/// The parameters of the preset that a vector sets.
pub(super) fn params(provider: &str, given: &Value) -> BTreeMap<String, String> {
    let preset = Preset::embedded(provider, &BTreeMap::new()).unwrap();
    let names = preset.params.keys();
    let set = |name: &String| Some((name.clone(), given[name].as_str()?.to_owned()));
    names.filter_map(set).collect()
}

impl Post {
    /// Returns whether the gateway passes the body as base64.
    pub(super) fn is_base64(&self) -> bool {
        let mut headers = self.headers.iter();
        let header = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let kind = header.map_or("", |(_, value)| value.trim());
        !self.body.is_empty() && !kind.starts_with("text/") && !kind.starts_with("application/json")
    }
}

impl Vector {
    pub(super) fn verdict(&self) -> &str {
        text(&self.expect["verdict"])
    }

    /// Returns the accepted reasons. The log must contain one of them.
    pub(super) fn reasons(&self) -> BTreeSet<&str> {
        let mut reasons: BTreeSet<&str> = text(&self.expect["reason"]).split('|').collect();
        // A time that was in the future when the vector was published is in the past now. The same
        // applies to a token.
        if reasons.contains("timestamp_in_future") || has_timely_token(self.scheme()) {
            reasons.insert("timestamp_too_old");
        }
        // Required values and the body are read after the time.
        let after_time = ["claim_mismatch", "malformed_body"];
        let timely = self.scheme().ts.as_ref().is_some_and(|ts| ts.enforce);
        if timely && after_time.iter().any(|after| reasons.contains(after)) {
            reasons.insert("timestamp_too_old");
        }
        // The vector is signed for another URL.
        if signs_url(self.scheme()) {
            reasons.insert("bad_signature");
        }
        reasons
    }

    /// Returns the provider's type of the event, or of the first event.
    pub(super) fn kind(&self) -> Option<&str> {
        let event = &self.expect["event"];
        event["type"].as_str().or(event["types"][0].as_str())
    }

    pub(super) fn first_id(&self) -> Option<&str> {
        let event = &self.expect["event"];
        event["id"].as_str().or(event["ids"][0].as_str())
    }

    pub(super) fn scheme(&self) -> &Scheme {
        let verifier = &self.verifier;
        verifier.preset.scheme(&verifier.variant).unwrap()
    }
}

/// Returns whether the signature covers the URL of the request.
pub(super) fn signs_url(scheme: &Scheme) -> bool {
    let url = |part: &Part| {
        matches!(
            part,
            Part::Url | Part::PublicUrl | Part::Path | Part::PathEncoded
        )
    };
    let jwt = scheme.jwt.as_ref();
    scheme.message.0.iter().any(url) || jwt.is_some_and(|jwt| jwt.url_sha256_claim.is_some())
}

/// Returns whether the signature is in a token with a limited validity.
pub(super) fn has_timely_token(scheme: &Scheme) -> bool {
    let jwt = scheme.jwt.as_ref();
    jwt.is_some_and(|jwt| jwt.exp || jwt.nbf || jwt.iat_max_age.is_some())
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
