//! `dev`: runs the whole system on this machine.

mod chaos;
mod console;
mod environments;
mod forward;
mod functions;
mod kept;
mod render;
mod reset;
mod secrets;
mod stay;
mod throttle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use futures::FutureExt;
use local::{Options, Stack, kept_secrets};
use serde_json::json;
use shared::inbox::ledger::Ledger;
use shared::inbox::queue::Queue;
use shared::inbox::rejected::RejectedRequests;
use shared::sources::Config;
use tokio::sync::watch;

use crate::cli::{DevArgs, FunctionName, Global};
use crate::demo::{self, DemoSecrets, Deployment, StandIns};
use crate::faults::invalid;
use crate::files;
use crate::forward::Address;
use crate::output::{CliError, Exit, Printer};
use crate::target::{Announced, Local};
use crate::verbs::send::usual_source;
use chaos::Broken;
use environments::Environments;
use render::Teller;
use secrets::PREFIX;
use stay::Stay;
pub(super) use stay::stopped;

/// The template from which this program was built.
const TEMPLATE: &str = include_str!("../../../../template.yaml");

pub(super) async fn dev(args: DevArgs, global: &Global, out: &mut Printer) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let args = with_own_sources(args);
    check(&args)?;
    let forward = args.forward.as_deref().map(forward::address).transpose()?;
    if let (true, Some(folder)) = (args.reset, &args.state) {
        reset::reset(folder, out)?;
    }
    let secrets = demo_secrets(&args)?;
    let stand_ins = match args.chaos {
        Some(_) if !args.demo => StandIns::in_trouble(&secrets)?,
        _ if args.case.is_some() => StandIns::with_agent(&secrets)?,
        _ => StandIns::start(&secrets, 0, 0)?,
    };
    let downstream = &stand_ins.downstream;
    let broken = args.chaos.map(|what| Broken::new(what, downstream));
    let mut broken = broken.transpose()?;
    // The demo comes first, and its result must not depend on the fault.
    turn_after_demo(&args, broken.as_mut());
    let files = Files::write(&args, &stand_ins, forward.as_ref())?;
    let stack = start(&args, &files, broken.as_ref()).await?;
    let config = config(&files.functions)?;
    secrets::put(&stack, &secrets, &config, args.sources.is_some()).await?;
    let local = Local::of(&stack, &files.sources)?;
    let changes = stack.secret_changes();
    let announced = announce(&local, &stack, &files, &args).await?;
    let mut told = Teller {
        out,
        took: began.elapsed(),
    };
    let console = console::start(&args, global)?;
    told.ready(&local, &args, forward.as_ref(), &stack, console.as_ref())?;

    let mut exit = Exit::Done;
    if args.demo {
        let demo = demonstrate(&stack, &secrets, &stand_ins, &config, &mut told);
        exit = Box::pin(demo).await?;
        turn_after_demo(&args, broken.as_mut());
    }
    if !args.once {
        say_what_to_try(&mut told, &args, &config, announced.1.as_ref())?;
        let stay = Stay {
            stack: &stack,
            local: &local,
            config: &config,
            downstream,
            console: console.as_ref(),
        };
        tokio::select! {
            ended = Box::pin(stay.until_stopped(broken, &mut told)) => ended?,
            failed = refreshes(&stack, changes) => failed?,
        }
    }
    drop((console, announced));
    stack.stop().await;
    Ok(exit)
}

fn say_what_to_try(
    told: &mut Teller<'_>,
    args: &DevArgs,
    config: &Config,
    environments: Option<&Environments>,
) -> anyhow::Result<()> {
    if let Some(what) = args.chaos {
        return told.chaos(what);
    }
    let own = args.sources.as_ref().and_then(|_| usual_source(config));
    told.staying(own)?;
    if args.case.is_some() {
        told.agent()?;
    }
    told.other_tools(args, environments)
}

fn demo_secrets(args: &DevArgs) -> anyhow::Result<DemoSecrets> {
    let mut secrets = DemoSecrets::random()?;
    if args.case.is_some() {
        secrets = secrets.with_agent()?;
    }
    Ok(match &args.state {
        Some(folder) => secrets.or_kept(kept_secrets(folder)?),
        None => secrets,
    })
}

/// Turns the fault off before the demo, and on after it.
fn turn_after_demo(args: &DevArgs, broken: Option<&mut Broken>) {
    if let Some(broken) = broken.filter(|_| args.demo) {
        broken.turn();
    }
}

/// Describes this `dev` to other commands, and to tools that run the functions. The files of both
/// are removed when the result is dropped.
async fn announce(
    local: &Local,
    stack: &Stack,
    files: &Files,
    args: &DevArgs,
) -> anyhow::Result<(Announced, Option<Environments>)> {
    let announced = local.announce()?;
    if args.once {
        return Ok((announced, None));
    }
    let environments = Environments::write(stack, &files.functions).await?;
    Ok((announced, Some(environments)))
}

/// Uses the sources file that `init` writes, unless the arguments select other sources.
fn with_own_sources(mut args: DevArgs) -> DevArgs {
    let own = Path::new("sources.toml");
    let selects = args.sources.is_some() || args.demo || args.chaos.is_some();
    // If this folder is the state folder, `dev` has written the file itself.
    let kept = args.state.as_ref().map(|folder| folder.join(own));
    let kept = kept.and_then(|file| file.canonicalize().ok());
    let is_own = own.canonicalize().is_ok_and(|own| Some(own) != kept);
    if !selects && is_own {
        args.sources = Some(own.to_owned());
    }
    args
}

/// Lets the functions read their secrets again after each change. Ends only with an error.
async fn refreshes(stack: &Stack, mut changes: watch::Receiver<u64>) -> anyhow::Result<()> {
    while changes.changed().await.is_ok() {
        stack.refresh_functions()?;
    }
    std::future::pending().await
}

fn check(args: &DevArgs) -> anyhow::Result<()> {
    if let Some(other) = Local::find()? {
        return Err(CliError::failed(
            "dev.running",
            format!(
                "a local stack is already running in this folder (process {})",
                other.pid
            ),
        )
        .tip("stop it first, or use another folder")
        .into());
    }
    if args.demo && args.sources.is_some() {
        return Err(
            CliError::usage("dev.sources", "--demo cannot be combined with --sources")
                .tip("leave out --sources or --demo")
                .into(),
        );
    }
    Ok(())
}

async fn start(args: &DevArgs, files: &Files, broken: Option<&Broken>) -> anyhow::Result<Stack> {
    let stack = Stack::start(Options {
        state: args.state.clone(),
        port: args.port,
        sources_file: Some(files.functions.clone()),
        // With a prefix, sources with `secret_store = "secrets-manager"` also work locally. The
        // sweep runs every minute, because a developer waits for its result.
        parameters: [
            ("SecretsManagerPrefix".to_owned(), PREFIX.to_owned()),
            ("SweepEvery".to_owned(), "rate(1 minute)".to_owned()),
            ("LongActions".to_owned(), "true".to_owned()),
            ("Trial".to_owned(), "true".to_owned()),
            ("WorkerApi".to_owned(), "true".to_owned()),
        ]
        .into(),
        schedules: !args.once,
        function_env: broken.map(Broken::function_env).unwrap_or_default(),
        elsewhere: elsewhere(args),
        ..Options::new(&files.template, &files.programs)
    })
    .await
    .map_err(|error| port_taken(error, args.port))?;
    if let Some(broken) = broken {
        broken.stand_before(&stack);
    }
    Ok(stack)
}

/// Returns the functions that another tool runs, and the URL of the tool.
fn elsewhere(args: &DevArgs) -> BTreeMap<String, String> {
    let url = format!("http://127.0.0.1:{}", args.invoke_port);
    let without = args.without.iter().map(|function| match function {
        FunctionName::Catcher => "Catcher",
        FunctionName::Processor => "Processor",
        FunctionName::BackupSync => "BackupSync",
    });
    without.map(|id| (id.to_owned(), url.clone())).collect()
}

fn config(sources: &Path) -> anyhow::Result<Config> {
    let text = files::read_text(sources, "the sources")?;
    let parsed = Config::parse_for_dev(&text);
    Ok(parsed.map_err(|error| invalid(sources, &text, true, &error))?)
}

/// Adds a tip if the cause is that another program uses the port.
fn port_taken(error: anyhow::Error, port: u16) -> anyhow::Error {
    let is_taken = error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::AddrInUse)
    });
    if !is_taken {
        return error;
    }
    CliError::failed(
        "dev.port",
        format!("port {port} is in use by another program"),
    )
    .tip("webhookctl dev --port 0 picks a free port")
    .into()
}

/// The files that the stack reads. `dev` writes them to the state folder, or to `.mitt`.
struct Files {
    template: PathBuf,
    /// The sources file that commands show and edit.
    sources: PathBuf,
    /// The sources file that the functions read. It is the same file, or a copy with other
    /// destinations.
    functions: PathBuf,
    /// The folder with the programs of the functions.
    programs: PathBuf,
}

impl Files {
    fn write(
        args: &DevArgs,
        stand_ins: &StandIns,
        forward: Option<&Address>,
    ) -> anyhow::Result<Self> {
        let folder = args.state.clone().unwrap_or_else(|| PathBuf::from(".mitt"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("create the folder {}", folder.display()))?;
        let written = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            path.canonicalize()
                .with_context(|| format!("find {}", path.display()))
        };
        let sources = match (&args.sources, &args.state) {
            (Some(path), _) => path
                .canonicalize()
                .with_context(|| format!("find {}", path.display()))?,
            (None, _) if args.chaos.is_some() && !args.demo => {
                written("chaos-sources.toml", &stand_ins.sources)?
            }
            (None, Some(_)) => {
                let file = folder.join("sources.toml");
                let text = kept::sources(&folder, &file, stand_ins, args.reset)?;
                written("sources.toml", &text)?
            }
            (None, None) => written("sources.toml", &stand_ins.sources)?,
        };
        config(&sources)?;
        let programs = functions::find(args.functions.as_deref(), &args.without, &folder)?;
        let text = files::read_text(&sources, "the sources")?;
        Ok(Self {
            template: match &args.template {
                Some(path) => path.clone(),
                None => written("template.yaml", TEMPLATE)?,
            },
            functions: match forward::for_functions(&text, forward)? {
                Some(text) => written("functions-sources.toml", &text)?,
                None => sources.clone(),
            },
            sources,
            programs,
        })
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
    let quarantine = RejectedRequests::new(clients.dynamodb.clone(), stack.table()?);
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
        queue: Queue::new(clients.sqs, stack.queue_url("WorkQueue")?),
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
