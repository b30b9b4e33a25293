//! One page of a provider's list: asked for until it is answered, and read.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use serde_json::value::RawValue;
use shared::clock::Millis;
use shared::outbound::{Answer, Trouble};
use shared::preset::{Auth, Page, Sync};

use super::Run;
use crate::BackupSync;

/// How often a page is asked for before the run gives up.
const TRIES: u32 = 6;

/// What a page says.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) items: Vec<Item>,
    /// The token of the next page.
    pub(super) next: Option<String>,
}

/// One event of a list.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: String,
    /// As it stands in the list.
    pub(super) body: Bytes,
}

impl BackupSync {
    /// A page; `None` when the provider wants us to wait for longer than the run may.
    pub(super) async fn page(
        &self,
        run: &Run<'_>,
        from: Millis,
        token: Option<&str>,
    ) -> anyhow::Result<Option<Listing>> {
        let query = run.query(from, token);
        let Auth::Bearer = run.sync.request.auth;
        let bearer = format!("Bearer {}", run.key.expose());
        let headers = [
            ("authorization", bearer.as_str()),
            ("accept", "application/json"),
        ];
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self
                .outbound
                .get(&run.sync.request.url, &query, &headers, (self.clock)())
                .await;
            let (error, asked) = match judge(answer) {
                Ok(body) => match run.read(&body) {
                    Ok(listing) => return Ok(Some(listing)),
                    Err(error) => (error, None),
                },
                Err(Refused::NoPage(error)) if token.is_some() => {
                    return Err(error.context(NoSuchPage));
                }
                Err(Refused::Final(error) | Refused::NoPage(error)) => return Err(error),
                Err(Refused::Later(error, asked)) => (error, asked),
            };
            if tries == TRIES {
                return Err(error.context(format!("asked {TRIES} times for a page of the list")));
            }
            let wait = asked.unwrap_or(Duration::from_millis(250) * 2_u32.pow(tries));
            if (self.clock)() + wait > run.ends {
                return Ok(None);
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// The provider does not go on from the page that was noted.
#[derive(Debug)]
pub(super) struct NoSuchPage;

impl fmt::Display for NoSuchPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list does not go on where the last run stopped; the next one begins anew")
    }
}

enum Refused {
    /// Asking again will not help.
    Final(anyhow::Error),
    Later(anyhow::Error, Option<Duration>),
    /// The request is at fault: if it named a page, perhaps the page.
    NoPage(anyhow::Error),
}

fn judge(answer: Result<Answer, Trouble>) -> Result<Bytes, Refused> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Trouble::NotSent(error) | Trouble::Unclear(error)) => {
            return Err(Refused::Later(anyhow::anyhow!(error), None));
        }
    };
    let error = anyhow::anyhow!("the provider's list answered {}", answer.status);
    match (answer.status, answer.body) {
        (200, Some(body)) => Ok(body),
        (200, None) => Err(Refused::Final(anyhow::anyhow!(
            "a page of the provider's list is larger than 16 MiB"
        ))),
        (408 | 425 | 429 | 500..=599, _) => Err(Refused::Later(error, answer.retry_after)),
        (401 | 403, _) => Err(Refused::Final(
            error.context("the API key may not list events"),
        )),
        _ => Err(Refused::NoPage(error)),
    }
}

impl Listing {
    /// Reads a page. An event without an id makes the page a bad one: it must not be skipped.
    pub(super) fn read(sync: &Sync, body: &[u8]) -> anyhow::Result<Self> {
        let bad = |what: &'static str| {
            move |_| anyhow::anyhow!("a page of the list: {what} cannot be read")
        };
        let items = sync
            .items
            .raw(body)
            .map_err(bad("the list of events"))?
            .context("a page without a list of events")?;
        let raw: Vec<&RawValue> = serde_json::from_str(items.get())
            .map_err(|_| anyhow::anyhow!("the list of events is no list"))?;
        let mut items = Vec::with_capacity(raw.len());
        for item in raw {
            let body = item.get().as_bytes();
            let id = sync
                .id
                .scalar(body)
                .map_err(bad("an event's id"))?
                .filter(|id| !id.is_empty());
            let kind = sync
                .event_type
                .scalar(body)
                .map_err(bad("an event's type"))?;
            items.push(Item {
                id: id.context("an event of the list has no id")?,
                kind: kind.unwrap_or_default(),
                body: Bytes::copy_from_slice(body),
            });
        }
        let Page::Cursor { more, .. } = &sync.page;
        let more = more.scalar(body).map_err(bad("whether there is more"))?;
        let next = match more.as_deref() {
            Some("true") => {
                ensure!(!items.is_empty(), "an empty page says that there is more");
                items.last().map(|item| item.id.clone())
            }
            Some("false") => None,
            _ => bail!("a page does not say whether there is more"),
        };
        Ok(Self { items, next })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shared::preset::Preset;

    use super::*;

    fn read(body: &str) -> anyhow::Result<Listing> {
        let preset = Preset::embedded("stripe", &BTreeMap::new()).unwrap();
        Listing::read(&preset.sync.unwrap(), body.as_bytes())
    }

    #[test]
    fn a_page_is_read_and_items_keep_their_bytes() {
        let page = r#"{"object":"list","data":[{"id":"evt_2","type":"a.b", "x":1.10},{"id":"evt_1"}],"has_more":true}"#;
        let listing = read(page).unwrap();
        assert_eq!(listing.next.as_deref(), Some("evt_1"));
        assert_eq!(
            listing.items[0].body.as_ref(),
            br#"{"id":"evt_2","type":"a.b", "x":1.10}"#
        );
        assert_eq!(
            (
                listing.items[0].kind.as_str(),
                listing.items[1].kind.as_str()
            ),
            ("a.b", "")
        );
        assert!(
            read(r#"{"data":[],"has_more":false}"#)
                .unwrap()
                .next
                .is_none()
        );
    }

    #[test]
    fn a_bad_page_is_never_taken_for_an_empty_one() {
        for page in [
            "",
            "<html>",
            "[]",
            "{}",
            r#"{"data":{},"has_more":false}"#,
            r#"{"data":[1],"has_more":false}"#,
            r#"{"data":[{"type":"x"}],"has_more":false}"#,
            r#"{"data":[{"id":""}],"has_more":false}"#,
            r#"{"data":[]}"#,
            r#"{"data":[],"has_more":"maybe"}"#,
            r#"{"data":[],"has_more":true}"#,
            r#"{"data":[{"id":{}}],"has_more":false}"#,
            r#"{"data":[{"id":"evt_1"}],"has_mo"#,
        ] {
            assert!(read(page).is_err(), "{page}");
        }
    }
}
