//! A request that was not signed with the secret is never verified, whatever the scheme.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shared::webhook::preset::Kind;
use shared::webhook::verify::{Arrival, Rejected};

fuzz_target!(|data: &[u8]| {
    let Some((verifier, envelope)) = fuzz::request(data) else {
        return;
    };
    let scheme = fuzz::scheme(verifier);
    let secret = fuzz::secret(scheme);
    verifier.answer_open_handshake(&envelope);
    verifier.wanted(&envelope);
    let answer = verifier.verify(&envelope, std::slice::from_ref(&secret));
    let proves = !matches!(scheme.kind, Kind::FetchBack | Kind::None);
    let believed = matches!(answer, Ok(Arrival::Event(_)));
    assert!(!(proves && believed), "{answer:?}");
    if let Err(Rejected(reason)) = answer {
        let again = verifier.verify(&envelope, &[secret]);
        assert_eq!(again.err(), Some(Rejected(reason)));
    }
});
