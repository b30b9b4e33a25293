//! Reads `[[source.reconcile]]`, which configures a comparison of the provider's objects with the
//! operator's own state.

mod local;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde::Deserialize;

use super::filter::{FileCondition, Filter, path};
use super::sync::check_sync_url;
use super::{Forward, check_name, check_new, duration};
use crate::base::json_path::JsonPath;
use crate::base::setting_path::At as _;
use crate::webhook::preset::{Objects, Preset};
use local::{FileLocal, first};
pub use local::{Local, LocalEndpoint, LocalTable};

/// The maximum number of fields of a comparison. A report with more fields is hard to read.
const MOST_FIELDS: usize = 10;

/// The default of `cap`. A repair stops if more than this percentage of the objects has drifted.
const CAP: f64 = 5.0;

/// A comparison of the provider's objects with the operator's own state.
#[derive(Debug)]
pub struct Reconcile {
    /// The name of the comparison, which is unique in the source.
    pub name: String,
    pub objects: Objects,
    /// The name of the API key below the secrets path of backup-sync.
    pub secret: String,
    /// The filter for the provider's objects to compare.
    pub filter: Filter,
    pub named_by: NamedBy,
    pub fields: Vec<Compared>,
    pub local: Local,
    /// The minimum age of an object that is compared. Mitt may still be processing the events of a
    /// younger object.
    pub grace: Duration,
    /// The limit for the share of drifted objects, in percent. A repair stops above this limit.
    pub cap: f64,
    /// Whether the scheduled run repairs the drift that it finds, up to `cap`.
    pub auto_repair: bool,
}

/// The value that identifies an object at the provider and in the local state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The provider's id of the object.
    Id,
    /// Another value of the object. The query parameter `param` filters the provider's list by this
    /// value.
    Path { path: JsonPath, param: String },
}

/// A field that must be equal at the provider (`there`) and in the local state (`here`).
#[derive(Clone, Debug)]
pub struct Compared {
    pub name: String,
    pub there: JsonPath,
    pub here: JsonPath,
    /// Maps a value of the provider to the local value. Values that are not in the map are the same
    /// on both sides.
    pub values: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileReconcile {
    name: Option<String>,
    objects: Option<String>,
    /// A custom list, with the settings of a preset's `[[objects]]`.
    list: Option<Objects>,
    #[serde(default)]
    with: BTreeMap<String, String>,
    secret: Option<String>,
    #[serde(default, rename = "where")]
    conditions: Vec<FileCondition>,
    id: Option<String>,
    #[serde(default)]
    fields: Vec<FileField>,
    local: FileLocal,
    grace: Option<String>,
    cap: Option<f64>,
    #[serde(default)]
    repair: FileRepair,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileRepair {
    /// An operator repairs.
    #[default]
    Off,
    Auto,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileField {
    name: String,
    there: Option<String>,
    here: Option<String>,
    #[serde(default)]
    values: BTreeMap<String, String>,
}

/// Checks the comparisons of a source. Each comparison needs a unique name.
pub(super) fn all(
    file: Vec<FileReconcile>,
    preset: &Preset,
    source: &str,
    forward: &Forward,
) -> anyhow::Result<Vec<Reconcile>> {
    let mut names = BTreeSet::new();
    let checked = |(index, file): (usize, FileReconcile)| {
        let reconcile = file
            .checked(preset, source, forward)
            .with_context(|| format!("reconcile {}", index + 1))
            .at(index)
            .at("reconcile")?;
        let is_new = names.insert(reconcile.name.clone());
        check_new("reconcile", &reconcile.name, is_new)
            .at(index)
            .at("reconcile")?;
        Ok(reconcile)
    };
    file.into_iter().enumerate().map(checked).collect()
}

impl FileReconcile {
    fn checked(
        self,
        preset: &Preset,
        source: &str,
        forward: &Forward,
    ) -> anyhow::Result<Reconcile> {
        let from = if self.list.is_some() {
            "list"
        } else {
            "objects"
        };
        let objects = self.list_of(preset, forward)?.clone().with(&self.with);
        let objects = objects.at("with").needs(from)?;
        let name = self.name.unwrap_or_else(|| objects.name.clone());
        check_name("a reconcile's name", &name).at("name")?;
        let secret = self.secret.unwrap_or_else(|| source.to_owned());
        check_name("a secret's name", &secret).at("secret")?;
        let cap = checked_cap(self.cap.unwrap_or(CAP)).at("cap")?;
        let fields = fields(self.fields).at("fields")?;
        let attributes = fields.iter().map(|(_, attribute)| attribute.clone());
        let grace = self.grace.as_deref().map(duration::parse);
        Ok(Reconcile {
            named_by: named_by(self.id.as_deref(), &objects)
                .at("id")
                .needs(from)?,
            filter: of_objects(&self.conditions)?,
            local: self
                .local
                .checked(attributes.collect(), forward)
                .within("local")?,
            fields: fields.into_iter().map(|(field, _)| field).collect(),
            grace: grace
                .transpose()
                .at("grace")?
                .unwrap_or(Duration::from_secs(15 * 60)),
            name,
            objects,
            secret,
            cap,
            auto_repair: self.repair == FileRepair::Auto,
        })
    }
}

impl FileReconcile {
    /// Returns the list of the preset, or the list of the source's own.
    fn list_of<'l>(&'l self, preset: &'l Preset, forward: &Forward) -> anyhow::Result<&'l Objects> {
        match (&self.objects, &self.list) {
            (Some(name), None) => objects(preset, name).at("objects"),
            (None, Some(list)) => {
                list.check().within("list")?;
                for url in [&list.url, &list.one] {
                    check_sync_url(url, forward).within("list")?;
                }
                Ok(list)
            }
            (Some(_), Some(_)) => Err(anyhow!(
                "objects selects a list of the preset; remove objects or list"
            ))
            .at("objects")
            .needs("list"),
            (None, None) => Err(anyhow!(
                "objects is missing; set it to a list of the preset, or describe a list in \
                 [source.reconcile.list]"
            ))
            .at("objects"),
        }
    }
}

fn objects<'p>(preset: &'p Preset, name: &str) -> anyhow::Result<&'p Objects> {
    if let Some(objects) = preset.objects.iter().find(|objects| objects.name == name) {
        return Ok(objects);
    }
    let known: Vec<_> = preset.objects.iter().map(|o| o.name.as_str()).collect();
    ensure!(
        !known.is_empty(),
        "preset {} lists no objects; describe a list of your own in [source.reconcile.list]",
        preset.id
    );
    bail!(
        "preset {} does not list objects {name:?}; it lists {}",
        preset.id,
        known.join(", ")
    )
}

fn checked_cap(cap: f64) -> anyhow::Result<f64> {
    ensure!(
        (0.0..=100.0).contains(&cap),
        "cap = {cap}: use a percentage between 0 and 100"
    );
    Ok(cap)
}

/// The conditions on the provider's objects, which come in no request.
fn of_objects(conditions: &[FileCondition]) -> anyhow::Result<Filter> {
    let filter = Filter::checked(&[], conditions)?;
    check_body_only(&filter).at("where")?;
    Ok(filter)
}

fn check_body_only(filter: &Filter) -> anyhow::Result<()> {
    ensure!(
        filter.tests_only_the_body(),
        "where: an object has no header, query or account; use path"
    );
    Ok(())
}

fn named_by(id: Option<&str>, objects: &Objects) -> anyhow::Result<NamedBy> {
    let Some(text) = id else {
        return Ok(NamedBy::Id);
    };
    let wanted = path(text)?;
    if wanted == objects.id {
        return Ok(NamedBy::Id);
    }
    let Some(param) = objects.narrow.get(text.trim_start_matches("$.")) else {
        let others = objects.narrow.keys().cloned();
        let known: Vec<_> = [objects.id.to_string()].into_iter().chain(others).collect();
        bail!(
            "id = {text:?} is not supported: to identify {}, use {}",
            objects.name,
            known.join(" or ")
        );
    };
    Ok(NamedBy::Path {
        path: wanted,
        param: param.clone(),
    })
}

/// Returns the fields. Each field comes with the name of the attribute that contains it in the
/// local item.
fn fields(file: Vec<FileField>) -> anyhow::Result<Vec<(Compared, String)>> {
    ensure!(
        file.len() <= MOST_FIELDS,
        "the comparison has {} fields; use at most {MOST_FIELDS}",
        file.len()
    );
    let mut names = BTreeSet::new();
    let mut field = |file: FileField| {
        let is_new = names.insert(file.name.clone());
        check_field(&file.name, is_new).at("name")?;
        let side = |given: Option<String>| {
            let text = given.unwrap_or_else(|| file.name.clone());
            let parsed = path(&text).with_context(|| format!("field {:?}", file.name))?;
            anyhow::Ok((parsed, first(&text).to_owned()))
        };
        let (there, _) = side(file.there).at("there").needs("name")?;
        let (here, attribute) = side(file.here).at("here").needs("name")?;
        let compared = Compared {
            name: file.name,
            there,
            here,
            values: file.values,
        };
        anyhow::Ok((compared, attribute))
    };
    let fields = file.into_iter().enumerate();
    fields.map(|(index, file)| field(file).at(index)).collect()
}

fn check_field(name: &str, is_new: bool) -> anyhow::Result<()> {
    ensure!(
        (1..=40).contains(&name.len()) && is_new,
        "field {name:?}: the name must be unique and have 1 to 40 characters"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
objects = "subscriptions"
id = "customer"
cap = 2.5
where = [{ path = "status", in = ["active", "trialing"] }]
fields = [
  { name = "plan", there = "items.data[*].price.id", here = "billing.tier", values = { price_1 = "pro" } },
  { name = "status" },
]
[local]
kind = "dynamodb"
table = "users"
id = "stripe_customer"
key = { pk = "CUSTOMER#{customer}", sk = "PROFILE" }
"#;

    fn checked(text: &str) -> anyhow::Result<Reconcile> {
        let preset = Preset::embedded("stripe", &BTreeMap::new())?;
        let forward = Forward {
            allow_hosts: vec!["app.example.com".to_owned()],
            allow_loopback: false,
        };
        toml::from_str::<FileReconcile>(text)?.checked(&preset, "stripe-main", &forward)
    }

    #[test]
    fn a_comparison_is_read_and_has_defaults() {
        let reconcile = checked(GOOD).unwrap();
        assert_eq!(reconcile.name, "subscriptions");
        assert_eq!(reconcile.secret, "stripe-main");
        assert_eq!(reconcile.grace, Duration::from_secs(900));
        assert!((reconcile.cap - 2.5).abs() < f64::EPSILON);
        assert!(!reconcile.auto_repair);
        let auto = GOOD.replace("cap = 2.5", "repair = \"auto\"");
        assert!(checked(&auto).unwrap().auto_repair);
        let NamedBy::Path { param, .. } = &reconcile.named_by else {
            panic!("the objects are identified by the customer");
        };
        assert_eq!(param, "customer");
        let Local::DynamoDb(local) = &reconcile.local else {
            panic!("the local state is a table");
        };
        let read: Vec<_> = local.attributes.iter().map(String::as_str).collect();
        assert_eq!(read, ["billing", "pk", "sk", "status", "stripe_customer"]);
        let object = br#"{"id":"sub_1","customer":"cus_1"}"#;
        let key = local.key.values().map(|text| text.of(object).unwrap());
        assert_eq!(key.collect::<Vec<_>>(), ["CUSTOMER#cus_1", "PROFILE"]);
        assert_eq!(local.key["pk"].of(br#"{"customer":null}"#), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, said) in [
            ("\"subscriptions\"", "\"subs\"", "it lists subscriptions"),
            ("\"customer\"", "\"items\"", "use id or customer"),
            ("cap = 2.5", "cap = 101.0", "between 0 and 100"),
            ("cap = 2.5", "kap = 1.0", "`kap`"),
            ("cap = 2.5", "repair = \"always\"", "`auto`"),
            ("cap = 2.5", "grace = \"soon\"", "invalid duration"),
            (
                "cap = 2.5",
                "with = { repo = \"a/b\" }",
                "no parameter \"repo\"",
            ),
            ("\"status\" }", "\"plan\" }", "must be unique"),
            ("{customer}", "{customer", "without a closing }"),
            ("{customer}", "{a..b}", "invalid path"),
            ("key = {", "index = \"by-x\"\nkey = {", "partition"),
            ("\"users\"", "\"us/ers\"", "table \"us/ers\""),
            (", in = [", ", inn = [", "`inn`"),
            ("\"dynamodb\"", "\"postgres\"", "postgres"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = format!("{:#}", checked(&GOOD.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(said), "{to}: {error}");
        }
    }

    /// A list that is in no preset.
    const OWN: &str = r#"
name = "orders"
fields = [{ name = "status" }]
[list]
url = "https://api.acme.example/v1/orders"
auth = { kind = "header", name = "x-api-key" }
items = "data"
id = "id"
one = "https://api.acme.example/v1/orders/{id}"
created = "created_at"
page = { style = "cursor", param = "cursor", next = "next" }
[local]
kind = "dynamodb"
table = "orders"
id = "order"
key = { pk = "ORDER#{id}" }
"#;

    #[test]
    fn a_custom_list_is_checked_like_that_of_a_preset() {
        let own = checked(OWN).unwrap();
        assert_eq!(own.name, "orders");
        assert_eq!(own.named_by, NamedBy::Id);
        assert_eq!(
            own.objects.one("7/8"),
            "https://api.acme.example/v1/orders/7%2F8"
        );
        for (from, to, said) in [
            (
                "name = \"orders\"\n",
                "objects = \"subscriptions\"\n",
                "remove objects or list",
            ),
            ("orders/{id}", "orders", "`one` must contain {id}"),
            (
                "one = \"https://api.",
                "one = \"https://evil.",
                "the same host",
            ),
            ("\"cursor\", param", "\"token\", param", "`cursor`"),
            (
                "\"header\", name",
                "\"github-app\", issuer",
                "bearer, basic, header and query",
            ),
            ("id = \"id\"\n", "", "missing field `id`"),
        ] {
            assert!(OWN.contains(from), "{from}");
            let error = format!("{:#}", checked(&OWN.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(said), "{to}: {error}");
        }
        let clear = OWN.replace("https://api", "http://api");
        let error = format!("{:#}", checked(&clear).unwrap_err());
        assert!(error.contains("list: the URL"), "{error}");
        let (head, tail) = OWN.split_once("[list]").unwrap();
        let (_, local) = tail.split_once("[local]").unwrap();
        let error = format!(
            "{:#}",
            checked(&format!("{head}[local]{local}")).unwrap_err()
        );
        assert!(error.contains("[source.reconcile.list]"), "{error}");
    }

    #[test]
    fn an_endpoint_is_on_a_host_that_is_allowed() {
        let (head, _) = GOOD.split_once("[local]").unwrap();
        let at = |url: &str| {
            checked(&format!(
                "{head}[local]\nkind = \"http\"\nsecret = \"app\"\nurl = \"{url}\""
            ))
        };
        assert!(at("https://app.example.com/subscriptions").is_ok());
        for (url, said) in [
            ("https://evil.example.com/", "forward.allow_hosts"),
            ("http://app.example.com/", "https"),
            ("http://127.0.0.1/", "https"),
            ("https://a:b@app.example.com/", "contains a user name"),
        ] {
            let error = format!("{:#}", at(url).unwrap_err());
            assert!(error.contains(said), "{url}: {error}");
        }
    }
}
