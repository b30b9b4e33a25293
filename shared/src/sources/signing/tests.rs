use super::*;
use crate::sources::{ActionKind, Config};

const URL: &str = "https://hooks.example.com/x";

fn read(preset: &str, of_source: &str, of_action: &str) -> Result<Signing, String> {
    let text = format!(
        "schema = 1\n[forward]\nallow_hosts = [\"hooks.example.com\"]\n[[source]]\nname = \"s\"\n\
         preset = \"{preset}\"\n{of_source}\n[[source.action]]\nkind = \"http\"\nurl = \"{URL}\"\n\
         {of_action}\n"
    );
    let config = Config::parse(&text).map_err(|error| format!("{error:#}"))?;
    let action = &config.source("s").unwrap().actions[0];
    match &action.kind {
        ActionKind::Http { signing, .. } => Ok(signing.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_mode_has_its_settings() {
    let standard = Signing::Standard { secret: "k".into() };
    assert_eq!(read("stripe", "", "secret = 'k'"), Ok(standard.clone()));
    let given = read("stripe", "", "sign = 'standard'\nsecret = 'k'");
    assert_eq!(given, Ok(standard));
    let provider = "sign = 'provider'\nsecret = 'k'\nvariant = 'events'";
    assert_eq!(
        read("shopify", "", provider),
        Ok(Signing::Provider {
            secret: "k".into(),
            variant: Some("events".into()),
            signed_url: None,
        })
    );
    let url = "sign = 'provider'\nsecret = 'k'\nsigned_url = 'http://old.example.com/a?b=c'";
    assert!(read("twilio", "", url).is_ok());
    assert_eq!(
        read("stripe", "", "sign = 'as-received'\nstale = 'forward'"),
        Ok(Signing::AsReceived {
            stale: Stale::Forward
        })
    );
    assert_eq!(read("stripe", "", "sign = 'none'"), Ok(Signing::Unsigned));
}

const PUBSUB: &str = "params = { audience = \"https://in.example\", email = \"p@in.example\" }";
const KEYS: &str = "trust = { api_secret = \"keys\" }";
const MOLLIE: &str = "variant = \"classic\"\ntrust = { api_secret = \"shop\" }";
const FETCH: &str = "order = { mode = \"fetch\", url = \"https://hooks.example.com/{entity}\", \
                     version = \"json:u\", compare = \"time\" }";
const PROVIDER: &str = "sign = 'provider'\nsecret = 'k'";
const RECEIVED: &str = "sign = 'as-received'";

/// Preset, settings of the source, settings of the action, part of the error.
const IMPOSSIBLE: &[(&str, &str, &str, &str)] = &[
    ("paypal", "", PROVIDER, "use sign = \"as-received\""),
    ("sns", "", PROVIDER, "use sign = \"as-received\""),
    ("ebay", KEYS, PROVIDER, "\"as-received\""),
    ("google-pubsub", PUBSUB, PROVIDER, "use sign = \"standard\""),
    ("plaid", KEYS, PROVIDER, "use sign = \"standard\""),
    ("mollie", MOLLIE, PROVIDER, "use sign = \"standard\""),
    ("gitlab", "", RECEIVED, "credential"),
    ("gitlab", "", RECEIVED, "use sign = \"provider\""),
    ("chargebee", "", RECEIVED, "use sign = \"provider\""),
    ("google-pubsub", PUBSUB, RECEIVED, "use sign = \"standard\""),
    ("mollie", MOLLIE, RECEIVED, "use sign = \"standard\""),
    ("stripe", FETCH, RECEIVED, "order.mode = \"fetch\""),
    ("stripe", "", "sign = 'provider'", "secret is missing"),
    (
        "stripe",
        "",
        "sign = 'none'\nsecret = 'k'",
        "secret has no effect with sign = \"none\"",
    ),
    (
        "stripe",
        "",
        "sign = 'as-received'\nsecret = 'k'",
        "with sign = \"as-received\"",
    ),
    (
        "stripe",
        "",
        "secret = 'k'\nvariant = 'x'",
        "needs sign = \"provider\"",
    ),
    (
        "stripe",
        "",
        "secret = 'k'\nstale = 'forward'",
        "needs sign = \"as-received\"",
    ),
    (
        "stripe",
        "",
        "sign = 'resign'\nsecret = 'k'",
        "`as-received`",
    ),
    (
        "stripe",
        "",
        "sign = 'provider'\nsecret = 'k'\nvariant = 'x'",
        "no variant \"x\"; it has default",
    ),
    (
        "stripe",
        "",
        "sign = 'provider'\nsecret = 'k'\nsigned_url = 'https://a/b'",
        "do not cover the URL",
    ),
    (
        "twilio",
        "",
        "sign = 'provider'\nsecret = 'k'\nsigned_url = 'old.example.com'",
        "must begin with",
    ),
    (
        "twilio",
        "",
        "sign = 'provider'\nsecret = 'k'\nsigned_url = 'https://a/{path}'",
        "characters",
    ),
];

#[test]
fn a_mode_that_cannot_work_is_refused_with_one_that_can() {
    for (preset, source, action, said) in IMPOSSIBLE {
        let error = read(preset, source, action).unwrap_err();
        assert!(error.contains(said), "{preset} {action}: {error}");
        assert!(
            error.contains("\"http\"") || error.contains("line"),
            "{error}"
        );
    }
}

#[test]
fn a_signature_is_stale_before_its_receiver_refuses_it() {
    let config = |preset: &str, stale: &str| {
        let text = format!(
            "schema = 1\n[forward]\nallow_hosts = [\"hooks.example.com\"]\n[[source]]\n\
             name = \"s\"\npreset = \"{preset}\"\n[[source.action]]\nkind = \"http\"\n\
             url = \"{URL}\"\nsign = \"as-received\"\n{stale}\n"
        );
        Config::parse(&text).unwrap()
    };
    let at = |preset: &str, stale: &str, secs: i64| {
        let config = config(preset, stale);
        let source = config.source("s").unwrap();
        let ActionKind::Http { signing, .. } = &source.actions[0].kind else {
            panic!()
        };
        let received = UnixMillis::from_secs(1_000);
        signing.is_stale(
            &source.verifier,
            received,
            UnixMillis::from_secs(1_000 + secs),
        )
    };
    assert!(!at("stripe", "", 289));
    assert!(at("stripe", "", 290));
    assert!(!at("stripe", "stale = 'forward'", 100_000));
    // Without a signed time, a signature stays valid.
    assert!(!at("github", "", 100_000_000));
    assert!(!at("paypal", "", 100_000_000));
    // A window of five seconds leaves time for the first attempt.
    assert!(!at("paddle", "", 1));
    assert!(at("paddle", "", 3));
}
