//! How to list a provider's current objects, to compare them with local state.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::Auth;
use crate::base::json_path::JsonPath;

/// An `[[objects]]` table of a preset, or the `list` of a `[[source.reconcile]]`. It describes one
/// kind of object. All requests are GET requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// The name in a source's configuration, such as `subscriptions`.
    #[serde(default = "objects")]
    pub name: String,
    /// How a request authenticates. `None` means `Authorization: Bearer`.
    pub auth: Option<Auth>,
    /// The URL of the list. `{repo}` is replaced with the source's value under `with`.
    pub url: String,
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub page: Pages,
    /// The path of the list in a response. `None` if the whole response is the list.
    pub items: Option<JsonPath>,
    /// The path of an object's id in an item of the list.
    pub id: JsonPath,
    /// The URL of one object, with `{id}` for its id. A 404 or 410 means that the object does not exist.
    pub one: String,
    /// The path of the object in the response to `one`. `None` if the whole response is the object.
    pub one_at: Option<JsonPath>,
    /// The path of the creation time in an item. The time is in seconds or in RFC 3339.
    pub created: Option<JsonPath>,
    /// Other fields that can identify an object. Each field has the query parameter that filters
    /// the list by this field.
    #[serde(default)]
    pub narrow: BTreeMap<String, String>,
}

/// How to request the next page.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, tag = "style", rename_all = "kebab-case")]
pub enum Pages {
    /// One response contains everything.
    #[default]
    Once,
    /// The query parameter `param` contains the id of the last object. The Boolean field `more`
    /// shows whether there are more objects.
    After { param: String, more: JsonPath },
    /// The query parameter `param` contains a token of the response. The list ends when the value at
    /// `more` is `false`. Without `more`, the list ends when the response has no token.
    Cursor {
        param: String,
        next: JsonPath,
        more: Option<JsonPath>,
    },
    /// The response contains the URL of the next page, or its path. The list ends when the response
    /// has none.
    NextUrl { next: JsonPath },
    /// Pages are numbered from 1. A page with fewer than `size` objects is the last page.
    Number { param: String, size: usize },
}

impl Objects {
    /// Replaces the placeholders with the `with` values of the source. Fails if a value has no
    /// placeholder, or if a placeholder has no value.
    pub fn with(mut self, given: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        for (name, value) in given {
            let place = format!("{{{name}}}");
            ensure!(
                name != "id" && self.url.contains(&place),
                "with.{name}: {} have no parameter {name:?}; remove it",
                self.name
            );
            let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
            ensure!(
                !value.is_empty() && value.bytes().all(fits) && !value.contains(".."),
                "with.{name} = {value:?}: use only letters, digits and . _ - /, but not two dots \
                 in a row"
            );
            self.url = self.url.replace(&place, value);
            self.one = self.one.replace(&place, value);
        }
        if let Some((_, rest)) = self.url.split_once('{') {
            let name = rest.split('}').next().unwrap_or_default();
            bail!(
                "{} need the setting {name}; add with = {{ {name} = \"…\" }}",
                self.name
            );
        }
        Ok(self)
    }

    /// The URL of one object.
    pub fn one(&self, id: &str) -> String {
        let id = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
        self.one.replace("{id}", &id.to_string())
    }

    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.one.contains("{id}"), "`one` must contain {{id}}");
        ensure!(
            origin(&self.url) == origin(&self.one) && !origin(&self.url).contains("{id}"),
            "url and one must have the same host, because both requests contain the API key"
        );
        ensure!(
            !matches!(
                self.auth,
                Some(Auth::GithubApp { .. } | Auth::Exchange { .. })
            ),
            "auth: a list of objects supports the kinds bearer, basic, header and query"
        );
        if let Pages::Number { size, .. } = &self.page {
            ensure!(
                *size > 0,
                "page.size must be the number of objects of a full page"
            );
        }
        for path in self.narrow.keys() {
            JsonPath::parse(path).with_context(|| format!("narrow: invalid path {path:?}"))?;
        }
        Ok(())
    }
}

/// Returns scheme and host of a URL.
fn origin(url: &str) -> &str {
    let path = url
        .match_indices('/')
        .nth(2)
        .map_or(url.len(), |(at, _)| at);
    &url[..path]
}

fn objects() -> String {
    "objects".to_owned()
}

#[cfg(test)]
mod tests {
    use crate::webhook::preset::Preset;

    use super::*;

    fn objects(preset: &str) -> Objects {
        let preset = Preset::embedded(preset, &BTreeMap::new()).unwrap();
        preset.objects.into_iter().next().unwrap()
    }

    #[test]
    fn what_a_list_needs_is_given_and_nothing_else() {
        let given = BTreeMap::from([("repo".to_owned(), "octo/hello".to_owned())]);
        let hooks = objects("github").with(&given).unwrap();
        assert_eq!(hooks.url, "https://api.github.com/repos/octo/hello/hooks");
        assert_eq!(
            hooks.one("12"),
            "https://api.github.com/repos/octo/hello/hooks/12"
        );
        for (given, said) in [
            (vec![], "with = { repo"),
            (
                vec![("repo", "a/b"), ("org", "c")],
                "have no parameter \"org\"",
            ),
            (vec![("repo", "a/../../user")], "use only"),
            (vec![("repo", "a?b")], "use only"),
        ] {
            let given = given.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned()));
            let error = objects("github").with(&given.collect()).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn an_id_stays_one_part_of_the_path() {
        let one = objects("stripe").one("../../v1/accounts?x");
        assert!(
            !one["https://api.stripe.com/v1/subscriptions/".len()..].contains(['/', '?', '.']),
            "{one}"
        );
    }

    #[test]
    fn the_embedded_presets_list_ten_kinds_of_objects() {
        let mut kinds = 0;
        for id in Preset::ids() {
            let preset = Preset::embedded(id, &BTreeMap::new()).unwrap();
            let names: std::collections::BTreeSet<_> =
                preset.objects.iter().map(|kind| &kind.name).collect();
            assert_eq!(names.len(), preset.objects.len(), "{id}");
            kinds += names.len();
        }
        assert!(kinds >= 10, "{kinds}");
    }
}
