//! Tests the properties that must hold against an attacker. The attacker has captured valid
//! requests, but does not know the secret.
//!
//! The generators make the changes that a scheme may allow. They change the order and the escapes
//! of form fields, and repeat and add fields. They move bytes from one part of the signed message
//! to another. They add white space and keys to JSON, and change headers that no signature covers.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode, percent_encode};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use shared::aws::secrets::Secret;
use shared::webhook::envelope::Envelope;
use shared::webhook::event::Event;
use shared::webhook::preset::{Format, Kind, Location, Part, Preset, Reply, Scheme};
use shared::webhook::sign::{can_sign, signed};
use shared::webhook::verify::{Arrival, Verifier};

use super::support::{NOW, draft, each, replaced, secret, signature, verifiers};

/// Returns whether each request has its own signature.
fn signs_each(scheme: &Scheme) -> bool {
    can_sign(scheme)
        && !matches!(scheme.kind, Kind::Token | Kind::Basic)
        && scheme.shared_proof.is_none()
}

/// Other bytes with the same signature never result in a second event that Mitt processes.
#[test]
fn one_signature_is_one_event() {
    let verifiers = verifiers(signs_each);
    assert!(verifiers.len() > 70, "{}", verifiers.len());
    for verifier in &verifiers {
        let requests = ("[!-~]{0,24}", "[a-zA-Z0-9]{1,12}", changes());
        each(
            verifier,
            verifiers.len(),
            requests,
            |(text, word, changes)| {
                let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
                let secret = secret(scheme, "right");
                let genuine = genuine(verifier, &secret, &text, &word);
                let Ok(Arrival::Event(event)) =
                    verifier.verify(&genuine, std::slice::from_ref(&secret))
                else {
                    return Err(TestCaseError::reject(
                        "the scheme never accepts this message",
                    ));
                };
                let mut inbox = Inbox::default();
                inbox.accept(&event);
                let mut changed = genuine.clone();
                for change in &changes {
                    change.apply(scheme, &mut changed);
                    let answer = verifier.verify(&changed, std::slice::from_ref(&secret));
                    if let Ok(Arrival::Event(again)) = answer {
                        let new = inbox.accept(&again);
                        prop_assert!(
                            changed.body == genuine.body && again.key() == event.key() || new == 0,
                            "{change:?} made {new} new events\n{genuine:?}\n{changed:?}"
                        );
                    }
                }
                Ok(())
            },
        );
    }
}

/// A reply to a handshake is never a valid proof of an event.
#[test]
fn no_answer_to_a_handshake_is_a_signature() {
    let all = verifiers(|_| true);
    let all: Vec<Verifier> = all
        .into_iter()
        .filter(|verifier| !verifier.preset.handshakes.is_empty())
        .collect();
    assert!(all.len() > 15, "{}", all.len());
    for verifier in &all {
        each(verifier, all.len(), texts(), |text| {
            let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
            if matches!(scheme.kind, Kind::FetchBack | Kind::None) {
                return Ok(());
            }
            let (right, other) = (secret(scheme, "right"), secret(scheme, "wrong"));
            for reply in replies(verifier, &right, &text) {
                for answer in texts_of(&reply) {
                    for forged in forgeries(scheme, &other, &text, &answer) {
                        let verdict = verifier.verify(&forged, std::slice::from_ref(&right));
                        prop_assert!(
                            !matches!(verdict, Ok(Arrival::Event(_))),
                            "{answer} proves {forged:?}"
                        );
                    }
                }
            }
            Ok(())
        });
    }
}

/// Mitt never treats a genuine event as a handshake, whatever text the event contains.
#[test]
fn no_genuine_event_is_a_handshake() {
    let verifiers = verifiers(can_sign);
    for verifier in &verifiers {
        let texts = (texts(), texts(), "[a-zA-Z0-9]{1,12}");
        each(verifier, verifiers.len(), texts, |(one, two, word)| {
            let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
            let secret = secret(scheme, "right");
            let genuine = genuine(verifier, &secret, &format!("{one}{two}"), &word);
            // A body that is only a handshake is not an event.
            prop_assume!(
                verifier.answer_open_handshake(&genuine).is_none() || !genuine.body.is_empty()
            );
            prop_assert!(
                verifier.answer_open_handshake(&genuine).is_none(),
                "{genuine:?}"
            );
            let verdict = verifier.verify(&genuine, std::slice::from_ref(&secret));
            prop_assert!(!matches!(verdict, Ok(Arrival::Handshake(_))), "{genuine:?}");
            Ok(())
        });
    }
}

/// The relevant behavior of the ledger. There is one row for each key and one row for each mark.
/// Mitt processes only the first event with a key and a mark.
#[derive(Default)]
struct Inbox {
    keys: BTreeSet<String>,
    marks: BTreeMap<String, String>,
}

impl Inbox {
    /// Returns the number of new events that are processed.
    fn accept(&mut self, event: &Event) -> usize {
        event.apart().filter(|event| self.accept_one(event)).count()
    }

    fn accept_one(&mut self, event: &Event) -> bool {
        let key = event.key().to_string();
        if let Some(mark) = event.once() {
            let first = self.marks.entry(mark.hex()).or_insert_with(|| key.clone());
            if *first != key {
                return false;
            }
        }
        self.keys.insert(key)
    }
}

/// Returns a signed request that contains this text.
fn genuine(verifier: &Verifier, secret: &Secret, text: &str, word: &str) -> Envelope {
    let scheme = verifier.preset.scheme(&verifier.variant).unwrap();
    let mut envelope = draft(scheme, text.as_bytes(), word);
    let field = |name: &str| {
        format!(
            "{name}={}",
            percent_encode(text.as_bytes(), NON_ALPHANUMERIC)
        )
    };
    let reads_form = is_form(scheme);
    if reads_form && scheme.only_fields.is_empty() {
        let body = std::str::from_utf8(&envelope.body).unwrap_or_default();
        envelope.body = format!("{body}&{}", field("Note")).into();
    } else if matches!(scheme.sig.from, Location::MultipartJson(..)) {
        return signed(scheme, secret, envelope, NOW).unwrap();
    } else if !reads_form {
        let mut json: serde_json::Value =
            serde_json::from_slice(&envelope.body).unwrap_or_default();
        if !json.is_object() {
            json = serde_json::json!({});
        }
        json["customer_note"] = text.into();
        json["id"] = word.into();
        json["event"] = "order.created".into();
        envelope.body = json.to_string().into();
    }
    let kind = if reads_form {
        "application/x-www-form-urlencoded"
    } else {
        "application/json"
    };
    let headers = envelope.headers.iter();
    let headers = headers.filter(|(name, _)| *name != "content-type");
    let known: Vec<&str> = envelope.headers.iter().map(|(name, _)| name).collect();
    let at = &verifier.preset.event;
    let ids = at.id.0.iter().chain(&at.composite).chain(&at.kind.0);
    let ids = ids.filter_map(|at| match at {
        Location::Header(names) => names.first().map(String::as_str),
        _ => None,
    });
    let ids: BTreeSet<&str> = ids.filter(|name| !known.contains(name)).collect();
    let ids = ids.into_iter().map(|name| (name, word));
    envelope.headers = headers.chain([("content-type", kind)]).chain(ids).collect();
    signed(scheme, secret, envelope, NOW).unwrap()
}

fn is_form(scheme: &Scheme) -> bool {
    let form =
        |part: &Part| *part == Part::FormSorted || matches!(part, Part::At(Location::Form(_)));
    scheme.message.0.iter().any(form)
        || matches!(scheme.sig.from, Location::Form(_))
        || scheme.kind == Kind::Code(shared::webhook::preset::Code::Plivo)
}

/// Generates arbitrary texts, and texts like those in the handshakes of some providers.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,24}",
        "[A-Za-z0-9+/=_-]{8,64}",
        "[a-f0-9]{20,32}",
        prop::sample::select(vec![
            "&webhook_id=5&",
            "?x=1&webhook_id=5",
            "webhook_id=5",
            "&mandrill_events=[]",
            "&mandrill_events=%5B%5D&x=",
            "\"challenge\":\"a\"",
            "{\"verification_token\":\"aaaaaaaaaaaaaaaaaaaa\"}",
            "{\"type\":\"url_verification\"}",
            "\",\"type\":\"0\",\"a\":\"",
            "&bt_challenge=20f9f8ed05f77439fe955c977e4c8a53",
            "validationToken=a",
            "crc_token=12345678",
            "endpoint.url_validation",
        ])
        .prop_map(str::to_owned),
    ]
}

/// A change of a captured request. The signature stays the same.
#[derive(Clone, Debug)]
enum Change {
    /// Reorders the fields of the form.
    Rotate(u8),
    /// Escapes a character of the form that needs no escape, or removes its escape.
    Escape(u8),
    /// Repeats a field.
    Repeat(u8),
    /// Adds a field.
    Add(String),
    /// Turns the end of a value into a field, or appends a field to the value before it.
    Split(u8, u8),
    Glue(u8),
    /// Moves bytes from the end of the URL to the beginning of the body, or the reverse.
    UrlToBody(u8),
    BodyToUrl(u8),
    /// Moves bytes between the body and a header.
    HeaderToBody(u8, u8),
    BodyToHeader(u8, u8),
    BodyEndToHeader(u8, u8),
    /// Moves bytes between two headers, at a separator in one of them.
    HeaderToHeader(u8, u8),
    /// Adds a space or a key to the JSON.
    Space(u8),
    Key(String),
    /// Sets a header to this value.
    Header(u8, String),
    /// Removes a header.
    Drop(u8),
    /// Replaces the body.
    Body(String),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    use Change as C;
    let change = prop_oneof![
        any::<u8>().prop_map(C::Rotate),
        any::<u8>().prop_map(C::Escape),
        any::<u8>().prop_map(C::Repeat),
        "[a-zA-Z]{1,8}".prop_map(C::Add),
        any::<(u8, u8)>().prop_map(|(a, b)| C::Split(a, b)),
        any::<u8>().prop_map(C::Glue),
        any::<u8>().prop_map(C::UrlToBody),
        any::<u8>().prop_map(C::BodyToUrl),
        any::<(u8, u8)>().prop_map(|(a, b)| C::HeaderToBody(a, b)),
        any::<(u8, u8)>().prop_map(|(a, b)| C::BodyToHeader(a, b)),
        any::<(u8, u8)>().prop_map(|(a, b)| C::BodyEndToHeader(a, b)),
        any::<(u8, u8)>().prop_map(|(a, b)| C::HeaderToHeader(a, b)),
        any::<u8>().prop_map(C::Space),
        "[a-z]{1,8}".prop_map(C::Key),
        (any::<u8>(), "[a-zA-Z0-9-]{1,12}").prop_map(|(a, b)| C::Header(a, b)),
        any::<u8>().prop_map(C::Drop),
        "[ -~]{0,24}".prop_map(C::Body),
    ];
    prop::collection::vec(change, 1..4)
}

impl Change {
    #[expect(clippy::too_many_lines, reason = "each change is a few lines")]
    fn apply(&self, scheme: &Scheme, envelope: &mut Envelope) {
        let body = envelope.body.to_vec();
        let mut pairs: Vec<Vec<u8>> = body.split(|b| *b == b'&').map(<[u8]>::to_vec).collect();
        let count = pairs.len();
        let at = |index: &u8| usize::from(*index) % count;
        let (mut url, headers) = (envelope.url.clone(), &mut Vec::new());
        headers.extend(
            envelope
                .headers
                .iter()
                .map(|(n, v)| (n.to_owned(), v.as_bytes().to_vec())),
        );
        let own = signature_names(scheme);
        let free: Vec<usize> = (0..headers.len())
            .filter(|index| {
                headers
                    .get(*index)
                    .is_some_and(|(name, _)| !own.contains(name))
            })
            .collect();
        let chosen = |index: &u8| free.get(usize::from(*index) % free.len().max(1)).copied();
        let mut whole = None;
        match self {
            Self::Rotate(by) => pairs.rotate_left(at(by)),
            Self::Escape(index) => respell(&mut pairs[at(index)]),
            Self::Repeat(index) => pairs.push(pairs[at(index)].clone()),
            Self::Add(name) => pairs.push(format!("{name}=1").into_bytes()),
            Self::Split(index, cut) => split(&mut pairs, at(index), *cut),
            Self::Glue(index) => glue(&mut pairs, at(index)),
            Self::UrlToBody(count) => {
                // The path names the source, so this change keeps the path and moves only bytes of
                // the query.
                let query = url.find('?').map_or(0, |at| url.len() - at);
                let (rest, moved) = url.split_at(url.len() - usize::from(*count) % (query + 1));
                whole = Some([moved.as_bytes(), &body].concat());
                url = rest.into();
            }
            Self::BodyToUrl(count) => {
                let (moved, rest) = body.split_at(usize::from(*count) % (body.len() + 1));
                let question = if url.contains('?') || moved.first() == Some(&b'?') {
                    ""
                } else {
                    "?"
                };
                url = format!("{url}{question}{}", String::from_utf8_lossy(moved));
                whole = Some(rest.to_vec());
            }
            Self::HeaderToBody(index, count) => {
                if let Some((_, value)) = chosen(index).and_then(|index| headers.get_mut(index)) {
                    let moved =
                        value.split_off(value.len() - usize::from(*count) % (value.len() + 1));
                    whole = Some([moved, body].concat());
                }
            }
            Self::BodyToHeader(index, count) => {
                if let Some((_, value)) = chosen(index).and_then(|index| headers.get_mut(index)) {
                    let (moved, rest) = body.split_at(usize::from(*count) % (body.len() + 1));
                    value.extend_from_slice(moved);
                    whole = Some(rest.to_vec());
                }
            }
            Self::BodyEndToHeader(index, count) => {
                if let Some((_, value)) = chosen(index).and_then(|index| headers.get_mut(index)) {
                    let (rest, moved) =
                        body.split_at(body.len() - usize::from(*count) % (body.len() + 1));
                    *value = [moved, value].concat();
                    whole = Some(rest.to_vec());
                }
            }
            Self::HeaderToHeader(one, other) => {
                if let (Some(one), Some(other)) = (chosen(one), chosen(other))
                    && one != other
                    && let Some((_, from)) = headers.get_mut(one)
                {
                    let cut = from
                        .iter()
                        .rposition(|b| b".:;|-".contains(b))
                        .unwrap_or(from.len() / 2);
                    let moved = from.split_off(cut);
                    headers[other].1 = [moved, headers[other].1.clone()].concat();
                }
            }
            Self::Space(index) => {
                let mut spaced = body.clone();
                spaced.insert(usize::from(*index) % (body.len() + 1), b' ');
                whole = Some(spaced);
            }
            Self::Key(name) => {
                let text = String::from_utf8_lossy(&body);
                whole = Some(
                    text.replacen('{', &format!("{{\"{name}\":1,"), 1)
                        .into_bytes(),
                );
            }
            Self::Header(index, value) => {
                if let Some((_, old)) = chosen(index).and_then(|index| headers.get_mut(index)) {
                    *old = value.as_bytes().to_vec();
                }
            }
            Self::Drop(index) => {
                if let Some(index) = chosen(index) {
                    headers.remove(index);
                }
            }
            Self::Body(other) => whole = Some(with_signature(scheme, envelope, other)),
        }
        envelope.body = whole.unwrap_or_else(|| pairs.join(&b'&')).into();
        envelope.url = url;
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        envelope.headers = headers.iter().map(|(n, v)| (n.clone(), text(v))).collect();
    }
}

/// Returns the headers with a signature, which the attacker does not change.
fn signature_names(scheme: &Scheme) -> Vec<String> {
    let from = std::iter::once(&scheme.sig.from).chain(&scheme.sig.also);
    let jwt = scheme.jwt.iter().map(|jwt| &jwt.from);
    from.chain(jwt)
        .flat_map(|at| match at {
            Location::Header(names) => names.clone(),
            Location::HeaderNumbered(prefix) => vec![format!("{prefix}1")],
            _ => Vec::new(),
        })
        .collect()
}

/// Returns a JSON body with other content. If the signature is in the body, the new body keeps the
/// signed fields.
fn with_signature(scheme: &Scheme, envelope: &Envelope, text: &str) -> Vec<u8> {
    let json: Result<serde_json::Value, _> = serde_json::from_slice(&envelope.body);
    match (json, &scheme.sig.from) {
        (Ok(mut json), Location::Json(_) | Location::Item(_)) => {
            json["forged"] = text.into();
            json["event-data"] = serde_json::json!({ "id": text });
            json.to_string().into_bytes()
        }
        _ => serde_json::json!({ "id": text, "forged": true })
            .to_string()
            .into_bytes(),
    }
}

/// Writes the same field with other escapes.
fn respell(pair: &mut Vec<u8>) {
    let at = pair.iter().position(|b| *b == b'=').unwrap_or(pair.len());
    let (name, value) = pair.split_at(at);
    let value = value.strip_prefix(b"=").unwrap_or(value);
    let plain: Vec<u8> = percent_decode(value).collect();
    let spelled: Vec<u8> = match plain.as_slice() {
        [first, rest @ ..] => {
            let mut spelled = format!("%{first:02x}").into_bytes();
            spelled.extend(
                percent_encode(rest, NON_ALPHANUMERIC)
                    .to_string()
                    .into_bytes(),
            );
            spelled
        }
        [] => return,
    };
    *pair = [name, b"=", &spelled].concat();
}

/// Creates a field whose name begins in the value of another field.
fn split(pairs: &mut Vec<Vec<u8>>, index: usize, cut: u8) {
    let Some(at) = pairs[index].iter().position(|b| *b == b'=') else {
        return;
    };
    let value = pairs[index].len() - at - 1;
    if value < 2 {
        return;
    }
    let cut = at + 1 + 1 + usize::from(cut) % (value - 1);
    let mut moved = pairs[index].split_off(cut);
    let half = moved.len() / 2;
    moved.insert(half, b'=');
    pairs.insert(index + 1, moved);
}

/// Joins two fields into one field.
fn glue(pairs: &mut Vec<Vec<u8>>, index: usize) {
    if index + 1 >= pairs.len() {
        return;
    }
    let next: Vec<u8> = pairs
        .remove(index + 1)
        .into_iter()
        .filter(|b| *b != b'=')
        .collect();
    pairs[index].extend(next);
}

/// Returns the replies of a preset's handshakes to this text, at all locations that handshakes
/// read.
fn replies(verifier: &Verifier, secret: &Secret, text: &str) -> Vec<Reply> {
    let escaped = percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string();
    let queries = [
        "crc_token",
        "bt_challenge",
        "challenge",
        "challenge_code",
        "validationToken",
        "hub.challenge",
    ];
    let mut asked: Vec<Envelope> = Vec::new();
    for method in ["GET", "POST", "HEAD"] {
        for query in queries {
            let mut envelope = empty(method);
            envelope.url = format!("{}?{query}={escaped}", envelope.url);
            asked.push(envelope);
        }
        let mut envelope = empty(method);
        envelope.headers = [
            "x-hook-secret",
            "x-okta-verification-challenge",
            "x-front-challenge",
        ]
        .into_iter()
        .map(|name| (name, text))
        .collect();
        asked.push(envelope);
    }
    for body in [
        serde_json::json!({ "challenge": text }),
        serde_json::json!({ "verification_token": text }),
        serde_json::json!({ "type": "url_verification", "challenge": text }),
        serde_json::json!({ "event": "endpoint.url_validation", "payload": { "plainToken": text } }),
    ] {
        let mut envelope = empty("POST");
        envelope.body = body.to_string().into();
        asked.push(envelope);
    }
    asked
        .iter()
        .filter_map(
            |envelope| match verifier.verify(envelope, std::slice::from_ref(secret)) {
                Ok(Arrival::Handshake(reply)) => Some(reply),
                _ => None,
            },
        )
        .collect()
}

fn empty(method: &str) -> Envelope {
    Envelope {
        method: method.into(),
        url: "https://in.example.test/in/source".into(),
        headers: std::iter::empty::<(&str, &str)>().collect(),
        body: bytes::Bytes::new(),
        received_at: NOW,
    }
}

/// Returns all texts of a reply, and the parts of these texts.
fn texts_of(reply: &Reply) -> Vec<String> {
    let mut texts: Vec<String> = reply.headers.values().cloned().collect();
    texts.push(reply.body.clone());
    if let Ok(serde_json::Value::Object(json)) = serde_json::from_str(&reply.body) {
        texts.extend(
            json.values()
                .filter_map(|value| value.as_str().map(str::to_owned)),
        );
    }
    let parts: Vec<String> = texts
        .iter()
        .flat_map(|text| {
            text.split(['|', '=', ' '])
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    // The text after the first `=` can contain more `=` characters.
    let after: Vec<String> = texts
        .iter()
        .filter_map(|text| Some(text.split_once('=')?.1.to_owned()))
        .collect();
    texts.extend(parts);
    texts.extend(after);
    texts.retain(|text| !text.is_empty());
    texts
}

/// Returns requests with the text of the handshake, and with the reply as the signature.
fn forgeries(scheme: &Scheme, other: &Secret, text: &str, answer: &str) -> Vec<Envelope> {
    if !can_sign(scheme) {
        return Vec::new();
    }
    let mut bodies = vec![text.as_bytes().to_vec()];
    if is_form(scheme) {
        let escaped = percent_encode(text.as_bytes(), NON_ALPHANUMERIC);
        bodies = vec![format!("bt_payload={escaped}").into_bytes()];
    }
    let skeletons = bodies.into_iter().filter_map(|body| {
        let mut envelope = draft(scheme, b"", "word");
        if scheme.sig.format == Format::Pairs
            || !matches!(scheme.sig.from, Location::Json(_) | Location::Item(_))
        {
            envelope.body = body.into();
        }
        signed(scheme, other, envelope, NOW).ok()
    });
    skeletons
        .filter_map(|skeleton| {
            let signed = signature(scheme, &skeleton)?;
            Some(replaced(&skeleton, &signed, answer))
        })
        .collect()
}

/// Checks that the tests include the presets that had weak messages or handshakes.
#[test]
fn presets_with_handshakes_and_loose_messages_are_looked_at() {
    let ids: Vec<String> = verifiers(signs_each)
        .iter()
        .map(|v| v.preset.id.clone())
        .collect();
    for id in [
        "twilio",
        "mandrill",
        "plivo",
        "braintree",
        "mailgun",
        "mercado-pago",
        "jira-connect",
        "monday",
        "square",
        "trello",
        "klaviyo",
        "adyen",
        "hubspot",
        "woocommerce",
        "x",
    ] {
        assert!(ids.iter().any(|known| known == id), "{id}");
    }
    let shared: Vec<&str> = Preset::ids()
        .filter(|id| {
            let preset = Preset::embedded(id, &BTreeMap::new()).unwrap();
            preset
                .schemes
                .iter()
                .any(|scheme| scheme.shared_proof.is_some())
        })
        .collect();
    assert_eq!(shared, ["google-pubsub"]);
}
