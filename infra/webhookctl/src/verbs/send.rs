//! `send`: a signed test webhook, as the provider would send it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use shared::clock::Millis;
use shared::config::{Config, Source};
use shared::event::EventKey;
use shared::preset::{Location, Preset};
use shared::secrets::Secret;
use shared::verify::{Arrival, Trust, Verifier};

use crate::cli::{Assignment, Global, SecretFrom, SendArgs, Tamper};
use crate::output::error::nearest;
use crate::output::table::{aligned, thousands};
use crate::output::{CliError, Column, Exit, List, Printer, time};
use crate::place::{Inbox, Local};
use crate::samples::{Draft, Sample, Signed, presets, random_hex};

/// How long `--wait` waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where a webhook goes, and signed as what.
struct Target {
    url: String,
    verifier: Verifier,
    secret: Secret,
    /// The inbox behind it, if it is ours to look into.
    inbox: Option<Inbox>,
}

/// What is told of one webhook.
#[derive(Serialize)]
struct Told {
    url: String,
    preset: String,
    #[serde(rename = "type")]
    kind: String,
    provider_id: String,
    bytes: usize,
    status: u16,
    took_ms: u128,
    /// The event's id, where the inbox can be looked into and has it.
    id: Option<String>,
    outcome: Option<String>,
    attempts: Option<u32>,
}

pub(super) async fn send(
    args: SendArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    if args.list {
        return list(out);
    }
    let name = args.preset.clone().unwrap_or_default();
    let target = target(&name, &args, global).await?;
    let preset = target.verifier.preset.id.clone();
    let sample = Sample::find(&preset, args.event_type.as_deref())
        .ok_or_else(|| no_sample(&preset, args.event_type.as_deref()))?;
    let mut exit = Exit::Done;
    for _ in 0..args.count {
        let draft = draft(sample, &args)?;
        let signed = sign(&target, &draft, args.tamper)?;
        if args.curl {
            out.text(&curl(&target.url, &signed))?;
            continue;
        }
        for _ in 0..=usize::from(args.duplicate) {
            let told = post(&target, sample, &draft, &signed, args.wait).await?;
            if args.wait && told.outcome.as_deref() != Some("done") {
                exit = Exit::Partial;
            }
            let text = text(&told, &target, args.tamper);
            out.document("send", &told, told.id.as_deref().unwrap_or_default(), &text)?;
            if told.status == 401 && target.inbox.is_some() {
                out.tip("webhookctl quarantine list");
            }
        }
    }
    Ok(exit)
}

/// The name may be that of a preset or of a source.
async fn target(name: &str, args: &SendArgs, global: &Global) -> anyhow::Result<Target> {
    let inbox = match (&args.to, Local::find()?) {
        (None, None) => {
            return Err(CliError::failed(
                "send.no_target",
                "no local stack is running in this folder",
            )
            .tip("webhookctl dev, or say where to with --to URL --secret-from -")
            .into());
        }
        (None, Some(_)) => Some(Inbox::open(&Global {
            context: Some("local".into()),
            ..global.clone()
        })?),
        (Some(_), _) => None,
    };
    let given = args.secret_from.as_ref().map(read_secret).transpose()?;
    let Some(inbox) = inbox else {
        let preset = known_preset(name)?;
        let secret = given.context(
            CliError::usage("send.no_secret", "a secret is needed to sign with")
                .tip("--secret-from -, file:PATH or env:NAME"),
        )?;
        let source = args.source.clone().unwrap_or_else(|| name.to_owned());
        let verifier = Verifier {
            source,
            preset,
            variant: "default".into(),
            trust: Trust::default(),
            config: String::new(),
        };
        return Ok(Target {
            url: args.to.clone().unwrap_or_default(),
            verifier,
            secret,
            inbox: None,
        });
    };
    let local = inbox.local.clone().context("it is the local one")?;
    let source = source(&inbox.config, args.source.as_deref().unwrap_or(name))?;
    let secret = if let Some(secret) = given {
        secret
    } else {
        let live = local.secrets().live(&source.secret, Millis::now()).await?;
        let first = live.first().cloned();
        first.with_context(|| format!("dev has no secret {}", source.secret))?
    };
    let url = format!("{}/in/{}", local.url, source.name);
    let verifier = source.verifier.clone();
    Ok(Target {
        url,
        verifier,
        secret,
        inbox: Some(inbox),
    })
}

/// The source of this name, or the first one with this preset.
fn source<'c>(config: &'c Config, name: &str) -> Result<&'c Source, CliError> {
    let by_preset = || {
        config
            .sources()
            .find(|source| source.verifier.preset.id == name)
    };
    config.source(name).or_else(by_preset).ok_or_else(|| {
        let names: Vec<String> = config.sources().map(|source| source.name.clone()).collect();
        let error = CliError::usage(
            "send.no_source",
            format!("no source is named '{name}' or has that preset"),
        );
        let mut known: Vec<&str> = Preset::ids().collect();
        known.extend(names.iter().map(String::as_str));
        match nearest(name, known) {
            Some(meant) => error.tip(format!("did you mean '{meant}'?")),
            None => error.note(format!("sources: {}", names.join(", "))),
        }
    })
}

fn known_preset(name: &str) -> Result<Preset, CliError> {
    Preset::embedded(name, &BTreeMap::new()).map_err(|_| {
        let error = CliError::usage("send.no_preset", format!("there is no preset '{name}'"));
        match nearest(name, Preset::ids()) {
            Some(meant) => error.tip(format!("did you mean '{meant}'?")),
            None => error.tip("webhookctl send --list"),
        }
    })
}

fn no_sample(preset: &str, kind: Option<&str>) -> CliError {
    let kinds = Sample::kinds(preset);
    match kind {
        Some(kind) if !kinds.is_empty() => CliError::usage(
            "send.no_type",
            format!("there is no sample of {preset} {kind}"),
        )
        .tip(format!(
            "one of: {}; another body is sent with --data",
            kinds.join(", ")
        )),
        _ => CliError::usage("send.no_sample", format!("there is no sample of {preset}"))
            .tip("webhookctl send --list"),
    }
}

fn read_secret(from: &SecretFrom) -> anyhow::Result<Secret> {
    let text = match from {
        SecretFrom::Stdin => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("read the secret from stdin")?;
            text
        }
        SecretFrom::File(path) => std::fs::read_to_string(path)
            .with_context(|| format!("read the secret from {}", path.display()))?,
        SecretFrom::Env(name) => {
            shared::settings::variable(name).with_context(|| format!("{name} is not set"))?
        }
    };
    let value = text.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(CliError::usage("send.no_secret", "the secret is empty").into());
    }
    Ok(Secret::new("given", value))
}

fn draft(sample: &Sample, args: &SendArgs) -> anyhow::Result<Draft> {
    let mut draft = sample.draft(args.id.as_deref(), Millis::now())?;
    if let Some(path) = &args.data {
        draft.body = if path.as_os_str() == "-" {
            let mut body = Vec::new();
            std::io::stdin()
                .read_to_end(&mut body)
                .context("read the body from stdin")?;
            body.into()
        } else {
            std::fs::read(path)
                .with_context(|| format!("read {}", path.display()))?
                .into()
        };
    }
    if !args.set.is_empty() {
        let mut body: Value = serde_json::from_slice(&draft.body).context("the sample is JSON")?;
        for assignment in &args.set {
            set(&mut body, assignment, sample)?;
        }
        draft.body = serde_json::to_vec(&body)?.into();
    }
    Ok(draft)
}

/// Changes a field of the body. A path that is not there is a typo, unless it is to be added.
fn set(body: &mut Value, assignment: &Assignment, sample: &Sample) -> anyhow::Result<()> {
    let value = serde_json::from_str(&assignment.value)
        .unwrap_or_else(|_| Value::String(assignment.value.clone()));
    let mut known = Vec::new();
    paths(body, String::new(), &mut known);
    if !assignment.add && !known.contains(&assignment.path) {
        let message = format!(
            "the sample of {} {} has no {}",
            sample.preset, sample.kind, assignment.path
        );
        let error = CliError::usage("send.no_path", message);
        let adds = format!(
            "--set +{}={} adds a new field",
            assignment.path, assignment.value
        );
        return Err(
            match nearest(&assignment.path, known.iter().map(String::as_str)) {
                Some(meant) => error.tip(format!("did you mean {meant}? {adds}")),
                None => error.tip(adds),
            }
            .into(),
        );
    }
    let mut at = body;
    for key in assignment.path.split('.') {
        let Value::Object(map) = at else {
            return Err(CliError::usage(
                "send.no_path",
                format!(
                    "{} leads through a value that is no object",
                    assignment.path
                ),
            )
            .into());
        };
        at = map
            .entry(key)
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    *at = value;
    Ok(())
}

fn paths(value: &Value, prefix: String, found: &mut Vec<String>) {
    if let Value::Object(map) = value {
        for (key, value) in map {
            let path = if prefix.is_empty() {
                key.clone()
            } else {
                format!("{prefix}.{key}")
            };
            paths(value, path, found);
        }
    }
    if !prefix.is_empty() {
        found.push(prefix);
    }
}

fn sign(target: &Target, draft: &Draft, tamper: Option<Tamper>) -> anyhow::Result<Signed> {
    let verifier = &target.verifier;
    let now = Millis::now();
    let at = if tamper == Some(Tamper::Timestamp) {
        now - Duration::from_secs(3600)
    } else {
        now
    };
    let other = Secret::new("other", format!("whsec_{}", random_hex(16)?));
    let secret = if tamper == Some(Tamper::Secret) {
        &other
    } else {
        &target.secret
    };
    let mut signed = draft.sign(&verifier.preset, &verifier.variant, secret, &target.url, at)?;
    match tamper {
        Some(Tamper::Body) => {
            let mut body = signed.body.to_vec();
            match body.last_mut() {
                Some(last) => *last ^= 1,
                None => body.push(b' '),
            }
            signed.body = Bytes::from(body);
        }
        Some(Tamper::Signature) => {
            let scheme = verifier
                .preset
                .scheme(&verifier.variant)
                .context("it was signed with it")?;
            let Location::Header(names) = &scheme.sig.from else {
                return Err(anyhow!("signatures stand in headers"));
            };
            for (name, value) in &mut signed.headers {
                if names.contains(name) {
                    *value = changed(value);
                }
            }
        }
        _ => {}
    }
    Ok(signed)
}

/// Another signature of the same form: one character in its middle is another one.
fn changed(signature: &str) -> String {
    let middle = signature.chars().count().saturating_sub(8);
    let other = |c: char| if c == 'a' { 'b' } else { 'a' };
    let characters = signature.chars().enumerate();
    characters
        .map(|(index, c)| if index == middle { other(c) } else { c })
        .collect()
}

async fn post(
    target: &Target,
    sample: &Sample,
    draft: &Draft,
    signed: &Signed,
    wait: bool,
) -> anyhow::Result<Told> {
    let http = shared::outbound::unguarded(Duration::from_secs(35))?;
    let mut request = http.post(&target.url).body(signed.body.clone());
    for (name, value) in &signed.headers {
        request = request.header(name, value);
    }
    let began = Instant::now();
    let response = request.send().await.map_err(|error| {
        CliError::failed(
            "send.failed",
            format!(
                "{} cannot be reached: {}",
                target.url,
                anyhow::Error::from(error.without_url()).root_cause()
            ),
        )
    })?;
    let mut told = Told {
        url: target.url.clone(),
        preset: sample.preset.to_owned(),
        kind: sample.kind.to_owned(),
        provider_id: draft.id.clone(),
        bytes: signed.body.len(),
        status: response.status().as_u16(),
        took_ms: began.elapsed().as_millis(),
        id: None,
        outcome: None,
        attempts: None,
    };
    if let (Some(inbox), 200..=299) = (&target.inbox, told.status)
        && let Some(key) = key(target, signed)
    {
        follow(inbox, &key, wait, &mut told).await?;
    }
    Ok(told)
}

/// What the catcher calls the event.
fn key(target: &Target, signed: &Signed) -> Option<EventKey> {
    let envelope = signed.envelope(&target.url, Millis::now());
    match target
        .verifier
        .verify(&envelope, std::slice::from_ref(&target.secret))
    {
        Ok(Arrival::Event(event)) => Some(event.key().clone()),
        _ => None,
    }
}

async fn follow(inbox: &Inbox, key: &EventKey, wait: bool, told: &mut Told) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(row) = inbox.ledger.event(key).await? {
            told.id = Some(row.id().as_str().to_owned());
            told.outcome = Some(row.state.to_string());
            told.attempts = Some(row.attempts);
            if !wait || !row.is_open() {
                return Ok(());
            }
        }
        if Instant::now() > deadline {
            return Err(CliError::new(
                "send.timeout",
                Exit::Partial,
                format!(
                    "event {key} did not come to an end in {} s",
                    PATIENCE.as_secs()
                ),
            )
            .tip(format!("webhookctl inbox inspect {key}"))
            .into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn text(told: &Told, target: &Target, tamper: Option<Tamper>) -> String {
    let id = told.id.as_deref().unwrap_or_default();
    let scheme = target.verifier.preset.scheme(&target.verifier.variant);
    let message = scheme
        .map(|scheme| scheme.message.to_string())
        .unwrap_or_default();
    let after = match tamper {
        None => format!(" with secret {}", target.secret.label()),
        Some(Tamper::Body) => ", then one byte of the body changed".to_owned(),
        Some(Tamper::Signature) => ", then one character of the signature changed".to_owned(),
        Some(Tamper::Timestamp) => " with a time of an hour ago".to_owned(),
        Some(Tamper::Secret) => " with another secret".to_owned(),
    };
    let mut text = aligned(&[vec![
        format!("POST {}", told.url),
        told.preset.clone(),
        told.kind.clone(),
        told.provider_id.clone(),
    ]]);
    let bytes = thousands(told.bytes as u64);
    let _ = writeln!(text, "  signed {message}{after}, {bytes} bytes");
    let _ = writeln!(text, "{} in {}ms  {id}", told.status, told.took_ms);
    if let (Some(outcome), Some(attempts)) = (&told.outcome, told.attempts) {
        let plural = if attempts == 1 { "" } else { "s" };
        let _ = writeln!(text, "{outcome}, {attempts} attempt{plural}");
    }
    text
}

/// A command that sends the same bytes. `$'…'` keeps every byte that a shell would change.
fn curl(url: &str, signed: &Signed) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let mut command = format!("curl -sS -X POST {}", quoted(url));
    for (name, value) in &signed.headers {
        let _ = write!(command, " \\\n  -H {}", quoted(&format!("{name}: {value}")));
    }
    let _ = writeln!(
        command,
        " \\\n  --data-binary {}",
        quoted(&String::from_utf8_lossy(&signed.body))
    );
    command
}

#[derive(Serialize)]
struct PresetRow {
    preset: String,
    header: String,
    signed: String,
    key: String,
    types: Vec<&'static str>,
}

fn list(out: &mut Printer) -> anyhow::Result<Exit> {
    let items = presets()?
        .into_iter()
        .filter_map(|preset| {
            let scheme = preset.scheme("default")?;
            let at = |locations: &[Location]| {
                locations
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            };
            let key = if preset.event.id.0.is_empty() {
                at(&preset.event.composite).join(" + ")
            } else {
                at(&preset.event.id.0).join(", else ")
            };
            Some(PresetRow {
                header: scheme.sig.from.to_string().replace("header:", ""),
                signed: scheme.message.to_string(),
                key: if key.is_empty() {
                    "hash of the body".to_owned()
                } else {
                    key
                },
                types: Sample::kinds(&preset.id),
                preset: preset.id.clone(),
            })
        })
        .collect();
    out.list(&List {
        command: "send.list",
        context: "presets",
        as_of: time::rfc3339(Millis::now().0),
        columns: vec![
            Column::whole("PRESET", "preset"),
            Column::whole("HEADER", "header"),
            Column::text("SIGNED STRING", "signed", 20),
            Column::text("DEDUPE KEY", "key", 16),
            Column::text("TYPES", "types", 16).shown(|row: &PresetRow| row.types.join(", ")),
        ],
        id: "preset",
        items,
        next_cursor: None,
        truncated: false,
        footer: None,
        empty: "No presets.".to_owned(),
        tip: None,
    })?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_character_of_a_signature_is_another_one_however_short_it_is() {
        assert_eq!(changed("sha256=0123456789"), "sha256=01a3456789");
        assert_eq!(changed("abc"), "bbc");
        assert_eq!(changed("ä"), "a");
        assert_eq!(changed(""), "");
    }

    #[test]
    fn a_field_is_changed_and_a_typo_is_not_added() {
        let sample = Sample::find("stripe", None).unwrap();
        let body = || serde_json::json!({"data": {"object": {"amount": 1}}});
        let assign = |add, path: &str| Assignment {
            add,
            path: path.into(),
            value: "99".into(),
        };
        let mut changed = body();
        set(&mut changed, &assign(false, "data.object.amount"), sample).unwrap();
        assert_eq!(changed["data"]["object"]["amount"], 99);

        let error = set(&mut body(), &assign(false, "data.object.amuont"), sample).unwrap_err();
        let error = error.downcast::<CliError>().unwrap();
        assert!(
            error
                .tip
                .unwrap()
                .contains("did you mean data.object.amount?")
        );

        let mut added = body();
        set(&mut added, &assign(true, "data.new.field"), sample).unwrap();
        assert_eq!(added["data"]["new"]["field"], 99);
        assert!(
            set(
                &mut body(),
                &assign(true, "data.object.amount.deep"),
                sample
            )
            .is_err()
        );
    }
}
