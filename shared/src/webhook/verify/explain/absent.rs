//! Finds the values outside the body that verification reads and that a request lacks.

use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Code, Kind, Location, Part, Scheme};
use crate::webhook::verify::Verifier;

impl Verifier {
    /// Returns the headers that verification reads and that the request lacks. If a value can be in
    /// one of several headers, returns the name of the first header.
    pub fn absent_headers(&self, envelope: &Envelope) -> Vec<String> {
        let Some(scheme) = self.preset.scheme(&self.variant) else {
            return Vec::new();
        };
        let is_absent = |names: &[String]| {
            let there = |name: &String| envelope.headers.all(name).any(|value| !value.is_empty());
            !names.iter().any(there)
        };
        let locations = locations(scheme);
        let named = locations.iter().filter_map(|location| match location {
            Location::Header(names) if is_absent(names) => names.first().cloned(),
            Location::HeaderNumbered(prefix) => {
                let first = format!("{prefix}1");
                is_absent(std::slice::from_ref(&first)).then_some(first)
            }
            _ => None,
        });
        let required = scheme.require_header.keys();
        let required = required.filter(|name| is_absent(std::slice::from_ref(name)));
        let mut absent: Vec<String> = Vec::new();
        for name in named.chain(required.cloned()) {
            if !absent.contains(&name) {
                absent.push(name);
            }
        }
        absent
    }

    /// Returns whether the URL of the request can change the result of verification.
    pub fn reads_url(&self) -> bool {
        let Some(scheme) = self.preset.scheme(&self.variant) else {
            return false;
        };
        let in_jwt = scheme.jwt.as_ref().is_some_and(|jwt| {
            jwt.url_sha256_claim.is_some() || jwt.aud.as_deref() == Some("{public_url}")
        });
        let query = |location: &Location| matches!(location, Location::Query(_));
        in_jwt || signs_url(scheme) || locations(scheme).iter().any(query)
    }

    /// Returns a short description of a value that verification needs and that Mitt does not store
    /// with an event, such as a credential. Returns `None` if Mitt stores all values.
    pub fn never_kept(&self) -> Option<&'static str> {
        let scheme = self.preset.scheme(&self.variant)?;
        let other_headers =
            |part: &Part| matches!(part, Part::SignedHeaders(_) | Part::SignedHeadersKv(_));
        match &scheme.kind {
            Kind::Token => Some("the token that the sender sent"),
            Kind::Basic => Some("the password that the sender sent"),
            Kind::Jwt => Some("the signed token that the sender sent"),
            Kind::Code(Code::PayPal) => Some("the header that names the certificate"),
            _ if scheme.message.any(&other_headers) => Some("all headers that the sender signed"),
            _ => None,
        }
    }
}

/// Returns whether the URL, or a part of it, is in the signed message.
pub(super) fn signs_url(scheme: &Scheme) -> bool {
    scheme.message.any(&|part| {
        matches!(
            part,
            Part::Url | Part::PublicUrl | Part::Path | Part::PathEncoded
        )
    })
}

/// Returns the locations that verification reads, except the locations in optional parts.
fn locations(scheme: &Scheme) -> Vec<Location> {
    let mut locations = Vec::new();
    match (&scheme.kind, &scheme.jwt) {
        (Kind::None | Kind::FetchBack | Kind::Code(Code::Sns), _) => {}
        (Kind::Basic, _) => locations.push(Location::Header(vec!["authorization".to_owned()])),
        (Kind::Jwt, Some(jwt)) => locations.push(jwt.from.clone()),
        _ => locations.push(scheme.sig.from.clone()),
    }
    let counts =
        |ts: &&crate::webhook::preset::Timestamp| ts.enforce || scheme.message.needs_timestamp();
    locations.extend(scheme.ts.iter().filter(counts).map(|ts| ts.from.clone()));
    for part in &scheme.message.0 {
        match part {
            Part::At(location) | Part::Lower(location) => locations.push(location.clone()),
            Part::SignedHeadersKv(name) => locations.push(Location::Header(vec![name.clone()])),
            _ => {}
        }
    }
    locations.extend(scheme.body_hash.iter().map(|hash| hash.from.clone()));
    if scheme.kind == Kind::Code(Code::PayPal) {
        locations.push(Location::Header(vec!["paypal-cert-url".to_owned()]));
    }
    locations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::preset::Preset;
    use crate::webhook::verify::Trust;

    fn verifier(preset: &str) -> Verifier {
        Verifier {
            source: "s".into(),
            preset: Preset::embedded(preset, &std::collections::BTreeMap::new()).unwrap(),
            variant: "default".into(),
            trust: Trust::default(),
            config: "c".into(),
        }
    }

    #[test]
    fn what_is_read_and_is_not_there_is_named() {
        let envelope = Envelope {
            method: "POST".into(),
            url: "https://x.test/".into(),
            headers: [("webhook-id", "msg_1"), ("webhook-signature", "")]
                .into_iter()
                .collect(),
            body: "{}".into(),
            received_at: crate::base::clock::UnixMillis(0),
        };
        let absent = |preset: &str| verifier(preset).absent_headers(&envelope);
        assert_eq!(
            absent("standard-webhooks"),
            ["webhook-signature", "webhook-timestamp"]
        );
        assert_eq!(absent("github"), ["x-hub-signature-256"]);
        assert_eq!(absent("chargebee"), ["authorization"]);
        assert!(absent("adyen").is_empty());
    }

    #[test]
    fn what_an_event_does_not_keep_is_known() {
        for (preset, url, kept) in [
            ("github", false, true),
            ("square", true, true),
            ("contentful", true, false),
            ("telegram", false, false),
            ("chargebee", false, false),
            ("netlify", false, false),
        ] {
            let verifier = verifier(preset);
            assert_eq!(verifier.reads_url(), url, "{preset}");
            assert_eq!(verifier.never_kept().is_none(), kept, "{preset}");
        }
    }
}
