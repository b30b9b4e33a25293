//! Arguments of `reconcile`.

use clap::{Args, Subcommand};

use super::DoorAt;

#[derive(Debug, Subcommand)]
pub enum ReconcileCommand {
    /// List the comparisons, and the result of the last run of each
    #[command(visible_alias = "ls")]
    List(ReconcileSelection),
    /// Show the last report of each comparison, or one report; exit 5 if objects differ
    Report(ReconcileReportArgs),
    /// Compare now
    ///
    /// backup-sync reads both sides and stores a report. It changes no object and adds no event, also
    /// if the comparison has repair = "auto". Exit 5 if objects differ.
    Run(ReconcileRunArgs),
    /// Add an event to the inbox for each object that differs in a report
    ///
    /// The event types are mitt.reconcile.missing, mitt.reconcile.gone and
    /// mitt.reconcile.different; the actions of the source handle them. Each object of a report
    /// gets only one event, even if you repair the report again. Only the newest report of a
    /// comparison can be repaired, and only for a day.
    Repair(ReconcileRepairArgs),
}

/// Selects comparisons.
#[derive(Debug, Clone, Default, Args)]
pub struct ReconcileSelection {
    /// Source name
    #[arg(short, long, value_name = "SOURCE", help_heading = "Selection")]
    pub source: Option<String>,
    /// Name of a comparison
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct ReconcileReportArgs {
    /// Report id, or a unique prefix of it [default: the last report of each comparison]
    pub id: Option<String>,
    #[command(flatten)]
    pub selection: ReconcileSelection,
}

#[derive(Debug, Args)]
pub struct ReconcileRunArgs {
    #[command(flatten)]
    pub selection: ReconcileSelection,
    #[command(flatten)]
    pub function_at: FunctionAt,
}

#[derive(Debug, Args)]
pub struct ReconcileRepairArgs {
    /// Report id, or a unique prefix of it
    pub id: String,
    /// The number of objects, as the command showed it
    #[arg(long, value_name = "N")]
    pub confirm: Option<usize>,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// Repair even if more objects differ than the cap of the comparison allows
    #[arg(long)]
    pub over_cap: bool,
    #[command(flatten)]
    pub door_at: DoorAt,
}

/// The option for the function that has the providers' API keys. The running `dev` provides its own
/// function.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct FunctionAt {
    /// The backup-sync function (stack output `BackupSyncFunction`)
    #[arg(
        long,
        value_name = "NAME",
        env = "MITT_BACKUP_SYNC_FUNCTION",
        hide_env = true
    )]
    pub function: Option<String>,
}
