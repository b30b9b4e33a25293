//! Fills a table with the events of thirty days. Almost all are done, a few hundred are open, and a
//! thousand are dead letters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use aws_sdk_ssm::types::ParameterType::SecureString;
use dynoxide::{AttributeValue, Database, ImportOptions, Item, server};
use local::{Naming, Options, Stack, Template, clients, create_table};
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::transition::{dead_partition, work_partition};
use shared::inbox::ledger::{FIRST, Ledger};
use shared::monitoring::hours::Arrived;
use shared::monitoring::hours::HourCount;
use shared::webhook::event::{EventId, EventKey};
use webhookctl::target::Local;

const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");

const DAYS: i64 = 30;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The numbers of open events and of dead letters, whatever the size of the inbox. Each is at most
/// a tenth of all events.
const OPEN: usize = 200;
const DEAD: usize = 1_000;

/// The number of items in one write to the database.
const AT_ONCE: usize = 20_000;

const KIND: &str = "payment_intent.succeeded";

/// The number of past hours whose counts are stored, as backup-sync stores them.
const COUNTED: i64 = DAYS * 24;

/// A folder for a run, which is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Inbox {
    pub(crate) url: String,
    pub(crate) table: String,
    /// The id and the key of an event from the middle of the time range.
    pub(crate) an_event: String,
    pub(crate) a_key: String,
    file: PathBuf,
}

impl Inbox {
    pub(crate) async fn fill(
        folder: &Path,
        (rows, sources): (usize, usize),
        now: UnixMillis,
    ) -> Self {
        let file = folder.join("table.sqlite");
        let database = Database::new(file.to_str().unwrap()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = database.clone();
        tokio::spawn(async move {
            let never = std::future::pending();
            server::serve_with_shutdown(listener, served, never).await
        });
        let template = Template::load(Path::new(TEMPLATE), &Naming::default()).unwrap();
        let definition = template.table_definition().unwrap();
        let table = definition.name.clone();
        let client = clients::dynamodb(&url);
        Box::pin(create_table(&client, definition, &table))
            .await
            .unwrap();
        let writing = table.clone();
        let (a_key, at) =
            tokio::task::spawn_blocking(move || write(&database, &writing, (rows, sources), now))
                .await
                .unwrap();
        count(&Ledger::new(client, &table, None), (rows, sources), now).await;
        Self {
            an_event: EventId::new(at, &a_key).to_string(),
            a_key: format!("{}:{}", a_key.source(), a_key.id()),
            url,
            table,
            file,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let wal = self.file.with_extension("sqlite-wal");
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        size(&self.file) + size(&wal)
    }
}

/// Writes the events, and returns the key and the time of receipt of the event in the middle.
fn write(
    database: &Database,
    table: &str,
    (rows, sources): (usize, usize),
    now: UnixMillis,
) -> (EventKey, UnixMillis) {
    database.enable_bulk_loading().unwrap();
    let (open, dead) = (OPEN.min(rows / 10), DEAD.min(rows / 10));
    // The newest events are open; dead letters have any age.
    let fate = |n: usize| match n {
        n if n < open => Fate::Failed,
        n if n % (rows / dead.max(1)).max(1) == 0 => Fate::Dead,
        _ => Fate::Done,
    };
    let numbers: Vec<usize> = (0..rows).collect();
    for numbers in numbers.chunks(AT_ONCE) {
        let items = numbers.iter().map(|n| {
            let (key, at) = place(*n, (rows, sources), now);
            let between = DAYS * DAY_MS / i64::try_from(rows).unwrap();
            let of_source = between * i64::try_from(sources).unwrap();
            let before = (at.0 - Hour::of(at).begins().0) / of_source;
            row(
                &key,
                at,
                &fate(*n),
                usize::try_from(before).unwrap() < FIRST,
            )
        });
        let imported = database.import_items(table, items.collect(), ImportOptions::default());
        assert_eq!(imported.unwrap().items_imported, numbers.len());
    }
    database.disable_bulk_loading().unwrap();
    place(rows / 2, (rows, sources), now)
}

/// Returns the key and the time of receipt of an event.
fn place(n: usize, (rows, sources): (usize, usize), now: UnixMillis) -> (EventKey, UnixMillis) {
    let step = DAYS * DAY_MS / i64::try_from(rows).unwrap();
    let key = EventKey::new(&format!("source-{}", n % sources), &format!("evt_{n:08}"));
    let back = i64::try_from(n).unwrap() * step + 1_000;
    (key, UnixMillis(now.0 - back))
}

enum Fate {
    Done,
    Failed,
    Dead,
}

/// A state row with a small body.
fn row(key: &EventKey, at: UnixMillis, fate: &Fate, of_day: bool) -> Item {
    let pk = key.pk();
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let n = |number: i64| AttributeValue::N(number.to_string());
    // The first events of a source and hour are in the partition of the day.
    let time = if of_day {
        format!("T#{}#{}", key.source(), &at.hour()[..8])
    } else {
        format!("T#{}#{}#{}", key.source(), at.hour(), time_shard(&pk))
    };
    let mut row = Item::from([
        ("pk".to_owned(), s(&pk)),
        ("sk".to_owned(), s("M")),
        ("sv".to_owned(), n(1)),
        ("epoch".to_owned(), n(1)),
        ("run".to_owned(), n(0)),
        ("gen".to_owned(), n(0)),
        ("att".to_owned(), n(1)),
        ("cr".to_owned(), n(0)),
        ("rcv".to_owned(), n(at.0)),
        ("wid".to_owned(), s("0123456789abcdef01")),
        ("len".to_owned(), n(300)),
        ("via".to_owned(), s("webhook")),
        ("ty".to_owned(), s(KIND)),
        ("pvd".to_owned(), s("stripe")),
        ("pre".to_owned(), s("stripe")),
        ("prv".to_owned(), s("body")),
        ("cfg".to_owned(), s("0123456789ab")),
        ("bref".to_owned(), s("i")),
        ("b".to_owned(), AttributeValue::B(vec![b'x'; 300])),
        (
            "fx".to_owned(),
            AttributeValue::M(std::collections::HashMap::new()),
        ),
        ("h".to_owned(), AttributeValue::L(Vec::new())),
        ("tpk".to_owned(), s(&time)),
        ("tsk".to_owned(), s(&format!("{:013}#{KIND}", at.0))),
    ]);
    let more = match fate {
        Fate::Done => vec![("st", s("done")), ("done_at", n(at.0 + 310))],
        Fate::Failed => vec![
            ("st", s("failed")),
            ("due", n(at.0 + 600_000)),
            ("err", s("the destination answered 502")),
            ("gpk", s(&work_partition(&pk))),
            ("gsk", n(at.0 + 600_000)),
        ],
        Fate::Dead => vec![
            ("st", s("dead_letter")),
            ("dead_at", n(at.0 + 1_000)),
            ("reason", s("permanent")),
            ("err", s("the destination answered 404")),
            ("gpk", s(&dead_partition(&pk))),
            ("gsk", n(at.0 + 1_000)),
        ],
    };
    row.extend(
        more.into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    row
}

/// Returns the partition of an event within its hour. The `work` index uses the same hash with
/// twice as many partitions.
fn time_shard(pk: &str) -> u8 {
    let part = work_partition(pk);
    part.trim_start_matches("W#").parse::<u8>().unwrap() % 4
}

/// Stores the counts of past hours, computed from the written events, and the checkpoint of the sweep.
async fn count(ledger: &Ledger, (rows, sources): (usize, usize), now: UnixMillis) {
    let mut checkpoint = ledger.sweep().begin_sweep_checkpoint(now).await.unwrap();
    checkpoint.at = UnixMillis(now.0 - 5 * 60_000);
    let scanned = Hour::of(checkpoint.at);
    for hour in [scanned.before(1), scanned] {
        let mut arrived: BTreeMap<String, u64> = BTreeMap::new();
        let events = (0..rows).map(|n| place(n, (rows, sources), now));
        let events = events.skip_while(|(_, at)| *at > checkpoint.at);
        for (key, _) in events
            .skip_while(|(_, at)| Hour::of(*at) > hour)
            .take_while(|(_, at)| Hour::of(*at) == hour)
        {
            *arrived.entry(key.source().to_owned()).or_default() += 1;
        }
        checkpoint.add_arrived(hour.begins(), Some(&arrived));
    }
    let stored = ledger.sweep().store_sweep_checkpoint(&checkpoint).await;
    stored.unwrap();
    let last = Hour::of(now).before(1);
    let hours = last.before(COUNTED - 1).up_to(last);
    let mut counts: BTreeMap<Hour, BTreeMap<String, Arrived>> =
        hours.map(|hour| (hour, BTreeMap::new())).collect();
    for n in 0..rows {
        let (key, at) = place(n, (rows, sources), now);
        if let Some(sources) = counts.get_mut(&Hour::of(at)) {
            let arrived = sources.entry(key.source().to_owned()).or_default();
            arrived.add(at, KIND);
            arrived.has_entries = true;
            arrived.is_spread |= arrived.events > FIRST as u64;
        }
    }
    for (hour, mut arrived) in counts {
        for n in 0..sources {
            arrived.entry(format!("source-{n}")).or_default();
        }
        ledger
            .statistics()
            .note_active(hour, &arrived)
            .await
            .unwrap();
        arrived.retain(|_, arrived| arrived.events > 0);
        let count = HourCount {
            hour,
            as_of: now,
            sources: arrived,
        };
        assert!(ledger.statistics().keep_hour(&count).await.unwrap());
    }
}

/// Writes the file that tells commands the addresses of the services, as `dev` does. Returns the stack
/// of the services other than the table. Its functions have no work.
pub(crate) async fn announce(folder: &Path, dynamodb: &str, table: &str, sources: usize) -> Stack {
    let file = folder.join("sources.toml");
    let mut text = "schema = 1\n".to_owned();
    for n in 0..sources {
        let _ = write!(
            text,
            "[[source]]\nname = \"source-{n}\"\npreset = \"stripe\"\n[[source.action]]\nkind = \"keep\"\n"
        );
    }
    std::fs::write(&file, text).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_webhookctl"))
        .parent()
        .unwrap();
    let mut options = Options::new(TEMPLATE, programs);
    options.mappings = false;
    let stack = Stack::start(options).await.unwrap();
    let path = stack.secrets_path("Catcher").unwrap().to_owned();
    for n in 0..sources {
        let ssm = stack.clients().ssm;
        let name = format!("{path}/source-{n}");
        let put = ssm
            .put_parameter()
            .name(name)
            .value("whsec_of_the_benchmark");
        put.r#type(SecureString).send().await.unwrap();
    }
    let local = Local {
        dynamodb: dynamodb.to_owned(),
        table: table.to_owned(),
        ..Local::of(&stack, &file).unwrap()
    };
    std::fs::create_dir_all(folder.join(".mitt")).unwrap();
    let text = serde_json::to_string(&local).unwrap();
    std::fs::write(folder.join(".mitt/local.json"), text).unwrap();
    stack
}
