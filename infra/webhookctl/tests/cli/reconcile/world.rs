//! A stack with a source for a comparison, and both sides of the comparison.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Output;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use local::{Options, Rights, Stack};
use serde_json::{Value, json};
use shared::inbox::ledger::Ledger;
use tokio::process::Command;
use webhookctl::target::Local;

use super::provider::{API_KEY, APP_TOKEN, Api, app, github, stripe};
use crate::support::folder::Folder;
pub(crate) use crate::support::folder::told;
use crate::support::log::deeds;
use crate::support::stack::{announce, options};

/// The table of an application, next to the inbox.
pub(crate) const TABLE: &str = "app-subscriptions";
/// A table that the policy of the application permits and that does not exist.
pub(crate) const MISSING_TABLE: &str = "app-no-such-table";

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) stripe: Api,
    pub(crate) github: Api,
    pub(crate) app: Api,
    pub(crate) ledger: Ledger,
    folder: Folder,
}

/// Compares subscriptions with the table, by their id.
pub(crate) const BY_ID: &str = r#"
[[source.reconcile]]
objects = "subscriptions"
fields = [
  { name = "status" },
  { name = "plan", there = "items.data[*].price.id", here = "billing.tier", values = { price_pro = "pro", price_free = "free" } },
]
[source.reconcile.local]
kind = "dynamodb"
table = "app-subscriptions"
id = "stripe_id"
key = { pk = "SUB#{id}" }
"#;

/// Compares subscriptions with the application's endpoint, by their id.
pub(crate) const OVER_HTTP: &str = r#"
[[source.reconcile]]
objects = "subscriptions"
fields = [{ name = "status" }]
[source.reconcile.local]
kind = "http"
url = "{app}/state"
secret = "app"
"#;

/// The permissions of the roles, with the policy for the tables of the application that
/// `StatePolicyArn` names.
fn rights() -> Rights {
    let resources = [TABLE, MISSING_TABLE].map(|name| {
        let table = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{name}");
        [format!("{table}/index/*"), table]
    });
    let read = json!({
        "Sid": "ReadState", "Effect": "Allow",
        "Action": ["dynamodb:Scan", "dynamodb:GetItem", "dynamodb:Query"],
        "Resource": resources.as_flattened(),
    });
    Rights {
        managed: [("BackupSyncRole".to_owned(), vec![read])].into(),
        ..testkit::rights::enforced()
    }
}

impl World {
    /// Starts a stack whose Stripe source has this configuration.
    pub(crate) async fn start(reconcile: &str) -> Self {
        let (stripe_api, github_api, app_api) = (Api::default(), Api::default(), Api::default());
        let (stripe_url, github_url, app_url) = (
            serve(stripe(&stripe_api)),
            serve(github(&github_api)),
            serve(app(&app_api)),
        );
        let sources = format!(
            "schema = 1\n[forward]\nallow_loopback = true\n\
             [[source]]\nname = \"github-main\"\npreset = \"github\"\nparams = {{ api = \"{github_url}\" }}\n\
             [[source.action]]\nkind = \"keep\"\n\
             [[source.reconcile]]\nobjects = \"hooks\"\nwith = {{ repo = \"octo/hello\" }}\n\
             fields = [{{ name = \"active\" }}, {{ name = \"events\" }}]\n\
             [source.reconcile.local]\nkind = \"http\"\nurl = \"{app_url}/state\"\nsecret = \"app\"\n\
             [[source]]\nname = \"stripe-main\"\npreset = \"stripe\"\nparams = {{ api = \"{stripe_url}\" }}\n\
             [[source.action]]\nkind = \"keep\"\n{}",
            reconcile.replace("{app}", &app_url)
        );
        Self::of(&sources, [stripe_api, github_api, app_api]).await
    }

    /// Starts a stack with these sources.
    pub(crate) async fn of(sources: &str, apis: [Api; 3]) -> Self {
        let [stripe_api, github_api, app_api] = apis;
        let folder = Folder::new("reconcile").unwrap();
        folder.write("sources.toml", sources).unwrap();
        let options = Options {
            rights: Some(rights()),
            ..options(&folder)
        };
        let stack = Stack::start(options).await.unwrap();
        let world = Self {
            ledger: Ledger::new(stack.clients().dynamodb, stack.table().unwrap(), None),
            stack,
            stripe: stripe_api,
            github: github_api,
            app: app_api,
            folder,
        };
        for (name, value) in [
            ("stripe-main", API_KEY),
            ("github-main", API_KEY),
            ("gitlab-main", API_KEY),
            ("shopify-main", API_KEY),
            ("app", APP_TOKEN),
        ] {
            world.secret(name, value).await;
        }
        world.make_table().await;
        let endpoint = world.stack.endpoints().dynamodb.clone();
        world.announce(&endpoint);
        world
    }

    pub(crate) async fn secret(&self, name: &str, value: &str) {
        let path = self.stack.secrets_path("BackupSync").unwrap();
        let put = self.stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/{name}/current")).value(value);
        let put = put.r#type(ParameterType::SecureString).overwrite(true);
        put.send().await.unwrap();
    }

    /// Writes the file that describes the stack to commands, as `dev` does. DynamoDB is at this
    /// address.
    pub(crate) fn announce(&self, dynamodb: &str) {
        let sources = self.folder.path().join("sources.toml");
        let local = Local {
            dynamodb: dynamodb.to_owned(),
            ..Local::of(&self.stack, &sources).unwrap()
        };
        announce(&self.folder, &local).unwrap();
    }

    async fn make_table(&self) {
        let attribute = AttributeDefinition::builder()
            .attribute_name("pk")
            .attribute_type(ScalarAttributeType::S);
        let key = KeySchemaElement::builder()
            .attribute_name("pk")
            .key_type(KeyType::Hash);
        let make = self.stack.clients().dynamodb.create_table();
        make.table_name(TABLE)
            .attribute_definitions(attribute.build().unwrap())
            .key_schema(key.build().unwrap())
            .billing_mode(BillingMode::PayPerRequest)
            .send()
            .await
            .unwrap();
    }

    /// Returns an item of the application's table.
    pub(crate) async fn ours(&self, pk: &str, id: &str, status: &str, tier: &str) {
        let s = |text: &str| AttributeValue::S(text.to_owned());
        let billing = HashMap::from([("tier".to_owned(), s(tier))]);
        let put = self.stack.clients().dynamodb.put_item().table_name(TABLE);
        put.item("pk", s(pk))
            .item("stripe_id", s(id))
            .item("status", s(status))
            .item("billing", AttributeValue::M(billing))
            .item("note", s("a private note"))
            .send()
            .await
            .unwrap();
    }

    /// Adds a subscription to both sides.
    pub(crate) async fn both(&self, id: &str) {
        self.stripe.put(id, subscription(id, "active", "price_pro"));
        self.ours(&format!("SUB#{id}"), id, "active", "pro").await;
    }

    /// Returns all items of the application's table.
    pub(crate) async fn table(&self) -> Vec<Item> {
        self.whole(TABLE).await
    }

    /// Returns all items of the inbox.
    pub(crate) async fn inbox(&self) -> Vec<Item> {
        self.whole(self.stack.table().unwrap()).await
    }

    async fn whole(&self, table: &str) -> Vec<Item> {
        #[expect(clippy::disallowed_methods, reason = "a test looks at the whole table")]
        let all = self.stack.clients().dynamodb.scan();
        let mut items = all.table_name(table).send().await.unwrap().items.unwrap();
        let part = |item: &Item, name| item.get(name).map(|value| value.as_s().unwrap().clone());
        items.sort_by_key(|item| (part(item, "pk"), part(item, "sk")));
        items
    }

    /// Runs the task as its schedule does. Returns the reports, or the error.
    pub(crate) async fn run(&self, source: &str) -> Result<Vec<Value>, String> {
        let task = json!({"task": "reconcile", "source": source});
        let invocation = self.stack.invoke("BackupSync", &task).await.unwrap();
        if let Some(error) = invocation.error() {
            return Err(error.message.clone());
        }
        let answer = invocation.json().unwrap();
        Ok(answer["reports"].as_array().unwrap().clone())
    }

    /// Runs all comparisons as their schedule does. Returns the report of the Stripe source.
    pub(crate) async fn scheduled(&self) -> Value {
        let task = json!({"task": "reconcile"});
        let invocation = self.stack.invoke("BackupSync", &task).await.unwrap();
        let answer = invocation.json().unwrap();
        let mut reports = answer["reports"].as_array().unwrap().iter();
        let report = reports.find(|report| report["source"] == "stripe-main");
        report.unwrap().clone()
    }

    /// Returns the only report of the Stripe source.
    pub(crate) async fn report(&self) -> Value {
        let mut reports = self.run("stripe-main").await.unwrap();
        assert_eq!(reports.len(), 1);
        reports.remove(0)
    }

    pub(crate) async fn webhookctl(&self, args: &[&str]) -> Output {
        let mut command = Command::from(self.folder.webhookctl(args));
        command
            .env_remove("NO_COLOR")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test");
        command.output().await.unwrap()
    }

    /// Returns the audit log of this month.
    pub(crate) async fn log(&self) -> Vec<Item> {
        let table = self.stack.table().unwrap();
        deeds(&self.stack.clients().dynamodb, table).await.unwrap()
    }

    /// Returns the whole log of backup-sync.
    pub(crate) fn logged(&self) -> String {
        let file = self.stack.log_file("BackupSync").unwrap();
        std::fs::read_to_string(file).unwrap_or_default()
    }

    pub(crate) async fn end(self) {
        let log = self.logged();
        for secret in [API_KEY, APP_TOKEN, "a private note"] {
            assert!(!log.contains(secret), "backup-sync logged {secret:?}");
        }
        self.stack.stop().await;
    }
}

pub(crate) fn subscription(id: &str, status: &str, price: &str) -> Value {
    json!({
        "id": id, "object": "subscription", "created": 1_700_000_000, "customer": format!("cus_{id}"),
        "status": status, "items": {"object": "list", "data": [{"id": "si_1", "price": {"id": price}}]},
    })
}

pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(output)))
}

/// Serves requests until the test ends.
pub(crate) fn serve(router: Router) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}
