//! Adobe I/O Events signs the body with RSA-SHA256, with two keys. A header names the path of each
//! public key on Adobe's host. One valid signature is enough, because Adobe rotates the keys one at
//! a time. <https://developer.adobe.com/events/docs/guides/>

use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Encoding, Kind};
use crate::webhook::verify::decode::decode;
use crate::webhook::verify::key::signed_by;
use crate::webhook::verify::prove::Proof;
use crate::webhook::verify::{Reason, Rejected, Trust, Wanted};

const HOST: &str = "https://static.adobeioevents.com";

/// The longest accepted path, in bytes.
const LONGEST: usize = 200;

/// Each header with a signature, and the header with the path of its public key.
const PAIRS: [(&str, &str); 2] = [
    ("x-adobe-digital-signature-1", "x-adobe-public-key1-path"),
    ("x-adobe-digital-signature-2", "x-adobe-public-key2-path"),
];

/// The headers with the paths of the public keys.
pub(in crate::webhook::verify) const KEY_PATHS: [&str; 2] = [PAIRS[0].1, PAIRS[1].1];

/// Verifies the request. The proof contains the path of the key instead of a secret's label.
pub(in crate::webhook::verify) fn prove(
    trust: &Trust,
    envelope: &Envelope,
) -> Result<Proof, Rejected> {
    let mut verdict = Rejected(Reason::MissingHeader);
    for (signature, path) in PAIRS {
        let Some(signature) = one(envelope, signature)? else {
            continue;
        };
        let Some(path) = one(envelope, path)? else {
            continue;
        };
        verdict = match check(trust, envelope, signature, path) {
            Ok(()) => {
                return Ok(Proof {
                    secret: Some(path.to_owned()),
                    ..Proof::default()
                });
            }
            // Another signature cannot change that this one is undecided.
            Err(_) if verdict.0 == Reason::NotFetched => verdict,
            Err(rejected) => rejected,
        };
    }
    Err(verdict)
}

fn check(trust: &Trust, envelope: &Envelope, signature: &str, path: &str) -> Result<(), Rejected> {
    let signature = decode(Encoding::Base64, signature);
    let signature = signature.ok_or(Rejected(Reason::MalformedSignature))?;
    let url = url(path).ok_or(Rejected(Reason::UntrustedCertUrl))?;
    let key = trust.public_key(&url).ok_or(Rejected(Reason::NotFetched))?;
    if signed_by(&Kind::RsaSha256, &key, &envelope.body, &signature) {
        Ok(())
    } else {
        Err(Rejected(Reason::BadSignature))
    }
}

/// Returns the first public key to fetch that has not been fetched.
pub(in crate::webhook::verify) fn wanted(trust: &Trust, envelope: &Envelope) -> Option<Wanted> {
    let urls = PAIRS.iter().filter_map(|(signature, path)| {
        one(envelope, signature).ok().flatten()?;
        url(one(envelope, path).ok().flatten()?)
    });
    let mut urls: Vec<String> = urls.collect();
    let missing = urls.iter().position(|url| trust.public_key(url).is_none());
    (!urls.is_empty()).then(|| Wanted::PublicKey(urls.swap_remove(missing.unwrap_or(0))))
}

/// Returns the URL of a path. The path is text from the sender, so only the form of Adobe's paths is
/// accepted.
fn url(path: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_/".contains(&b);
    let name = path.strip_prefix('/')?.strip_suffix(".pem")?;
    let segments = name.split('/').all(|segment| !segment.is_empty());
    let fits = path.len() <= LONGEST && segments && name.bytes().all(plain);
    fits.then(|| format!("{HOST}{path}"))
}

fn one<'e>(envelope: &'e Envelope, name: &str) -> Result<Option<&'e str>, Rejected> {
    let value = envelope.headers.one(name);
    let value = value.map_err(|_| Rejected(Reason::DuplicateHeader))?;
    Ok(value.filter(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::base::clock::UnixMillis;
    use crate::webhook::preset::KeyForm;
    use crate::webhook::sign::KeyPair;

    const PEM: &str = include_str!("../../../../tests/data/rsa-test-key.pem");
    const PATH: &str = "/prod/keys/pub-key-1.pem";

    fn request(headers: &[(&str, &str)]) -> Envelope {
        Envelope {
            method: "POST".into(),
            url: "https://in.test/in/adobe".into(),
            headers: headers.iter().copied().collect(),
            body: "{}".into(),
            received_at: UnixMillis(0),
        }
    }

    fn verdict(trust: &Trust, headers: &[(&str, &str)]) -> Result<Option<String>, Reason> {
        let proof = prove(trust, &request(headers));
        proof
            .map(|proof| proof.secret)
            .map_err(|rejected| rejected.0)
    }

    #[test]
    fn one_of_two_signatures_is_enough() {
        let pair = KeyPair::from_pem(PEM).unwrap();
        let signature = STANDARD.encode(pair.sign(b"{}").unwrap());
        let other = STANDARD.encode(pair.sign(b"[]").unwrap());
        let first = [(PAIRS[0].0, signature.as_str()), (PAIRS[0].1, PATH)];
        let trust = Trust::default();
        assert_eq!(verdict(&trust, &first), Err(Reason::NotFetched));
        let url = format!("{HOST}{PATH}");
        assert_eq!(
            wanted(&trust, &request(&first)),
            Some(Wanted::PublicKey(url.clone()))
        );
        let pem = pair.public(KeyForm::Pem).unwrap();
        trust.learn([(url.as_str(), pem.as_str())]);
        let path = Ok(Some(PATH.to_owned()));
        assert_eq!(verdict(&trust, &first), path);
        let second = [
            (PAIRS[0].0, other.as_str()),
            (PAIRS[0].1, PATH),
            (PAIRS[1].0, signature.as_str()),
            (PAIRS[1].1, PATH),
        ];
        assert_eq!(verdict(&trust, &second), path);
        assert_eq!(verdict(&trust, &second[..2]), Err(Reason::BadSignature));
        assert_eq!(verdict(&trust, &second[..1]), Err(Reason::MissingHeader));
        assert_eq!(verdict(&trust, &[]), Err(Reason::MissingHeader));
        // A signature with a key that is not fetched is undecided, and not wrong.
        let unknown = [
            (PAIRS[0].0, other.as_str()),
            (PAIRS[0].1, "/prod/keys/new.pem"),
            (PAIRS[1].0, other.as_str()),
            (PAIRS[1].1, PATH),
        ];
        assert_eq!(verdict(&trust, &unknown), Err(Reason::NotFetched));
    }

    #[test]
    fn only_paths_of_the_known_form_are_fetched() {
        for path in [
            "",
            "/",
            "/.pem",
            "prod/key.pem",
            "/prod/key.pem?x=.pem",
            "//evil.test/key.pem",
            "/../key.pem",
            "/prod/key.crt",
            "@evil.test/key.pem",
            "/prod/%2e%2e/key.pem",
        ] {
            assert_eq!(url(path), None, "{path}");
            let headers = [(PAIRS[0].0, "AAAA"), (PAIRS[0].1, path)];
            assert_eq!(
                wanted(&Trust::default(), &request(&headers)),
                None,
                "{path}"
            );
        }
        assert!(url(&format!("/{}.pem", "a".repeat(LONGEST))).is_none());
    }
}
