use std::time::Duration;

use super::*;

/// A key that an operator pastes into the wrong setting by mistake.
const KEY: &str = "sk_live_51H8xQzR";

const GOOD: &str = r#"
schema = 1
[forward]
allow_hosts = ["hooks.example.com"]
[[source]]
name = "stripe-main"
preset = "stripe"
retry = { attempts = 3, waits = ["1s", "2m"] }
[[source.action]]
kind = "http"
url = "https://hooks.example.com/stripe"
secret = "orders"
[source.sync]
"#;

#[test]
fn the_embedded_file_is_good() {
    let config = Config::parse(EMBEDDED).unwrap();
    assert!(config.sources().count() > 0);
}

#[test]
fn every_setting_has_a_default() {
    let config = Config::parse(GOOD).unwrap();
    let source = config.source("stripe-main").unwrap();
    assert_eq!(
        (source.secret.as_str(), source.max_body),
        ("stripe-main", 1_048_576)
    );
    assert_eq!(
        (source.backoff.attempts, source.backoff.waits.len()),
        (3, 2)
    );
    assert_eq!(
        source.sync.as_ref().unwrap().overlap,
        Duration::from_secs(900)
    );
    assert!(config.source("other").is_none());
    assert_eq!(config.hash().len(), 8);
}

#[test]
fn a_destination_has_one_rate_for_all_of_its_actions() {
    let more = r#"
[[source.action]]
kind = "lambda"
function = "orders"
[[source.action]]
kind = "lambda"
name = "again"
function = "orders:live"
rate = "5/s"
"#;
    let config = Config::parse(&format!("{GOOD}{more}")).unwrap();
    let actions = &config.source("stripe-main").unwrap().actions;
    let rates: Vec<_> = actions
        .iter()
        .filter_map(|action| Some(action.destination.as_ref()?.rate?.calls))
        .collect();
    assert_eq!(rates, [5, 5]);
    let two = more.replace("\"orders\"\n", "\"orders\"\nrate = \"6/s\"\n");
    let error = Config::parse(&format!("{GOOD}{two}")).unwrap_err();
    assert!(format!("{error:#}").contains("two rates"), "{error:#}");
}

#[test]
fn only_a_source_without_effects_needs_no_lease() {
    let keep = "{ kind = \"keep\" }";
    for (preset, settings, only_keeps) in [
        ("stripe", format!("action = [{keep}]"), true),
        (
            "stripe",
            "action = [{ kind = \"keep\", name = \"paid\", types = [\"invoice.paid\"] }]"
                .to_owned(),
            true,
        ),
        // The processor reads these events to find a path that they lack.
        (
            "stripe",
            "action = [{ kind = \"keep\", where = [{ path = \"livemode\", equals = \"true\" }] }]"
                .to_owned(),
            false,
        ),
        (
            "stripe",
            format!("action = [{keep}]\norder = {{ mode = \"latest_wins\" }}"),
            false,
        ),
        // The processor confirms the subscription.
        ("sns", format!("action = [{keep}]"), false),
        (
            "stripe",
            format!("action = [{keep}, {{ kind = \"lambda\", function = \"orders\" }}]"),
            false,
        ),
        (
            "stripe",
            format!("action = [{keep}, {{ kind = \"rust\", name = \"open-issue\" }}]"),
            false,
        ),
        // A worker takes these events.
        ("stripe", "action = [{ kind = \"pull\" }]".to_owned(), false),
    ] {
        let file =
            format!("schema = 1\n[[source]]\nname = \"a\"\npreset = \"{preset}\"\n{settings}");
        let config = Config::parse(&file).unwrap();
        let source = config.source("a").unwrap();
        assert_eq!(source.only_keeps(), only_keeps, "{preset}: {settings}");
    }
}

#[test]
fn a_source_may_be_given_what_it_trusts() {
    let plaid = r#"
schema = 1
[[source]]
name = "plaid"
preset = "plaid"
[source.trust]
arming = false
jwks = '{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": "AA", "y": "AA"}]}'
[[source.action]]
kind = "keep"
"#;
    let config = Config::parse(plaid).unwrap();
    let trust = &config.source("plaid").unwrap().verifier.trust;
    assert_eq!((trust.arming, trust.has_jwks()), (Some(false), true));

    let roots = "certificates = { roots = '-----BEGIN CERTIFICATE-----' }";
    let error = Config::parse(&plaid.replace("arming = false", roots)).unwrap_err();
    assert!(
        format!("{error:#}").contains("the root certificates"),
        "{error:#}"
    );
}

#[test]
fn a_key_in_the_wrong_place_is_not_repeated() {
    for (from, to, line, said) in [
        ("\"orders\"", "\"KEY\"", 12, "a secret's name must have"),
        ("\"orders\"", "KEY", 12, "secret: "),
        ("\"orders\"", "{ KEY = 1 }", 12, "secret: invalid type: map"),
        (
            "\"stripe-main\"",
            "\"KEY\"",
            6,
            "source 1: a source's name must have",
        ),
        ("\"stripe\"\n", "\"KEY_0\"\n", 7, "unknown preset"),
        (
            "schema = 1",
            "schema = \"KEY\"",
            2,
            "schema: invalid type: string",
        ),
        ("schema = 1", "schema = 1\nKEY = 1", 3, "unknown field"),
        ("schema = 1", "schema = 1\nKEY", 3, ""),
        ("\"http\"", "\"KEY\"", 10, "unknown variant …"),
        ("3, waits", "\"KEY\", waits", 8, "attempts: invalid type"),
        ("\"2m\"", "\"KEY_0\"", 8, "invalid duration"),
        (
            "\"stripe\"\n",
            "\"stripe\"\nparams = { KEY_0 = \"1\" }\n",
            8,
            "unknown parameter",
        ),
        (
            "\"stripe\"\n",
            "\"stripe\"\ntrust = { api_secret = \"KEY\" }\n",
            8,
            "trust.api_secret must have",
        ),
        (
            "[source.sync]",
            "[source.sync]\nsecret = \"KEY\"",
            14,
            "a secret's name must have",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let to = to.replace("KEY", KEY);
        let error = Config::parse(&GOOD.replacen(from, &to, 1)).unwrap_err();
        for told in [format!("{error:#}"), format!("{error:?}")] {
            assert!(!told.contains("51H8"), "{to}: {told}");
            assert!(told.starts_with(&format!("line {line}: ")), "{to}: {told}");
            assert!(told.contains(said), "{to}: {told}");
        }
    }
}

#[test]
fn a_key_in_a_url_is_not_repeated() {
    for (from, to) in [
        ("https://hooks", "https://u:KEY@hooks"),
        ("https://hooks.example.com/stripe", "KEY"),
        ("https://hooks.example.com/", "https:///KEY"),
        ("https://hooks", "http://hooks.example.com/KEY"),
    ] {
        let to = to.replace("KEY", KEY);
        let error = Config::parse(&GOOD.replacen(from, &to, 1)).unwrap_err();
        let told = format!("{error:#}");
        assert!(!told.contains("51H8"), "{to}: {told}");
        assert!(told.contains("action \"http\": "), "{to}: {told}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_what_was_meant() {
    for (from, to, said) in [
        ("preset = \"stripe\"", "presett = \"stripe\"", "line 7"),
        ("preset = \"stripe\"", "presett = \"stripe\"", "`preset`"),
        ("\"stripe\"\n", "\"strpe\"\n", "unknown preset \"strpe\""),
        (
            "stripe-main",
            "Stripe Main",
            "a source's name must have 1 to 40",
        ),
        ("kind = \"http\"", "kind = \"htp\"", "`http`"),
        ("[forward]", "[forward]\nallow_host = []", "allow_hosts"),
        ("https://hooks", "https://evil", "forward.allow_hosts"),
        ("https://hooks", "http://hooks", "must begin with https://"),
        ("https://hooks", "https://u@hooks", "contains a user name"),
        (
            "https://hooks.example.com",
            "http://127.0.0.1:3000",
            "run `webhookctl dev --forward :3000`",
        ),
        ("attempts = 3", "attempts = 0", "between 1 and 50"),
        ("\"2m\"", "\"2 parsecs\"", "2 parsecs"),
        ("\"2m\"", "\"25h\"", "at most 24h"),
        ("schema = 1", "schema = 1\nquarantine = 5", "`quarantine`"),
        ("secret = \"orders\"", "", "secret is missing"),
        ("schema = 1", "schema = 2", "schema 2"),
        ("schema = 1", "schema = ", "line 2"),
    ] {
        assert_refused(from, to, said);
    }
}

#[test]
fn only_a_file_for_dev_may_send_to_this_machine() {
    let file = |url: &str| {
        format!(
            "schema = 1\n[[source]]\nname = \"a\"\npreset = \"stripe\"\naction = [{{ kind = \
             \"http\", url = \"{url}\", secret = \"s\" }}]\n"
        )
    };
    for url in [
        "http://localhost/a",
        "http://127.0.0.1:3000",
        "http://[::1]/",
    ] {
        assert!(is_on_this_machine(url), "{url}");
        let refused = Config::parse(&file(url)).unwrap_err().to_string();
        assert!(refused.contains("webhookctl dev --forward :"), "{refused}");
        let config = Config::parse_for_dev(&file(url)).unwrap();
        assert!(config.forward.allow_loopback);
    }
    let elsewhere = "https://localhost.example.com/a";
    assert!(!is_on_this_machine(elsewhere));
    let refused = Config::parse_for_dev(&file(elsewhere)).unwrap_err();
    assert!(refused.to_string().contains("forward.allow_hosts"));
}

#[test]
fn a_wrong_setting_of_a_source_is_refused() {
    for (from, to, said) in [
        (
            "retry = {",
            "quarantine = { perday = 1 }\nretry = {",
            "`per_day`",
        ),
        (
            "\"stripe\"\n",
            "\"sns\"\nquarantine = { per_day = 0 }\n",
            "needs the quarantine",
        ),
        (
            "retry =",
            "trust = { fetch_from = \"https://evil\" }\nretry =",
            "forward.allow_hosts",
        ),
        ("\"stripe\"\n", "\"ebay\"\n", "trust.keys"),
        (
            "\"stripe\"\n",
            "\"mollie\"\nvariant = \"classic\"\n",
            "--name /<stack>/provider-api/NAME/current",
        ),
        (
            "retry =",
            "retention = { rows = \"120d\" }\norder = { mode = \"latest_wins\" }\nretry =",
            "less than 120d",
        ),
        ("\"stripe\"\n", "\"plaid\"\n", "trust.jwks"),
        ("\"stripe\"\n", "\"google-pubsub\"\n", "is not set"),
        (
            "retry =",
            "trust = { jwks = \"x\" }\nretry =",
            "invalid key set",
        ),
    ] {
        assert_refused(from, to, said);
    }
}

/// Checks that the valid file with one change is rejected with this text.
fn assert_refused(from: &str, to: &str, said: &str) {
    assert!(GOOD.contains(from), "{from}");
    let error = Config::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains(said), "{to}: {error}");
}

#[test]
fn two_sources_cannot_have_one_name() {
    let twice = format!(
        "{GOOD}\n{}",
        GOOD.split_once("[[source]]")
            .map(|(_, s)| format!("[[source]]{s}"))
            .unwrap()
    );
    assert!(format!("{:#}", Config::parse(&twice).unwrap_err()).contains("duplicate"));
}
