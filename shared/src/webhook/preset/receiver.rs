//! Facts about the receivers of a provider's requests: the headers that they read, and how long they
//! accept a signature.

use std::time::Duration;

use serde::Deserialize;

use super::{Code, Kind, Location, Part, Preset, Scheme};

/// `[receiver]`: facts about the provider's official SDK.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// The maximum age of a signed time that the SDK accepts, in seconds. It is 0 if the SDK does not
    /// check the age. Without a value, the limit of verification applies.
    window: Option<u32>,
}

impl Preset {
    /// Returns whether a header of this name contains a signature or a credential of a variant, or
    /// of an older form. The name must be in lower case.
    pub fn is_signature_header(&self, name: &str) -> bool {
        let older = self.signature_headers.iter().any(|older| older == name);
        older || self.schemes.iter().any(|scheme| scheme.is_proof(name))
    }

    /// Returns whether a header of this name contains a signed time or another value that belongs to
    /// one signature. The name must be in lower case.
    pub fn is_signature_time(&self, name: &str) -> bool {
        self.schemes.iter().any(|scheme| {
            let ts = scheme.ts.iter().map(|ts| &ts.from);
            let hash = scheme.body_hash.iter().map(|hash| &hash.from);
            let kid = scheme.key_set.iter().filter_map(|set| set.kid.as_ref());
            let beside: &[&str] = match &scheme.kind {
                Kind::Code(Code::Plivo) => &["x-plivo-signature-v3-nonce"],
                Kind::Code(Code::Keygen(_)) => &["date", "digest"],
                _ => &[],
            };
            let list = |part: &Part| matches!(part, Part::SignedHeadersKv(at) if at == name);
            beside.contains(&name)
                || scheme.message.any(&list)
                || ts.chain(hash).chain(kid).any(|at| names(at, name))
        })
    }

    /// Returns whether a scheme uses a header of this name, or whether the ids of the preset's events
    /// are in it.
    pub fn uses_header(&self, scheme: &Scheme, name: &str) -> bool {
        let of_time = scheme.ts.iter().map(|ts| &ts.from);
        let at = &self.event;
        let of_event = at.id.0.iter().chain(&at.composite).chain(&at.delivery.0);
        let kid = scheme.key_set.iter().filter_map(|set| set.kid.as_ref());
        let required = scheme.require_value.iter().map(|required| &required.from);
        let in_message = |part: &Part| match part {
            Part::At(at) | Part::Lower(at) => names(at, name),
            _ => false,
        };
        scheme.is_proof(name)
            || of_time
                .chain(of_event)
                .chain(kid)
                .chain(required)
                .any(|at| names(at, name))
            || scheme.message.any(&in_message)
    }

    /// Returns how long the official SDK accepts the signature of a request after its receipt.
    /// Returns `None` if the signature does not expire.
    pub fn receiver_window(&self, scheme: &Scheme) -> Option<Duration> {
        let of_time = scheme.ts.as_ref().filter(|ts| ts.enforce).map(|ts| ts.past);
        let of_token = || scheme.jwt.as_ref().and_then(|jwt| jwt.iat_max_age);
        let verified = u64::try_from(of_time.or_else(of_token)?).unwrap_or(0);
        let seconds = self.receiver.window.map_or(verified, u64::from);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

impl Scheme {
    /// Returns the locations of the signature, the token or the credential.
    pub fn proof(&self) -> impl Iterator<Item = Location> {
        let (header, places) = self.proof_places();
        let header = header.map(|name| Location::Header(vec![name.to_owned()]));
        header.into_iter().chain(places.cloned())
    }

    /// Returns whether a header of this name can contain the signature, the token or the credential.
    fn is_proof(&self, name: &str) -> bool {
        let (header, mut places) = self.proof_places();
        header == Some(name) || places.any(|at| names(at, name))
    }

    /// Returns the header that the kind of verification reads, and the locations that the scheme
    /// names.
    fn proof_places(&self) -> (Option<&'static str>, impl Iterator<Item = &Location>) {
        let sig = &self.sig;
        let (header, place, also) = match (&self.kind, &self.jwt) {
            (Kind::FetchBack | Kind::None, _) => (None, None, [].as_slice()),
            (Kind::Basic, _) => (Some("authorization"), None, [].as_slice()),
            (Kind::Jwt, Some(jwt)) => (None, Some(&jwt.from), [].as_slice()),
            (Kind::Code(Code::Ebay), _) => (Some("x-ebay-signature"), None, [].as_slice()),
            (Kind::Code(Code::Keygen(_)), _) => (Some("keygen-signature"), None, [].as_slice()),
            _ => (None, Some(&sig.from), sig.also.as_slice()),
        };
        (header, place.into_iter().chain(also))
    }

    /// Returns whether the signature covers the URL. Then a receiver has to know its own URL.
    pub fn signs_url(&self) -> bool {
        let url = |part: &Part| {
            matches!(
                part,
                Part::Url
                    | Part::PublicUrl
                    | Part::Path
                    | Part::PathEncoded
                    | Part::At(Location::Query(_))
                    | Part::Lower(Location::Query(_))
            )
        };
        let of_token = self.jwt.as_ref().is_some_and(|jwt| {
            let audience = jwt.aud.as_deref().unwrap_or_default();
            jwt.url_sha256_claim.is_some()
                || jwt.qsh_claim.is_some()
                || audience.contains("{public_url}")
        });
        let of_code = matches!(self.kind, Kind::Code(Code::Plivo | Code::Keygen(_)));
        of_token || of_code || self.message.any(&url)
    }

    /// Returns whether the signature, its time or a hash that it covers is in the body. Then a new
    /// signature changes the body.
    pub fn signs_in_body(&self) -> bool {
        let ts = self.ts.iter().map(|ts| ts.from.clone());
        let hash = self.body_hash.iter().map(|hash| hash.from.clone());
        let mut places = self.proof().chain(ts).chain(hash);
        places.any(|at| {
            matches!(
                at,
                Location::Json(_)
                    | Location::Item(_)
                    | Location::Form(_)
                    | Location::FormXml(..)
                    | Location::FormJson(..)
                    | Location::MultipartJson(..)
                    | Location::Body
            )
        })
    }
}

fn names(at: &Location, name: &str) -> bool {
    match at {
        Location::Header(names) => names.iter().any(|known| known == name),
        Location::HeaderNumbered(prefix) => name.starts_with(prefix.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn preset(id: &str) -> Preset {
        Preset::embedded(id, &BTreeMap::new()).unwrap()
    }

    #[test]
    fn signature_headers_of_all_variants_are_known() {
        for (id, name) in [
            ("github", "x-hub-signature-256"),
            ("github", "x-hub-signature"),
            ("hubspot", "x-hubspot-signature"),
            ("shopify", "shopify-hmac-sha256"),
            ("box", "box-signature-secondary"),
            ("docusign", "x-docusign-signature-17"),
            ("gitlab", "x-gitlab-token"),
            ("plaid", "plaid-verification"),
            ("ebay", "x-ebay-signature"),
            ("keygen", "keygen-signature"),
            ("svix", "webhook-signature"),
        ] {
            assert!(preset(id).is_signature_header(name), "{id} {name}");
        }
        for (id, name) in [
            ("github", "x-github-delivery"),
            ("svix", "svix-id"),
            ("svix", "svix-timestamp"),
            ("sns", "authorization"),
        ] {
            assert!(!preset(id).is_signature_header(name), "{id} {name}");
        }
        assert!(preset("svix").is_signature_time("svix-timestamp"));
        assert!(preset("keygen").is_signature_time("digest"));
    }

    #[test]
    fn the_window_of_a_receiver_is_a_fact_of_the_preset() {
        let window = |id: &str| {
            let preset = preset(id);
            let window = preset.receiver_window(preset.scheme("default").unwrap());
            window.map(|window| window.as_secs())
        };
        assert_eq!(window("stripe"), Some(300));
        assert_eq!(window("slack"), Some(300));
        assert_eq!(window("workos"), Some(180), "the limit of verification");
        assert_eq!(window("discord"), None, "the SDK does not check the age");
        assert_eq!(window("github"), None, "no time is signed");
        assert_eq!(window("plaid"), Some(300), "a token expires");
    }
}
