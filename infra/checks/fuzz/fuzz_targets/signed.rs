//! This program signs a request with any content. The event must have the same bytes. A request
//! with one changed bit in a signed body must be rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::{Kind, Part};
use shared::webhook::sign::{can_sign, signed};
use shared::webhook::verify::Arrival;

fuzz_target!(|data: &[u8]| {
    let Some((verifier, draft)) = fuzz::request(data) else {
        return;
    };
    let scheme = fuzz::scheme(verifier);
    let secret = fuzz::secret(scheme);
    if !can_sign(scheme) {
        return;
    }
    let Ok(request) = signed(scheme, &secret, draft, fuzz::NOW) else {
        return;
    };
    let secrets = [secret];
    // Some headers make the request ambiguous, so it is rejected.
    let Ok(Arrival::Event(event)) = verifier.verify(&request, &secrets) else {
        return;
    };
    assert_eq!(event.body(), &request.body);
    assert_eq!(event.key().source(), "s");
    let id = event.key().id();
    assert!(!id.is_empty() && id.len() <= 200 && id.is_ascii(), "{id}");
    let covers_body =
        matches!(scheme.kind, Kind::Hmac | Kind::Hash) && scheme.message.0.contains(&Part::Body);
    if covers_body && !request.body.is_empty() {
        let mut body = request.body.to_vec();
        let at = usize::from(data[0] ^ data[data.len() - 1]) % body.len();
        body[at] ^= 1;
        let changed = Envelope {
            body: body.into(),
            ..request
        };
        let answer = verifier.verify(&changed, &secrets);
        assert!(!matches!(answer, Ok(Arrival::Event(_))), "{answer:?}");
    }
});
