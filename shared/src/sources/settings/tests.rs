//! Compares the table of the settings with the types that read the file.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::sources::Config;

/// Tables whose settings another page lists, because presets have the same tables.
const ELSEWHERE: [&str; 4] = [
    "source[].policy[].where[]",
    "source[].sync.list",
    "source[].reconcile[].list",
    "source[].reconcile[].where[]",
];

/// Returns the tables that have settings.
fn tables() -> BTreeSet<&'static str> {
    all().map(Setting::table).collect()
}

/// Returns a file with one table, and with a line in it. Other required settings are missing.
fn only(table: &str, line: &str) -> String {
    let mut text = "schema = 1\n".to_owned();
    if line.starts_with("schema") {
        text.clear();
    }
    let mut header = String::new();
    for part in table.split('.').filter(|part| !part.is_empty()) {
        if !header.is_empty() {
            header.push('.');
        }
        let key = part.trim_end_matches("[]");
        header.push_str(key);
        if key == part {
            text.extend(["[", &header, "]\n"]);
        } else {
            text.extend(["[[", &header, "]]\n"]);
        }
    }
    text + line + "\n"
}

/// Returns the words that the parser expects in place of an unknown one.
fn expected(file: &str) -> BTreeSet<String> {
    let error = format!("{:#}", Config::parse(file).unwrap_err());
    let (_, list) = error
        .rsplit_once(", expected ")
        .unwrap_or_else(|| panic!("{file}\n{error}"));
    list.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns the keys that the parser knows in a table.
fn keys(table: &str) -> BTreeSet<String> {
    if table == "source[].reconcile[].local" {
        let of = |kind: &str| expected(&only(table, &format!("kind = \"{kind}\"\nzzz = 1")));
        let mut keys = of("dynamodb");
        keys.extend(of("http"));
        keys.insert("kind".to_owned());
        return keys;
    }
    expected(&only(table, "zzz = 1"))
}

#[test]
fn each_table_has_exactly_the_settings_of_its_type() {
    assert!(tables().len() > 15, "{:?}", tables());
    for table in tables() {
        let known: Vec<_> = all()
            .filter(|it| it.table() == table)
            .map(Setting::key)
            .collect();
        let listed: BTreeSet<String> = known.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(listed.len(), known.len(), "{table} lists a setting twice");
        assert_eq!(listed, keys(table), "{table}");
    }
    let conditions = keys("source[].reconcile[].where[]");
    assert_eq!(conditions, keys("source[].action[].where[]"));
    assert_eq!(conditions, keys("source[].policy[].where[]"));
}

#[test]
fn each_table_of_a_file_has_its_settings_listed() {
    let with_settings = tables();
    for setting in all() {
        let below = match setting.kind {
            Kind::Table => setting.path.to_owned(),
            Kind::Tables => format!("{}[]", setting.path),
            _ => continue,
        };
        let is_listed = with_settings.contains(below.as_str());
        assert_ne!(is_listed, ELSEWHERE.contains(&below.as_str()), "{below}");
    }
}

#[test]
fn the_words_of_a_setting_are_those_of_its_type() {
    let mut seen = 0;
    for setting in all() {
        if let Kind::Word(words) = setting.kind {
            let line = format!("{} = \"zzz\"", setting.key());
            let words: BTreeSet<_> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(
                words,
                expected(&only(setting.table(), &line)),
                "{}",
                setting.path
            );
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen}");
}

/// A file in which a setting is valid: what the source and the table need beside it.
struct Needs {
    preset: &'static str,
    /// Lines of the source.
    source: &'static str,
    /// Lines of the table of the setting.
    beside: &'static str,
}

fn needs(setting: &Setting) -> Needs {
    let (table, key) = (setting.table(), setting.key());
    let preset = match setting.path {
        "source[].preset" => "",
        "source[].variant" => "mollie",
        "source[].params"
        | "source[].sync.missing"
        | "source[].sync.failed_only"
        | "source[].sync.fields"
        | "source[].reconcile[].with" => "github",
        "source[].order.mode" => "paddle",
        "source[].trust.jwks" => "plaid",
        "source[].trust.keys" => "ebay",
        "source[].action[].signed_url" => "twilio",
        path if path.starts_with("source[].endpoint") => "github",
        _ => "stripe",
    };
    let source = match setting.path {
        "source[].variant" => "trust = { api_secret = \"mollie\" }",
        "source[].mode" | "source[].tee_timeout" => ROUTE,
        path if path.starts_with("source[].policy") => ROUTE,
        _ => "",
    };
    let beside = match (table, key) {
        ("source[]", "tee_timeout") => "mode = \"tee\"",
        ("source[].sync", "missing" | "failed_only") => {
            "fields = { owner = \"acme\", repo = \"shop\", hook = \"7\" }"
        }
        ("source[].endpoint", "with") | ("source[].action[].where[]", "account") => "",
        ("source[].endpoint", _) => "with = { repo = \"acme/shop\" }",
        ("source[].order", key) => order(key),
        ("source[].policy[]", "name") => "decide = \"hold\"",
        ("source[].policy[]", "decide") => "name = \"x\"",
        ("source[].policy[]", "rate") => "name = \"x\"\ndecide = \"hold\"\neffect = \"*\"",
        ("source[].policy[]", "per") => {
            "name = \"x\"\ndecide = \"hold\"\neffect = \"*\"\nrate = \"20/1h\""
        }
        ("source[].policy[]", _) => "name = \"x\"\ndecide = \"hold\"",
        ("source[].policy[].amount", _) => "path = \"other\"\nabove = 1",
        ("source[].policy[].not_in", _) => "path = \"other\"\nlist = [\"x\"]",
        ("source[].action[]", key) => action(key),
        ("source[].action[].where[]", "path" | "header" | "query") => "exists = true",
        ("source[].action[].where[]", _) => "path = \"status\"",
        ("source[].reconcile[].local", "url" | "secret" | "items" | "next") => {
            "kind = \"http\"\nurl = \"https://hooks.example.com/x\"\nsecret = \"x\""
        }
        ("source[].reconcile[].local", "index") => {
            "kind = \"dynamodb\"\ntable = \"subs\"\nid = \"id\"\nkey = { pk = \"{id}\" }\npartition = { a = \"b\" }"
        }
        ("source[].reconcile[].local", _) => {
            "kind = \"dynamodb\"\ntable = \"subs\"\nid = \"id\"\nkey = { pk = \"{id}\" }"
        }
        ("source[].reconcile[].fields[]", _) => "name = \"a\"",
        _ => "",
    };
    Needs {
        preset,
        source,
        beside,
    }
}

const ROUTE: &str =
    "action = [{ kind = \"http\", url = \"https://hooks.example.com/x\", secret = \"x\" }]";

const LOCAL: &str =
    "local = { kind = \"dynamodb\", table = \"subs\", id = \"id\", key = { pk = \"{id}\" } }";

fn order(key: &str) -> &'static str {
    match key {
        "mode" => "",
        "entity" | "version" | "compare" => {
            "mode = \"latest_wins\"\nentity = \"json:id\"\nversion = \"json:v\"\ncompare = \"number\""
        }
        _ => {
            "mode = \"fetch\"\nentity = \"json:id\"\nversion = \"json:v\"\ncompare = \"number\"\n\
             url = \"https://hooks.example.com/{entity}\""
        }
    }
}

fn action(key: &str) -> &'static str {
    match key {
        "function" | "invocation" | "permanent_errors" => "kind = \"lambda\"\nfunction = \"x\"",
        "queue" | "group" => {
            "kind = \"sqs\"\n\
             queue = \"https://sqs.eu-central-1.amazonaws.com/111122223333/x.fifo\""
        }
        "bus" | "source" | "detail_type" => "kind = \"eventbridge\"",
        "state_machine" => "kind = \"step-functions\"",
        "lease" | "max_hold" | "workers" => "kind = \"pull\"",
        "params" => "kind = \"rust\"\nname = \"x\"",
        "stale" => "kind = \"http\"\nurl = \"https://hooks.example.com/x\"\nsign = \"as-received\"",
        "variant" | "signed_url" => {
            "kind = \"http\"\nurl = \"https://hooks.example.com/x\"\nsecret = \"x\"\n\
             sign = \"provider\""
        }
        _ => "kind = \"http\"\nurl = \"https://hooks.example.com/x\"\nsecret = \"x\"",
    }
}

/// The lines of each table, by its path. A table comes before the tables in it.
type Lines = BTreeMap<&'static str, String>;

fn add(lines: &mut Lines, table: &'static str, line: &str) {
    let all = lines.entry(table).or_default();
    all.push_str(line.trim_start());
    all.push('\n');
}

/// Returns a file with a setting. `None` leaves the setting out.
fn file(setting: &Setting, value: Option<&str>) -> String {
    let Needs {
        preset,
        source,
        beside,
    } = needs(setting);
    let (table, key) = (setting.table(), setting.key());
    let mut lines = around(setting, source);
    if !preset.is_empty() {
        add(&mut lines, "source[]", &format!("preset = \"{preset}\""));
    }
    let begins = format!("{key} = ");
    for line in beside.lines().filter(|line| !line.starts_with(&begins)) {
        add(&mut lines, table, line);
    }
    let own = value.map(|value| format!("{key} = {value}"));
    add(&mut lines, table, &own.unwrap_or_default());
    written(&lines)
}

/// Returns the tables around a setting, with their required settings.
fn around(setting: &Setting, source: &'static str) -> Lines {
    let (table, key) = (setting.table(), setting.key());
    let mut lines = Lines::new();
    if setting.path != "schema" {
        add(&mut lines, "", "schema = 1");
    }
    if table != "forward" {
        let hosts = "allow_hosts = [\"hooks.example.com\", \"mirror.example.com\"]";
        add(&mut lines, "forward", hosts);
    }
    if setting.path != "source[].name" {
        add(&mut lines, "source[]", "name = \"a\"");
    }
    add(&mut lines, "source[]", source);
    if table == "source[].action[].where[]" {
        add(&mut lines, "source[].action[]", "kind = \"keep\"");
    } else if !table.starts_with("source[].action") && !source.contains("action =") {
        add(&mut lines, "source[]", "action = [{ kind = \"keep\" }]");
    }
    if table.starts_with("source[].reconcile") {
        if key != "objects" {
            let objects = if key == "with" {
                "hooks"
            } else {
                "subscriptions"
            };
            let objects = format!("objects = \"{objects}\"");
            add(&mut lines, "source[].reconcile[]", &objects);
        }
        if table != "source[].reconcile[].local" {
            add(&mut lines, "source[].reconcile[]", LOCAL);
        }
    }
    if table.starts_with("source[].policy[].") {
        let rule = "name = \"x\"\ndecide = \"hold\"";
        add(&mut lines, "source[].policy[]", rule);
    }
    if table == "source[].endpoint" && key != "url" {
        let url = "url = \"https://hooks.example.com/in/a\"";
        add(&mut lines, "source[].endpoint", url);
    }
    lines
}

/// Returns the file with these tables.
fn written(lines: &Lines) -> String {
    let mut text = String::new();
    for (path, lines) in lines {
        let header = path.replace("[]", "");
        if path.ends_with("[]") {
            text.extend(["[[", &header, "]]\n"]);
        } else if !path.is_empty() {
            text.extend(["[", &header, "]\n"]);
        }
        text += lines;
    }
    text
}

/// Returns what the parser makes of a file.
fn parsed(file: &str) -> Result<String, String> {
    let config = Config::parse(file).map_err(|error| format!("{error:#}\n{file}"))?;
    // Each row contains the hash, which differs for each text.
    Ok(format!("{config:?}").replace(config.hash(), "HASH"))
}

#[test]
fn each_example_is_valid_and_changes_something() {
    let mut wrong = Vec::new();
    for setting in all() {
        let Some(example) = setting.example else {
            let is_table = matches!(setting.kind, Kind::Table | Kind::Tables);
            let is_long = setting.table() == "source[].trust.certificates";
            assert!(is_table || is_long, "{} has no example", setting.path);
            continue;
        };
        let with = match parsed(&file(setting, Some(example))) {
            Ok(with) => with,
            Err(error) => {
                wrong.push(format!("{}: {error}", setting.path));
                continue;
            }
        };
        let other = match setting.absent {
            Absent::Is(default) => file(setting, Some(default)),
            Absent::Required | Absent::Means(_) => file(setting, None),
        };
        // The example of the variant of a sync is the list that the sync reads without it.
        if setting.path != "source[].sync.variant" && parsed(&other) == Ok(with) {
            wrong.push(format!("{}: the example changes nothing", setting.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_default_is_what_the_parser_uses() {
    let mut seen = 0;
    for setting in all() {
        let without = file(setting, None);
        match setting.absent {
            Absent::Is(default) => {
                let with = file(setting, Some(default));
                assert_eq!(parsed(&with), parsed(&without), "{}", setting.path);
                assert!(parsed(&with).is_ok(), "{:?}", parsed(&with));
                seen += 1;
            }
            Absent::Required => {
                let key = setting.key();
                if !matches!(setting.kind, Kind::Table | Kind::Tables) {
                    let error = Config::parse(&without).unwrap_err();
                    let error = format!("{error:#}");
                    assert!(
                        error.contains(key) && error.contains("missing"),
                        "{key}: {error}"
                    );
                }
            }
            Absent::Means(text) => assert!(!text.is_empty()),
        }
    }
    assert!(seen > 25, "{seen}");
}

#[test]
fn a_value_of_another_type_is_refused() {
    for setting in all() {
        let mut line = format!("{} = [[1]]", setting.key());
        if setting.path.starts_with("source[].reconcile[].local.") && setting.key() != "kind" {
            let is_of_http = ["url", "secret", "items", "next"].contains(&setting.key());
            let kind = if is_of_http { "http" } else { "dynamodb" };
            line = format!("kind = \"{kind}\"\n{line}");
        }
        let error = Config::parse(&only(setting.table(), &line)).unwrap_err();
        let error = format!("{error:#}");
        let is_type = ["invalid type", "wanted string or table"];
        let is_other = matches!(setting.kind, Kind::Other(_));
        assert!(
            is_other || is_type.iter().any(|said| error.contains(said)),
            "{}: {error}",
            setting.path
        );
    }
}

#[test]
fn a_setting_is_found_at_its_path() {
    let path = [
        Step::from("source"),
        Step::Index(3),
        Step::from("action"),
        Step::Index(0),
        Step::from("timeout"),
    ];
    assert_eq!(at(&path).map(Setting::key), Some("timeout"));
    assert!(at(&path[..2]).is_none());
    let path = [
        "source".into(),
        Step::Named("shop".to_owned()),
        "name".into(),
    ];
    assert_eq!(pattern(&path), "source[].name");
}
