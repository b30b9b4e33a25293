//! Decides whether a source is healthy, and gives the reasons.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::sources::Source;

use super::pause::Pause;
use super::rotation::Rotation;
use crate::output::count::plural;
use crate::target::Deployment;
use crate::verbs::missing_paths::{missing_paths, note};
use crate::verbs::sync::facts::Facts;

/// The health of a source. If several variants apply, the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Health {
    /// The events of the source wait until an operator resumes it.
    Paused,
    /// No secret is stored, so the catcher can verify no webhook of the source.
    NoSecret,
    /// Some events of the source are dead letters.
    Failing,
    /// The source has been silent for unusually long.
    Quiet,
    Ok,
}

/// Returns the health of a source, and the facts that explain it.
pub(super) struct Checked {
    pub(super) health: Health,
    pub(super) pause: Option<Pause>,
    pub(super) rotation: Option<Rotation>,
    pub(super) note: Option<String>,
}

/// What is stored about a source.
pub(super) struct Stored {
    pub(super) pause: Option<Pause>,
    pub(super) rotation: Option<Rotation>,
    /// A text such as `silent 36m20s, usually every 4m`, if the source is silent.
    pub(super) silence: Option<String>,
    /// A text such as `1 path missing, last 3m ago`, if events lack a value that Mitt reads.
    pub(super) missing: Option<String>,
}

impl Health {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::NoSecret => "no secret",
            Self::Failing => "failing",
            Self::Quiet => "quiet",
            Self::Ok => "ok",
        }
    }
}

impl Checked {
    /// Decides the health. `secrets` is the number of live secrets, if their store can be read.
    pub(super) async fn read(
        inbox: &Deployment,
        source: &Source,
        secrets: Option<usize>,
        dead: u64,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let ledger = &inbox.ledger;
        let rotation = Rotation::under_way(ledger, &source.secret).await?;
        let stored = Stored {
            pause: Pause::of(inbox, &source.name).await?,
            rotation: rotation.map(|(rotation, _)| rotation),
            silence: Facts::read(ledger, source, now).await?.silence.note(),
            missing: note(&missing_paths(inbox, now).await?, &source.name, now),
        };
        Ok(Self::of(source, stored, secrets, dead, now))
    }

    /// Decides the health from what is stored.
    pub(super) fn of(
        source: &Source,
        stored: Stored,
        secrets: Option<usize>,
        dead: u64,
        now: UnixMillis,
    ) -> Self {
        let Stored {
            pause,
            rotation,
            silence,
            missing,
        } = stored;
        let lacks = secrets == Some(0) && needs_secret(source);
        let health = match (&pause, &silence) {
            (Some(_), _) => Health::Paused,
            _ if lacks => Health::NoSecret,
            _ if dead > 0 => Health::Failing,
            (None, Some(_)) => Health::Quiet,
            (None, None) => Health::Ok,
        };
        let mut notes: Vec<String> = Vec::new();
        notes.extend(pause.as_ref().map(|pause| pause.text(now.0)));
        notes.extend(
            lacks.then(|| {
                "no secret is stored: the catcher answers every webhook with 503".to_owned()
            }),
        );
        notes.extend(rotation.as_ref().map(|rotation| rotation.note(now)));
        notes.extend((dead > 0).then(|| plural(dead, "dead letter")));
        notes.extend(silence);
        notes.extend(missing);
        if let (None, Some(count @ 2..)) = (&rotation, secrets) {
            notes.push(format!(
                "{count} secrets are live: `sources show` shows which are in use"
            ));
        }
        Self {
            health,
            pause,
            rotation,
            note: Some(notes.join("; ")).filter(|note| !note.is_empty()),
        }
    }
}

fn needs_secret(source: &Source) -> bool {
    let verifier = &source.verifier;
    let scheme = verifier.preset.scheme(&verifier.variant);
    scheme.is_some_and(shared::webhook::preset::Scheme::needs_secret)
}
