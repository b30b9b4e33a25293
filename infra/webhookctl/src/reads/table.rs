//! The table of reads.

/// A command that only reads. Pages and agents may run these commands, and no others.
#[derive(Debug)]
pub(crate) struct Read {
    /// The name in paths and in schemas, such as `inbox.list`.
    pub(crate) name: &'static str,
    /// The words of the command, such as `inbox list`.
    pub(crate) words: &'static [&'static str],
    /// The flags that a caller may pass, in groups.
    flags: &'static [&'static [&'static str]],
    /// The other flags and arguments of the command. A caller may not pass them.
    withheld: &'static [&'static str],
    /// The names under which a caller passes the arguments that have no flag, in their order.
    pub(crate) positional: &'static [&'static str],
}

impl Read {
    /// Returns whether a caller may pass this flag.
    pub(crate) fn allows(&self, flag: &str) -> bool {
        self.flags().any(|allowed| allowed == flag)
    }

    /// Returns whether the command has this flag, and a caller may not pass it.
    pub(super) fn withholds(&self, flag: &str) -> bool {
        self.withheld.contains(&flag) || GLOBAL.contains(&flag)
    }

    pub(super) fn flags(&self) -> impl Iterator<Item = &'static str> {
        self.flags.iter().flat_map(|group| group.iter().copied())
    }
}

/// The options of every command. They select the deployment and the output, so that they belong to
/// the operator who started this process.
const GLOBAL: [&str; 14] = [
    "output",
    "query",
    "context",
    "profile",
    "region",
    "table",
    "endpoint-url",
    "color",
    "time",
    "no-input",
    "quiet",
    "terminal-width",
    "tips",
    "help",
];

const SELECTION: &[&str] = &[
    "source", "type", "status", "since", "until", "error", "via", "attempts", "id", "where",
    "account", "header", "tee", "repeats",
];

/// Flags for rejected requests.
const HELD: &[&str] = &["source", "since", "until", "id", "reason"];

/// Names of resources. They belong to the operator who started this process.
const BUCKET: &str = "body-bucket";
const SECRETS: &str = "secrets-path";
const FUNCTION: &str = "function";
const QUEUE: &str = "queue-url";
const API: &str = "api";
const ROLE: &str = "as";

pub(crate) const READS: &[Read] = &[
    Read {
        name: "status",
        words: &["status"],
        flags: &[&["source"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "inbox.list",
        words: &["inbox", "list"],
        flags: &[SELECTION, &["limit", "after", "reverse"]],
        withheld: &["columns", BUCKET],
        positional: &[],
    },
    Read {
        name: "inbox.inspect",
        words: &["inbox", "inspect"],
        flags: &[&["full", "timeline"]],
        withheld: &["reveal", "watch"],
        positional: &["id"],
    },
    Read {
        name: "inbox.trace",
        words: &["inbox", "trace"],
        flags: &[],
        withheld: &[],
        positional: &["id"],
    },
    Read {
        name: "inbox.body",
        words: &["inbox", "body"],
        flags: &[],
        withheld: &["pretty", "raw", "reveal", BUCKET],
        positional: &["id"],
    },
    Read {
        name: "inbox.diff",
        words: &["inbox", "diff"],
        flags: &[],
        withheld: &[BUCKET],
        positional: &["a", "b"],
    },
    Read {
        name: "inbox.stats",
        words: &["inbox", "stats"],
        flags: &[SELECTION, &["by", "max-lag"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "inbox.tail",
        words: &["inbox", "tail"],
        flags: &[SELECTION, &["only"]],
        withheld: &[BUCKET],
        positional: &[],
    },
    Read {
        name: "dlq.list",
        words: &["dlq", "list"],
        flags: &[SELECTION, &["flat", "limit", "after"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "dlq.inspect",
        words: &["dlq", "inspect"],
        flags: &[],
        withheld: &["reveal"],
        positional: &["error"],
    },
    Read {
        name: "quarantine.list",
        words: &["quarantine", "list"],
        flags: &[HELD, &["flat", "limit"]],
        withheld: &[SECRETS],
        positional: &[],
    },
    Read {
        name: "quarantine.inspect",
        words: &["quarantine", "inspect"],
        flags: &[],
        withheld: &["reveal", SECRETS],
        positional: &["id"],
    },
    Read {
        name: "hold.list",
        words: &["hold", "list"],
        flags: &[&["source", "limit"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "hold.show",
        words: &["hold", "show"],
        flags: &[],
        withheld: &[BUCKET],
        positional: &["id"],
    },
    Read {
        name: "sources.list",
        words: &["sources", "list"],
        flags: &[],
        withheld: &["file", SECRETS],
        positional: &[],
    },
    Read {
        name: "sources.show",
        words: &["sources", "show"],
        flags: &[&["events"]],
        withheld: &["reveal", "reason", "file", SECRETS],
        positional: &["name"],
    },
    Read {
        name: "sources.presets",
        words: &["sources", "presets"],
        flags: &[],
        withheld: &["markdown"],
        positional: &["name"],
    },
    Read {
        name: "sync.status",
        words: &["sync", "status"],
        flags: &[&["source"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "sync.gaps",
        words: &["sync", "gaps"],
        flags: &[&["source", "since", "until"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "sync.coverage",
        words: &["sync", "coverage"],
        flags: &[&["source", "since", "until"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "reconcile.list",
        words: &["reconcile", "list"],
        flags: &[&["source", "name"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "reconcile.report",
        words: &["reconcile", "report"],
        flags: &[&["source", "name"]],
        withheld: &[],
        positional: &["id"],
    },
    Read {
        name: "endpoint.show",
        words: &["endpoint", "show"],
        flags: &[],
        // `--now` runs a function, which stores what the providers answer.
        withheld: &["now", FUNCTION],
        positional: &["name"],
    },
    Read {
        name: "replay.log",
        words: &["replay", "log"],
        flags: &[&["since", "by", "limit"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "replay.show",
        words: &["replay", "show"],
        flags: &[&["events", "limit", "left-out"]],
        withheld: &[],
        positional: &["plan"],
    },
    Read {
        name: "replay.status",
        words: &["replay", "status"],
        flags: &[],
        withheld: &[],
        positional: &["plan"],
    },
    Read {
        name: "log",
        words: &["log"],
        flags: &[&["limit", "since", "until", "by", "what"]],
        withheld: &[],
        positional: &[],
    },
    Read {
        name: "doctor",
        words: &["doctor"],
        flags: &[&["only", "strict"]],
        // These send a webhook, write a file, or print a page.
        withheld: &["end-to-end", "canary", "bundle", "markdown"],
        positional: &[],
    },
    Read {
        name: "verify",
        words: &["verify"],
        flags: &[],
        // A caller names a stored request. The other flags read files and secrets of this machine.
        withheld: &[
            "body",
            "header",
            "method",
            "url",
            "at",
            "source",
            "preset",
            "variant",
            "param",
            "secret-from",
            "other-secret-from",
            "reveal",
            SECRETS,
            BUCKET,
        ],
        positional: &["id"],
    },
    Read {
        name: "context.show",
        words: &["context", "show"],
        flags: &[],
        // Another context is another deployment.
        withheld: &["name"],
        positional: &[],
    },
];

/// The commands that the console may run with `--write`. Its server adds the reason and the count
/// that the operator typed.
pub(crate) const WRITES: &[Read] = &[
    Read {
        name: "replay.plan",
        words: &["replay", "plan"],
        flags: &[SELECTION, &["mode", "max", "expires", "like"]],
        withheld: &["reason", "new-effect", "accept-duplicate-risk"],
        positional: &[],
    },
    Read {
        name: "replay.apply",
        words: &["replay", "apply"],
        flags: &[&["rate"]],
        withheld: &[
            "reason",
            "confirm",
            "accept-proposed",
            "canary",
            "stop-at",
            "no-wait",
            "dry-run",
            "timeout",
            QUEUE,
        ],
        positional: &["plan"],
    },
    Read {
        name: "replay.cancel",
        words: &["replay", "cancel"],
        flags: &[],
        withheld: &["reason"],
        positional: &["plan"],
    },
    Read {
        name: "quarantine.reverify",
        words: &["quarantine", "reverify"],
        flags: &[HELD, &["dry-run"]],
        withheld: &["message", "confirm", SECRETS, QUEUE, BUCKET],
        positional: &[],
    },
    Read {
        name: "quarantine.release",
        words: &["quarantine", "release"],
        flags: &[],
        withheld: &["reason", QUEUE, BUCKET],
        positional: &["id"],
    },
    Read {
        name: "quarantine.discard",
        words: &["quarantine", "discard"],
        flags: &[],
        withheld: &["reason"],
        positional: &["id"],
    },
    // The caller confirms the hold that it showed.
    Read {
        name: "hold.approve",
        words: &["hold", "approve"],
        flags: &[&["confirm"]],
        withheld: &["reason", QUEUE, BUCKET, API, ROLE],
        positional: &["id"],
    },
    Read {
        name: "hold.reject",
        words: &["hold", "reject"],
        flags: &[&["confirm"]],
        withheld: &["reason", API, ROLE],
        positional: &["id"],
    },
    Read {
        name: "sources.pause",
        words: &["sources", "pause"],
        flags: &[],
        withheld: &["reason"],
        positional: &["name"],
    },
    Read {
        name: "sources.resume",
        words: &["sources", "resume"],
        flags: &[],
        withheld: &["reason"],
        positional: &["name"],
    },
];
