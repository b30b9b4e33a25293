//! The environment variables of the functions and of `webhookctl`.

/// An environment variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) absent: &'static str,
    pub(super) meaning: &'static str,
}

const fn variable(name: &'static str, absent: &'static str, meaning: &'static str) -> Variable {
    Variable {
        name,
        absent,
        meaning,
    }
}

/// The variables of the functions. The template sets those that begin with `MITT_`.
pub(super) const FUNCTIONS: &[Variable] = &[
    variable("MITT_TABLE", "required", "The name of the inbox table."),
    variable("MITT_QUEUE_URL", "required", "The URL of the work queue."),
    variable(
        "MITT_BACKLOG_QUEUE_URL",
        "no backlog queue",
        "The URL of the backlog queue.",
    ),
    variable(
        "MITT_LONG_QUEUE_URL",
        "no long actions",
        "The URL of the queue for long actions.",
    ),
    variable(
        "MITT_LONG_ACTIONS",
        "`false`",
        "`true` for the function that runs long actions.",
    ),
    variable(
        "MITT_SPILL_QUEUE_URL",
        "required",
        "The URL of the spill queue.",
    ),
    variable(
        "MITT_BODY_BUCKET",
        "required",
        "The name of the bucket for large bodies.",
    ),
    variable(
        "MITT_SECRETS_PATH",
        "required",
        "The path of the function's secrets in Parameter Store.",
    ),
    variable(
        "MITT_EGRESS_PATH",
        "`MITT_SECRETS_PATH`",
        "The path of the secrets of destinations, with which the catcher signs requests in a trial.",
    ),
    variable(
        "MITT_INGRESS_PATH",
        "`MITT_SECRETS_PATH`",
        "The path of the webhook secrets, with which backup-sync verifies requests that waited for a \
         certificate.",
    ),
    variable(
        "MITT_ANSWER_TIMEOUT",
        "`10`",
        "The time limit of the catcher, in seconds.",
    ),
    variable(
        "MITT_WAITING_MINUTES",
        "`30`",
        "The age in minutes from which the health report of backup-sync counts an open event as waiting \
         too long.",
    ),
    variable(
        "MITT_SECRETS_MANAGER_PREFIX",
        "no secrets in Secrets Manager",
        "The prefix of the webhook secrets in Secrets Manager.",
    ),
    variable(
        "MITT_SOURCES_FILE",
        "the built-in file",
        "The sources file that the function reads when it starts.",
    ),
    variable(
        "MITT_SOURCES",
        "`embedded`",
        "`table` if the function follows the versions of the sources in the table.",
    ),
    variable(
        "MITT_ALLOWED_HOSTS",
        "the hosts of the file",
        "The hosts that sources in the table may allow, separated by commas.",
    ),
    variable(
        "MITT_ENDPOINTS",
        "the endpoints of AWS",
        "The URLs of the local services of `webhookctl dev`, for `sam local` and `cargo lambda watch`. Empty \
         in a deployment.",
    ),
    variable(
        "AWS_SAM_LOCAL",
        "not in `sam local`",
        "Set by `sam local`. The function then needs `MITT_ENDPOINTS`.",
    ),
    variable(
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "not in Lambda",
        "Set by Lambda. The function then logs an error if `MITT_ENDPOINTS` has a value.",
    ),
    variable(
        "_X_AMZN_TRACE_ID",
        "not in Lambda",
        "Set by Lambda for each invocation. The function sends it to AWS, and Lambda detects loops with it.",
    ),
    variable(
        "AWS_LAMBDA_LOG_LEVEL",
        "`INFO`",
        "The lowest level of log lines. Lambda sets it to the log level of the function.",
    ),
    variable(
        "AWS_LAMBDA_LOG_FORMAT",
        "text",
        "`JSON` for log lines in JSON. Lambda sets it to the log format of the function.",
    ),
    variable(
        "RUST_LOG",
        "`AWS_LAMBDA_LOG_LEVEL`",
        "Log levels by module, such as `shared=debug`, for debugging.",
    ),
    variable(
        "AWS_REGION",
        "`AWS_DEFAULT_REGION`",
        "The Region. Lambda sets it.",
    ),
    variable(
        "AWS_DEFAULT_REGION",
        "no Region: an error",
        "The Region, if `AWS_REGION` is absent.",
    ),
    variable(
        "AWS_ACCESS_KEY_ID",
        "required",
        "The access key of the function's role. Lambda sets it.",
    ),
    variable(
        "AWS_SECRET_ACCESS_KEY",
        "required",
        "The secret key of the function's role. Lambda sets it.",
    ),
    variable(
        "AWS_SESSION_TOKEN",
        "no session",
        "The session token of the function's role. Lambda sets it.",
    ),
    variable(
        "AWS_ENDPOINT_URL",
        "the endpoints of AWS",
        "The URL of an emulator of AWS. `AWS_ENDPOINT_URL_DYNAMODB` and similar variables set the URL \
         of one service.",
    ),
];

/// The variables that `webhookctl` reads.
pub(super) const CLI: &[Variable] = &[
    variable(
        "WEBHOOKCTL_CONTEXT",
        "the default context",
        "The deployment to use, as `--context`.",
    ),
    variable(
        "WEBHOOKCTL_CONFIG",
        "`~/.config/webhookctl/config.toml`",
        "The file with your contexts.",
    ),
    variable(
        "WEBHOOKCTL_OUTPUT",
        "`table`",
        "The output format, as `--output`.",
    ),
    variable(
        "WEBHOOKCTL_TIME",
        "`utc`",
        "The time zone in tables: `utc` or `local`, as `--time`.",
    ),
    variable(
        "WEBHOOKCTL_READ_ONLY",
        "`0`",
        "Any other value than `0` refuses every command that changes something.",
    ),
    variable("WEBHOOKCTL_TIPS", "tips are printed", "`0` prints no tips."),
    variable(
        "WEBHOOKCTL_CACHE",
        "`~/.cache/webhookctl`",
        "The folder of the names that completions use.",
    ),
    variable(
        "WEBHOOKCTL_COMPLETE",
        "no completion",
        "The shell that asks for completions. The script of `webhookctl completions` sets it.",
    ),
    variable(
        "MITT_TABLE",
        "the table of the context",
        "The name of the inbox table, as `--table`.",
    ),
    variable(
        "MITT_QUEUE_URL",
        "the queue of the context",
        "The URL of the work queue, as `--queue-url`.",
    ),
    variable(
        "MITT_BODY_BUCKET",
        "the bucket of the context",
        "The bucket for large bodies, as `--body-bucket`.",
    ),
    variable(
        "MITT_SECRETS_PATH",
        "from the name of the table",
        "The path of the secrets, as `--secrets-path`.",
    ),
    variable(
        "MITT_API",
        "the API of the deployment",
        "The base URL of the API of workers. `work run` sets it for the programs that it starts.",
    ),
    variable(
        "MITT_QUEUE",
        "no queue",
        "The queue of the `work` commands. `work run` sets it for the programs that it starts.",
    ),
    variable(
        "MITT_LEASE",
        "no lease",
        "The lease of the event. `work run` sets it for the programs that it starts.",
    ),
    variable(
        "MITT_LOCAL_ROLE",
        "`local-worker`",
        "The role with which the `work` commands call a local `dev`.",
    ),
    variable(
        "MITT_API_URL",
        "the URL of the context",
        "The address to which providers send, as `--api-url`.",
    ),
    variable(
        "MITT_BACKUP_SYNC_FUNCTION",
        "the function of the context",
        "The backup-sync function, as `--function`.",
    ),
    variable(
        "AWS_PROFILE",
        "the default credentials",
        "The profile in `~/.aws/config`. `--profile` replaces it.",
    ),
    variable(
        "AWS_REGION",
        "`AWS_DEFAULT_REGION`",
        "The Region, as `--region`.",
    ),
    variable(
        "AWS_DEFAULT_REGION",
        "the Region of the profile",
        "The Region, if `AWS_REGION` is absent.",
    ),
    variable(
        "AWS_ENDPOINT_URL",
        "the endpoints of AWS",
        "The URL of an emulator of AWS, as `--endpoint-url`.",
    ),
    variable(
        "COLUMNS",
        "the width of the terminal",
        "The width of tables, if it cannot be detected.",
    ),
    variable(
        "USER",
        "`unknown`",
        "The operator in the audit log of a local stack.",
    ),
    variable(
        "XDG_RUNTIME_DIR",
        "without it, `console` prints its address",
        "The folder for the file with which `console` opens a browser.",
    ),
    variable(
        "DISPLAY",
        "without a screen, `console` prints its address",
        "The screen on which `console` opens a browser.",
    ),
    variable(
        "WAYLAND_DISPLAY",
        "`DISPLAY`",
        "The screen on which `console` opens a browser.",
    ),
    variable(
        "MITT_WEB",
        "the files in the program",
        "A folder with the files of the console. Only debug builds read it.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use local::{Naming, Template};

    use super::super::TEMPLATE;
    use super::*;

    /// The calls and attributes that read a variable.
    const READS: [&str; 5] = [
        "env_var(\"",
        "required(\"",
        "env = \"",
        "const ASKED: &str = \"",
        "const VARIABLE: &str = \"",
    ];

    #[test]
    fn the_variables_are_those_that_the_code_reads() {
        let functions = ["shared/src", "functions"];
        let mut read = BTreeSet::new();
        for folder in functions {
            read.extend(in_folder(&root().join(folder)));
        }
        assert_eq!(names(FUNCTIONS), read);
        assert_eq!(names(CLI), in_folder(&root().join("infra/webhookctl/src")));
    }

    #[test]
    fn the_template_sets_the_variables_of_mitt() {
        let naming = Naming {
            parameters: [("LongActions", "true"), ("Trial", "true")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Naming::default()
        };
        let template = Template::parse(TEMPLATE, &naming).unwrap();
        let functions = template.functions.values();
        let set: BTreeSet<_> = functions
            .flat_map(|function| function.environment.keys().cloned())
            .filter(|name| name.starts_with("MITT_"))
            .collect();
        let known = names(FUNCTIONS);
        let known: BTreeSet<_> = known
            .into_iter()
            .filter(|name| name.starts_with("MITT_"))
            .collect();
        assert_eq!(set, known);
    }

    fn names(variables: &[Variable]) -> BTreeSet<String> {
        let names: BTreeSet<_> = variables.iter().map(|it| it.name.to_owned()).collect();
        assert_eq!(names.len(), variables.len());
        names
    }

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// Returns the variables that the code in a folder reads. Tests also read other variables.
    fn in_folder(folder: &Path) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_tests = ["tests", "tests.rs"]
                .iter()
                .any(|name| path.ends_with(name));
            if path.is_dir() && !is_tests {
                found.extend(in_folder(&path));
            } else if path.extension().is_some_and(|it| it == "rs") && !is_tests {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                for read in READS {
                    let names = code.split(read).skip(1);
                    let names = names.filter_map(|rest| rest.split('"').next());
                    found.extend(names.filter(|name| is_name(name)).map(str::to_owned));
                }
            }
        }
        found
    }

    fn is_name(name: &str) -> bool {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    }
}
