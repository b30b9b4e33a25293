//! The parser accepts or rejects any text of a preset, and a parsed preset can verify a request.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::Preset;
use shared::webhook::sign::signed;
use shared::webhook::verify::{Trust, Verifier};

fuzz_target!(|text: &str| {
    let Ok(preset) = Preset::parse(text, &BTreeMap::new()) else {
        return;
    };
    let envelope = Envelope {
        method: "POST".into(),
        url: "https://in.example.test/in/s?a=1".into(),
        headers: [("content-type", "application/json")].into_iter().collect(),
        body: r#"{"id":"1","value":[{"id":"2"}]}"#.into(),
        received_at: fuzz::NOW,
    };
    for scheme in &preset.schemes {
        let verifier = Verifier {
            source: "s".into(),
            preset: preset.clone(),
            variant: scheme.variant.clone(),
            trust: Trust::default(),
            config: "fuzz".into(),
        };
        let secrets = [fuzz::secret(scheme)];
        verifier.answer_open_handshake(&envelope);
        verifier.wanted(&envelope);
        let _ = verifier.verify(&envelope, &secrets);
        if let Ok(request) = signed(scheme, &secrets[0], envelope.clone(), fuzz::NOW) {
            let _ = verifier.verify(&request, &secrets);
        }
    }
});
