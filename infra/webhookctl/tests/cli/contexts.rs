//! Contexts, as a user uses them: files, flags and the environment, the source of credentials, and
//! protected contexts.

use crate::support::folder::words;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, ensure};
use local::{Emulators, Naming, Template};
use serde_json::{Value, json};

const USER: &str = r#"
default = "prod"

[context.prod]
stack = "mitt-prod"
region = "eu-west-1"
profile = "prod-oncall"
protected = true
table = "mitt-prod-Inbox-1ABC"

[context.staging]
region = "eu-west-1"
table = "mitt-staging-Inbox-2DEF"
read_only = true
"#;

/// A home folder and a project folder for the test.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> anyhow::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("mitt-contexts-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("project"))?;
        Ok(Self(path))
    }

    fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        std::fs::write(self.0.join(name), text)?;
        Ok(())
    }

    fn webhookctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
        command
            .args(arguments)
            .current_dir(self.0.join("project"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.0)
            .env("NO_COLOR", "1")
            .env("WEBHOOKCTL_CONFIG", self.config())
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // A request that the test does not expect must not reach AWS.
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
        command
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.webhookctl(arguments).output()?)
    }

    fn shown(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        document(&self.run(&[&["context", "show", "-o", "json"], arguments].concat())?)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn document(output: &Output) -> anyhow::Result<Value> {
    ensure!(output.status.success(), "{}", stderr(output));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The emulated services of one stack, and a table in them.
async fn services() -> anyhow::Result<(Emulators, Template)> {
    let emulators = Emulators::start(None)?;
    let naming = Naming {
        queue_base: emulators.endpoints().sqs.clone(),
        ..Naming::default()
    };
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
    let template = Template::load(Path::new(template), &naming)?;
    emulators.provision(&template).await?;
    Ok((emulators, template))
}

/// Makes a command use these services in place of AWS.
fn at(emulators: &Emulators, mut command: Command) -> Command {
    let endpoints = emulators.endpoints();
    command
        .env("AWS_ENDPOINT_URL_DYNAMODB", &endpoints.dynamodb)
        .env("AWS_ENDPOINT_URL_SQS", &endpoints.sqs)
        .env("AWS_ENDPOINT_URL_S3", &endpoints.s3)
        .env("AWS_ENDPOINT_URL_SSM", &endpoints.ssm);
    command
}

fn with_keys(mut command: Command) -> Command {
    command
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    command
}

#[test]
fn flags_come_first_then_the_environment_the_project_and_the_user() -> anyhow::Result<()> {
    let home = Home::new("order")?;
    home.write("config.toml", USER)?;
    let user = home.shown(&[])?;
    assert_eq!(
        (&user["context"], &user["profile"]),
        (&json!("prod"), &json!("prod-oncall"))
    );

    let project = "[context.prod]\nprofile = \"me\"\n[context.staging]\nregion = \"us-east-1\"\n";
    home.write("project/.webhookctl.toml", project)?;
    let shown = home.shown(&[])?;
    assert_eq!(
        (&shown["profile"], &shown["region"]),
        (&json!("me"), &json!("eu-west-1"))
    );

    let mut command = home.webhookctl(&["context", "show", "-o", "json"]);
    command
        .env("WEBHOOKCTL_CONTEXT", "staging")
        .env("AWS_REGION", "eu-central-1");
    let environment = document(&command.output()?)?;
    assert_eq!(environment["context"], "staging");
    assert_eq!(environment["region"], "eu-central-1");

    let mut command = home.webhookctl(&words("context show -o json -c prod --region sa-east-1"));
    command
        .env("WEBHOOKCTL_CONTEXT", "staging")
        .env("AWS_REGION", "eu-central-1");
    let flags = document(&command.output()?)?;
    assert_eq!(
        (&flags["context"], &flags["region"]),
        (&json!("prod"), &json!("sa-east-1"))
    );
    Ok(())
}

#[test]
fn a_project_protects_and_does_not_unprotect() -> anyhow::Result<()> {
    let home = Home::new("protect")?;
    home.write("config.toml", USER)?;
    let project = "[context.prod]\nprotected = false\n[context.staging]\nread_only = false\n\
                   [context.aside]\nregion = \"eu-west-1\"\ntable = \"mitt-prod-Inbox-1ABC\"\n";
    home.write("project/.webhookctl.toml", project)?;
    assert_eq!(home.shown(&["prod"])?["protected"], true);
    assert_eq!(home.shown(&["staging"])?["read_only"], true);
    assert_eq!(home.shown(&["aside"])?["protected"], true, "by its table");
    let bare = ["--table", "mitt-prod-Inbox-1ABC", "--region", "eu-west-1"];
    assert_eq!(home.shown(&bare)?["protected"], true, "without any name");
    Ok(())
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_line() -> anyhow::Result<()> {
    let home = Home::new("mistake")?;
    home.write(
        "config.toml",
        "[context.prod]\nregion = \"eu-west-1\"\ntabel = \"x\"\n",
    )?;
    let output = home.run(&["context", "list"])?;
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("config.toml, line 3: unknown field `tabel`"),
        "{said}"
    );
    assert!(said.contains("did you mean 'table'?"), "{said}");
    Ok(())
}

#[test]
fn an_unknown_context_and_two_tables_are_refused() -> anyhow::Result<()> {
    let home = Home::new("unknown")?;
    home.write("config.toml", USER)?;
    let output = home.run(&["-c", "prdo", "inbox", "list"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("did you mean 'prod'?"),
        "{}",
        stderr(&output)
    );
    let output = home.run(&["-c", "prod", "--table", "mitt-other", "inbox", "list"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("[context.two_tables]"),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn outputs_of_a_stack_become_a_context() -> anyhow::Result<()> {
    let home = Home::new("outputs")?;
    let outputs = r#"{"Stacks":[{"Outputs":[
        {"OutputKey":"TableName","OutputValue":"mitt-Inbox-9"},
        {"OutputKey":"BackupSyncFunction","OutputValue":"mitt-BackupSync-9"}]}]}"#;
    home.write("outputs.json", outputs)?;
    let add = words("context add prod --outputs ../outputs.json --region eu-west-1 --protected");
    let output = home.run(&add)?;
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = home.shown(&[])?;
    assert_eq!(shown["context"], "prod", "the first is the default");
    assert_eq!(shown["names"]["table"], "mitt-Inbox-9");
    assert_eq!(shown["names"]["backup_sync"], "mitt-BackupSync-9");
    assert_eq!(shown["protected"], true);
    // Adding the same name again is an error, and adding another name does not change the default.
    assert_eq!(home.run(&add)?.status.code(), Some(2));
    let other = words("context add other --outputs ../outputs.json --region eu-west-1");
    assert!(home.run(&other)?.status.success());
    assert_eq!(home.shown(&[])?["context"], "prod");
    assert!(home.run(&["context", "use", "other"])?.status.success());
    let list = document(&home.run(&["context", "list", "-o", "json"])?)?;
    let used: Vec<(&Value, &Value)> = list["items"]
        .as_array()
        .context("items")?
        .iter()
        .map(|row| (&row["context"], &row["in_use"]))
        .collect();
    assert_eq!(
        used,
        [
            (&json!("other"), &json!(true)),
            (&json!("prod"), &json!(false))
        ]
    );
    Ok(())
}

#[tokio::test]
async fn an_id_that_is_not_there_may_be_in_another_deployment() -> anyhow::Result<()> {
    let home = Home::new("elsewhere")?;
    let (emulators, template) = services().await?;
    let table = &template.table_definition()?.name;
    let one = format!(
        "default = \"prod\"\n[context.prod]\nregion = \"eu-west-1\"\ntable = \"{table}\"\n"
    );
    let inspect = || {
        let inspect = home.webhookctl(&["inbox", "inspect", "in_1"]);
        with_keys(at(&emulators, inspect)).output()
    };
    home.write("config.toml", &one)?;
    let said = stderr(&inspect()?);
    let error = "error: no event 'in_1' in prod (eu-west-1) [inbox.not_found]";
    assert!(said.contains(error), "{said}");
    assert!(said.contains("tip: webhookctl inbox list\n"), "{said}");

    let two = one + "[context.staging]\nregion = \"eu-west-1\"\ntable = \"mitt-staging\"\n";
    home.write("config.toml", &two)?;
    let said = stderr(&inspect()?);
    let tip = "tip: the event may be in another deployment; contexts: staging (-c NAME)\n";
    assert!(said.contains(tip), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_stack_is_asked_once() -> anyhow::Result<()> {
    let home = Home::new("stack")?;
    let (emulators, template) = services().await?;
    let table = &template.table_definition()?.name;
    let put = |value: String| {
        let ssm = emulators.clients().ssm;
        async move {
            let kind = aws_sdk_ssm::types::ParameterType::String;
            let put = ssm.put_parameter().name("/mitt-prod/names").value(value);
            put.r#type(kind).overwrite(true).send().await
        }
    };
    put(json!({"table": table, "secrets_path": "/mitt-prod", "later": "unknown"}).to_string())
        .await?;
    let run = |arguments: &[&str]| with_keys(at(&emulators, home.webhookctl(arguments))).output();
    let add = words("context add prod --stack mitt-prod --region eu-west-1");
    let output = run(&add)?;
    assert!(output.status.success(), "{}", stderr(&output));
    let listed = run(&["inbox", "list", "-o", "json"])?;
    assert_eq!(document(&listed)?["items"], json!([]));

    put(json!({"table": table, "queue_url": "https://queue"}).to_string()).await?;
    assert!(
        home.shown(&[])?["names"]
            .get("queue_url")
            .is_none_or(Value::is_null)
    );
    let output = run(&["context", "add", "prod", "--refresh"])?;
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = home.shown(&[])?;
    assert_eq!(shown["names"]["queue_url"], "https://queue");
    assert_eq!(
        (&shown["stack"], &shown["region"]),
        (&json!("mitt-prod"), &json!("eu-west-1"))
    );

    let output = run(&words("context add x --stack mitt-none --region eu-west-1"))?;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("[context.no_stack]"),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[tokio::test]
async fn credentials_are_those_of_the_profile() -> anyhow::Result<()> {
    let home = Home::new("profile")?;
    let (emulators, template) = services().await?;
    let table = &template.table_definition()?.name;
    let printed = json!({"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "hunter2"});
    home.write("keys.json", &printed.to_string())?;
    let keys = home.0.join("keys.json");
    home.write(
        "aws",
        &format!(
            "[profile oncall]\nregion = eu-west-1\ncredential_process = /bin/cat {}\n\
             [profile broken]\nregion = eu-west-1\ncredential_process = /bin/echo hunter2\n",
            keys.display()
        ),
    )?;
    let run = |arguments: &[&str]| {
        let mut command = at(&emulators, home.webhookctl(arguments));
        command.env("AWS_CONFIG_FILE", home.0.join("aws"));
        command.output()
    };
    // The Region also comes from the profile.
    let listed = run(&[
        "--profile",
        "oncall",
        "--table",
        table,
        "inbox",
        "list",
        "-o",
        "json",
    ])?;
    assert_eq!(document(&listed)?["items"], json!([]));
    for (profile, word) in [("broken", "credential process"), ("none", "none")] {
        let output = run(&[
            "--profile",
            profile,
            "--region",
            "eu-west-1",
            "--table",
            table,
            "inbox",
            "list",
        ])?;
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(
            said.contains("[auth.none]") && said.contains(word),
            "{said}"
        );
        assert!(
            said.contains(&format!("aws sso login --profile {profile}")),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
    let output = run(&["--region", "eu-west-1", "--table", table, "inbox", "list"])?;
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    Ok(())
}

#[tokio::test]
async fn a_region_that_wins_over_the_context_is_told() -> anyhow::Result<()> {
    let home = Home::new("region")?;
    home.write("config.toml", USER)?;
    let (emulators, _) = services().await?;
    let mut command = with_keys(at(&emulators, home.webhookctl(&["inbox", "list"])));
    let output = command.env("AWS_REGION", "eu-central-1").output()?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    // A local endpoint has no Region, so the error cannot say that the Region is wrong.
    assert!(
        said.contains("[context.no_table]") || said.contains("[context.wrong_region]"),
        "{said}"
    );
    assert!(said.contains("mitt-prod-Inbox-1ABC"), "{said}");
    Ok(())
}

#[tokio::test]
async fn what_is_read_only_is_not_changed() -> anyhow::Result<()> {
    let home = Home::new("read-only")?;
    let (emulators, template) = services().await?;
    let table = &template.table_definition()?.name;
    let context =
        format!("default = \"a\"\n[context.a]\nregion = \"eu-west-1\"\ntable = \"{table}\"\n");
    home.write("config.toml", &context)?;
    let purge = ["quarantine", "purge", "--confirm", "0"];
    let run = |read_only: &str| {
        let mut command = with_keys(at(&emulators, home.webhookctl(&purge)));
        command.env("WEBHOOKCTL_READ_ONLY", read_only);
        command.stdin(Stdio::null()).output()
    };
    assert!(run("0")?.status.success(), "{}", stderr(&run("0")?));
    let refused = run("1")?;
    assert_eq!(refused.status.code(), Some(7), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("[context.read_only]"),
        "{}",
        stderr(&refused)
    );
    home.write("config.toml", &format!("{context}read_only = true\n"))?;
    assert_eq!(run("0")?.status.code(), Some(7));
    // Commands that only read still work.
    let list = with_keys(at(
        &emulators,
        home.webhookctl(&["inbox", "list", "-o", "json"]),
    ));
    let mut list = list;
    assert_eq!(document(&list.output()?)?["items"], json!([]));
    Ok(())
}
