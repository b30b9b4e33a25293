//! The caller of a command: the command line, or a page or an agent through this process.

use std::sync::Arc;

use shared::inbox::ledger::Through;

use super::Deployment;
use crate::interrupt::Interrupt;

/// The caller, which the audit log names. A caller that is not a terminal can hold a run.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    pub(crate) through: Through,
    pub(crate) run: Option<Arc<Run>>,
}

/// A replay that another part of this process watches and can stop.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) interrupt: Interrupt,
    pub(crate) progress: tokio::sync::watch::Sender<Option<Progress>>,
}

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) queued: usize,
    pub(crate) of: usize,
}

impl Run {
    pub(crate) fn tell(&self, queued: usize, of: usize) {
        self.progress.send_replace(Some(Progress { queued, of }));
    }
}

impl Caller {
    pub(crate) fn new(through: Through) -> Self {
        Self { through, run: None }
    }
}

impl Deployment {
    /// Returns what the operator uses.
    pub(crate) fn through(&self) -> Through {
        self.caller.through
    }
}
