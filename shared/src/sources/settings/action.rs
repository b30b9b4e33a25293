//! The settings of `[[source.action]]`.

use super::Absent::{Is, Means, Required};
use super::Kind::{Boolean, Duration, Map, Other, String, Strings, Tables, Word};
use super::{Setting, setting};

pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "source[].action[].kind",
        Word(&[
            "keep",
            "http",
            "lambda",
            "sqs",
            "eventbridge",
            "step-functions",
            "pull",
            "rust",
        ]),
        Required,
        "What the action does. Most of the other settings belong to one kind.",
        "\"http\"",
    ),
    setting(
        "source[].action[].name",
        String,
        Means("the value of `kind`; required for `rust`"),
        "The name of the action and of its effect, of 1 to 40 characters: `a-z`, `0-9` and `-`. For \
         `rust`, the name of the code in `functions/processor/src/actions`.",
        "\"orders\"",
    ),
    setting(
        "source[].action[].types",
        Strings,
        Is("[]"),
        "The types of events to which the action applies. Each has at most one `*`. An empty list means \
         all types.",
        "[\"invoice.*\"]",
    ),
    setting(
        "source[].action[].where",
        Tables,
        Is("[]"),
        "Conditions for the events to which the action applies. All must be true. See \
         [which events](destinations.md#which-events).",
        "[{ path = \"$.data.object.status\", equals = \"paid\" }]",
    ),
    setting(
        "source[].action[].destination",
        String,
        Means("the host, the function, the queue, the bus or the state machine"),
        "The name of the destination. Actions with the same destination share its circuit breaker and \
         its rate limit.",
        "\"erp\"",
    ),
    setting(
        "source[].action[].rate",
        String,
        Means("no limit"),
        "The rate limit of the destination: calls per `s`, `m` or `h`, at most 500 a second. The \
         action needs a destination.",
        "\"20/s\"",
    ),
    setting(
        "source[].action[].timeout",
        Duration,
        Is("\"20s\""),
        "How long `http`, `lambda` and `rust` wait for the answer, from 1s to 14m. More than 20s needs \
         [`LongActions=true`](destinations.md#long-actions).",
        "\"5m\"",
    ),
    setting(
        "source[].action[].url",
        String,
        Means("required for `http`"),
        "The URL of the destination. Its host must be in `forward.allow_hosts`. `{account}`, `{path}` \
         and `{type}` can be in its path and its query.",
        "\"https://hooks.example.com/orders\"",
    ),
    setting(
        "source[].action[].sign",
        Word(&["standard", "provider", "as-received", "none"]),
        Is("\"standard\""),
        "The signature of an HTTP request: of Standard Webhooks, of the provider, the received one, or \
         none. See [receivers](receivers.md).",
        "\"provider\"",
    ),
    setting(
        "source[].action[].secret",
        String,
        Means("required for `sign = \"standard\"` and `\"provider\"`"),
        "The name of the secret that signs HTTP requests.",
        "\"orders\"",
    ),
    setting(
        "source[].action[].variant",
        String,
        Means("the variant of the source"),
        "With `sign = \"provider\"`, the variant of the preset.",
        "\"default\"",
    ),
    setting(
        "source[].action[].signed_url",
        String,
        Means("the URL of the request"),
        "With `sign = \"provider\"`, the URL that the receiver verifies.",
        "\"https://old.example.com/hooks\"",
    ),
    setting(
        "source[].action[].stale",
        Word(&["dead-letter", "forward"]),
        Is("\"dead-letter\""),
        "With `sign = \"as-received\"`, what happens to an event whose signature is too old for the \
         receiver.",
        "\"forward\"",
    ),
    setting(
        "source[].action[].keys",
        Word(&["honoured", "honoured-with-failures", "ignored"]),
        Is("\"honoured\""),
        "How the HTTP destination handles the `Idempotency-Key`. With `\"ignored\"`, an event with an \
         unknown outcome waits for an operator.",
        "\"ignored\"",
    ),
    setting(
        "source[].action[].success",
        Other("list of statuses"),
        Is("[\"2xx\"]"),
        "The statuses of an HTTP answer that mean success.",
        "[\"2xx\", 409]",
    ),
    setting(
        "source[].action[].permanent",
        Other("list of statuses"),
        Is("[410, 413, 422]"),
        "The statuses of an HTTP answer after which no attempt can succeed.",
        "[400, 422]",
    ),
    setting(
        "source[].action[].refused_for",
        Duration,
        Is("\"3h\""),
        "How long Mitt repeats an HTTP request that the destination refuses, at most 24h.",
        "\"1h\"",
    ),
    setting(
        "source[].action[].answers",
        Word(&["text", "status"]),
        Is("\"text\""),
        "What Mitt keeps of an HTTP answer: its text and its status, or only its status.",
        "\"status\"",
    ),
    setting(
        "source[].action[].function",
        String,
        Means("required for `lambda`"),
        "The name or the ARN of the Lambda function.",
        "\"orders:live\"",
    ),
    setting(
        "source[].action[].invocation",
        Word(&["request-response", "event"]),
        Is("\"request-response\""),
        "Whether Mitt waits for the result of the Lambda function.",
        "\"event\"",
    ),
    setting(
        "source[].action[].permanent_errors",
        Strings,
        Means("no error is permanent"),
        "The error types of the Lambda function after which no attempt can succeed.",
        "[\"ValidationError\"]",
    ),
    setting(
        "source[].action[].queue",
        String,
        Means("required for `sqs`; for `pull`, the name of the source"),
        "For `sqs`, the URL of the SQS queue. For `pull`, the name of the queue that the workers ask for \
         events. Several sources can share it.",
        "\"https://sqs.eu-central-1.amazonaws.com/111122223333/orders.fifo\"",
    ),
    setting(
        "source[].action[].group",
        String,
        Means("the name of the source"),
        "The path of the message group in the body, for a FIFO queue.",
        "\"$.customer\"",
    ),
    setting(
        "source[].action[].bus",
        String,
        Is("\"default\""),
        "The name or the ARN of the EventBridge bus.",
        "\"orders\"",
    ),
    setting(
        "source[].action[].source",
        String,
        Means("`mitt.` and the name of the source"),
        "The `source` of the EventBridge event. It must not begin with `aws.`.",
        "\"acme.shop\"",
    ),
    setting(
        "source[].action[].detail_type",
        String,
        Means("the type of the event"),
        "The `detail-type` of the EventBridge event.",
        "\"Order\"",
    ),
    setting(
        "source[].action[].state_machine",
        String,
        Means("required for `step-functions`"),
        "The ARN of the state machine.",
        "\"arn:aws:states:eu-central-1:111122223333:stateMachine:orders\"",
    ),
    setting(
        "source[].action[].lease",
        Duration,
        Is("\"2m\""),
        "For `pull`, how long a worker holds an event before it must extend its lease, from 30s to 15m.",
        "\"5m\"",
    ),
    setting(
        "source[].action[].max_hold",
        Duration,
        Is("\"1h\""),
        "For `pull`, how long a worker can hold an event by extending its lease, at most 12h.",
        "\"4h\"",
    ),
    setting(
        "source[].action[].workers",
        Strings,
        Is("[]"),
        "For `pull`, the ARNs of the IAM roles that can take the events.",
        "[\"arn:aws:iam::111122223333:role/triage-agent\"]",
    ),
    setting(
        "source[].action[].params",
        Map,
        Means("no parameters"),
        "Parameters for the code of an action of kind `rust`.",
        "{ keys = \"honoured\" }",
    ),
    setting(
        "source[].action[].where[].path",
        String,
        Means("another place"),
        "Tests the values at this path of the body. A condition has exactly one of `path`, `header`, \
         `query` and `account`.",
        "\"$.data.object.status\"",
    ),
    setting(
        "source[].action[].where[].header",
        String,
        Means("another place"),
        "Tests a header that the source stores.",
        "\"x-shopify-topic\"",
    ),
    setting(
        "source[].action[].where[].query",
        String,
        Means("another place"),
        "Tests a parameter of the query.",
        "\"region\"",
    ),
    setting(
        "source[].action[].where[].account",
        Other("string or list of strings"),
        Means("another place"),
        "Tests whether the account is one of these. The condition has no other setting.",
        "[\"one.myshopify.com\"]",
    ),
    setting(
        "source[].action[].where[].equals",
        Other("string, number or boolean"),
        Means("another test"),
        "A value is equal to this value. A condition has exactly one of `equals`, `in`, `not` and \
         `exists`.",
        "\"paid\"",
    ),
    setting(
        "source[].action[].where[].in",
        Other("list of values"),
        Means("another test"),
        "A value is in the list.",
        "[\"paid\", \"open\"]",
    ),
    setting(
        "source[].action[].where[].not",
        Other("value or list of values"),
        Means("another test"),
        "No value is equal to this value, or in this list.",
        "\"draft\"",
    ),
    setting(
        "source[].action[].where[].exists",
        Boolean,
        Means("another test"),
        "Whether there is a value other than null.",
        "true",
    ),
];
