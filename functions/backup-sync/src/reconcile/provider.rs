//! The provider's objects: lists them page by page, and reads single objects again.

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use serde_json::value::RawValue;
use shared::base::json_path::{JsonPath, scalar};
use shared::monitoring::reconcile::{Side, Sides, Values, add, time};
use shared::sources::{NamedBy, Reconcile};
use shared::webhook::preset::{Auth, Objects, Pages};

use super::{few_enough, in_time};
use crate::api::Api;
use crate::sync::allowed;

/// The current state of an object at the provider.
pub(super) struct Now {
    pub(super) side: Option<Side>,
    /// The object itself, from which the key of your own item is built.
    pub(super) json: Option<Bytes>,
}

/// Lists all objects that match the filter.
pub(super) async fn list(api: &Api<'_>, reconcile: &Reconcile) -> anyhow::Result<Sides> {
    let mut all = Sides::new();
    pages(api, reconcile, None, |id, side, _| {
        put(&mut all, reconcile, id, side);
        few_enough(all.len(), api.what)
    })
    .await?;
    Ok(all)
}

/// Reads the current state of an object.
pub(super) async fn again(api: &Api<'_>, reconcile: &Reconcile, id: &str) -> anyhow::Result<Now> {
    let (mut sides, mut json) = (Sides::new(), None);
    let mut take = |found: String, side: Side, body: &[u8]| {
        // A list that is filtered by id can also contain other objects.
        if found == id {
            json = Some(Bytes::copy_from_slice(body));
            put(&mut sides, reconcile, found, side);
        }
        Ok(())
    };
    match &reconcile.named_by {
        NamedBy::Id => {
            let body = api.get(&reconcile.objects.one(id), &[]).await?;
            if let Some(body) = body {
                let object = object(&reconcile.objects, &body)?;
                if let Some((id, side)) = read(reconcile, object)? {
                    take(id, side, object)?;
                }
            }
        }
        NamedBy::Path { param, .. } => {
            pages(api, reconcile, Some((param, id)), take).await?;
        }
    }
    let side = sides.remove(id);
    Ok(Now { side, json })
}

/// Returns the object in the response to the request for one object.
fn object<'b>(objects: &Objects, body: &'b [u8]) -> anyhow::Result<&'b [u8]> {
    let Some(path) = &objects.one_at else {
        return Ok(body);
    };
    let object = path.raw(body).ok().flatten();
    let object = object.with_context(|| format!("the response has no object at {path}"))?;
    Ok(object.get().as_bytes())
}

/// Adds an object. If the pages of a list shift while they are read, the list contains an object
/// twice. This still counts as one object.
fn put(sides: &mut Sides, reconcile: &Reconcile, id: String, side: Side) {
    match reconcile.named_by {
        NamedBy::Id => {
            sides.insert(id, side);
        }
        NamedBy::Path { .. } => add(sides, id, side),
    }
}

/// Reads every page of the list, or of a part of it.
async fn pages(
    api: &Api<'_>,
    reconcile: &Reconcile,
    narrow: Option<(&String, &str)>,
    mut take: impl FnMut(String, Side, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let objects = &reconcile.objects;
    let fixed = objects.query.iter().map(|(k, v)| (k.clone(), v.clone()));
    let narrow = narrow.map(|(param, id)| (param.clone(), id.to_owned()));
    let fixed: Vec<_> = fixed.chain(narrow).collect();
    let mut next = None::<Following>;
    loop {
        in_time((api.clock)(), api.ends, api.what)?;
        let (body, after) = page(api, objects, &fixed, next.as_ref()).await?;
        let items = items(objects.items.as_ref(), &body)?;
        for item in &items {
            let json = item.get().as_bytes();
            if let Some((id, side)) = read(reconcile, json)? {
                take(id, side, json)?;
            }
        }
        ensure!(
            after.is_none() || after != next,
            "the list of {} does not continue: its next page is the same page",
            api.what
        );
        match after {
            Some(after) => next = Some(after),
            None => return Ok(()),
        }
    }
}

/// What a request for another page contains.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Following {
    /// A query parameter, in addition to the others.
    Query(String, String),
    /// The whole URL.
    Url(String),
}

/// Returns a page and what the request for the next page contains. Repeats the request if the page
/// cannot be parsed.
async fn page(
    api: &Api<'_>,
    objects: &Objects,
    fixed: &[(String, String)],
    this: Option<&Following>,
) -> anyhow::Result<(Bytes, Option<Following>)> {
    let (url, query) = match this {
        Some(Following::Url(url)) => (url, Vec::new()),
        Some(Following::Query(name, value)) => {
            let own = std::iter::once((name.clone(), value.clone()));
            (&objects.url, fixed.iter().cloned().chain(own).collect())
        }
        None => (&objects.url, fixed.to_vec()),
    };
    let read = |body: Bytes| {
        let items = items(objects.items.as_ref(), &body)?;
        let last = items.last().map(|item| own_id(objects, item)).transpose()?;
        let after = following(objects, &body, items.len(), last, this)?;
        Ok((body, after))
    };
    api.list(url, &query, read).await
}

/// Returns what the request for the next page contains, or `None` at the end.
fn following(
    objects: &Objects,
    body: &[u8],
    count: usize,
    last: Option<String>,
    this: Option<&Following>,
) -> anyhow::Result<Option<Following>> {
    match &objects.page {
        Pages::Once => Ok(None),
        Pages::After { param, more } => match (text(more, body)?.as_deref(), last) {
            (Some("true"), Some(last)) => Ok(Some(Following::Query(param.clone(), last))),
            (Some("true"), None) => {
                bail!("a page of the list is empty, but says that a next page exists")
            }
            (Some("false"), _) => Ok(None),
            _ => bail!("a page of the list does not say whether a next page exists"),
        },
        Pages::Cursor { param, next, more } => {
            let more = more.as_ref().map(|more| text(more, body)).transpose()?;
            if more.flatten().as_deref() == Some("false") {
                return Ok(None);
            }
            let token = text(next, body)?;
            Ok(token.map(|token| Following::Query(param.clone(), token)))
        }
        // The API key must not be sent to another host.
        Pages::NextUrl { next } => text(next, body)?
            .map(|url| allowed(&objects.url, &url, query_key(objects)).map(Following::Url))
            .transpose(),
        Pages::Number { param, size } => {
            let number = match this {
                Some(Following::Query(_, number)) => number.parse::<u32>().ok(),
                _ => Some(1),
            };
            let number = number.context("the page parameter is not a number")?;
            let next = || Following::Query(param.clone(), (number + 1).to_string());
            Ok((count >= *size).then(next))
        }
    }
}

/// Returns the query parameter with the API key, which the URL of a next page may repeat.
fn query_key(objects: &Objects) -> Option<&str> {
    match &objects.auth {
        Some(Auth::Query { name }) => Some(name),
        _ => None,
    }
}

/// Returns a value of a page. An empty value counts as absent.
fn text(path: &JsonPath, body: &[u8]) -> anyhow::Result<Option<String>> {
    let value = path
        .scalar(body)
        .map_err(|_| anyhow::anyhow!("the API returned a page of the list that cannot be read"))?;
    Ok(value.filter(|value| !value.is_empty()))
}

/// Returns the objects of a page: the array at a path, or the whole page.
pub(super) fn items<'b>(
    at: Option<&JsonPath>,
    body: &'b [u8],
) -> anyhow::Result<Vec<&'b RawValue>> {
    let list = match at {
        Some(path) => path.raw(body).ok().flatten().map(RawValue::get),
        None => std::str::from_utf8(body).ok(),
    };
    let list = list.context("a page has no list of objects")?;
    serde_json::from_str(list).map_err(|_| anyhow::anyhow!("a page has no list of objects"))
}

fn own_id(objects: &Objects, item: &RawValue) -> anyhow::Result<String> {
    let id = objects.id.scalar(item.get().as_bytes());
    let id = id.ok().flatten().filter(|id| !id.is_empty());
    id.context("an object of the list has no id")
}

/// Parses an object. Returns `None` if it does not match the filter.
fn read(reconcile: &Reconcile, json: &[u8]) -> anyhow::Result<Option<(String, Side)>> {
    let raw: &RawValue =
        serde_json::from_slice(json).map_err(|_| anyhow::anyhow!("an object is not valid JSON"))?;
    let own = own_id(&reconcile.objects, raw)?;
    if !reconcile.filter.matches_object(json) {
        return Ok(None);
    }
    let id = match &reconcile.named_by {
        NamedBy::Id => own,
        NamedBy::Path { path, .. } => {
            let id = path.scalar(json).ok().flatten();
            id.with_context(|| format!("object {own:?} has no {path}"))?
        }
    };
    let values = reconcile.fields.iter().map(|field| {
        let mut values = values(&field.there, json);
        for value in &mut values {
            if let Some(ours) = field.values.get(value) {
                value.clone_from(ours);
            }
        }
        values.sort();
        values
    });
    let created = reconcile.objects.created.as_ref();
    let created = created.and_then(|path| time(&path.scalar(json).ok().flatten()?));
    let side = Side {
        values: values.collect(),
        count: 1,
        created,
    };
    Ok(Some((id, side)))
}

/// Returns the scalar values at a path, sorted. A `null` counts as absent.
pub(super) fn values(path: &JsonPath, json: &[u8]) -> Values {
    let found = path.all(json).unwrap_or_default();
    let mut values = Values::new();
    for raw in found.into_iter().flatten() {
        // A path that leads to an array selects each of its elements.
        match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            Ok(list) => values.extend(list.into_iter().filter_map(plain)),
            Err(_) => values.extend(plain(raw)),
        }
    }
    values.sort();
    values
}

/// Converts a value to text: an object stays as written, and a number has the format of DynamoDB.
fn plain(raw: &RawValue) -> Option<String> {
    let text = raw.get();
    match scalar(raw) {
        Ok(Some(number)) if !text.starts_with('"') && text.contains(['.', 'e', 'E']) => {
            let shortest = number.parse::<f64>().ok().map(|number| number.to_string());
            shortest.or(Some(number))
        }
        Ok(value) => value,
        Err(_) => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_whatever_their_shape() {
        let read =
            |path: &str, json: &str| values(&JsonPath::parse(path).unwrap(), json.as_bytes());
        assert_eq!(read("a", r#"{"a":"x"}"#), ["x"]);
        assert_eq!(read("a", r#"{"a":["y","x",1]}"#), ["1", "x", "y"]);
        assert_eq!(read("a[*].b", r#"{"a":[{"b":"y"},{"b":"x"}]}"#), ["x", "y"]);
        assert_eq!(read("a", r#"{"a":{"b":1}}"#), [r#"{"b":1}"#]);
        assert_eq!(
            read("a", r#"{"a":[1.10,"1.10",1e3,-7]}"#),
            ["-7", "1.1", "1.10", "1000"]
        );
        assert_eq!(read("a", r#"{"a":[true,"one"]}"#), ["one", "true"]);
        for nothing in [r#"{"a":null}"#, "{}", r#"{"a":[]}"#] {
            assert!(read("a", nothing).is_empty(), "{nothing}");
        }
    }

    /// Returns a list with these pages.
    fn listed(page: &serde_json::Value) -> Objects {
        let one = "https://a.test/l/{id}";
        let list =
            serde_json::json!({"url": "https://a.test/l", "id": "id", "one": one, "page": page});
        serde_json::from_value(list).unwrap()
    }

    fn query(name: &str, value: &str) -> Following {
        Following::Query(name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_page_that_does_not_say_what_follows_is_a_bad_one() {
        let after =
            serde_json::json!({"style": "after", "param": "starting_after", "more": "has_more"});
        let after = listed(&after);
        let next = |body: &str, last: Option<&str>| {
            following(&after, body.as_bytes(), 1, last.map(str::to_owned), None)
        };
        assert_eq!(next(r#"{"has_more":false}"#, Some("a")).unwrap(), None);
        let more = next(r#"{"has_more":true}"#, Some("a")).unwrap();
        assert_eq!(more, Some(query("starting_after", "a")));
        assert!(next(r#"{"has_more":true}"#, None).is_err());
        assert!(next("{}", Some("a")).is_err());
        assert!(next("<html>", Some("a")).is_err());
    }

    #[test]
    fn numbered_pages_end_with_one_that_is_not_full() {
        let pages = listed(&serde_json::json!({"style": "number", "param": "page", "size": 2}));
        let next = |count, this: Option<&str>| {
            let this = this.map(|number| query("page", number));
            following(&pages, b"[]", count, None, this.as_ref()).unwrap()
        };
        assert_eq!(next(2, None), Some(query("page", "2")));
        assert_eq!(next(2, Some("2")), Some(query("page", "3")));
        assert_eq!(next(1, Some("2")), None);
        assert_eq!(next(0, None), None);
    }
}
