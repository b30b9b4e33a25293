//! The settings of `[[source.policy]]`.

use super::Absent::{Is, Means, Required};
use super::Kind::{Duration, Number, Other, String, Strings, Table, Tables, Word};
use super::{Setting, setting, table};

pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "source[].policy[].name",
        String,
        Required,
        "The name of the rule, of 1 to 40 characters: `a-z`, `0-9` and `-`.",
        "\"large-refund\"",
    ),
    setting(
        "source[].policy[].decide",
        Word(&["hold", "deny", "dry-run"]),
        Required,
        "What the rule does: `hold` waits for an approval, `deny` does not allow the effect, and \
         `dry-run` records the effect without a call. If several rules match, `deny` comes before \
         `hold`, and `hold` before `dry-run`.",
        "\"hold\"",
    ),
    setting(
        "source[].policy[].effect",
        String,
        Means("the event as a whole, before any action"),
        "The effects, with at most one `*`. The effect of an action has the name of the action; a \
         [worker](agents.md#effects) names its effects itself.",
        "\"http*\"",
    ),
    setting(
        "source[].policy[].types",
        Strings,
        Is("[]"),
        "The types of events to which the rule applies. Each has at most one `*`. An empty list means \
         all types.",
        "[\"refund.*\"]",
    ),
    setting(
        "source[].policy[].where",
        Tables,
        Is("[]"),
        "Conditions on the body, as those of [actions](destinations.md#which-events). All must be \
         true, and a missing value counts as true.",
        "[{ path = \"$.data.object.currency\", equals = \"eur\" }]",
    ),
    table(
        "source[].policy[].amount",
        Table,
        Means("no limit"),
        "A limit for a number in the body, or in the plan of a worker. The rule applies above it.",
    ),
    table(
        "source[].policy[].not_in",
        Table,
        Means("all values"),
        "Values in the body, or in the plan of a worker, to which the rule does not apply.",
    ),
    setting(
        "source[].policy[].expires",
        Duration,
        Is("\"24h\""),
        "How long `hold` waits for an approval, from 1m to 168h. Then the event is a dead letter.",
        "\"4h\"",
    ),
    setting(
        "source[].policy[].approvers",
        Strings,
        Means("the permissions for the table decide"),
        "The ARNs of the IAM roles that can approve and reject over the API of the stack. See [who can approve](holds.md#who-can-approve).",
        "[\"arn:aws:iam::111122223333:role/oncall\"]",
    ),
    setting(
        "source[].policy[].rate",
        String,
        Means("the rule applies to each effect"),
        "The number of effects in each [time window](holds.md#rates) to which the rule does not apply. \
         Needs `effect`, and `hold` or `deny`.",
        "\"20/1h\"",
    ),
    setting(
        "source[].policy[].per",
        Word(&["role", "source", "event-type"]),
        Is("\"role\""),
        "Which effects `rate` counts together: those of a worker role, of the source, or of a type of \
         events.",
        "\"source\"",
    ),
    setting(
        "source[].policy[].amount.path",
        String,
        Required,
        "The path of the number in the body, or `plan.amount` for the plan of a worker. A number in \
         quotes is also read.",
        "\"data.object.amount\"",
    ),
    setting(
        "source[].policy[].amount.above",
        Number,
        Required,
        "The limit. The rule applies to a larger number, and if the number is missing.",
        "5000",
    ),
    setting(
        "source[].policy[].not_in.path",
        String,
        Required,
        "The path of the value in the body, or `plan.target` for the plan of a worker.",
        "\"data.object.customer\"",
    ),
    setting(
        "source[].policy[].not_in.list",
        Other("list of values"),
        Required,
        "The values. The rule applies to another value, and if the value is missing.",
        "[\"cus_1\", \"cus_2\"]",
    ),
];
