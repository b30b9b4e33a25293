//! Texts that clap does not write for us. They name only what exists.

/// Below the first screen.
pub(super) const START_HERE: &str = "\
Start here:
  webhookctl dev --demo                      run the whole system on this machine
  webhookctl inbox list --status failed      what is broken
  webhookctl inbox inspect <ID>              why, and what to do next
  webhookctl replay plan --status failed     what a replay would touch (changes nothing)
  webhookctl send stripe --tamper body       see a forged webhook refused
  webhookctl quarantine list                 what was refused, and whether it matches by now
  webhookctl dlq list                        dead letters by error, and what can be done about them
  webhookctl listen -f :3000/webhooks        bring what arrives to a program on this machine
  webhookctl sources list                    who sends, when last, and with how many secrets
  webhookctl sync coverage                   how many events never came by webhook
  webhookctl verify <ID>                     why its signature does not match
  webhookctl context add prod --stack S      talk to a deployment, by name
  webhookctl doctor                          whether all is set up and at work

Exit codes, JSON shapes and environment variables: webhookctl help output";

/// `webhookctl help output`
pub(super) const OUTPUT: &str = "\
Output
  stdout carries data. Progress, tips and errors go to stderr.
  -o table   the default; fits the terminal, and drops the least important columns first
  -o wide    every column, full ids
  -o json    one document: {\"schema\": \"webhookctl/<command>/v1\", \"items\": [...], \"next_cursor\": ...}
  -o jsonl   one object per line, for pipes
  -o csv     RFC 4180 with a header row; a leading ' keeps a cell from running as a formula
  -o ids     one id per line; pass them to another command with `--id -`
  --query    JMESPath on the JSON document; with -o jsonl, on each object
  A schema version can gain fields. It never loses or changes one.
  Times are RFC 3339 in UTC. Durations are in seconds.
  A list that stops early says so: \"truncated\": true, and \"next_cursor\" to continue.
  When stdout is not a terminal, -o table prints no colour and no tips.
  Text from webhooks cannot control your terminal: control characters appear as symbols, invisible
  characters as <U+202E>. JSON escapes both.

Exit codes
    0  success; also an empty list
    1  failure: AWS, the network or the disk
    2  usage error: unknown flag, invalid value, missing argument
    3  not found, or more than one match
    4  no credentials, expired credentials, or access denied (the message names the IAM action)
    5  negative result: a request is not verified, a sources file is invalid, a test failed, objects
       differ, `doctor` found a fault, an event waits longer than --max-lag, or the demo had an
       unexpected result
    6  partial success: some events failed again, or the final status is not `done`
    7  refused: confirmation missing or wrong, plan expired or changed, secret in use, or read-only
       context
    8  busy: another run holds the lock
  124  --timeout reached
  130  stopped with Ctrl-C; work that began is recorded and can be resumed

Errors
  error: what happened [code]
   note: what the command checked
    tip: the command to run next
   docs: the description of the code
  With -o json or jsonl, one object on stderr: {\"error\":{\"code\",\"message\",\"exit\",\"note\",\"tip\",\"docs\"}}

Environment
  WEBHOOKCTL_CONTEXT  WEBHOOKCTL_CONFIG  WEBHOOKCTL_OUTPUT  WEBHOOKCTL_TIME  WEBHOOKCTL_READ_ONLY=1
  WEBHOOKCTL_TIPS=0  WEBHOOKCTL_CACHE
  AWS_PROFILE  AWS_REGION  AWS_ENDPOINT_URL  and the other variables that the AWS SDK reads
  MITT_TABLE  MITT_QUEUE_URL  MITT_BODY_BUCKET  MITT_SECRETS_PATH  MITT_API_URL
  MITT_BACKUP_SYNC_FUNCTION
  NO_COLOR  CLICOLOR_FORCE  COLUMNS

Contexts
  A context names a deployment. Flags win over environment variables, these over .webhookctl.toml of
  the project, and that over ~/.config/webhookctl/config.toml (or the file in WEBHOOKCTL_CONFIG). A
  project file can protect a context, but not remove its protection. Without any of these, commands
  use the local stack that `dev` runs.
    default = \"prod\"
    [context.prod]
    stack = \"mitt-prod\"        # `context add` reads the names of its resources once
    region = \"eu-west-1\"
    profile = \"prod-oncall\"
    protected = true           # accepting quarantined requests also needs --confirm
    read_only = true           # refuses every change
";
