use proptest::prelude::*;

use super::*;

/// A file with every kind of table. A test inserts faults.
const GOOD: &str = r#"schema = 1
[forward]
allow_hosts = ["hooks.example.com"]

[[source]]
name = "pay"
preset = "stripe"
retry = { attempts = 3, waits = ["1s", "2m"] }
[[source.action]]
kind = "http"
url = "https://hooks.example.com/pay"
secret = "orders"
timeout = "5s"
[[source.action]]
kind = "keep"
[source.sync]
overlap = "30m"

[[source]]
name = "code"
preset = "github"
[[source.action]]
kind = "sqs"
queue = "https://sqs.eu-central-1.amazonaws.com/111122223333/orders"
rate = "20/s"
"#;

/// Changes of the file, and the faults that they cause: the position, the path, and parts of the text.
type Case = (
    &'static [(&'static str, &'static str)],
    &'static [(usize, usize, &'static str, &'static str)],
);

fn shown(text: &str) -> Vec<String> {
    find(text, false).iter().map(Fault::text).collect()
}

fn check(cases: &[Case]) {
    for (changes, expected) in cases {
        let mut text = GOOD.to_owned();
        for (from, to) in *changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        let found = find(&text, false);
        let shown = shown(&text).join("\n");
        assert_eq!(found.len(), expected.len(), "{changes:?}\n{shown}");
        for (fault, (line, column, path, said)) in found.iter().zip(*expected) {
            let at = (fault.line, fault.column, fault.path.as_str());
            assert_eq!(at, (*line, *column, *path), "{changes:?}\n{shown}");
            assert!(fault.text().contains(said), "{said}\n{shown}");
        }
    }
}

#[test]
fn a_valid_file_has_no_faults() {
    assert_eq!(shown(GOOD), [""; 0]);
    assert_eq!(shown(shared::sources::EMBEDDED), [""; 0]);
}

const SYNTAX: &[Case] = &[
    (
        &[("schema = 1", "schema = ")],
        &[(1, 10, "", "invalid TOML: ")],
    ),
    (
        &[("preset = \"stripe\"", "preset = stripe")],
        &[(7, 10, "", "must be quoted")],
    ),
    (
        &[("preset = \"stripe\"", "preset = \"stripe")],
        &[(7, 17, "", "invalid TOML: ")],
    ),
    (
        &[("[source.sync]", "[source.sync")],
        &[(16, 13, "", "invalid TOML: ")],
    ),
    (
        &[("name = \"code\"", "name = \"code\"\nname = \"x\"")],
        &[(21, 1, "", "duplicate key")],
    ),
];

#[test]
fn a_fault_of_the_syntax_has_a_position() {
    check(SYNTAX);
}

const KEYS: &[Case] = &[
    (
        &[("schema = 1\n", "")],
        &[(
            1,
            1,
            "schema",
            "`schema` is missing; add `schema = 1` as the first line",
        )],
    ),
    (
        &[("schema = 1", "schema = 1\nquarantine = 5")],
        &[(
            2,
            1,
            "quarantine",
            "unknown setting `quarantine`; remove it, or use one of: schema, forward, source",
        )],
    ),
    (
        &[("preset = \"stripe\"", "presett = \"stripe\"")],
        &[(
            7,
            1,
            "source[0].presett",
            "unknown setting `presett`; did you mean `preset`?",
        )],
    ),
    (
        &[("allow_hosts", "allow_host")],
        &[(3, 1, "forward.allow_host", "did you mean `allow_hosts`?")],
    ),
    (
        &[("attempts = 3", "attempt = 3")],
        &[(8, 11, "source[0].retry.attempt", "did you mean `attempts`?")],
    ),
    (
        &[("timeout =", "timout =")],
        &[(
            13,
            1,
            "source[0].action[0].timout",
            "did you mean `timeout`?",
        )],
    ),
    (
        &[("timeout =", "leases =")],
        &[(
            13,
            1,
            "source[0].action[0].leases",
            "leases is not supported yet; remove the setting",
        )],
    ),
    (
        &[("overlap =", "sk_live_51H8xQzR =")],
        &[(17, 1, "source[0].sync.…", "unknown setting; remove it")],
    ),
    (
        &[("preset = \"github\"\n", "")],
        &[(
            19,
            1,
            "source[1].preset",
            "`preset` is missing; add a line such as `preset = \"shopify\"`",
        )],
    ),
    (
        &[("name = \"code\"\n", "")],
        &[(19, 1, "source[1].name", "`name` is missing")],
    ),
    (
        &[("kind = \"keep\"\n", "")],
        &[(14, 1, "source[0].action[1].kind", "`kind` is missing")],
    ),
    (
        &[(
            "[source.sync]",
            "[[source.reconcile]]\nobjects = \"subscriptions\"\n[source.sync]",
        )],
        &[(
            16,
            1,
            "source[0].reconcile[0].local",
            "`local` is missing; add the table `local`",
        )],
    ),
];

#[test]
fn a_fault_of_a_key_names_the_known_keys() {
    check(KEYS);
}

const TYPES: &[Case] = &[
    (
        &[("schema = 1", "schema = \"1\"")],
        &[(1, 1, "schema", "expected an integer, found a string")],
    ),
    (
        &[("\"5s\"", "5")],
        &[(
            13,
            1,
            "source[0].action[0].timeout",
            "expected a duration, found an integer; for example: timeout = \"5m\"",
        )],
    ),
    (
        &[("\"2m\"", "2")],
        &[(
            8,
            40,
            "source[0].retry.waits[1]",
            "expected a duration, found an integer",
        )],
    ),
    (
        &[("retry = {", "retry = 5 # {")],
        &[(
            8,
            1,
            "source[0].retry",
            "expected a table, found an integer",
        )],
    ),
    (
        &[("[\"hooks.example.com\"]", "\"hooks.example.com\"")],
        &[(
            3,
            1,
            "forward.allow_hosts",
            "expected a list of strings, found a string",
        )],
    ),
    (
        &[("attempts = 3", "attempts = -1")],
        &[(8, 11, "source[0].retry.attempts", "")],
    ),
    (
        &[("kind = \"http\"", "kind = \"htp\"")],
        &[(
            10,
            1,
            "source[0].action[0].kind",
            "unknown value `htp`; did you mean `http`?",
        )],
    ),
    (
        &[(
            "secret = \"orders\"",
            "sign = \"provder\"\nsecret = \"orders\"",
        )],
        &[(
            12,
            1,
            "source[0].action[0].sign",
            "did you mean `provider`?",
        )],
    ),
    (
        &[("kind = \"keep\"", "kind = \"kafka-topic\"")],
        &[(
            15,
            1,
            "source[0].action[1].kind",
            "use one of: keep, http, lambda",
        )],
    ),
];

#[test]
fn a_fault_of_a_type_shows_an_example() {
    check(TYPES);
}

const VALUES: &[Case] = &[
    (
        &[("schema = 1", "schema = 2")],
        &[(1, 1, "schema", "schema 2 is not supported; set schema = 1")],
    ),
    (
        &[("\"stripe\"", "\"strpe\"")],
        &[(
            7,
            1,
            "source[0].preset",
            "unknown preset \"strpe\"; did you mean `stripe`?",
        )],
    ),
    (
        &[("\"stripe\"", "\"zzz\"")],
        &[(7, 1, "source[0].preset", "lists the presets")],
    ),
    (
        &[("\"pay\"", "\"My Shop\"")],
        &[(6, 1, "source[0].name", "1 to 40 characters")],
    ),
    (
        &[("\"code\"", "\"pay\"")],
        &[(
            20,
            1,
            "source[1].name",
            "duplicate source \"pay\"; set a different name",
        )],
    ),
    (
        &[("https://hooks.", "https://evil.")],
        &[(
            11,
            1,
            "source[0].action[0].url",
            "is not in forward.allow_hosts; add the host",
        )],
    ),
    (
        &[("https://hooks.", "http://hooks.")],
        &[(11, 1, "source[0].action[0].url", "must begin with https://")],
    ),
    (
        &[("https://hooks.example.com/pay", "http://localhost:3000/pay")],
        &[(
            11,
            1,
            "source[0].action[0].url",
            "webhookctl dev --forward :3000",
        )],
    ),
    (
        &[("https://hooks.", "https://u@hooks.")],
        &[(11, 1, "source[0].action[0].url", "user name; remove it")],
    ),
    (
        &[("\"5s\"", "\"30m\"")],
        &[(13, 1, "source[0].action[0].timeout", "use 1s to 14m")],
    ),
    (
        &[("\"5s\"", "\"soon\"")],
        &[(
            13,
            1,
            "source[0].action[0].timeout",
            "use a duration like 10s",
        )],
    ),
    (
        &[("attempts = 3", "attempts = 0")],
        &[(
            8,
            11,
            "source[0].retry.attempts",
            "use a number between 1 and 50",
        )],
    ),
    (
        &[("\"2m\"", "\"25h\"")],
        &[(8, 25, "source[0].retry.waits", "at most 24h")],
    ),
    (
        &[("\"2m\"", "\"2 parsecs\"")],
        &[(8, 40, "source[0].retry.waits[1]", "use a duration like")],
    ),
    (
        &[("secret = \"orders\"\n", "")],
        &[(
            9,
            1,
            "source[0].action[0].secret",
            "secret is missing; set it",
        )],
    ),
    (
        &[("url = \"https://hooks.example.com/pay\"\n", "")],
        &[(9, 1, "source[0].action[0].url", "url is missing; set it")],
    ),
    (
        &[("\"20/s\"", "\"20 per second\"")],
        &[(25, 1, "source[1].action[0].rate", "use a rate like 20/s")],
    ),
    (
        &[("kind = \"keep\"", "kind = \"keep\"\nurl = \"https://x\"")],
        &[(
            16,
            1,
            "source[0].action[1].url",
            "not a setting of kind \"keep\"; remove",
        )],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\nvariant = \"v9\"",
        )],
        &[(8, 1, "source[0].variant", "has no variant \"v9\"; it has")],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\nparams = { region = \"eu\" }",
        )],
        &[(8, 1, "source[0].params", "unknown parameter")],
    ),
    (
        &[("preset = \"stripe\"", "preset = \"stripe\"\nmax_body = 0")],
        &[(8, 1, "source[0].max_body", "use a size between 1 and")],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\nretention = { rows = \"9d\" }",
        )],
        &[(8, 15, "source[0].retention.rows", "31d")],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\nretention = { rows = \"31d\", bodies = \"60d\" }",
        )],
        &[(8, 29, "source[0].retention.bodies", "longer than rows")],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\nquarantine = { per_day = 20000 }",
        )],
        &[(8, 16, "source[0].quarantine.per_day", "at most 10000")],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\nquiet_after = \"never\"",
        )],
        &[(
            8,
            1,
            "source[0].quiet_after",
            "duration like 12h, or \"off\"",
        )],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\ntee_timeout = \"5s\"",
        )],
        &[(
            8,
            1,
            "source[0].tee_timeout",
            "needs mode = \"tee\"; remove",
        )],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\naccount = [\"path:1\"]",
        )],
        &[(8, 12, "source[0].account[0]", "needs accept_path = true")],
    ),
    (
        &[(
            "preset = \"stripe\"",
            "preset = \"stripe\"\norder = { mode = \"strict\" }",
        )],
        &[],
    ),
    (
        &[(
            "preset = \"github\"",
            "preset = \"github\"\norder = { mode = \"latest_wins\", entity = \"json:id\", version = \"json:v\" }",
        )],
        &[(
            22,
            1,
            "source[1].order.compare",
            "compare is missing; to compare",
        )],
    ),
    (
        &[("overlap = \"30m\"", "variant = \"org\"")],
        &[(
            17,
            1,
            "source[0].sync.variant",
            "has no sync \"org\"; it has",
        )],
    ),
    (
        &[("overlap = \"30m\"", "overlap = \"721h\"")],
        &[(17, 1, "source[0].sync.overlap", "use at most 30 days")],
    ),
    (
        &[(
            "[source.sync]",
            "[source.endpoint]\nurl = \"https://hooks.example.com\"\n[source.sync]",
        )],
        &[(17, 1, "source[0].endpoint.url", "public URL of this source")],
    ),
];

#[test]
fn a_fault_of_a_value_says_what_to_write() {
    check(VALUES);
}

const SEVERAL: &[Case] = &[
    (
        &[
            ("\"stripe\"", "\"strpe\""),
            ("attempts = 3", "attempts = 0"),
            ("kind = \"http\"", "kind = \"htp\""),
            ("https://hooks.", "https://evil."),
            ("timeout =", "timout ="),
            ("\"5s\"", "\"5 s.\""),
            ("overlap =", "overlp ="),
            ("\"30m\"", "30"),
            ("name = \"code\"\n", ""),
            ("\"20/s\"", "20"),
        ],
        &[
            (7, 1, "source[0].preset", "did you mean `stripe`?"),
            (8, 11, "source[0].retry.attempts", "between 1 and 50"),
            (10, 1, "source[0].action[0].kind", "did you mean `http`?"),
            (11, 1, "source[0].action[0].url", "forward.allow_hosts"),
            (
                13,
                1,
                "source[0].action[0].timout",
                "did you mean `timeout`?",
            ),
            (13, 1, "source[0].action[0].timeout", "invalid duration"),
            (17, 1, "source[0].sync.overlp", "did you mean `overlap`?"),
            (
                17,
                1,
                "source[0].sync.overlap",
                "expected a duration, found an integer",
            ),
            (19, 1, "source[1].name", "`name` is missing"),
            (
                24,
                1,
                "source[1].action[0].rate",
                "expected a string, found an integer",
            ),
        ],
    ),
    (
        &[
            ("schema = 1\n", ""),
            ("\"5s\"", "\"30m\""),
            ("\"20/s\"", "\"fast\""),
        ],
        &[
            (1, 1, "schema", "as the first line"),
            (12, 1, "source[0].action[0].timeout", "use 1s to 14m"),
            (24, 1, "source[1].action[0].rate", "use a rate like"),
        ],
    ),
    (
        &[
            ("\"github\"", "\"zzz\""),
            ("\"20/s\"", "\"0/s\""),
            ("\"code\"", "\"pay\""),
        ],
        &[
            (20, 1, "source[1].name", "duplicate source"),
            (21, 1, "source[1].preset", "unknown preset"),
            (25, 1, "source[1].action[0].rate", "at least 1 call"),
        ],
    ),
];

#[test]
fn all_faults_of_a_file_are_reported_in_order() {
    check(SEVERAL);
}

const REPAIRED: &[Case] = &[
    // Without the preset, Mitt cannot know whether the sync exists.
    (
        &[("\"stripe\"", "\"zzz\"")],
        &[(7, 1, "source[0].preset", "")],
    ),
    // The hosts are unknown, so no URL is wrong.
    (
        &[("allow_hosts = [\"hooks.example.com\"]", "allow_hosts = 1")],
        &[(3, 1, "forward.allow_hosts", "")],
    ),
    (
        &[("kind = \"sqs\"", "kind = 7")],
        &[(
            23,
            1,
            "source[1].action[0].kind",
            "expected a string, found an integer",
        )],
    ),
];

#[test]
fn a_fault_that_a_repair_causes_is_not_reported() {
    check(REPAIRED);
}

#[test]
fn a_value_that_may_be_a_secret_is_not_shown() {
    for (from, to) in [
        ("\"orders\"", "\"KEY\""),
        ("\"orders\"", "{ KEY = 1 }"),
        ("\"pay\"", "\"KEY\""),
        ("\"stripe\"", "\"KEY_0\""),
        ("\"5s\"", "\"KEY_00\""),
        ("overlap", "KEY"),
        ("\"http\"", "\"KEY\""),
        ("https://hooks.example.com/pay", "KEY_00"),
        ("https://hooks", "https://u:KEY@hooks"),
    ] {
        let text = GOOD.replacen(from, &to.replace("KEY", "sk_live_51H8xQzR"), 1);
        let shown = shown(&text).join("\n");
        assert!(!shown.is_empty(), "{to}");
        assert!(!shown.contains("51H8"), "{to}: {shown}");
    }
}

#[test]
fn hosts_outside_the_limits_have_positions() {
    let text = GOOD.replace("[\"hooks", "[\"a.example.com\", \"b.example.com\", \"hooks");
    let config = Config::parse(&text).unwrap();
    let bounds = Bounds::of("hooks.example.com", false);
    let found = within(&config, &bounds, &text);
    let at: Vec<_> = found
        .iter()
        .map(|it| (it.line, it.column, it.path.as_str()))
        .collect();
    assert_eq!(
        at,
        [
            (3, 16, "forward.allow_hosts[0]"),
            (3, 33, "forward.allow_hosts[1]")
        ]
    );
    assert!(found[0].fix.contains("AllowedHosts"), "{found:?}");
}

#[test]
fn a_single_fault_is_in_the_message_and_more_are_below() {
    use std::path::Path;

    let error = |text: &str| {
        let error = Config::parse(text).unwrap_err();
        invalid(Path::new("s.toml"), text, false, &error)
    };
    let one = error(&GOOD.replace("schema = 1\n", ""));
    assert_eq!(
        one.message,
        "s.toml is invalid: line 1, column 1: schema: `schema` is missing; add `schema = 1` as the \
         first line"
    );
    assert_eq!(one.faults.unwrap().0.len(), 1);
    let two = error(&GOOD.replace("schema = 1\n", "").replace("\"5s\"", "5"));
    assert_eq!(two.message, "s.toml is invalid: 2 faults");
    assert_eq!(two.details.len(), 2);
    let json = two.render(crate::output::Format::Json, false);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let second = &json["error"]["faults"][1];
    assert_eq!(
        (&second["line"], &second["column"]),
        (&12.into(), &1.into())
    );
    assert_eq!(second["path"], "source[0].action[0].timeout");
    assert_eq!(json["error"].get("details"), None);
}

/// A change of a file: the share of the file at which it begins, its length, and the new text.
type Change = (f64, usize, String);

fn changed(text: &str, changes: &[Change]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (share, length, new) in changes {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "the file is short, and the share is between 0 and 1"
        )]
        let from = (*share * bytes.len() as f64) as usize;
        let to = (from + length).min(bytes.len());
        bytes.splice(from..to, new.bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn change() -> impl Strategy<Value = Change> {
    let words = [
        "",
        "",
        "x",
        "1",
        "\"",
        "[",
        "]",
        "{",
        "}",
        "=",
        "\n",
        "\n[",
        "\n[[source]]\n",
        "= 5\n",
        "= \"\"\n",
        "true",
        "[]",
        "{}",
        "source.",
        "ü",
    ];
    let new = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
    (0.0..1.0, 0_usize..40, new)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_is_valid_or_has_faults_in_it(
        changes in prop::collection::vec(change(), 1..4),
        embedded in any::<bool>(),
    ) {
        let file = if embedded { shared::sources::EMBEDDED } else { GOOD };
        let text = changed(file, &changes);
        let found = find(&text, false);
        prop_assert_eq!(found.is_empty(), Config::parse(&text).is_ok(), "{}", text);
        let lines: Vec<&str> = text.split('\n').collect();
        for fault in &found {
            let line = lines.get(fault.line - 1).map(|line| line.chars().count());
            prop_assert!(line.is_some_and(|length| fault.column <= length + 1), "{fault:?}\n{text}");
            prop_assert!(!fault.message.is_empty());
        }
        prop_assert!(found.len() < MOST);
    }
}
