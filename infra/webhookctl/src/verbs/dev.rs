//! `dev`: the whole system on this machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use aws_sdk_ssm::operation::put_parameter::PutParameterError;
use aws_sdk_ssm::types::ParameterType;
use futures::FutureExt;
use serde::Serialize;
use serde_json::json;
use shared::clock::Millis;
use shared::config::{ActionKind, Config};
use shared::ledger::Ledger;
use shared::quarantine::Quarantine;
use shared::queue::Queue;
use shared::secrets::Secrets;

use super::view;
use crate::cli::DevArgs;
use crate::demo::{self, DemoSecrets, Deployment, Fate, StandIns};
use crate::inspect::{EventRow, columns};
use crate::output::{CliError, Exit, List, Printer, style, time};
use crate::place::{Local, Names};
use crate::samples::random_hex;
use crate::stack::{Options, Stack};
use crate::test_keys;

/// The template that was current when this program was built.
const TEMPLATE: &str = include_str!("../../../../template.yaml");

pub(super) async fn dev(args: DevArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let began = Instant::now();
    if let Some(other) = Local::find()? {
        return Err(CliError::failed(
            "dev.running",
            format!(
                "a local stack is running in this folder already, as process {}",
                other.pid
            ),
        )
        .tip("stop it first, or use another folder")
        .into());
    }
    if args.demo && args.sources.is_some() {
        return Err(
            CliError::usage("dev.sources", "the demo has sources of its own")
                .tip("leave out --sources or --demo")
                .into(),
        );
    }
    let secrets = DemoSecrets::random()?;
    let stand_ins = StandIns::start(&secrets, 0, 0)?;
    let files = Files::write(&args, &stand_ins)?;
    let stack = Stack::start(Options {
        state: args.state.clone(),
        port: args.port,
        sources_file: Some(files.sources.clone()),
        schedules: !args.once,
        ..Options::new(&files.template, binaries(&args)?)
    })
    .await?;
    let text = std::fs::read_to_string(&files.sources)
        .with_context(|| format!("read {}", files.sources.display()))?;
    let config = Config::parse(&text).map_err(|error| {
        CliError::new(
            "sources.invalid",
            Exit::No,
            format!("{} is refused: {error:#}", files.sources.display()),
        )
    })?;
    put_secrets(&stack, &secrets, &config, args.sources.is_some()).await?;
    let local = local(&stack, &files.sources)?;
    let announced = local.announce()?;
    let mut told = Teller {
        out,
        took: began.elapsed(),
    };
    told.ready(&local, &args, &stack)?;

    let mut exit = Exit::Done;
    if args.demo {
        exit = Box::pin(demonstrate(
            &stack, &secrets, &stand_ins, &config, &mut told,
        ))
        .await?;
    }
    if !args.once {
        told.staying()?;
        stopped().await?;
    }
    drop(announced);
    stack.stop().await;
    Ok(exit)
}

/// The files that the stack reads. A folder that is not the state's goes with this.
struct Files {
    template: PathBuf,
    sources: PathBuf,
}

impl Files {
    fn write(args: &DevArgs, stand_ins: &StandIns) -> anyhow::Result<Self> {
        let folder = args.state.clone().unwrap_or_else(|| PathBuf::from(".mitt"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("make the folder {}", folder.display()))?;
        let written = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            path.canonicalize()
                .with_context(|| format!("find {}", path.display()))
        };
        Ok(Self {
            template: match &args.template {
                Some(path) => path.clone(),
                None => written("template.yaml", TEMPLATE)?,
            },
            sources: match &args.sources {
                Some(path) => path
                    .canonicalize()
                    .with_context(|| format!("find {}", path.display()))?,
                None => written("sources.toml", &stand_ins.sources)?,
            },
        })
    }
}

/// The functions are built beside this program, unless it is said where they are.
fn binaries(args: &DevArgs) -> anyhow::Result<PathBuf> {
    if let Some(folder) = &args.binaries {
        return Ok(folder.clone());
    }
    let program = std::env::current_exe().context("find this program")?;
    let folder = program.parent().unwrap_or(Path::new("."));
    for name in ["catcher", "processor", "backup-sync"] {
        if !folder.join(name).exists() {
            return Err(CliError::failed(
                "dev.not_built",
                format!(
                    "the function {name} is not beside this program, in {}",
                    folder.display()
                ),
            )
            .tip("cargo build --workspace, or --binaries DIR")
            .into());
        }
    }
    Ok(folder.to_owned())
}

/// Puts a secret where each is looked for. With sources of the user's own, those that are not
/// there yet are made up; a kept state keeps its own.
async fn put_secrets(
    stack: &Stack,
    secrets: &DemoSecrets,
    config: &Config,
    own: bool,
) -> anyhow::Result<()> {
    let ssm = stack.clients().ssm;
    let path = |kind: &str| {
        stack.secrets_path(match kind {
            "ingress" => "Catcher",
            "egress" => "Processor",
            _ => "BackupSync",
        })
    };
    let mut wanted: Vec<(String, String, bool)> = Vec::new();
    if own {
        let ingress = path("ingress")?;
        let kept = Secrets::new(ssm.clone(), ingress)
            .all(Millis::now())
            .await?;
        for source in config.sources() {
            if !kept.contains_key(&source.secret) {
                let mut secret = random_hex(20)?;
                if let Some((public, private)) = test_keys::make(source)? {
                    let keys = test_keys::path(ingress);
                    wanted.push((format!("{keys}/{}", source.secret), private, false));
                    secret = public;
                }
                wanted.push((format!("{ingress}/{}", source.secret), secret, false));
            }
            for action in &source.actions {
                if let ActionKind::Http { secret, .. } = &action.kind {
                    wanted.push((
                        format!("{}/{secret}", path("egress")?),
                        format!("whsec_{}", random_hex(16)?),
                        false,
                    ));
                }
            }
        }
    } else {
        for (kind, name, value) in secrets.iter() {
            wanted.push((format!("{}/{name}", path(kind)?), value.to_owned(), true));
        }
    }
    for (name, value, replace) in wanted {
        let put = ssm
            .put_parameter()
            .name(format!("{name}/current"))
            .value(value)
            .r#type(ParameterType::SecureString)
            .overwrite(replace)
            .send()
            .await;
        match put {
            Ok(_) => {}
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(PutParameterError::is_parameter_already_exists) => {}
            Err(error) => return Err(error).with_context(|| format!("put the secret {name}")),
        }
    }
    Ok(())
}

fn local(stack: &Stack, sources: &Path) -> anyhow::Result<Local> {
    let endpoints = stack.endpoints();
    Ok(Local {
        pid: std::process::id(),
        url: stack.front_url(),
        dynamodb: endpoints.dynamodb.clone(),
        sqs: endpoints.sqs.clone(),
        s3: endpoints.s3.clone(),
        ssm: endpoints.ssm.clone(),
        table: stack.table()?.to_owned(),
        bucket: stack.bucket("Bodies")?.to_owned(),
        queue_url: stack.queue_url("Doorbell")?.to_owned(),
        secrets_path: stack.secrets_path("Catcher")?.to_owned(),
        sources: sources.to_owned(),
        lambda: Some(stack.lambda_url().to_owned()),
        backup_sync: Some(stack.template().function("BackupSync")?.name.clone()),
        names: names(stack),
    })
}

/// What a template of one's own has not is not named.
fn names(stack: &Stack) -> Names {
    let queue = |id: &str| stack.queue_url(id).ok().map(str::to_owned);
    let function = |id: &str| {
        let function = stack.template().function(id).ok()?;
        Some(function.name.clone())
    };
    Names {
        backlog_queue_url: queue("Backlog"),
        dead_doorbells_url: queue("DeadDoorbells"),
        spill_queue_url: queue("Spill"),
        ops_dead_letters_url: queue("OpsDeadLetters"),
        catcher: function("Catcher"),
        processor: function("Processor"),
        ..Names::default()
    }
}

async fn demonstrate(
    stack: &Stack,
    secrets: &DemoSecrets,
    stand_ins: &StandIns,
    config: &Config,
    told: &mut Teller<'_>,
) -> anyhow::Result<Exit> {
    let clients = stack.clients();
    let bodies = (clients.s3, stack.bucket("Bodies")?.to_owned());
    let quarantine = Quarantine::new(clients.dynamodb.clone(), stack.table()?);
    let ledger = Ledger::new(clients.dynamodb, stack.table()?, Some(bodies));
    let task = |name: &'static str| {
        async move {
            let invocation = stack.invoke("BackupSync", &json!({"task": name})).await?;
            match invocation.error() {
                None => Ok(()),
                Some(error) => anyhow::bail!("backup-sync failed: {}", error.message),
            }
        }
        .boxed()
    };
    let deployment = Deployment {
        url: stack.front_url(),
        ledger: ledger.clone(),
        quarantine,
        secrets: secrets.clone(),
        queue: Queue::new(clients.sqs, stack.queue_url("Doorbell")?),
        task: &task,
    };
    let fates = Box::pin(demo::run(&deployment, stand_ins, |fate| told.fate(fate))).await;
    let fates = fates.with_context(|| {
        format!(
            "the functions' logs are in {}",
            stack.folder().join("logs").display()
        )
    })?;
    told.table(&ledger, config, &fates).await
}

/// Says what happens, for people or as one object a line.
struct Teller<'o> {
    out: &'o mut Printer,
    took: Duration,
}

#[derive(Serialize)]
struct FateLine<'f> {
    event: &'static str,
    at: String,
    case: &'f str,
    preset: &'f str,
    #[serde(rename = "type")]
    kind: &'f str,
    status: Option<u16>,
    took_ms: u128,
    end: &'f str,
    detail: &'f str,
    key: Option<String>,
    wrong: &'f [String],
}

impl Teller<'_> {
    fn ready(&mut self, local: &Local, args: &DevArgs, stack: &Stack) -> anyhow::Result<()> {
        let took = self.took;
        if self.out.format.is_json() {
            return self.out.json_line(
                &json!({"event": "ready", "url": local.url, "took_ms": took.as_millis()}),
            );
        }
        let state = match &args.state {
            Some(folder) => format!("{}  kept for next time", folder.display()),
            None => "in memory  gone when this ends; --state DIR keeps it".to_owned(),
        };
        self.out.painted(&format!(
            "webhookctl dev · everything on this machine, nothing in AWS\n\n\
             \x20 ✓ table, queues, bucket, secrets  emulated in this process, as template.yaml says\n\
             \x20 ✓ catcher, processor, backup-sync the Lambda binaries, unchanged; logs in {}\n\
             \x20 Ready in {:.1}s\n\n\
             \x20 ➜ webhooks  {}/in/<source>\n\
             \x20 ➜ state     {state}\n\n",
            stack.folder().join("logs").display(),
            took.as_secs_f64(),
            local.url,
        ))
    }

    fn fate(&mut self, fate: &Fate) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            let line = FateLine {
                event: "fate",
                at: fate.at.rfc3339(),
                case: fate.case,
                preset: fate.preset,
                kind: fate.kind,
                status: fate.status,
                took_ms: fate.took.as_millis(),
                end: fate.end,
                detail: &fate.detail,
                key: fate.key.as_ref().map(ToString::to_string),
                wrong: &fate.wrong,
            };
            return self.out.json_line(&line);
        }
        let (sign, word) = match fate.end {
            "done" => ("●", "done"),
            "dropped" => ("○", "dropped"),
            "refused" => ("◇", "refused"),
            _ => ("■", "dead letter"),
        };
        let status = fate
            .status
            .map_or("  -".to_owned(), |status| status.to_string());
        let took = format!("{}ms", fate.took.as_millis());
        let line = format!(
            "  {}  {:<9}  {:<12}  {:<24}  {status}  {took:>6}  {sign} {word:<11}  {}\n",
            time::clock(fate.at.0, fate.at.0),
            fate.case,
            fate.preset,
            fate.kind,
            fate.detail,
        );
        self.out.painted(&line)?;
        for wrong in &fate.wrong {
            let text = style::paint(
                self.out.terminal.stdout.colour,
                style::of_status("dead_letter"),
                wrong,
            );
            self.out
                .painted(&format!("                unexpected: {text}\n"))?;
        }
        Ok(())
    }

    /// What the ledger says of every event of the demo, read back.
    async fn table(
        &mut self,
        ledger: &Ledger,
        config: &Config,
        fates: &[Fate],
    ) -> anyhow::Result<Exit> {
        let now = Millis::now().0;
        let mut items = Vec::new();
        for key in fates.iter().filter_map(|fate| fate.key.as_ref()) {
            if let Some(row) = ledger.event(key).await? {
                items.push(EventRow::new(&view(&row, config), now));
            }
        }
        let count = |end: &str| fates.iter().filter(|fate| fate.end == end).count();
        let wrong = fates.iter().filter(|fate| !fate.wrong.is_empty()).count();
        let sent = fates.iter().filter(|fate| fate.status.is_some()).count();
        let of = |case: &str| fates.iter().filter(|fate| fate.case == case).count();
        let summary = format!(
            "{sent} sent, {} never delivered, {} drifted · {} in the ledger · {} done · {} dropped · {} refused · {} dead · {wrong} unexpected",
            of("missed"),
            of("drift"),
            items.len(),
            count("done"),
            count("dropped"),
            count("refused"),
            count("dead_letter"),
        );
        let example = items
            .iter()
            .find(|item| item.status == crate::inspect::Status::DeadLetter)
            .map(|item| item.id.clone());
        if self.out.format.is_json() {
            self.out
                .json_line(&json!({"event": "end", "unexpected": wrong, "summary": summary}))?;
        } else {
            self.out.painted("\n")?;
            self.out.list(&List {
                command: "dev.demo",
                context: "local",
                as_of: time::rfc3339(now),
                columns: columns(now),
                id: "id",
                items,
                next_cursor: None,
                truncated: false,
                footer: None,
                empty: "The ledger is empty.".to_owned(),
                tip: example.map(|id| {
                    format!(
                        "webhookctl inbox inspect {}",
                        crate::output::format::short_id(&id)
                    )
                }),
            })?;
            self.out.painted(&format!("\n  {summary}\n"))?;
        }
        if wrong > 0 {
            return Err(CliError::new(
                "dev.demo",
                Exit::No,
                format!(
                    "{wrong} of {} webhooks met a fate that they should not",
                    fates.len()
                ),
            )
            .into());
        }
        Ok(Exit::Done)
    }

    fn staying(&mut self) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            return Ok(());
        }
        self.out.painted(
            "\n  Now try, in another terminal:\n\
             \x20   webhookctl send stripe --wait\n\
             \x20   webhookctl send github --tamper body\n\
             \x20   webhookctl inbox list\n\
             \x20   webhookctl quarantine list\n\
             \x20   webhookctl listen -f :3000/webhooks\n\n\
             \x20 Ctrl-C stops it.\n",
        )
    }
}

/// Until somebody wants us to end.
async fn stopped() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
    Ok(())
}
