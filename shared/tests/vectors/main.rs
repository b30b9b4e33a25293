//! Verifies the signature vectors of the providers. Each vector is a request with its expected
//! verdict.
//!
//! Values with the tag `published` come from the providers. The other values were created from the
//! documentation of the providers, with throw-away keys. The test verifies each request as it was
//! sent. Then it verifies the request again, with repeated headers joined by commas, as API Gateway
//! does. Both verdicts must be the same.
//!
//! `MITT_VECTORS=path` selects another file with the same format.

#![expect(clippy::unwrap_used, reason = "a test may end by panicking")]

mod missing;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::event::{Event, Proven};
use shared::webhook::preset::Preset;
use shared::webhook::sign::{Means, Original, Receiver, SigningKey, means, outgoing};
use shared::webhook::verify::{Arrival, Certificates, Jwks, Reason, Rejected, Trust, Verifier};

#[test]
fn every_vector_meets_its_verdict() {
    let file = file();
    let vectors = file["vectors"].as_array().unwrap();
    assert_eq!(file["count"].as_u64(), Some(vectors.len() as u64));
    let known: BTreeSet<&str> = Preset::ids().collect();
    let mut missing = BTreeSet::new();
    let mut skipped = 0;
    let mut wrong = Vec::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for vector in vectors {
        let verdict = text(&vector["expect"]["verdict"]);
        let provider = text(&vector["provider"]);
        if !known.contains(provider) {
            missing.insert(provider);
            skipped += 1;
            continue;
        }
        *counts.entry(verdict).or_default() += 1;
        for joined in [false, true] {
            if let Err(said) = check(vector, joined) {
                wrong.push(format!(
                    "{}{}: {said}",
                    text(&vector["id"]),
                    if joined { " (joined)" } else { "" }
                ));
            }
        }
    }
    let count = |verdict: &str| counts.get(verdict).copied().unwrap_or_default();
    println!(
        "{} valid, {} invalid, {} policy, {} handshake: {} wrong; {} skipped of {} providers without a preset",
        count("valid") + count("unverified"),
        count("invalid"),
        count("policy"),
        count("handshake"),
        wrong.len(),
        skipped,
        missing.len(),
    );
    for line in &wrong {
        println!("{line}");
    }
    if !missing.is_empty() {
        println!("no preset for {missing:?}");
    }
    // Another file can contain unsupported providers.
    assert!(
        path().is_some() || missing.is_empty(),
        "no preset for {missing:?}"
    );
    assert!(wrong.is_empty(), "{} vectors failed", wrong.len());
}

/// The steps that `explain` returns must agree with the verdict of `verify`.
#[test]
fn every_verdict_is_explained_by_steps_that_agree_with_it() {
    let file = file();
    let mut wrong = Vec::new();
    let known: BTreeSet<&str> = Preset::ids().collect();
    let vectors = file["vectors"].as_array().unwrap().iter();
    for vector in vectors.filter(|vector| known.contains(text(&vector["provider"]))) {
        for joined in [false, true] {
            if let Err(said) = explained(vector, joined) {
                wrong.push(format!("{}: {said}", text(&vector["id"])));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {wrong:#?}", wrong.len());
}

/// A receiver that verifies as Mitt does accepts every event that is signed again, at any later
/// time. Only the signature, and what belongs to it, differs from the original.
#[test]
fn a_request_that_is_signed_again_later_is_accepted() {
    let file = file();
    let known: BTreeSet<&str> = Preset::ids().collect();
    let vectors = file["vectors"].as_array().unwrap().iter();
    let (mut wrong, mut presets) = (Vec::new(), BTreeSet::new());
    for vector in vectors.filter(|vector| known.contains(text(&vector["provider"]))) {
        for hours in [0, 2, 20 * 24] {
            match signed_again(vector, hours) {
                Ok(true) => presets.insert(text(&vector["provider"])),
                Ok(false) => continue,
                Err(said) => {
                    wrong.push(format!("{}, after {hours} h: {said}", text(&vector["id"])));
                    continue;
                }
            };
        }
    }
    assert!(wrong.is_empty(), "{} of {wrong:#?}", wrong.len());
    assert!(path().is_some() || presets.len() > 60, "{}", presets.len());
}

/// Whether the vector is an event that can be signed with a secret.
fn signed_again(vector: &Value, hours: i64) -> Result<bool, String> {
    let verifier = verifier(vector)?;
    let (secrets, envelope) = (secrets(vector), envelope(vector, false));
    let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
    let Ok(Arrival::Event(event)) = verifier.verify(&envelope, &secrets) else {
        return Ok(false);
    };
    if means(scheme) != Means::Secret {
        return Ok(false);
    }
    let secret = secrets.iter().find(|s| Some(s.label()) == event.secret());
    let key = SigningKey::parse(scheme, secret.unwrap()).unwrap();
    let original = Original {
        id: event.key().id(),
        kind: event.kind(),
        headers: envelope.headers.clone(),
        body: envelope.body.clone(),
    };
    let receiver = Receiver {
        url: &envelope.url,
        signed_url: None,
    };
    let later = UnixMillis::from_secs(envelope.received_at.secs() + hours * 3600);
    let request = outgoing(&verifier.preset, scheme, &original, &key, receiver, later);
    let request = request.map_err(|error| format!("{error:#}"))?;
    let in_body = scheme.signs_in_body();
    same("same body", true, in_body || request.body == envelope.body)?;
    let changed = |name: &str| {
        verifier.preset.is_signature_header(name) || verifier.preset.is_signature_time(name)
    };
    let others = |headers: &Headers| -> BTreeSet<(String, String)> {
        let others = headers.iter().filter(|(name, _)| !changed(name));
        others.map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
    };
    let kept = others(&envelope.headers).is_subset(&others(&request.headers));
    same("same headers", true, kept)?;
    let again = Envelope {
        method: "POST".into(),
        url: request.url,
        headers: request.headers,
        body: request.body,
        received_at: later,
    };
    match verifier.verify(&again, &secrets) {
        Ok(Arrival::Event(again)) => {
            same("type", event.kind(), again.kind())?;
            let arrival = event.key().id().starts_with("at:");
            let by_body = in_body && event.key().id().starts_with("sha256:");
            same(
                "key",
                true,
                arrival || by_body || event.key() == again.key(),
            )?;
            Ok(true)
        }
        other => Err(format!("{other:?}")),
    }
}

fn explained(vector: &Value, joined: bool) -> Result<(), String> {
    let verifier = verifier(vector)?;
    let (secrets, envelope) = (secrets(vector), envelope(vector, joined));
    let verdict = verifier.verify(&envelope, &secrets);
    let explained = verifier.explain(&envelope, &secrets);
    let steps = &explained.steps;
    let shown = |verdict: &_| format!("{verdict:?}");
    same("verdict", shown(&verdict), shown(&explained.verdict))?;
    let matched = steps.matched();
    let near = verifier.near_miss(&envelope, &secrets, &[]);
    if matches!(&verdict, Ok(Arrival::Event(_))) {
        same("near miss", None, near)?;
    }
    match &verdict {
        Ok(Arrival::Event(event)) if !steps.tried.is_empty() && steps.message.is_some() => {
            same("secret", event.secret(), matched)?;
            let refused = steps.time.as_ref().and_then(|time| time.verdict.err());
            same("time", None, refused)?;
            same("found", None, steps.found.as_ref().err())
        }
        Ok(Arrival::Event(event)) if steps.is_credential && !steps.tried.is_empty() => {
            same("secret", event.secret(), matched)
        }
        Ok(_) => Ok(()),
        Err(Rejected(Reason::BadSignature | Reason::BadCredentials)) => {
            same("secret", None, matched)
        }
        Err(Rejected(reason @ (Reason::TimestampTooOld | Reason::TimestampInFuture))) => {
            let Some(time) = &steps.time else {
                return same(
                    "shows a token or a certificate",
                    None,
                    steps.message.as_ref().map(Result::is_ok),
                );
            };
            same("time", Err(*reason), time.verdict)?;
            same("matches", true, matched.is_some())
        }
        Err(Rejected(Reason::BadBodyHash | Reason::ClaimMismatch | Reason::BadUrlHash)) => {
            same("matches", steps.tried.is_empty(), matched.is_none())
        }
        Err(Rejected(reason)) => {
            let in_steps = steps.found.as_ref().err().copied() == Some(*reason)
                || steps
                    .message
                    .as_ref()
                    .and_then(|message| message.as_ref().err())
                    == Some(reason)
                || steps.time.as_ref().and_then(|time| time.verdict.err()) == Some(*reason);
            // A missing required header has no step.
            let beside = !verifier.absent_headers(&envelope).is_empty();
            // A claim that a token lacks has no step.
            let beside = beside || *reason == Reason::MissingField && steps.is_credential;
            if in_steps || beside || matched.is_none() {
                Ok(())
            } else {
                Err(format!("the verdict is {reason}, but all steps succeed"))
            }
        }
    }
}

/// What a source stores of a request was in the request, and no secret is in it.
#[test]
fn stored_parts_of_requests_were_sent_and_are_no_secrets() {
    let mut kept_headers = 0;
    each_event(|id, vector, verifier, envelope, event| {
        let request = event.request().unwrap();
        assert_eq!(request.dropped, 0, "{id}");
        let context = &request.context;
        for (name, value) in context.headers.iter() {
            let mut sent = envelope.headers.all(name);
            assert!(sent.any(|sent| sent == value), "{id}: {name}");
            kept_headers += 1;
        }
        let target = envelope.path();
        assert!(target.starts_with(&context.path), "{id}");
        let query = context.query.as_deref().unwrap_or_default();
        assert!(query.split('&').all(|pair| target.contains(pair)), "{id}");
        let values = context.headers.iter().map(|(_, value)| value);
        let all: Vec<&str> = values.chain([query]).collect();
        for secret in items(&vector["secrets"]).map(text) {
            let has = |value: &&str| *value == secret || secret.len() > 7 && value.contains(secret);
            assert!(!all.iter().any(has), "{id}: a stored value is a secret");
        }
        let basic = envelope.headers.one("authorization").ok().flatten();
        assert!(basic.is_none_or(|value| !all.contains(&value)), "{id}");
        assert!(!verifier.preset.id.is_empty());
    });
    assert!(path().is_some() || kept_headers > 500, "{kept_headers}");
}

/// Headers that neither preset nor source name change nothing of an event but its request.
#[test]
fn no_added_header_changes_verdict_key_or_account() {
    each_event(|id, vector, verifier, envelope, event| {
        for (name, value) in [
            ("x-probe", "1"),
            ("x-account", "other"),
            ("x-tenant", "other"),
            ("x-session", "s"),
            ("x-too-long", &"v".repeat(5_000)),
            ("x-nul", "a\0b"),
            ("traceparent", "00-1-1-01"),
        ] {
            let mut headers: Vec<(&str, &str)> = envelope.headers.iter().collect();
            headers.push((name, value));
            let more = Envelope {
                headers: headers.into_iter().collect(),
                ..envelope.clone()
            };
            let answer = verifier.verify(&more, &secrets(vector));
            let Ok(Arrival::Event(again)) = answer else {
                panic!("{id}: {name}: {answer:?}");
            };
            assert_eq!(again.key(), event.key(), "{id}: {name}");
            assert_eq!(again.once(), event.once(), "{id}: {name}");
            assert_eq!(again.account(), event.account(), "{id}: {name}");
        }
    });
}

/// Calls `check` with each request that becomes an event.
fn each_event(check: impl FnMut(&str, &Value, &Verifier, &Envelope, &Event)) {
    each_event_of(&file(), check);
}

fn each_event_of(file: &Value, mut check: impl FnMut(&str, &Value, &Verifier, &Envelope, &Event)) {
    let mut events = 0;
    for vector in file["vectors"].as_array().unwrap() {
        let Ok(verifier) = verifier(vector) else {
            continue;
        };
        let envelope = envelope(vector, false);
        let answer = verifier.verify(&envelope, &secrets(vector));
        if let Ok(Arrival::Event(event)) = answer {
            check(text(&vector["id"]), vector, &verifier, &envelope, &event);
            events += 1;
        }
    }
    assert!(path().is_some() || events > 300, "{events}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the caller can select another file"
)]
fn path() -> Option<std::ffi::OsString> {
    std::env::var_os("MITT_VECTORS").filter(|path| !path.is_empty())
}

fn file() -> Value {
    match path() {
        Some(path) => serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap(),
        None => committed(),
    }
}

fn committed() -> Value {
    serde_json::from_str(include_str!("../data/vectors.json")).unwrap()
}

fn check(vector: &Value, joined: bool) -> Result<(), String> {
    let verifier = verifier(vector)?;
    let secrets = secrets(vector);
    let envelope = envelope(vector, joined);
    let answer = verifier.verify(&envelope, &secrets);
    let expect = &vector["expect"];
    match (text(&expect["verdict"]), &answer) {
        ("valid", Ok(Arrival::Event(event))) => {
            if let Some(index) = expect["matched_secret"].as_u64() {
                let index = index.to_string();
                same("matched secret", Some(index.as_str()), event.secret())?;
            }
            same("body", &envelope.body, event.body())?;
            named(&expect["event"], event)
        }
        // The request is signed, but is only a handshake.
        ("valid", Ok(Arrival::Handshake(reply))) if expect["event"].is_null() => {
            same("successful reply", true, reply.status < 300)
        }
        // The provider does not sign, so the event proves nothing.
        ("unverified", Ok(Arrival::Event(event))) if event.proven() == Proven::Nothing => {
            named(&expect["event"], event)
        }
        // The notice proves nothing. Mitt fetches the object that the notice names.
        ("unverified", Err(Rejected(Reason::NotFetched))) => {
            let object = verifier.notice(&envelope).and_then(Result::ok);
            same("id", expect["event"]["id"].as_str(), object.as_deref())
        }
        ("invalid", Err(Rejected(reason))) => {
            let allowed: Vec<&str> = text(&expect["reason"]).split('|').collect();
            if allowed.contains(&reason.as_str()) {
                Ok(())
            } else {
                Err(format!("{reason} instead of one of {allowed:?}"))
            }
        }
        // The correct verdict depends on the policy. The verdict must be the same each time.
        ("policy", _) => {
            let again = verifier.verify(&envelope, &secrets);
            same("verdict", format!("{answer:?}"), format!("{again:?}"))
        }
        ("handshake", answer) => handshake(&expect["response"], &verifier, answer),
        (verdict, _) => Err(format!("expected {verdict}, found {answer:?}")),
    }
}

fn secrets(vector: &Value) -> Vec<Secret> {
    let named = items(&vector["secrets"]).enumerate();
    let secrets = named.map(|(index, value)| Secret::new(index.to_string(), text(value)));
    secrets.collect()
}

/// Returns the verifier for a source with the parameters of the vector.
fn verifier(vector: &Value) -> Result<Verifier, String> {
    let given = &vector["params"];
    let provider = text(&vector["provider"]);
    let declared = Preset::embedded(provider, &BTreeMap::new());
    let declared = declared.map_err(|error| format!("{error:#}"))?.params;
    let params = given.as_object().into_iter().flatten();
    let params =
        params.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let params = params.filter(|(name, _)| declared.contains_key(name));
    let preset = Preset::embedded(provider, &params.collect());
    let jwks = &given["jwks"];
    let by_url = given["certs"].as_object().into_iter().flatten();
    let by_url = by_url.map(|(url, pem)| (url.clone(), text(pem).to_owned()));
    let certificates = Certificates::new(
        given["roots_pem"].as_str().unwrap_or_default(),
        &by_url.collect(),
    );
    Ok(Verifier {
        source: "source".into(),
        preset: preset.map_err(|error| format!("{error:#}"))?,
        variant: text(&vector["variant"]).into(),
        trust: Trust::given(
            given["arming"].as_bool(),
            (!jwks.is_null()).then(|| Jwks::parse(&jwks.to_string()).unwrap()),
            certificates.map_err(|error| format!("{error:#}"))?,
        ),
        config: "test".into(),
    })
}

fn named(expected: &Value, event: &Event) -> Result<(), String> {
    let first = event.items().first();
    let ids: Vec<&str> = event
        .items()
        .iter()
        .filter_map(|item| item.id.as_deref())
        .collect();
    let kinds: Vec<&str> = event
        .items()
        .iter()
        .map(|item| item.kind.as_str())
        .collect();
    if let Some(id) = expected["id"].as_str() {
        same("id", Some(id), first.and_then(|item| item.id.as_deref()))?;
    }
    if let Some(kind) = expected["type"].as_str() {
        same("type", kind, event.kind())?;
    }
    if let Some(delivery) = expected["delivery"].as_str() {
        same("delivery", Some(delivery), event.delivery())?;
    }
    if !expected["ids"].is_null() {
        same("ids", items(&expected["ids"]).map(text).collect(), ids)?;
    }
    if !expected["types"].is_null() {
        same(
            "types",
            items(&expected["types"]).map(text).collect(),
            kinds,
        )?;
    }
    Ok(())
}

/// Compares the response to a handshake with the expected response.
fn handshake(
    expected: &Value,
    verifier: &Verifier,
    answer: &Result<Arrival, Rejected>,
) -> Result<(), String> {
    let ack = &verifier.preset.ack;
    let mut headers = BTreeMap::new();
    let mut fetch = None;
    let (status, body) = match answer {
        Ok(Arrival::Handshake(reply)) => {
            headers.clone_from(&reply.headers);
            headers.insert("content-type".into(), reply.content_type.clone());
            (reply.status, reply.body.as_str())
        }
        Ok(Arrival::Event(event)) => {
            fetch = verifier.confirmation(event.body());
            (ack.ok, ack.body.as_str())
        }
        Err(_) => (ack.bad_signature, ""),
    };
    same("status", expected["status"].as_u64(), Some(status.into()))?;
    if let Some(text) = expected["body"].as_str() {
        same("body", text, body)?;
    }
    if !expected["json"].is_null() {
        same(
            "json",
            Some(&expected["json"]),
            serde_json::from_str(body).ok().as_ref(),
        )?;
    }
    for (name, value) in expected["headers"].as_object().into_iter().flatten() {
        same(name, value.as_str(), headers.get(name).map(String::as_str))?;
    }
    same("fetch", expected["fetch"].as_str(), fetch.as_deref())
}

fn envelope(vector: &Value, joined: bool) -> Envelope {
    let request = &vector["request"];
    let mut headers: Vec<(String, String)> = Vec::new();
    for pair in items(&request["headers"]) {
        let (name, value) = (text(&pair[0]).to_lowercase(), text(&pair[1]));
        let mut known = headers.iter_mut();
        match known.find(|(known, _)| joined && *known == name) {
            Some((_, known)) => *known = format!("{},{}", known.trim(), value.trim()),
            None => headers.push((name, value.to_owned())),
        }
    }
    Envelope {
        method: text(&request["method"]).into(),
        url: text(&request["url"]).into(),
        headers: headers.into_iter().collect(),
        body: body(request).into(),
        received_at: UnixMillis::from_secs(vector["now"].as_i64().unwrap()),
    }
}

fn body(request: &Value) -> Vec<u8> {
    let decoded = |value: &Value| STANDARD.decode(text(value)).unwrap();
    let rule = &request["body_rule"];
    if rule.is_null() {
        return decoded(&request["body_b64"]);
    }
    let mut body = decoded(&rule["prefix_b64"]);
    for _ in 0..rule["count"].as_u64().unwrap() {
        body.extend(decoded(&rule["unit_b64"]));
    }
    body.extend(decoded(&rule["suffix_b64"]));
    assert_eq!(body.len() as u64, rule["length"].as_u64().unwrap());
    body
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers read better without references"
)]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, found: T) -> Result<(), String> {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, found {found:?}"))
    }
}
