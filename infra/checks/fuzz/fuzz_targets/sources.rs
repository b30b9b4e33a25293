//! The parser accepts or rejects any text of a sources file. A parsed file respects the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shared::sources::Config;

fuzz_target!(|text: &str| {
    let Ok(config) = Config::parse(text) else {
        return;
    };
    for source in config.sources() {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(source.name.bytes().all(plain), "{:?}", source.name);
        assert!((1..=40).contains(&source.name.len()));
        assert!(source.max_body > 0 && !source.actions.is_empty());
        let verifier = &source.verifier;
        assert!(verifier.preset.scheme(&verifier.variant).is_some());
        assert!(config.source(&source.name).is_some());
    }
});
