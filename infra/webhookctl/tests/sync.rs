//! The sync, on the real binary against an emulated event list of Stripe. If an event never
//! arrived, the sync finds it once, whatever the list returns in the meantime.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use aws_sdk_ssm::types::ParameterType;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use local::{Options, Stack};
use serde_json::{Value, json};
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Again, Ledger, Replayed, State};
use shared::monitoring::coverage::Counts;
use shared::webhook::event::{EventKey, Via};
use webhookctl::demo::provider::Failure;
use webhookctl::demo::{DemoSecrets, StandIns};

struct World {
    stack: Stack,
    stand_ins: StandIns,
    ledger: Ledger,
    folder: PathBuf,
}

/// The list has pages of 100 events, so 250 events are three pages.
const EVENTS: u64 = 250;

#[tokio::test]
async fn a_run_that_breaks_off_goes_on_where_it_was_and_nothing_is_found_twice()
-> anyhow::Result<()> {
    let world = World::start("resume").await?;
    let now = UnixMillis::now().secs();
    for n in 0..EVENTS {
        world.happen(&format!("evt_{n:04}"), now - 600 + i64::try_from(n)?)?;
    }

    // The emulated provider answers the request for the first page, and fails all requests for the
    // second page.
    let mut failures = vec![Failure::ServerError; 6];
    failures[2] = Failure::BadPage;
    world.stand_ins.provider.fail_from_request(2, &failures);
    let error = world.sync().await.unwrap_err().to_string();
    assert!(error.contains("failed 6 times"), "{error}");
    assert_eq!(world.stand_ins.provider.requests(), 7);
    assert_eq!(world.in_ledger(EVENTS).await?, 100);

    // The next run requests the second page, and not the first one again.
    let report = world.sync().await?;
    assert_eq!(
        (report["pages"].as_u64(), report["found"].as_u64()),
        (Some(2), Some(150))
    );
    assert_eq!(report["complete"], true);
    assert_eq!(world.stand_ins.provider.requests(), 9);
    assert_eq!(world.in_ledger(EVENTS).await?, EVENTS);

    // A run without new events finds nothing, because it lists only events of the overlap, which
    // the ledger already has.
    let report = world.sync().await?;
    assert_eq!(
        (report["found"].as_u64(), report["complete"].as_bool()),
        (Some(0), Some(true))
    );
    assert_eq!(
        report["listed"].as_u64(),
        Some(EVENTS),
        "the overlap of 15 minutes reaches back over all of them"
    );

    // The list shows this event only now, although the event is older than the last run.
    world.happen("evt_late", now - 300)?;
    let report = world.sync().await?;
    assert_eq!(report["found"].as_u64(), Some(1));
    let late = world
        .ledger
        .event(&EventKey::new("stripe-main", "evt_late"))
        .await?;
    assert_eq!(
        late.context("the event is in the ledger")?.via,
        Via::BackupSync
    );
    world.end().await
}

/// Lambda rejects a request of more than 6 MB, so only the sync can get these events.
#[tokio::test]
async fn a_body_larger_than_a_webhook_is_worked_on_and_replayed() -> anyhow::Result<()> {
    let world = World::start("large").await?;
    let now = UnixMillis::now();
    for (id, mebibytes) in [("evt_5_mib", 5), ("evt_15_mib", 15)] {
        // zstd cannot compress this noise, so the bucket must store the full size.
        let mut noise = vec![0; mebibytes * 1024 * 1024 * 3 / 4 - 1024];
        getrandom::fill(&mut noise)?;
        let text = STANDARD.encode(noise);
        let event = json!({"id": id, "object": "event", "created": now.secs() - 600, "type": "a", "text": text});
        let event = event.to_string();
        world.stand_ins.provider.happen(&event.clone().into())?;
        let report = world.sync().await?;
        assert_eq!(report["found"].as_u64(), Some(1), "{report}");
        let key = EventKey::new("stripe-main", id);
        let body = world
            .ledger
            .event_body(&key)
            .await?
            .context("the row exists")?;
        assert!(body.is_ok_and(|body| body.0 == event.as_bytes()), "{id}");
        let epoch = world.is_done(&key).await?;
        let expires = now + std::time::Duration::from_secs(86_400);
        let (plan, planned) = (format!("rpl_{id}"), [(key.clone(), epoch)]);
        world
            .ledger
            .plans()
            .plan_events(&plan, &planned, expires)
            .await?;
        let again = Again {
            plan: &plan,
            seen: epoch,
            new_effects: true,
        };
        let replayed = world
            .ledger
            .plans()
            .replay(&key, &again, UnixMillis::now())
            .await?;
        assert_eq!(replayed, Replayed::Again, "{id}");
        world.ring(&key, 1).await?;
        world.is_done(&key).await?;
        // A page with both events would exceed the size limit of a response.
        world.stand_ins.provider.forget();
    }
    world.end().await
}

#[tokio::test]
async fn what_came_and_what_never_came_is_counted_when_its_time_is_over() -> anyhow::Result<()> {
    let world = World::start("coverage").await?;
    let now = UnixMillis::now();
    world.synced_at(now.secs() - 7_200).await?;
    // Three events happened an hour ago, and one of them arrived by webhook. A fourth event
    // arrived, but the list does not have it.
    for id in ["evt_came", "evt_missed_1", "evt_missed_2"] {
        world.happen(id, now.secs() - 3_600)?;
    }
    // This event is too recent to be counted.
    world.happen("evt_young", now.secs() - 300)?;
    for id in ["evt_came", "evt_unlisted"] {
        world.came(id, UnixMillis(now.0 - 3_590_000)).await?;
    }
    for found in [3, 0] {
        let report = world.sync().await?;
        assert_eq!(report["found"].as_u64(), Some(found), "{report}");
        let counts = world.counts(now).await?;
        assert_eq!((counts.webhook, counts.both, counts.sync), (1, 1, 2));
        let mut gaps: Vec<&str> = counts.gaps.iter().map(|gap| gap.id.as_str()).collect();
        gaps.sort_unstable();
        assert_eq!(gaps, ["evt_missed_1", "evt_missed_2"]);
    }
    // A run that is killed before it can move the cursor lists everything again.
    world.synced_at(now.secs() - 7_200).await?;
    world.sync().await?;
    let counts = world.counts(now).await?;
    assert_eq!((counts.webhook, counts.both, counts.sync), (1, 1, 2));
    world.end().await
}

#[tokio::test]
async fn a_run_in_two_parts_counts_each_page_once() -> anyhow::Result<()> {
    let world = World::start("coverage-parts").await?;
    let now = UnixMillis::now();
    world.synced_at(now.secs() - 7_200).await?;
    for n in 0..EVENTS {
        let created = now.secs() - 3_600 + i64::try_from(n)?;
        world.happen(&format!("evt_{n:04}"), created)?;
    }
    world
        .stand_ins
        .provider
        .fail_from_request(2, &[Failure::ServerError; 6]);
    world.sync().await.unwrap_err();
    assert_eq!(world.counts(now).await?.all(), 0, "nothing is counted yet");
    let report = world.sync().await?;
    assert_eq!(report["complete"], true);
    assert_eq!(world.counts(now).await?.sync, EVENTS);
    world.end().await
}

#[tokio::test]
async fn what_happened_before_the_first_run_was_not_missed() -> anyhow::Result<()> {
    let world = World::start("coverage-first").await?;
    let now = UnixMillis::now();
    world.happen("evt_before", now.secs() - 1_800)?;
    let first = world.sync().await?;
    // The next run also lists events from before the first run, as with a long overlap.
    world.synced_at(now.secs() - 7_200).await?;
    let report = world.sync().await?;
    assert_eq!(first["found"].as_u64(), Some(1), "{first}");
    assert_eq!(report["listed"].as_u64(), Some(1), "{report}");
    assert_eq!(world.counts(now).await?.all(), 0);
    world.end().await
}

#[tokio::test]
async fn a_source_that_fell_silent_is_named_with_what_its_list_says() -> anyhow::Result<()> {
    let world = World::start("silent").await?;
    let now = UnixMillis::now();
    world.synced_at(now.secs() - 7_200).await?;
    // A webhook arrived every four minutes until an hour ago.
    for n in 0..12 {
        let at = UnixMillis(now.0 - (3_600 + n * 240) * 1000);
        world.came(&format!("evt_{n}"), at).await?;
    }
    world.happen("evt_lost", now.secs() - 1_800)?;
    // The sync finds an event. It did not arrive by webhook, so the source is still silent.
    let report = world.invoke(json!({"task": "sync"})).await?;
    let silent = report["silent"].as_array().context("a list")?;
    assert_eq!(silent.len(), 1, "{report}");
    assert_eq!(silent[0]["source"], "stripe-main");
    assert_eq!(silent[0]["usually_s"], 240);
    let seconds = silent[0]["silent_s"].as_u64().context("a number")?;
    assert!((3_600..3_700).contains(&seconds), "{report}");
    assert_eq!(silent[0]["why"], json!({"is": "not_arriving", "events": 1}));
    world.came("evt_back", UnixMillis::now()).await?;
    let report = world.invoke(json!({"task": "sync"})).await?;
    assert_eq!(report["silent"], json!([]), "the source is active again");
    world.end().await
}

#[tokio::test]
async fn a_page_that_is_gone_for_good_is_not_asked_for_for_ever() -> anyhow::Result<()> {
    let world = World::start("gone").await?;
    let now = UnixMillis::now().secs();
    for n in 0..EVENTS {
        world.happen(&format!("evt_{n:04}"), now - 600 + i64::try_from(n)?)?;
    }
    world
        .stand_ins
        .provider
        .fail_from_request(2, &[Failure::NoSuchPage]);
    let error = world.sync().await.unwrap_err().to_string();
    assert!(error.contains("the next run restarts"), "{error}");
    assert_eq!(world.in_ledger(EVENTS).await?, 100);
    let report = world.sync().await?;
    assert_eq!(
        (report["pages"].as_u64(), report["found"].as_u64()),
        (Some(3), Some(150)),
        "{report}"
    );
    assert_eq!(report["complete"], true);
    world.end().await
}

/// A cursor in the future does not show for how long the clock was wrong.
#[tokio::test]
async fn a_cursor_in_the_future_goes_back_as_far_as_the_list_reaches() -> anyhow::Result<()> {
    let world = World::start("ahead").await?;
    let now = UnixMillis::now().secs();
    world.synced_at(now + 86_400).await?;
    world.happen("evt_1", now - 7 * 86_400)?;
    let error = world.sync().await.unwrap_err().to_string();
    assert!(error.contains("sync.cursor_ahead"), "{error}");
    let report = world.sync().await?;
    assert_eq!(report["found"].as_u64(), Some(1), "{report}");
    assert_eq!(report["complete"], true);
    world.end().await
}

#[tokio::test]
async fn rows_that_nobody_can_work_on_keep_no_other_from_its_turn() -> anyhow::Result<()> {
    let world = World::start("stuck").await?;
    let event = |id: &str| {
        shared::webhook::event::Event::fetched(shared::webhook::event::Fetched {
            source: "stripe-main",
            provider: "stripe",
            preset: "stripe",
            id,
            kind: "invoice.paid",
            body: r#"{"id":"evt"}"#.into(),
            now: UnixMillis(UnixMillis::now().0 - 600_000),
            via: Via::Webhook,
            config: "test",
        })
    };
    let waiting = event("evt_waiting");
    let long_ago = UnixMillis(UnixMillis::now().0 - 600_000);
    world.ledger.receive(&waiting, long_ago).await?;
    let clients = world.stack.clients();
    let table = world.stack.table()?;
    let get = clients.dynamodb.get_item().table_name(table);
    let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.into());
    let get = get
        .key("pk", text(&waiting.key().pk()))
        .key("sk", text("M"));
    let row = get.send().await?.item.context("the row exists")?;
    // These rows are due earlier in the same partition of the index. Their version is newer than
    // the version that this code knows.
    for n in 0..600 {
        let key = EventKey::new("stripe-main", &format!("evt_newer_{n}"));
        let mut newer = row.clone();
        newer.insert("pk".into(), text(&key.pk()));
        let number = |n: i64| aws_sdk_dynamodb::types::AttributeValue::N(n.to_string());
        newer.insert("gsk".into(), number(long_ago.0 - 1_000 + n));
        newer.insert("sv".into(), number(99));
        let put = clients.dynamodb.put_item().table_name(table);
        put.set_item(Some(newer)).send().await?;
    }
    let report = world.invoke(json!({"task": "sweep"})).await?;
    assert_eq!(report["sent"].as_u64(), Some(1), "{report}");
    world.end().await
}

#[tokio::test]
async fn an_api_key_that_is_refused_moves_no_cursor() -> anyhow::Result<()> {
    let world = World::start("refused").await?;
    world.happen("evt_1", UnixMillis::now().secs() - 60)?;
    world
        .put("BackupSync", "stripe-main", "another key")
        .await?;
    let error = world.sync().await.unwrap_err().to_string();
    assert!(
        error.contains("API key \"stripe-main\" is invalid or lacks a permission"),
        "{error}"
    );
    assert!(!error.contains("another key"));
    assert_eq!(world.in_ledger(0).await?, 0);
    world.end().await
}

#[tokio::test]
async fn the_sweep_sends_a_lost_message_again() -> anyhow::Result<()> {
    let world = World::start("sweep").await?;
    // A catcher received the event long ago, while its queue was unavailable. The event has a row
    // but no message.
    let event = shared::webhook::event::Event::fetched(shared::webhook::event::Fetched {
        source: "stripe-main",
        provider: "stripe",
        preset: "stripe",
        id: "evt_silent",
        kind: "invoice.paid",
        body: r#"{"id":"evt_silent"}"#.into(),
        now: UnixMillis(UnixMillis::now().0 - 600_000),
        via: Via::Webhook,
        config: "test",
    });
    world
        .ledger
        .receive(&event, UnixMillis(UnixMillis::now().0 - 600_000))
        .await?;
    let report = world.invoke(json!({"task": "sweep"})).await?;
    assert_eq!(
        (report["checked"].as_u64(), report["sent"].as_u64()),
        (Some(1), Some(1)),
        "{report}"
    );
    // The next visit of the sweep is due in a minute, so a second sweep skips the event.
    let report = world.invoke(json!({"task": "sweep"})).await?;
    assert_eq!(report["checked"].as_u64(), Some(0), "{report}");
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let row = world
            .ledger
            .event(event.key())
            .await?
            .context("the row exists")?;
        if !row.is_open() {
            assert_eq!(row.state, State::Done);
            break;
        }
        ensure!(
            tokio::time::Instant::now() < deadline,
            "the event is still {}",
            row.state
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world.end().await
}

impl World {
    async fn start(name: &str) -> anyhow::Result<Self> {
        let secrets = DemoSecrets::random()?;
        let stand_ins = StandIns::start(&secrets, 0, 0)?;
        let folder = std::env::temp_dir().join(format!("mitt-sync-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let sources = folder.join("sources.toml");
        std::fs::write(&sources, &stand_ins.sources)?;
        let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
        let program = PathBuf::from(env!("CARGO_BIN_EXE_webhookctl"));
        let binaries = program.parent().context("the binary is in a folder")?;
        ensure!(
            binaries.join("backup-sync").exists(),
            "the functions are not built: cargo build --workspace"
        );
        let stack = Stack::start(Options {
            sources_file: Some(sources),
            rights: Some(testkit::rights::enforced()),
            ..Options::new(template, binaries)
        })
        .await?;
        let clients = stack.clients();
        let ledger = Ledger::new(
            clients.dynamodb,
            stack.table()?,
            Some((clients.s3, stack.bucket("Bodies")?.to_owned())),
        );
        let world = Self {
            stack,
            stand_ins,
            ledger,
            folder,
        };
        for (kind, name, value) in secrets.iter() {
            let function = match kind {
                "ingress" => "Catcher",
                "egress" => "Processor",
                _ => "BackupSync",
            };
            world.put(function, name, value).await?;
        }
        Ok(world)
    }

    async fn put(&self, function: &str, name: &str, value: &str) -> anyhow::Result<()> {
        let name = format!("{}/{name}/current", self.stack.secrets_path(function)?);
        let put = self
            .stack
            .clients()
            .ssm
            .put_parameter()
            .name(name)
            .value(value);
        put.r#type(ParameterType::SecureString)
            .overwrite(true)
            .send()
            .await?;
        Ok(())
    }

    fn happen(&self, id: &str, created: i64) -> anyhow::Result<()> {
        let event =
            json!({"id": id, "object": "event", "created": created, "type": "invoice.paid"});
        self.stand_ins.provider.happen(&event.to_string().into())
    }

    /// Stores a cursor, as if the last complete run had begun at this time.
    async fn synced_at(&self, secs: i64) -> anyhow::Result<()> {
        let clients = self.stack.clients();
        let put = clients.dynamodb.put_item().table_name(self.stack.table()?);
        let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.into());
        let number = |n: i64| aws_sdk_dynamodb::types::AttributeValue::N(n.to_string());
        let put = put
            .item("pk", text("SYNC#stripe-main"))
            .item("sk", text("CURSOR"))
            .item("cur", number(secs * 1000))
            .item("epoch", number(1));
        put.send().await?;
        Ok(())
    }

    /// Stores an event that arrived by webhook.
    async fn came(&self, id: &str, at: UnixMillis) -> anyhow::Result<()> {
        let body = format!(r#"{{"id":"{id}","created":{}}}"#, at.secs());
        let event = shared::webhook::event::Event::fetched(shared::webhook::event::Fetched {
            source: "stripe-main",
            provider: "stripe",
            preset: "stripe",
            id,
            kind: "invoice.paid",
            body: body.into(),
            now: at,
            via: Via::Webhook,
            config: "test",
        });
        self.ledger.receive(&event, at).await?;
        Ok(())
    }

    /// Returns the sum of the counts of yesterday and today, because an hour ago may have been
    /// yesterday.
    async fn counts(&self, now: UnixMillis) -> anyhow::Result<Counts> {
        let day = Day::of(now);
        let mut sum = Counts::default();
        let days = self
            .ledger
            .statistics()
            .day_counts("stripe-main", day.before(1), day);
        for count in days.await? {
            sum.merge(count.counts);
        }
        Ok(sum)
    }

    async fn invoke(&self, task: Value) -> anyhow::Result<Value> {
        let invocation = self.stack.invoke("BackupSync", &task).await?;
        if let Some(error) = invocation.error() {
            anyhow::bail!("{}", error.message);
        }
        invocation.json()
    }

    /// Returns the report of the only source with a sync.
    async fn sync(&self) -> anyhow::Result<Value> {
        Ok(self.invoke(json!({"task": "sync"})).await?["sources"][0].clone())
    }

    async fn ring(&self, key: &EventKey, run: u64) -> anyhow::Result<()> {
        let sqs = self.stack.clients().sqs;
        let body = json!({"v": 1, "key": key.pk(), "run": run});
        let send = sqs
            .send_message()
            .queue_url(self.stack.queue_url("WorkQueue")?);
        send.message_body(body.to_string()).send().await?;
        Ok(())
    }

    /// Waits until an event is done. Returns its fencing token.
    async fn is_done(&self, key: &EventKey) -> anyhow::Result<u64> {
        let patience = UnixMillis::now() + std::time::Duration::from_secs(60);
        loop {
            let row = self.ledger.event(key).await?.context("the row exists")?;
            ensure!(row.state != State::DeadLetter, "{:?}", row.history);
            if row.state == State::Done {
                return Ok(row.epoch);
            }
            ensure!(UnixMillis::now() < patience, "still {:?}", row.state);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    async fn in_ledger(&self, events: u64) -> anyhow::Result<u64> {
        let mut count = 0;
        for n in 0..events {
            count += u64::from(
                self.ledger
                    .has(&EventKey::new("stripe-main", &format!("evt_{n:04}")))
                    .await?,
            );
        }
        Ok(count)
    }

    async fn end(self) -> anyhow::Result<()> {
        self.stack.stop().await;
        Ok(std::fs::remove_dir_all(&self.folder)?)
    }
}
