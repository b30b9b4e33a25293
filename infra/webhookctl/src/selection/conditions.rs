//! Describes the conditions of a selection, as text and as a document. Neither contains the values
//! of `--where`, `--account` and `--header`, because these can be personal data that must be erased.

use serde_json::{Map, Value, json};

use super::{Selection, TEE_DAYS};
use crate::output::time::{rfc3339, short};

/// What a stored record has instead of an account.
const HIDDEN: &str = "not stored";

/// The maximum number of ids that a text lists one by one.
const FEW_IDS: usize = 20;

impl Selection {
    /// Describes the conditions, such as `github-org failed,dead_letter since 09:10`. Without
    /// conditions, returns `everything`.
    pub(crate) fn words(&self) -> String {
        let statuses: Vec<&str> = self.statuses.iter().map(|status| status.as_str()).collect();
        let via: Vec<&str> = self.via.iter().map(|via| via.as_str()).collect();
        let mut words = vec![
            self.asked_sources.join(","),
            self.kinds.join(","),
            statuses.join(","),
        ];
        words.extend(
            self.since
                .map(|since| format!("since {}", short(since, self.now))),
        );
        words.extend(
            self.until
                .map(|until| format!("until {}", short(until, self.now))),
        );
        words.extend(self.error.as_ref().map(|error| format!("error {error}")));
        words.extend((!via.is_empty()).then(|| format!("via {}", via.join(","))));
        words.extend(self.attempts.map(|least| format!("{least}+ attempts")));
        words.extend(match self.ids.as_slice() {
            [] => None,
            few if few.len() <= FEW_IDS => Some(format!("id {}", few.join(" "))),
            ids => Some(format!("{} ids", ids.len())),
        });
        words.extend(self.of_accounts());
        words
            .extend((!self.fields.is_empty()).then(|| format!("where {}", self.paths().join(","))));
        words.extend(self.header_names().map(|name| format!("header {name}")));
        words.extend((!self.tee.is_empty()).then(|| format!("tee {}", self.findings().join(","))));
        words.extend(
            (!self.repeats.is_empty()).then(|| format!("repeats {}", self.repeated().join(","))),
        );
        words.retain(|word| !word.is_empty());
        if words.is_empty() {
            return "everything".to_owned();
        }
        words.join(" ")
    }

    /// Returns the conditions as a document for stored records. It has only those conditions that
    /// are set, with full times.
    pub(crate) fn document(&self) -> Value {
        let statuses: Vec<&str> = self.statuses.iter().map(|status| status.as_str()).collect();
        let via: Vec<&str> = self.via.iter().map(|via| via.as_str()).collect();
        let all = [
            ("source", json!(self.asked_sources)),
            ("type", json!(self.kinds)),
            ("status", json!(statuses)),
            ("since", json!(self.since.map(rfc3339))),
            ("until", json!(self.until.map(rfc3339))),
            ("error", json!(self.error)),
            ("via", json!(via)),
            ("attempts", json!(self.attempts)),
            ("id", json!(self.ids)),
            ("where", json!(self.paths())),
            ("account", json!(vec![HIDDEN; self.accounts.len()])),
            ("header", json!(self.header_names().collect::<Vec<_>>())),
            ("tee", json!(self.findings())),
            ("repeats", json!(self.repeated())),
        ];
        let said = all.into_iter().filter(|(_, value)| {
            !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
        });
        let said = said.map(|(name, value)| (name.to_owned(), value));
        Value::Object(said.collect::<Map<_, _>>())
    }

    /// Returns the conditions as arguments for a shell, such as `--source=github-org`. Returns `None`
    /// if the selection has values of `--where`, `--account` or `--header`, which are never printed,
    /// or many ids.
    pub(crate) fn flags(&self) -> Option<String> {
        let has_hidden =
            !self.fields.is_empty() || !self.accounts.is_empty() || !self.headers.is_empty();
        if has_hidden || self.ids.len() > FEW_IDS {
            return None;
        }
        let document = self.document();
        let mut flags = Vec::new();
        for (name, value) in document.as_object().into_iter().flatten() {
            let values = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            for value in values {
                let text = value.as_str().map_or(value.to_string(), str::to_owned);
                flags.push(quoted(&format!("--{name}={text}")));
            }
        }
        Some(flags.join(" "))
    }

    /// Describes the conditions in the message for an empty list, such as `source=any,
    /// status=received, since=24h`.
    pub(crate) fn asked(&self) -> String {
        let any = |words: Vec<String>| match words.as_slice() {
            [] => "any".to_owned(),
            words => words.join(","),
        };
        let mut asked = vec![format!("source={}", any(self.asked_sources.clone()))];
        if !self.kinds.is_empty() {
            asked.push(format!("type={}", self.kinds.join(",")));
        }
        let statuses = self
            .statuses
            .iter()
            .map(|status| status.as_str().to_owned());
        asked.push(format!("status={}", any(statuses.collect())));
        asked.push(match self.since {
            Some(since) => format!("since={}", short(since, self.now)),
            None if self.span().0 == 0 => "since=any".to_owned(),
            None if !self.tee.is_empty() => format!("since={TEE_DAYS}d"),
            None => "since=24h".to_owned(),
        });
        asked.extend(
            self.until
                .map(|until| format!("until={}", short(until, self.now))),
        );
        asked.extend(self.error.as_ref().map(|error| format!("error={error}")));
        asked.extend(self.via.iter().map(|via| format!("via={via}")));
        asked.extend(self.attempts.map(|least| format!("attempts={least}")));
        asked.extend((!self.ids.is_empty()).then(|| format!("{} ids", self.ids.len())));
        asked
            .extend((!self.fields.is_empty()).then(|| format!("where={}", self.paths().join(","))));
        asked.extend(self.of_accounts());
        asked.extend(self.header_names().map(|name| format!("header={name}")));
        asked.extend(self.tee.iter().map(|finding| format!("tee={finding}")));
        asked.extend(self.repeats.iter().map(|kind| format!("repeats={kind}")));
        asked.join(", ")
    }

    /// Describes the accounts without naming them, because an account can be the data of a person.
    fn of_accounts(&self) -> Option<String> {
        match self.accounts.len() {
            0 => None,
            1 => Some("of 1 account".to_owned()),
            count => Some(format!("of {count} accounts")),
        }
    }

    fn findings(&self) -> Vec<&str> {
        self.tee.iter().map(|finding| finding.as_str()).collect()
    }

    fn repeated(&self) -> Vec<&str> {
        self.repeats.iter().map(|kind| kind.as_str()).collect()
    }

    fn header_names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the start time as text, such as `since 09:10`. Without a start time, returns an
    /// empty text.
    pub(crate) fn since_words(&self) -> String {
        match self.span().0 {
            0 => String::new(),
            since => format!("since {}", short(since, self.now)),
        }
    }

    fn paths(&self) -> Vec<&str> {
        self.fields
            .iter()
            .map(|field| field.name.as_str())
            .collect()
    }
}

/// Quotes an argument for a shell, if it needs quotes.
fn quoted(argument: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_=.:,@/+".contains(&b);
    if argument.bytes().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use shared::base::json_path::JsonPath;
    use shared::inbox::ledger::{Repetition, State};
    use shared::monitoring::trial::Finding;

    use super::*;
    use crate::cli::Status;
    use crate::inspect::tests::NOW;
    use crate::selection::Field;

    fn nothing() -> Selection {
        Selection {
            asked_sources: Vec::new(),
            sources: vec!["github-org".to_owned()],
            kinds: Vec::new(),
            statuses: Vec::new(),
            since: None,
            until: None,
            error: None,
            via: Vec::new(),
            attempts: None,
            ids: Vec::new(),
            fields: Vec::new(),
            accounts: Vec::new(),
            headers: Vec::new(),
            tee: Vec::new(),
            repeats: Vec::new(),
            thorough: false,
            now: NOW,
        }
    }

    fn outage() -> Selection {
        Selection {
            asked_sources: vec!["github-org".to_owned()],
            statuses: [State::Failed, State::DeadLetter].map(Status::Of).to_vec(),
            since: Some(NOW - 3_881_000),
            fields: vec![Field {
                name: "user.email".to_owned(),
                path: JsonPath::parse("user.email").unwrap(),
                value: "anna@example.test".to_owned(),
            }],
            ..nothing()
        }
    }

    #[test]
    fn a_selection_is_told_without_the_values_of_fields() {
        assert_eq!(nothing().words(), "everything");
        assert_eq!(nothing().asked(), "source=any, status=any, since=24h");
        assert_eq!(
            outage().words(),
            "github-org failed,dead_letter since 09:10 where user.email"
        );
        assert!(!outage().asked().contains("anna"));
        let of_account = Selection {
            accounts: vec!["anna.example.test".to_owned()],
            headers: vec![("x-user".to_owned(), "anna".to_owned())],
            ..nothing()
        };
        assert_eq!(of_account.words(), "of 1 account header x-user");
        let told = [of_account.asked(), of_account.document().to_string()];
        assert!(!told.concat().contains("anna"), "{told:?}");
        let ids = |count: usize| Selection {
            ids: (0..count).map(|number| format!("evt_{number}")).collect(),
            ..nothing()
        };
        assert_eq!(ids(2).words(), "id evt_0 evt_1");
        assert_eq!(ids(21).words(), "21 ids");
    }

    #[test]
    fn a_selection_tells_the_kinds_of_repeated_requests() {
        let copied = Selection {
            repeats: vec![Repetition::Copied],
            ..nothing()
        };
        assert_eq!(copied.words(), "repeats copied");
        let asked = "source=any, status=any, since=24h, repeats=copied";
        assert_eq!(copied.asked(), asked);
        assert_eq!(copied.flags().as_deref(), Some("--repeats=copied"));
    }

    #[test]
    fn a_selection_tells_the_findings_of_a_trial() {
        let lost = Selection {
            tee: vec![Finding::Lost, Finding::Late],
            ..nothing()
        };
        assert_eq!(lost.words(), "tee lost,late");
        assert_eq!(
            lost.asked(),
            "source=any, status=any, since=7d, tee=lost, tee=late"
        );
        assert_eq!(lost.document(), json!({"tee": ["lost", "late"]}));
        assert_eq!(lost.flags().as_deref(), Some("--tee=lost --tee=late"));
        assert_eq!(lost.span().0, NOW - 7 * 24 * 3_600_000);
    }

    #[test]
    fn its_document_holds_what_was_said_and_no_more() {
        assert_eq!(nothing().document(), json!({}));
        assert_eq!(
            outage().document(),
            json!({
                "source": ["github-org"],
                "status": ["failed", "dead_letter"],
                "since": "2026-11-20T09:10:00Z",
                "where": ["user.email"],
            })
        );
    }

    #[test]
    fn a_selection_is_repeated_as_arguments_of_a_shell() {
        assert_eq!(nothing().flags().as_deref(), Some(""));
        assert_eq!(outage().flags(), None, "values of --where are not printed");
        let of_account = Selection {
            accounts: vec!["one.example.com".to_owned()],
            ..nothing()
        };
        assert_eq!(of_account.flags(), None, "accounts are not printed");
        let of_header = Selection {
            headers: vec![("x-tenant".to_owned(), "one".to_owned())],
            ..nothing()
        };
        assert_eq!(
            of_header.flags(),
            None,
            "values of --header are not printed"
        );
        let selection = Selection {
            kinds: vec!["invoice.*".to_owned(), "it's".to_owned()],
            fields: Vec::new(),
            ..outage()
        };
        let flags = selection.flags().unwrap();
        for flag in [
            "--source=github-org",
            "--status=failed",
            "--status=dead_letter",
            "--since=2026-11-20T09:10:00Z",
            "'--type=invoice.*'",
            "'--type=it'\\''s'",
        ] {
            assert!(
                flags.split(' ').any(|found| found == flag),
                "{flag}: {flags}"
            );
        }
    }

    #[test]
    fn only_what_may_be_settled_is_bounded_to_a_day() {
        let of = |statuses: &[Status]| Selection {
            statuses: statuses.to_vec(),
            ..nothing()
        };
        let day_ago = NOW - 24 * 3_600_000;
        assert_eq!(nothing().span().0, day_ago);
        let [failed, dead, done] = [State::Failed, State::DeadLetter, State::Done].map(Status::Of);
        assert_eq!(of(&[failed, dead]).span().0, 0);
        assert_eq!(of(&[Status::Held]).span().0, 0);
        assert_eq!(of(&[failed, done]).span().0, day_ago);
        assert_eq!(of(&[Status::Of(State::Quarantined)]).span().0, day_ago);
    }
}
