//! The command line: arguments, help pages and exit codes.

mod args;
mod bodies;
mod completions;
mod console;
mod context;
mod dev;
mod dlq;
mod doctor;
mod endpoint;
mod erase;
mod help;
mod hold;
mod inbox;
mod init;
mod listen;
mod log;
mod mcp;
mod policies;
mod presets;
mod quarantine;
mod reconcile;
mod replay;
mod run;
mod secrets;
mod selection;
mod send;
mod source_versions;
mod sources;
mod stats;
mod status;
mod sync;
mod tree;
mod trial;
mod values;
mod verify;
mod version;
mod work;

pub use args::{Cli, Command, Global};
pub use bodies::BodiesAt;
pub use completions::{CompletionsArgs, ManArgs};
pub use console::ConsoleArgs;
pub use context::{ContextAddArgs, ContextCommand, ContextShowArgs, ContextUseArgs};
pub use dev::DevArgs;
pub use dlq::{DlqCommand, DlqInspectArgs, DlqListArgs, DlqRedriveArgs};
pub use doctor::DoctorArgs;
pub use endpoint::{EndpointCommand, EndpointEnableArgs, EndpointShowArgs};
pub use erase::EraseArgs;
pub use hold::{
    ApprovalAt, HoldApproveArgs, HoldCommand, HoldListArgs, HoldRejectArgs, HoldShowArgs,
};
pub use inbox::{
    BodyArgs, DiffArgs, ExportArgs, InboxCommand, InspectArgs, ListArgs, TailArgs, TraceArgs,
};
pub use init::InitArgs;
pub use listen::ListenArgs;
pub use log::LogArgs;
pub use mcp::McpArgs;
pub use policies::{PoliciesCommand, PolicyStackArgs};
pub use presets::{PresetsCheckArgs, PresetsCommand};
pub use quarantine::{
    DiscardArgs, DoorAt, HeldInspectArgs, HeldListArgs, HeldSelection, PurgeArgs,
    QuarantineCommand, ReleaseArgs, ReverifyArgs, SecretsAt,
};
pub use reconcile::{
    FunctionAt, ReconcileCommand, ReconcileRepairArgs, ReconcileReportArgs, ReconcileRunArgs,
    ReconcileSelection,
};
pub use replay::{
    QueueAt, ReplayApplyArgs, ReplayCancelArgs, ReplayCommand, ReplayLogArgs, ReplayMode,
    ReplayPlanArgs, ReplayPlanId, ReplayShowArgs,
};
pub use run::{Stop, parse, run_with};
pub(crate) use secrets::SecretKind;
pub use secrets::{
    KeyAlgorithm, SecretsCommand, SecretsKeypairArgs, SecretsListArgs, SecretsPutArgs,
};
pub use selection::{Received, SelectionArgs};
pub use send::SendArgs;
pub use source_versions::{
    RiskArgs, SourcesApplyArgs, SourcesDiffArgs, SourcesHistoryArgs, SourcesRollbackArgs,
};
pub use sources::{
    ApiAt, NewSecretArgs, SignMode, SourcesAddArgs, SourcesAt, SourcesCheckArgs, SourcesCommand,
    SourcesListArgs, SourcesPauseArgs, SourcesPresetsArgs, SourcesPromoteArgs, SourcesRecipeArgs,
    SourcesRemoveArgs, SourcesResumeArgs, SourcesRotateArgs, SourcesSettingsArgs, SourcesShowArgs,
    SourcesTestArgs, Store,
};
pub use stats::{By, StatsArgs};
pub use status::StatusArgs;
pub use sync::{SyncCommand, SyncRunArgs, SyncSpanArgs, SyncStatusArgs};
pub use tree::tree;
pub use trial::{TrialCommand, TrialReportArgs};
pub use values::{
    Assignment, Chaos, ColorChoice, FunctionName, Rate, SecretFrom, Status, Tamper, Zone,
};
pub use verify::VerifyArgs;
pub use work::{
    LeaseAt, WorkAt, WorkBeginArgs, WorkCommand, WorkEndArgs, WorkExtendArgs, WorkFinishArgs,
    WorkKeys, WorkNextArgs, WorkOutcome, WorkResult, WorkRunArgs,
};
