//! `send --event`: sends a stored event again, to the local stack or to a program on this machine.

use shared::base::clock::UnixMillis;

use super::render::Words;
use super::target::Target;
use super::watch::Watch;
use super::{body, curl, key, post};
use crate::audit::Change;
use crate::cli::{Global, SendArgs};
use crate::forward::{Address, Signing, Stored};
use crate::output::time::age;
use crate::output::{CliError, Exit, Printer};
use crate::samples::{Signed, Signer};
use crate::target::Deployment;
use crate::verbs::inbox::find;

/// Where a stored event is sent, and how it is signed for this target.
struct Way {
    target: Target,
    /// The new signing; `None` if the event is sent as stored.
    signing: Option<Signing>,
    /// The description of the signature for the text output.
    said: String,
}

pub(super) async fn again(
    args: &SendArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let to = args.to.as_deref().map(|to| Address::parse(to, None));
    let to = to.transpose()?;
    let inbox = Deployment::open(&global.target).await?;
    if inbox.local.is_none() {
        inbox.may_write("record the sent event in the audit log")?;
    }
    let stored = read(args, &inbox).await?;
    let way = match &to {
        Some(address) => Way::to_address(args, &inbox, &stored, address)?,
        None => Box::pin(Way::to_dev(args, global, &stored)).await?,
    };
    let id = stored.row.id().to_string();
    let signed = way.sign(args, &stored, &id)?;
    record(&inbox, &id, &way.target.url, out).await?;
    if args.curl {
        out.text(&curl::command(&way.target.url_of(&signed), &signed))?;
        return Ok(Exit::Done);
    }
    let (draft, _) = stored.unsigned(way.target.scheme()?);
    let http = post::client(&way.target.url)?;
    let mut told = post::post(
        &http,
        &way.target,
        &draft,
        &signed,
        &Watch::new(args.wait, out),
    )
    .await?;
    let when = age(stored.row.received_at.0, UnixMillis::now().0);
    told.note = format!(" (stored {when} ago in {})", inbox.name);
    told.event = Some(id);
    super::tell(&told, &Words::said(way.said), &way.target, out)?;
    Ok(match told.outcome.as_deref() {
        Some("done") => Exit::Done,
        _ if args.wait => Exit::Partial,
        _ => Exit::Done,
    })
}

/// Reads the event and its body.
async fn read(args: &SendArgs, inbox: &Deployment) -> anyhow::Result<Stored> {
    let wanted = args.event.as_deref().unwrap_or_default();
    let row = find(inbox, wanted).await?;
    let ledger = args.bodies_at.ledger(inbox)?;
    let stored = Stored::read(&ledger, &row.key).await?;
    Ok(stored.map_err(|missing| {
        let message = format!("{} cannot be sent: {}", row.id(), missing.why());
        CliError::failed("send.no_body", message)
    })?)
}

impl Way {
    /// Sends the event to the running local stack, signed with the secret of this stack.
    async fn to_dev(args: &SendArgs, global: &Global, stored: &Stored) -> anyhow::Result<Self> {
        let row = &stored.row;
        let names = match args.source.as_deref() {
            Some(name) => vec![name],
            None => vec![row.key.source(), row.preset.as_str()],
        };
        let target = Box::pin(Target::of_dev(&names, args, global)).await?;
        let with = match &target.signer {
            Signer::Secret(secret) => {
                format!("with secret {} of the local stack", secret.label())
            }
            Signer::KeyPair(_) => "with a key pair of the local stack".to_owned(),
            Signer::Unsigned => "without a secret: the preset has no signature".to_owned(),
        };
        let signing = Signing::new(&target.verifier, target.signer.clone());
        Ok(Self {
            target,
            signing: Some(signing),
            said: format!("signed again {with}"),
        })
    }

    /// Sends the event to a program on this machine, signed with a secret of this machine or with
    /// the given secret.
    fn to_address(
        args: &SendArgs,
        inbox: &Deployment,
        stored: &Stored,
        address: &Address,
    ) -> anyhow::Result<Self> {
        let name = args.source.as_deref().unwrap_or(stored.row.key.source());
        let source = inbox.config.source(name).ok_or_else(|| {
            CliError::usage("send.no_source", format!("no source is named '{name}'"))
                .note(format!("sources: {}", inbox.sources().join(", ")))
        })?;
        let given = args.secret_from.as_ref().map(key::secret).transpose()?;
        let signing = Signing::given_or_local(source, given.as_ref())?;
        let said = match &signing {
            Err(why) => format!("not signed again: {why}; sent as stored"),
            Ok(signing) => match &signing.file {
                Some(file) if signing.is_key_pair() => format!(
                    "signed again with a key pair of this machine, public key in {}",
                    file.display()
                ),
                Some(file) => format!(
                    "signed again with the secret of this machine in {}",
                    file.display()
                ),
                None => "signed again with the given secret".to_owned(),
            },
        };
        Ok(Self {
            target: Target {
                url: address.url().to_owned(),
                signed_url: address.url().to_owned(),
                verifier: source.verifier.clone(),
                signer: Signer::Unsigned,
                stored: Vec::new(),
                inbox: None,
            },
            signing: signing.ok(),
            said,
        })
    }

    fn sign(&self, args: &SendArgs, stored: &Stored, id: &str) -> anyhow::Result<Signed> {
        let url = &self.target.signed_url;
        let what = format!("the body of {id}");
        let Some(signing) = &self.signing else {
            let mut signed = stored.as_kept(url);
            let (mut draft, _) = stored.unsigned(self.target.scheme()?);
            body::change_all(&mut draft, args, &what)?;
            signed.body = draft.body;
            return Ok(signed);
        };
        let change = |draft: &mut _| body::change_all(draft, args, &what);
        signing.sign(stored, change, url, UnixMillis::now())
    }
}

/// Records in the audit log of a deployment that the operator read the event. This happens before
/// the event is sent.
async fn record(inbox: &Deployment, id: &str, url: &str, out: &mut Printer) -> anyhow::Result<()> {
    if inbox.local.is_some() {
        return Ok(());
    }
    let change = Change {
        what: "send.event",
        why: &format!("read to send it to {url}"),
        selection: id.to_owned(),
        count: 1,
    };
    change.record(inbox).await?;
    out.say(&format!(
        "recorded in the audit log of {} as a read",
        inbox.name
    ));
    Ok(())
}
