//! Arguments of `reconcile`.

use clap::{Args, Subcommand};

use super::DoorAt;

#[derive(Debug, Subcommand)]
pub enum ReconcileCommand {
    /// List what is compared, and what the last run of each found
    #[command(visible_alias = "ls")]
    List(ReconcileSelection),
    /// Show the last report of each comparison, or one report; exit 5 if something drifted
    Report(ReconcileReportArgs),
    /// Compare now
    ///
    /// backup-sync reads both sides and keeps a report. Nothing is changed. Exit 5 if something
    /// drifted.
    Run(ReconcileRunArgs),
    /// Put an event into the inbox for each drifted object of a report
    ///
    /// Their types are mitt.reconcile.missing, mitt.reconcile.gone and mitt.reconcile.different;
    /// the source's actions do the rest. The same report puts each of them once, however often it
    /// is repaired. Only the newest report of a comparison is, while it is less than a day old.
    Repair(ReconcileRepairArgs),
}

/// Which comparisons.
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
    /// Id of a report, or a unique prefix of it [default: the last of each comparison]
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
    /// Id of the report, or a unique prefix of it
    pub id: String,
    /// The number of objects, as it was shown
    #[arg(long, value_name = "N")]
    pub confirm: Option<usize>,
    /// Why; it is written down with who you are
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// Also when more drifted than the cap of the comparison allows
    #[arg(long)]
    pub over_cap: bool,
    #[command(flatten)]
    pub door_at: DoorAt,
}

/// The function that does what needs the providers' API keys. The running `dev` says it of itself.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct FunctionAt {
    /// Function backup-sync, the output `BackupSyncFunction`
    #[arg(
        long,
        value_name = "NAME",
        env = "MITT_BACKUP_SYNC_FUNCTION",
        hide_env = true
    )]
    pub function: Option<String>,
}
