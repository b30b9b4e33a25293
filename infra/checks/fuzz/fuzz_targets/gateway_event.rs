//! The catcher parses or rejects any event of the HTTP API, and never accepts it as verified.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use catcher::Request;
use libfuzzer_sys::fuzz_target;
use shared::aws::secrets::Secret;
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Arrival, Trust, Verifier};

static GITHUB: LazyLock<Verifier> = LazyLock::new(|| Verifier {
    source: "s".into(),
    preset: Preset::embedded("github", &BTreeMap::new()).expect("embedded presets are valid"),
    variant: "default".into(),
    trust: Trust::default(),
    config: "fuzz".into(),
});

fuzz_target!(|data: &[u8]| {
    let Ok(request) = serde_json::from_slice::<Request>(data) else {
        return;
    };
    if let Some(source) = request.source() {
        assert!(!source.is_empty() && !source.contains('/'));
    }
    let estimate = request.body_len();
    let Ok(envelope) = request.into_envelope(fuzz::NOW) else {
        return;
    };
    let len = envelope.body.len();
    assert!((len..=len + 2).contains(&estimate), "{estimate} for {len}");
    GITHUB.answer_open_handshake(&envelope);
    let secret = Secret::new("fuzz", "a secret that is in no corpus");
    let answer = GITHUB.verify(&envelope, &[secret]);
    assert!(!matches!(answer, Ok(Arrival::Event(_))), "{answer:?}");
});
