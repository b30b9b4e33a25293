//! `listen`: forwards events of the inbox to a program on this machine as they arrive.
//!
//! The command polls the `time` index by source and hour. It receives no messages from a queue, and
//! writes nothing to the inbox.

mod deliver;
mod others;
mod render;
mod run;
mod sent;
mod wanted;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use shared::base::clock::UnixMillis;

use crate::cli::{Global, ListenArgs};
use crate::forward::{Address, ELSEWHERE, Forwarder, Signing, scheme_of};
use crate::output::{CliError, Exit, Format, Printer};
use crate::target::Deployment;
use crate::verbs::send::key;
use deliver::Deliveries;
use render::Teller;
use run::{Run, Stops};
use wanted::Wanted;

pub(super) async fn listen(
    args: ListenArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    if out.format == Format::Csv {
        return Err(CliError::usage("usage.output", "listen cannot print CSV")
            .tip("-o jsonl prints one object for each delivery")
            .into());
    }
    let address = Address::parse(&args.forward_to, args.allow_host.as_deref());
    let address = address.map_err(|error| match error.code {
        ELSEWHERE => error.tip("--allow-host HOST allows another host"),
        _ => error,
    })?;
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let wanted = Arc::new(Wanted::new(&args, &inbox, now)?);
    let ledger = args.bodies_at.ledger(&inbox)?;
    let signing = signing(&args, &inbox, &wanted)?;

    let every = every(&inbox);
    let news = watch::start(ledger.clone(), Arc::clone(&wanted), now, every).await?;
    let stops = Stops::new()?;
    let me = others::Listener::new(&inbox.name, &wanted.sources, &address);
    let (_announced, others) = me.announce(out);
    out.say(&format!(
        "Forwarding {} from {} to {address}. {}",
        wanted.words(),
        inbox.name,
        untouched(&inbox)
    ));
    for other in others {
        out.say(&format!("note: {other}"));
    }
    say_signing(&args, &inbox, &signing, &wanted, out)?;

    let deliveries = Deliveries {
        ledger,
        forwarder: Forwarder::to(&address)?,
        address,
        signing,
        config: inbox.config,
        wanted,
    };
    let teller = Teller::new(args.show_response, deliveries.wanted.longest_source());
    let mut run = Run::new(Arc::new(deliveries), teller, out);
    let exit = run.until_the_end(news, stops).await;
    run.summary();
    exit
}

fn untouched(inbox: &Deployment) -> &'static str {
    if inbox.local.is_some() {
        "This command does not change the inbox."
    } else {
        "This command does not change the deployment."
    }
}

/// The poll interval. It is longer for a deployment, because each read of a deployment costs money.
fn every(inbox: &Deployment) -> std::time::Duration {
    std::time::Duration::from_millis(if inbox.local.is_some() { 300 } else { 2000 })
}

/// For each source, how its events are signed, or the reason why they are not signed again.
type Signings = BTreeMap<String, Result<Signing, String>>;

fn signing(args: &ListenArgs, inbox: &Deployment, wanted: &Wanted) -> anyhow::Result<Signings> {
    let mut signings = Signings::new();
    if !args.resign {
        return Ok(signings);
    }
    let given = args.secret_from.as_ref().map(key::secret).transpose()?;
    let sources = inbox.config.sources();
    for source in sources.filter(|source| wanted.sources.contains(&source.name)) {
        let signing = Signing::given_or_local(source, given.as_ref())?;
        signings.insert(source.name.clone(), signing);
    }
    Ok(signings)
}

fn say_signing(
    args: &ListenArgs,
    inbox: &Deployment,
    signings: &Signings,
    wanted: &Wanted,
    out: &mut Printer,
) -> anyhow::Result<()> {
    if !args.resign {
        let backfill = wanted.backfills();
        let old = if backfill {
            "; the signatures of past events are too old to verify, and --resign signs these \
             events again"
        } else {
            ""
        };
        out.say(&format!("Signatures are the providers' own{old}."));
        return Ok(());
    }
    for (name, signing) in signings {
        let line = match signing {
            Err(why) => {
                format!("{name} is not signed again: {why}; its stored headers are sent unchanged")
            }
            Ok(signing) => match &signing.file {
                None => format!("Signing {name} again with the given secret"),
                Some(file) if signing.is_key_pair() => format!(
                    "Signing {name} again with a local key pair; the public key is in {}",
                    file.display()
                ),
                Some(file) => format!(
                    "Signing {name} again with a local secret: export WEBHOOK_SECRET=\"$(cat {})\"",
                    file.display()
                ),
            },
        };
        out.say(&line);
        let source = inbox.config.source(name);
        let scheme = source.map(scheme_of).transpose()?;
        if signing.is_ok() && scheme.is_some_and(|scheme| !deliver::in_headers(scheme)) {
            out.say(&format!(
                "note: the signature of {name} is not a header; a new signature changes the \
                 body or the URL"
            ));
        }
    }
    Ok(())
}
