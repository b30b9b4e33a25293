//! `webhookctl dlq`, quarantined events and the audit log, as a user runs them on a stack whose
//! ledger was written by the library.

use std::time::Duration;

use crate::support::world::World;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::delivery::answers::{Answers, KeptAnswer};
use shared::inbox::ledger::{Claim, EffectRow, EffectState, Received, Settlement, State};
use shared::webhook::event::{Event, EventKey, Fetched, Via};

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "keep" }]

[[source]]
name = "acme"
preset = "standard-webhooks"
action = [{ kind = "keep" }]
"#;

/// An error text of a hostile destination.
const HOSTILE: &str = "no\u{1b}]0;owned\u{7}\nnext_action  none\u{202e} =1+1";

const LEASE: Duration = Duration::from_secs(35);

fn start(name: &str) -> anyhow::Result<World> {
    World::start(name, SOURCES)
}

impl World {
    /// Stores an event that became a dead letter with this error, this number of minutes ago.
    async fn dead(
        &self,
        source: &str,
        id: &str,
        error: &str,
        effect: Option<(EffectState, bool)>,
        minutes: u64,
    ) -> anyhow::Result<EventKey> {
        let at = self.now - Duration::from_secs(60 * minutes);
        let event = event(source, id, "{}", at);
        self.ledger.receive(&event, at).await?;
        let claim = self.ledger.claim(event.key(), "worker", at, LEASE, 10);
        let Claim::Leased(lease) = claim.await? else {
            anyhow::bail!("{id} is free")
        };
        let effect = effect.map(|(state, keyed)| {
            let key = "wh_1".to_owned();
            let note = String::new();
            let run = 0;
            (
                "http".to_owned(),
                EffectRow {
                    state,
                    key,
                    keyed,
                    at,
                    run,
                    note,
                    lease: None,
                },
            )
        });
        let settlement = Settlement::DeadLetter {
            reason: "permanent",
            error: error.to_owned(),
        };
        let effects: Vec<_> = effect.into_iter().collect();
        self.ledger.settle(*lease, settlement, &effects, at).await?;
        Ok(event.key().clone())
    }

    /// Stores five events with one error, which have every state of an effect, and one event with
    /// another error.
    async fn two_errors(&self) -> anyhow::Result<()> {
        use EffectState::{Done, Not, Unknown};
        let effects = [
            (Not, true),
            (Done, true),
            (Not, false),
            (Unknown, true),
            (Unknown, false),
        ];
        for (n, effect) in effects.into_iter().enumerate() {
            let error = format!("GitHub API 502 for cus_{n}, request 8f14e45{n}");
            let id = format!("evt_{n}");
            let minutes = 10 * (n as u64) + 1;
            self.dead("stripe-main", &id, &error, Some(effect), minutes)
                .await?;
        }
        self.dead("acme", "evt_hostile", HOSTILE, None, 3).await?;
        Ok(())
    }

    /// Stores an event whose id belongs to another event.
    async fn apart(&self, id: &str) -> anyhow::Result<EventKey> {
        self.dead("acme", id, "permanent", None, 1).await?;
        let other = event("acme", id, "{\"other\":1}", self.now);
        match self.ledger.receive(&other, self.now).await? {
            Received::Conflict(key) => Ok(key),
            received => anyhow::bail!("expected a conflict, got {received:?}"),
        }
    }

    async fn state(&self, key: &EventKey) -> anyhow::Result<State> {
        let row = self.ledger.event(key).await?.context("the row exists")?;
        Ok(row.state)
    }

    /// Returns the dead-letter queue.
    fn dead_queue(&self) -> String {
        let (place, name) = self.local.queue_url.rsplit_once('/').unwrap_or_default();
        format!("{place}/{}", name.replace("WorkQueue", "WorkDeadLetters"))
    }
}

/// Creates an event without a signature. The ledger stores it like an event with a signature.
fn event(source: &str, id: &str, body: &'static str, at: UnixMillis) -> Event {
    Event::fetched(Fetched {
        source,
        provider: source,
        preset: source,
        id,
        kind: "invoice.paid",
        body: body.into(),
        now: at,
        via: Via::Webhook,
        config: "test",
    })
}

#[tokio::test]
async fn dead_letters_are_grouped_by_what_went_wrong() -> anyhow::Result<()> {
    let world = start("dlq-list")?;
    let none = world.text(&["dlq", "list"])?;
    assert!(none.contains("No dead letters match."), "{none}");
    world.two_errors().await?;

    let text = world.text(&["dlq", "list"])?;
    for said in [
        "GitHub API 502 for cus_<id>, request <id>",
        "safe 3 · guarded 1 · unknown 1",
        "6 dead letters in 2 errors",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let document = world.json(&["dlq", "list"])?;
    assert_eq!(document["schema"], "webhookctl/dlq.list/v1");
    let first = &document["items"][0];
    assert_eq!(
        (&first["events"], &first["sources"]),
        (&json!(5), &json!(["stripe-main"]))
    );
    assert_eq!(first["replay"]["guarded"], 1);
    let error = first["error"].as_str().context("a fingerprint")?;
    assert_eq!(error.len(), 6);

    let one = world.json(&["dlq", "list", "--error", error, "-s", "stripe-main"])?;
    assert_eq!(one["items"].as_array().map(Vec::len), Some(1));
    let recent = world.json(&["dlq", "list", "--since", "15m"])?;
    assert_eq!(recent["items"][0]["events"], 2, "{recent}");
    let (code, told) = world.refused(&["dlq", "list", "--status", "done"])?;
    assert_eq!(code, Some(2), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_flat_list_is_read_in_pieces() -> anyhow::Result<()> {
    let world = start("dlq-flat")?;
    world.two_errors().await?;
    let mut ids = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut line = vec!["dlq", "list", "--flat", "-n", "4"];
        line.extend(after.iter().flat_map(|cursor| ["--after", cursor.as_str()]));
        let page = world.json(&line)?;
        let items = page["items"].as_array().context("items")?;
        ensure!(items.len() <= 4, "{page}");
        ids.extend(items.iter().map(|item| item["id"].clone()));
        assert_eq!(page["truncated"], json!(ids.len() < 6), "{page}");
        after = page["next_cursor"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    let unique: std::collections::BTreeSet<String> = ids.iter().map(Value::to_string).collect();
    assert_eq!((ids.len(), unique.len()), (6, 6));
    let printed = world.text(&["dlq", "list", "-o", "ids", "-q"])?;
    assert_eq!(printed.lines().count(), 6, "{printed}");
    assert!(printed.lines().all(|line| line.starts_with("evt_")));
    Ok(())
}

/// Returns the arguments of the command that an error recommends.
fn tip(told: &str) -> anyhow::Result<Vec<String>> {
    let line = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("tip: webhookctl "));
    let words = line.context("a tip")?.split(' ');
    Ok(words
        .map(|word| word.trim_matches('\'').to_owned())
        .collect())
}

#[tokio::test]
async fn a_redrive_repeats_effects_only_under_their_keys() -> anyhow::Result<()> {
    let world = start("dlq-redrive")?;
    world.two_errors().await?;
    let document = world.json(&["dlq", "list", "-s", "stripe-main"])?;
    let error = document["items"][0]["error"].as_str().context("an error")?;
    let redrive = ["dlq", "redrive", "--error", error, "-m", "fixed"];
    let safe = [&redrive[..], &["--mode", "safe"]].concat();
    let (code, told) = world.refused(&safe)?;
    assert!(code == Some(7) && told.contains("--confirm 3"), "{told}");
    // By default, an effect that may have happened is repeated under its key.
    let (code, told) = world.refused(&redrive)?;
    assert!(code == Some(7) && told.contains("--confirm 4"), "{told}");
    assert!(told.contains("[replay.confirm_needed]"), "{told}");
    let apply = tip(&told)?;
    let apply: Vec<&str> = apply.iter().map(String::as_str).collect();
    let done = world.json(&apply)?;
    assert_eq!(
        (&done["mode"], &done["outcome"]["done"]),
        (&json!("guarded"), &json!(4)),
        "{done}"
    );

    // The last dead letter of the error is at a destination that knows no keys.
    let (code, told) = world.refused(&redrive)?;
    assert!(code == Some(7) && told.contains("[dlq.guarded]"), "{told}");
    assert!(told.contains("no idempotency key protects it"), "{told}");
    let shown = tip(&told)?;
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let shown = world.json(&shown)?;
    assert_eq!(shown["items"][0]["dedupe_key"], "evt_4", "{shown}");
    let (code, told) = world.refused(&[&redrive[..], &["--mode", "force"]].concat())?;
    assert_eq!(code, Some(2), "{told}");
    let native = ["dlq", "redrive", "--native", "--mode", "safe", "-m", "x"];
    let (code, told) = world.refused(&native)?;
    assert_eq!(code, Some(2), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_redrive_that_ran_nothing_says_so_with_its_exit_code() -> anyhow::Result<()> {
    let world = start("dlq-nothing")?;
    let redrive = ["dlq", "redrive", "-m", "fixed"];
    let (code, told) = world.refused(&redrive)?;
    assert!(code == Some(3) && told.contains("[dlq.nothing]"), "{told}");

    let unknown = Some((EffectState::Unknown, true));
    world.dead("acme", "evt_1", "timeout", unknown, 1).await?;
    let safe = [
        "dlq",
        "redrive",
        "-m",
        "fixed",
        "--id",
        "acme:evt_1",
        "--mode",
        "safe",
    ];
    let (code, told) = world.refused(&safe)?;
    assert!(code == Some(7) && told.contains("[dlq.guarded]"), "{told}");
    let json = [&safe[..], &["-o", "json"]].concat();
    let (code, told) = world.refused(&json)?;
    assert_eq!(code, Some(7), "{told}");
    let error: Value = serde_json::from_str(told.trim()).context(told)?;
    assert_eq!(error["error"]["details"], json!(["1  side effect unknown"]));
    let (_, told) = world.refused(&safe)?;
    let mut guarded = tip(&told)?;
    guarded.extend(["--confirm".to_owned(), "1".to_owned()]);
    let guarded: Vec<&str> = guarded.iter().map(String::as_str).collect();
    assert_eq!(world.json(&guarded)?["outcome"]["done"], 1);

    // An effect may have happened, and the destination may have forgotten its key.
    world
        .dead("acme", "evt_2", "timeout", unknown, 21 * 60)
        .await?;
    let old = ["dlq", "redrive", "-m", "fixed", "--id", "acme:evt_2"];
    let (code, told) = world.refused(&old)?;
    assert!(code == Some(7) && told.contains("[dlq.guarded]"), "{told}");
    let plan = tip(&told)?;
    let plan: Vec<&str> = plan.iter().map(String::as_str).collect();
    assert!(plan.contains(&"--accept-duplicate-risk"), "{plan:?}");
    assert_eq!(world.json(&plan)?["events"]["planned"], 1);

    let apart = world.apart("evt_3").await?.to_string();
    world.text(&["quarantine", "discard", &apart, "-m", "a test"])?;
    let discarded = ["dlq", "redrive", "-m", "fixed", "--id", &apart];
    let (code, told) = world.refused(&discarded)?;
    assert!(code == Some(3) && told.contains("[dlq.nothing]"), "{told}");
    assert!(told.contains("1  discarded"), "{told}");
    Ok(())
}

#[tokio::test]
async fn one_error_is_explained() -> anyhow::Result<()> {
    let world = start("dlq-inspect")?;
    world.two_errors().await?;
    let document = world.json(&["dlq", "list"])?;
    let error = document["items"][0]["error"].as_str().context("an error")?;
    assert_eq!(world.offered(&["dlq", "inspect", ""])?[0], error);
    let shown = world.json(&["dlq", "inspect", error])?;
    assert_eq!(shown["schema"], "webhookctl/dlq.error/v1");
    for (name, expected) in [
        ("events", json!(5)),
        ("types", json!({ "invoice.paid": 5 })),
        ("reasons", json!({ "permanent": 5 })),
        ("attempts", json!({ "least": 1, "most": 1 })),
        (
            "effects",
            json!({ "committed": 1, "not committed": 2, "unknown": 2 }),
        ),
        (
            "next_action",
            json!("replay after fix; 1 needs a check downstream"),
        ),
    ] {
        assert_eq!(shown[name], expected, "{name}");
    }
    let counts = shown["histogram"]["counts"].as_array().context("counts")?;
    assert_eq!(counts.iter().filter_map(Value::as_u64).sum::<u64>(), 5);
    assert_eq!(shown["histogram"]["bucket_s"], 300);
    let text = world.text(&["dlq", "inspect", &error[..4]])?;
    for said in [
        "5 events, stripe-main",
        "per 5 min",
        "1 each",
        "safe 3 · guarded 1 · unknown 1",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.contains("1m"), "when it was last: {text}");

    // An event by its id has the same output as in `inbox inspect`.
    let one = world.text(&["dlq", "inspect", "acme:evt_hostile"])?;
    assert!(one.contains("dead_letter"), "{one}");
    let (code, told) = world.refused(&["dlq", "inspect", "abcdef"])?;
    assert!(
        code == Some(3) && told.contains("[dlq.not_found]"),
        "{told}"
    );
    let open = event("acme", "evt_open", "{}", world.now);
    world.ledger.receive(&open, world.now).await?;
    let (code, told) = world.refused(&["dlq", "inspect", "acme:evt_open"])?;
    assert!(code == Some(3) && told.contains("[dlq.not_dead]"), "{told}");
    Ok(())
}

#[tokio::test]
async fn the_text_of_an_answer_is_shown_only_with_reveal() -> anyhow::Result<()> {
    let world = start("dlq-answers")?;
    let effect = Some((EffectState::Not, true));
    let key = world.dead("acme", "evt_1", "http: 422", effect, 1).await?;
    let row = world.ledger.event(&key).await?.context("the row exists")?;
    let answer = KeptAnswer {
        effect: "http".to_owned(),
        run: 0,
        attempt: 1,
        at: world.now,
        took: Duration::from_millis(31),
        status: Some(422),
        request_id: Some("req_1".to_owned()),
        content_type: Some("text/plain".to_owned()),
        text: Some("no field \u{1b}[31mname".to_owned()),
    };
    let answers = Answers::beside(&world.ledger);
    answers.keep(&row, &answer).await?;
    let list = world.json(&["dlq", "list"])?;
    let error = list["items"][0]["error"].as_str().context("an error")?;
    for command in [
        &["inbox", "inspect", "acme:evt_1", "--full"][..],
        &["dlq", "inspect", "acme:evt_1"],
        &["dlq", "inspect", error],
    ] {
        let hidden = world.text(command)?;
        for said in [
            "attempt 1",
            "422",
            "31 ms",
            "req_1",
            "hidden; --reveal shows it",
        ] {
            assert!(hidden.contains(said), "{said}: {hidden}");
        }
        assert!(!hidden.contains("no field"), "{hidden}");
        let reveal = [command, &["--reveal"]].concat();
        let shown = world.text(&reveal)?;
        assert!(shown.contains("no field ␛[31mname"), "{shown}");
        let document = world.json(command)?;
        let found = &document["answers"][0];
        assert_eq!(
            (&found["status"], &found["text"]),
            (&json!(422), &Value::Null)
        );
        assert_eq!(found["text_hidden"], true);
        let document = world.json(&reveal)?;
        assert_eq!(document["answers"][0]["text"], "no field \u{1b}[31mname");
    }
    // The seven lines do not have the answers, and do not read them.
    let seven = world.text(&["inbox", "inspect", "acme:evt_1"])?;
    assert_eq!(seven.lines().count(), 7, "{seven}");
    Ok(())
}

#[tokio::test]
async fn whatever_an_error_says_is_inert() -> anyhow::Result<()> {
    let world = start("dlq-hostile")?;
    world.two_errors().await?;
    let document = world.json(&["dlq", "list", "-s", "acme"])?;
    let error = document["items"][0]["error"].as_str().context("an error")?;
    for line in [
        &["dlq", "list"][..],
        &["dlq", "list", "-o", "wide"],
        &["dlq", "list", "-o", "csv"],
        &["dlq", "list", "--flat"],
        &["dlq", "list", "--flat", "-o", "csv"],
        &["dlq", "inspect", error],
        &["dlq", "inspect", error, "-o", "json"],
        &["dlq", "inspect", "acme:evt_hostile"],
    ] {
        let text = world.text(line)?.replace("\r\n", "\n");
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(acts), "{line:?}: {text:?}");
        // The second line of the error text must not look like output of the program.
        let forged = text
            .lines()
            .filter(|line| line.starts_with("next_action  none"));
        assert_eq!(forged.count(), 0, "{line:?}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn the_queue_is_moved_only_as_a_whole_and_when_it_is_confirmed() -> anyhow::Result<()> {
    let world = start("dlq-native")?;
    let native = [
        "dlq",
        "redrive",
        "--native",
        "-m",
        "the function was broken",
    ];
    let empty = world.text(&native)?;
    assert!(empty.contains("there is nothing to move"), "{empty}");
    let sqs = world.local.endpoints().clients().sqs;
    for _ in 0..3 {
        let send = sqs.send_message().queue_url(world.dead_queue());
        send.message_body("no message").send().await?;
    }
    let (code, told) = world.refused(&native)?;
    assert!(code == Some(7) && told.contains("--confirm 3"), "{told}");
    assert!(told.contains("all 3 messages of"), "{told}");
    world.two_errors().await?;
    let (code, told) = world.refused(&native)?;
    assert!(
        code == Some(7) && told.contains("[dlq.native_mixed]"),
        "{told}"
    );
    assert!(told.contains("2 different errors"), "{told}");
    for (more, exit) in [
        (&["--confirm", "2"][..], 7),
        (&["--confirm", "3", "-s", "acme"], 2),
        (&["--confirm", "3", "--error", "c41f09"], 2),
    ] {
        let (code, told) = world.refused(&[&native[..], more].concat())?;
        assert_eq!(code, Some(exit), "{more:?}: {told}");
    }
    // `dev` has recorded that it stored its sources.
    assert!(
        world.json(&["log"])?["items"]
            .as_array()
            .is_some_and(|log| log.iter().all(|entry| entry["what"] == "sources.apply"))
    );

    let done = world.json(&[&native[..], &["--confirm", "3"]].concat())?;
    assert_eq!(
        (&done["moved"], &done["status"]),
        (&json!(3), &json!("COMPLETED"))
    );
    let again = world.text(&native)?;
    assert!(again.contains("there is nothing to move"), "{again}");
    let log = world.json(&["log"])?;
    assert_eq!(log["items"][0]["what"], "dlq.native", "{log}");
    assert_eq!(log["items"][0]["events"], 3);
    Ok(())
}

#[tokio::test]
async fn what_is_kept_apart_is_released_or_discarded() -> anyhow::Result<()> {
    let world = start("kept-apart")?;
    let (one, two) = (world.apart("evt_1").await?, world.apart("evt_2").await?);
    let (one_name, two_name) = (one.to_string(), two.to_string());
    let shown = world.text(&["inbox", "inspect", &one_name])?;
    assert!(shown.contains("another body under a known id"), "{shown}");
    assert!(shown.contains("release or discard it"), "{shown}");

    let why = "both are\u{1b}[31m genuine";
    let said = world.text(&["quarantine", "release", &one_name, "-m", why])?;
    assert!(said.contains("released by local/anna"), "{said}");
    let patience = UnixMillis::now() + Duration::from_secs(60);
    while world.state(&one).await? != State::Done {
        ensure!(UnixMillis::now() < patience, "no worker processed it");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let full = world.text(&["inbox", "inspect", &one_name, "--full"])?;
    for said in ["quarantined", "by local/anna: both are", "attempt 1"] {
        assert!(full.contains(said), "{said}: {full}");
    }
    assert!(!full.contains('\u{1b}'), "{full:?}");
    let (code, told) = world.refused(&["quarantine", "release", &one_name, "-m", why])?;
    assert!(
        code == Some(7) && told.contains("its state is done"),
        "{told}"
    );

    let said = world.json(&["quarantine", "discard", &two_name, "-m", "a test of theirs"])?;
    assert_eq!(said["status"], "dead_letter");
    let (code, told) = world.refused(&["quarantine", "discard", &two_name, "-m", "x"])?;
    assert!(
        code == Some(7) && told.contains("[quarantine.not_apart]"),
        "{told}"
    );
    let (code, _) = world.refused(&["quarantine", "release", "acme:unknown", "-m", "x"])?;
    assert_eq!(code, Some(3));
    let (code, _) = world.refused(&["quarantine", "discard", &two_name, "-m", " "])?;
    assert_eq!(code, Some(2));
    let discarded = world.text(&["dlq", "list"])?;
    assert!(discarded.contains("discarded 1"), "{discarded}");

    // The audit log does not have an action that was refused before it began.
    // Its first entry is of `dev`, which stored its sources.
    let log = world.json(&["log"])?;
    let whats = log["items"].as_array().context("items")?.iter();
    let whats: Vec<_> = whats.filter_map(|entry| entry["what"].as_str()).collect();
    let wanted = ["quarantine.discard", "quarantine.release", "sources.apply"];
    assert_eq!(whats, wanted);
    assert_eq!(log["items"][1]["selection"], one_name);
    let newest = world.json(&["log", "-n", "1"])?;
    assert_eq!(
        (
            &newest["truncated"],
            newest["items"].as_array().map(Vec::len)
        ),
        (&json!(true), Some(1))
    );
    let unknown = world.json(&["log", "--by", "bert"])?;
    assert_eq!(unknown["items"], json!([]));
    let text = world.text(&["log", "--by", "ANNA", "--what", "quarantine"])?;
    assert!(text.contains("anna") && text.contains("genuine"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    Ok(())
}
