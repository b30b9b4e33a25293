use std::collections::BTreeMap;

use shared::webhook::preset::Preset;
use shared::webhook::sign::KeyPair;
use shared::webhook::verify::{Rejected, Verifier};

use super::*;
use crate::samples::{self, Signer};

const NOW: UnixMillis = UnixMillis(1_795_169_681_000);
const URL: &str = "https://in.example.test/in/s";
const RSA: &str = include_str!("../../../../../../shared/tests/data/rsa-test-key.pem");

#[test]
fn what_is_falsified_is_refused_whatever_the_preset() {
    let mut counts = BTreeMap::new();
    for id in Preset::ids() {
        let preset = Preset::embedded(id, &BTreeMap::new()).unwrap();
        for scheme in &preset.schemes {
            for tamper in [
                Tamper::Body,
                Tamper::Signature,
                Tamper::Timestamp,
                Tamper::Secret,
            ] {
                if matches!(means(scheme), Means::No(_)) || vain(tamper, scheme).is_some() {
                    continue;
                }
                refused(&preset, scheme, tamper);
                *counts.entry(format!("{tamper:?}")).or_insert(0) += 1;
            }
        }
    }
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert!(
        count("Signature") > 100 && count("Secret") > 100,
        "{counts:?}"
    );
    assert!(count("Body") > 70 && count("Timestamp") > 30, "{counts:?}");
}

fn refused(preset: &Preset, scheme: &Scheme, tamper: Tamper) {
    let name = format!("{} {} {tamper:?}", preset.id, scheme.variant);
    let right = match means(scheme) {
        Means::KeyPair(Algorithm::RsaSha256) => Signer::KeyPair(KeyPair::from_pem(RSA).unwrap()),
        _ => Signer::random(scheme).unwrap(),
    };
    let signer = match tamper {
        Tamper::Secret => Signer::random(scheme).unwrap(),
        _ => right.clone(),
    };
    let at = match tamper {
        Tamper::Timestamp => NOW - too_old(scheme),
        _ => NOW,
    };
    let draft = samples::draft(preset, &scheme.variant, None, None, NOW).unwrap();
    let signed = draft
        .sign(preset, &scheme.variant, &signer, URL, at)
        .unwrap();
    let signed = falsified(signed, Some(tamper), scheme).unwrap();
    let verifier = Verifier {
        source: "s".into(),
        preset: preset.clone(),
        variant: scheme.variant.clone(),
        trust: right.trusted(scheme).unwrap(),
        config: String::new(),
    };
    let answer = verifier.verify(&signed.envelope(NOW), &right.stored(scheme).unwrap());
    assert!(matches!(answer, Err(Rejected(_))), "{name}: {answer:?}");
}

#[test]
fn what_would_be_accepted_all_the_same_is_not_sent() {
    let vain = |id: &str, tamper| {
        let preset = Preset::embedded(id, &BTreeMap::new()).unwrap();
        vain(tamper, preset.scheme("default").unwrap())
    };
    assert!(vain("gitlab", Tamper::Body).unwrap().contains("accepted"));
    assert!(vain("mailgun", Tamper::Body).is_some());
    assert!(vain("mercado-pago", Tamper::Body).is_some());
    assert!(vain("github", Tamper::Timestamp).is_some());
    assert!(vain("wise", Tamper::Secret).unwrap().contains("--key-from"));
    assert_eq!(vain("adyen", Tamper::Body), None);
    assert_eq!(vain("stripe", Tamper::Timestamp), None);
}

#[test]
fn one_character_of_a_signature_is_another_one_however_short_it_is() {
    assert_eq!(changed("sha256=0123456789"), "sha256=0113456789");
    assert_eq!(changed("abc"), "bbc");
    assert_eq!(changed("ä"), "a");
    assert_eq!(changed(""), "");
}
