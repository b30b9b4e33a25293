//! backup-sync refers to the keys of providers' APIs by their names. The values of the keys are
//! only in the parameter store and in the requests to the provider. This also holds if the provider
//! rejects a key and repeats it in every possible form, and if a key cannot be sent at all.

mod refusing;

use std::path::PathBuf;
use std::sync::Mutex;

use aws_sdk_ssm::types::ParameterType;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use local::{Options, Stack};
use serde_json::json;
use shared::sources::Config;

use refusing::Provider;

const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");

/// Sources with every way to send a key, and with every task that sends one.
const SOURCES: &str = include_str!("secrets/sources.toml");

/// The names of the keys, and their values. No other text contains these values. The value for the
/// app is not a private key, so that its parser fails.
const KEYS: [(&str, &str); 9] = [
    ("of-bearer", "canary7d1fbearer"),
    ("of-endpoint", "canary7d1fendpoint"),
    ("of-objects", "canary7d1fobjects"),
    ("of-state", "canary7d1fstate"),
    ("of-header", "canary7d1fheader"),
    ("of-basic", "canary7d1fbasic"),
    ("of-exchange", "canary7d1fexchange"),
    ("of-query", "canary7d1fquery"),
    (
        "of-app",
        "-----BEGIN RSA PRIVATE KEY-----\ncanary7d1fapp\n-----END RSA PRIVATE KEY-----\n",
    ),
];

/// A text that every key contains.
const CANARY: &str = "canary7d1f";

/// The pairs of user and key, which are sent in base64.
const PAIRS: [&str; 2] = ["api:canary7d1fbasic", "app:canary7d1fexchange"];

const TASKS: [&str; 3] = ["sync", "endpoints", "reconcile"];

struct World {
    stack: Stack,
    provider: Provider,
    sources: String,
    folder: PathBuf,
    /// The results of the invocations.
    told: Mutex<String>,
}

impl World {
    async fn start(sources: &str, keys: &[(&str, &str)]) -> Self {
        let provider = Provider::start().await;
        let sources = sources.replace("BASE", &provider.base);
        let port = provider.base.rsplit(':').next().unwrap();
        let unique = format!("mitt-secrets-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("sources.toml");
        std::fs::write(&file, &sources).unwrap();
        let mut options = Options::new(TEMPLATE, testkit::programs());
        options.sources_file = Some(file);
        // The most verbose level that the template allows.
        let level = ("LogLevel".to_owned(), "DEBUG".to_owned());
        options.parameters.extend([level]);
        let stack = Stack::start(options).await.unwrap();
        for (name, value) in keys {
            let path = stack.secrets_path("BackupSync").unwrap();
            let put = stack.clients().ssm.put_parameter();
            let put = put.name(format!("{path}/{name}/current")).value(*value);
            let put = put.r#type(ParameterType::SecureString);
            put.send().await.unwrap();
        }
        Self {
            stack,
            provider,
            sources,
            folder,
            told: Mutex::default(),
        }
    }

    /// Runs a task, which must fail, and returns its error.
    async fn fails(&self, task: &str) -> String {
        let task = json!({ "task": task });
        let invocation = self.stack.invoke("BackupSync", &task).await.unwrap();
        let told = format!("{:?}", invocation.outcome);
        self.told.lock().unwrap().push_str(&told);
        let error = invocation.error();
        error.unwrap_or_else(|| panic!("{told}")).message.clone()
    }

    /// Returns all outputs that anyone except the provider can see, each with its name.
    async fn outputs(&self) -> Vec<(String, String)> {
        let told = self.told.lock().unwrap().clone();
        let config = Config::parse(&self.sources).unwrap();
        let mut outputs = vec![
            ("answers".to_owned(), told),
            ("sources.toml".to_owned(), self.sources.clone()),
            ("the configuration".to_owned(), format!("{config:?}")),
            ("the table".to_owned(), self.table().await),
        ];
        for function in self.stack.template().functions.keys() {
            let log = self.stack.log_file(function).unwrap();
            let log = std::fs::read_to_string(log).unwrap_or_default();
            outputs.push((format!("the log of {function}"), log));
            let environment = self.stack.environment(function).unwrap();
            let environment = format!("{environment:?}");
            outputs.push((format!("the environment of {function}"), environment));
            for process in self.stack.function_processes(function).unwrap() {
                // If this file does not exist, the environment above is sufficient.
                let own = std::fs::read(format!("/proc/{process}/environ"));
                let own = String::from_utf8_lossy(&own.unwrap_or_default()).into_owned();
                outputs.push((format!("the environment of process {process}"), own));
            }
        }
        outputs
    }

    async fn table(&self) -> String {
        #[expect(clippy::disallowed_methods, reason = "a test may read the whole table")]
        let all = self.stack.clients().dynamodb.scan();
        let all = all.table_name(self.stack.table().unwrap()).send();
        format!("{:?}", all.await.unwrap().items())
    }

    async fn nobody_sees_a_key(&self) {
        let pairs = PAIRS.map(|pair| STANDARD.encode(pair));
        for (name, output) in self.outputs().await {
            for form in [CANARY, &pairs[0], &pairs[1]] {
                let at = output.find(form);
                let around = at.map(|at| output.get(at.saturating_sub(300)..at + form.len()));
                assert!(around.is_none(), "{name} has {form}: {around:?}");
            }
        }
        let log = self.stack.log_file("BackupSync").unwrap();
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("\"DEBUG\""), "no line at DEBUG: {log}");
    }

    async fn end(self) {
        self.stack.stop().await;
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

#[tokio::test]
async fn a_key_that_is_refused_and_said_back_is_in_no_log_no_error_and_no_row() {
    let world = World::start(SOURCES, &KEYS).await;
    for status in [401, 403, 400, 302] {
        world.provider.refuses(status);
        for task in TASKS {
            let error = world.fails(task).await;
            if status == 401 {
                says_which(task, &error);
            }
        }
    }
    world.provider.refuses(401);
    world.provider.lists_objects();
    let error = world.fails("reconcile").await;
    assert!(error.contains("\"of-state\""), "{error}");

    let heard = world.provider.heard();
    for (_, value) in KEYS.iter().filter(|(name, _)| *name != "of-app") {
        let pairs = PAIRS.iter().filter(|pair| pair.contains(value));
        let mut forms = pairs.map(|pair| STANDARD.encode(pair));
        let is_heard = heard.contains(value) || forms.any(|form| heard.contains(&form));
        assert!(is_heard, "{value} was never shown to the provider: {heard}");
    }
    world.nobody_sees_a_key().await;
    world.end().await;
}

/// Checks that the error names the key, so that an operator can fix it.
fn says_which(task: &str, error: &str) {
    let names: &[&str] = match task {
        "sync" => &[
            "of-bearer",
            "of-header",
            "of-basic",
            "of-exchange",
            "of-query",
        ],
        "endpoints" => &["of-endpoint"],
        // The reconciliation calls the provider first, so it fails with this key.
        _ => &["of-objects"],
    };
    for name in names {
        assert!(error.contains(&format!("{name:?}")), "{task}: {error}");
    }
}

/// This happens, for example, if a key was stored with its line break.
#[tokio::test]
async fn a_key_that_cannot_be_sent_is_in_no_log_and_no_error() {
    let sources = SOURCES.split("[[source]]").take(2).collect::<Vec<_>>();
    let keys = [("of-bearer", "canary7d1fbearer\n")];
    let world = World::start(&sources.join("[[source]]"), &keys).await;
    let error = world.fails("sync").await;
    assert!(error.contains("header authorization"), "{error}");
    assert_eq!(world.provider.heard(), "");
    world.nobody_sees_a_key().await;
    world.end().await;
}

/// The configuration of backup-sync contains the path of the keys and their names.
#[tokio::test]
async fn the_template_gives_backup_sync_the_path_of_the_keys_and_nothing_of_them() {
    let template = std::fs::read_to_string(TEMPLATE).unwrap();
    // CloudFormation would replace such a dynamic reference with the value of the key.
    // https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references.html
    assert!(!template.contains("{{resolve:"), "a value by reference");
    let world = World::start(SOURCES, &KEYS).await;
    let environment = world.stack.environment("BackupSync").unwrap();
    let path = &environment["MITT_SECRETS_PATH"];
    assert!(path.ends_with("/provider-api"), "{path}");
    let config = Config::parse(&world.sources).unwrap();
    let config = format!("{config:?}");
    for (name, _) in KEYS {
        let parameter = format!("{path}/{name}/current");
        let stored = world.stack.clients().ssm.get_parameter().name(&parameter);
        assert!(stored.send().await.is_ok(), "{parameter}");
        assert!(config.contains(&format!("{name:?}")), "{name}: {config}");
    }
    world.end().await;
}

/// The sources file has no field for the value of a key.
#[test]
fn a_key_by_value_is_no_configuration() {
    assert!(Config::parse(SOURCES.replace("BASE", "http://127.0.0.1:9").as_str()).is_ok());
    for (from, to) in [
        ("secret = \"of-bearer\"", "secret = \"sk_live_7D1F\""),
        ("secret = \"of-bearer\"", "key = \"sk_live_7D1F\""),
        ("secret = \"of-endpoint\"", "secret = \"sk_live_7D1F\""),
        ("secret = \"of-objects\"", "secret = \"sk_live_7D1F\""),
        ("secret = \"of-state\"", "secret = \"sk_live_7D1F\""),
        (
            "auth = { kind = \"query\", name = \"api_key\" }",
            "auth = { kind = \"bearer\", token = \"sk_live_7D1F\" }",
        ),
        (
            "auth = { kind = \"query\", name = \"api_key\" }",
            "auth = { kind = \"query\", name = \"api_key\", value = \"sk_live_7D1F\" }",
        ),
    ] {
        assert!(SOURCES.contains(from), "{from}");
        let sources = SOURCES.replace("BASE", "http://127.0.0.1:9");
        let parsed = Config::parse(&sources.replace(from, to));
        assert!(parsed.is_err(), "{to} was taken");
    }
}
