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
  stdout carries data only. Progress, tips and errors go to stderr.
  -o table   for people; width follows the terminal, columns drop right to left by importance
  -o wide    every column, whole ids
  -o json    one document: {\"schema\": \"webhookctl/<command>/v1\", \"items\": [...], \"next_cursor\": ...}
  -o jsonl   one bare object a line; for pipes
  -o csv     RFC 4180, header row, formulas defused with a leading '
  -o ids     ids only, one a line; feed to another command with `--id -`
  --query    JMESPath over the json document; with -o jsonl, over each object
  Fields are only ever added within a schema version. Times are RFC 3339 UTC, durations seconds.
  Nothing is cut silently: a list that stops early sets \"truncated\": true and \"next_cursor\".
  When stdout is not a terminal, -o table prints no colour and no tips.
  Bytes from outside are inert: control characters show as pictures, hidden ones as <U+202E>;
  JSON holds them escaped.

Exit codes
    0  done; an empty list is also 0
    1  failed: AWS, network or disk
    2  usage: unknown flag, bad value, missing argument
    3  not found, or more than one match
    4  no credentials, expired, or not allowed (the message names the missing IAM action)
    5  the answer is no: a request is not verified, a sources file has a fault, a test failed,
       something drifted, the doctor found a fault, an event waits for longer than --max-lag,
       the demo went otherwise than expected
    6  done in part: some events failed again, or the outcome waited for is not `done`
    7  refused: confirmation missing or wrong, plan expired or changed, a secret in use,
       context read-only
    8  someone else is at it: another run holds the lock
  124  --timeout reached
  130  stopped with Ctrl-C; what was begun is recorded and can be resumed

Errors
  error: what happened [code]
   note: what we looked at
    tip: the command to run next
   docs: what the code means, why it happens, and what to do about it
  With -o json or jsonl, one object on stderr: {\"error\":{\"code\",\"message\",\"exit\",\"note\",\"tip\",\"docs\"}}

Environment
  WEBHOOKCTL_CONTEXT  WEBHOOKCTL_CONFIG  WEBHOOKCTL_OUTPUT  WEBHOOKCTL_TIME  WEBHOOKCTL_READ_ONLY=1
  WEBHOOKCTL_TIPS=0  WEBHOOKCTL_CACHE
  AWS_PROFILE  AWS_REGION  AWS_ENDPOINT_URL  and all else that names credentials to the AWS SDK
  MITT_TABLE  MITT_QUEUE_URL  MITT_BODY_BUCKET  MITT_SECRETS_PATH  MITT_API_URL
  MITT_BACKUP_SYNC_FUNCTION
  NO_COLOR  CLICOLOR_FORCE  COLUMNS

Contexts
  ~/.config/webhookctl/config.toml, or what WEBHOOKCTL_CONFIG names; .webhookctl.toml of the project
  adds to it and can protect, but not unprotect. Flags come first, then the environment, the project,
  the user. Without any of them the running `dev` is meant.
    default = \"prod\"
    [context.prod]
    stack = \"mitt-prod\"        # `context add` asks it once for the names of its parts
    region = \"eu-west-1\"
    profile = \"prod-oncall\"
    protected = true           # also what leaves the quarantine needs its count
    read_only = true           # nothing is changed
";
