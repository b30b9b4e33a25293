//! The settings of `[[source]]`.

use super::Absent::{Is, Means, Required};
use super::Kind::{Boolean, Duration, Integer, Map, String, Strings, Table, Tables, Word};
use super::{Setting, setting, table};

pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "source[].name",
        String,
        Required,
        "The name, of 1 to 40 characters: `a-z`, `0-9` and `-`. It is the last part of the URL.",
        "\"shop\"",
    ),
    setting(
        "source[].preset",
        String,
        Required,
        "The provider: the id or an alias of a [preset](presets.md).",
        "\"shopify\"",
    ),
    setting(
        "source[].variant",
        String,
        Is("\"default\""),
        "The variant of the preset, if the provider has several signatures.",
        "\"classic\"",
    ),
    setting(
        "source[].params",
        Map,
        Means("the defaults of the preset"),
        "The parameters of the preset.",
        "{ api = \"https://github.example.com/api/v3\" }",
    ),
    setting(
        "source[].secret",
        String,
        Means("the name of the source"),
        "The name of the secret with which the sender signs.",
        "\"shop-eu\"",
    ),
    setting(
        "source[].secret_store",
        Word(&["parameter-store", "secrets-manager"]),
        Is("\"parameter-store\""),
        "The AWS service that stores the secret. See [Secrets Manager](sources.md#secrets-manager).",
        "\"secrets-manager\"",
    ),
    setting(
        "source[].public_url",
        String,
        Means("the URL at which the API received the request"),
        "The whole URL that the provider signs, without its query. See \
         [the public URL](sources.md#the-public-url).",
        "\"https://hooks.example.com/in/shop\"",
    ),
    setting(
        "source[].max_body",
        Integer,
        Is("1048576"),
        "The largest accepted body, in bytes, from 1 to 4194304. The catcher answers 413 to a larger \
         body.",
        "262144",
    ),
    setting(
        "source[].account",
        Strings,
        Means("the locations of the preset"),
        "The locations of the account of an event: `header:`, `query:`, `path:`, `json:`, `form:`, \
         `item:` or `jwt:`. The first one with a value counts.",
        "[\"header:x-tenant\"]",
    ),
    setting(
        "source[].accept_path",
        Boolean,
        Is("false"),
        "Whether the catcher also accepts requests to `/in/<name>/anything`. Otherwise, it answers 404.",
        "true",
    ),
    setting(
        "source[].quiet_after",
        Duration,
        Means("learned from the events of the source"),
        "The time without a webhook after which backup-sync warns. `\"off\"` disables the warning.",
        "\"12h\"",
    ),
    setting(
        "source[].mode",
        Word(&["tee"]),
        Means("no trial"),
        "`\"tee\"` begins a [trial](trial.md): the route of the HTTP action answers, and Mitt only \
         records. The stack needs `Trial=true`.",
        "\"tee\"",
    ),
    setting(
        "source[].tee_timeout",
        Duration,
        Means("1s less than the limit of the provider, or 9s"),
        "How long the catcher waits for the answer of the route in a trial, from 1s to 25s.",
        "\"4s\"",
    ),
    table(
        "source[].trust",
        Table,
        Means("what the preset needs"),
        "The public keys, certificates and settings that verify requests in addition to secrets.",
    ),
    table(
        "source[].context",
        Table,
        Means("the defaults of its settings"),
        "What Mitt [stores of a request](sources.md#what-is-stored-of-a-request) beside its body.",
    ),
    table(
        "source[].quarantine",
        Table,
        Means("the defaults of its settings"),
        "The limits for the rejected requests that Mitt stores. See [quarantine](quarantine.md).",
    ),
    table(
        "source[].retry",
        Table,
        Means("the defaults of its settings"),
        "The attempts of an event, and the waits between them.",
    ),
    table(
        "source[].retention",
        Table,
        Means("the defaults of its settings"),
        "How long Mitt keeps events. See [retention](retention.md).",
    ),
    table(
        "source[].order",
        Table,
        Means("the events are not ordered"),
        "How Mitt [orders](ordering.md) the events of an object.",
    ),
    table(
        "source[].sync",
        Table,
        Means("no sync"),
        "The search for events that never arrived. See [sync](sync/README.md).",
    ),
    table(
        "source[].endpoint",
        Table,
        Means("no check"),
        "The subscription that should exist at the provider. See [endpoint check](sync/endpoint.md).",
    ),
    table(
        "source[].reconcile",
        Tables,
        Means("no comparison"),
        "Comparisons of the provider's objects with yours. See [reconciliation](sync/reconcile.md).",
    ),
    table(
        "source[].action",
        Tables,
        Required,
        "The [actions](destinations.md) for the events. To only store events, use `kind = \"keep\"`.",
    ),
    table(
        "source[].policy",
        Tables,
        Means("each effect is allowed"),
        "The [rules](holds.md) that hold, deny or only record the effects of actions and of workers.",
    ),
    setting(
        "source[].trust.arming",
        Boolean,
        Means("a handshake can set the secret while the source has none"),
        "Whether a handshake of the provider can set the secret. The stack also needs \
         `AllowArming=true`.",
        "false",
    ),
    setting(
        "source[].trust.jwks",
        String,
        Means("the key set that the provider publishes"),
        "The keys of signed tokens, as a JSON Web Key Set.",
        "'{\"keys\": [{\"kty\": \"EC\", \"crv\": \"P-256\", \"kid\": \"1\", \"x\": \"AA\", \"y\": \"AA\"}]}'",
    ),
    setting(
        "source[].trust.keys",
        Map,
        Means("the keys that Mitt fetches"),
        "Public keys in PEM, by their key id.",
        "{ first = \"-----BEGIN PUBLIC KEY-----MFkwEw==-----END PUBLIC KEY-----\" }",
    ),
    setting(
        "source[].trust.api_secret",
        String,
        Means("no credentials"),
        "The name of the secret with the credentials for fetching public keys, or for fetching the \
         objects that unsigned notices name.",
        "\"ebay-api\"",
    ),
    setting(
        "source[].trust.fetch_from",
        String,
        Means("the provider"),
        "The scheme and the host of a mirror of the provider's certificates and key sets. The host \
         must be in `forward.allow_hosts`.",
        "\"https://mirror.example.com\"",
    ),
    table(
        "source[].trust.certificates",
        Table,
        Means("the certificates that Mitt fetches"),
        "Certificates that verify signatures, for networks without internet access.",
    ),
    table(
        "source[].trust.certificates.roots",
        String,
        Means("the roots of the operating system"),
        "The trusted root certificates, in PEM.",
    ),
    table(
        "source[].trust.certificates.by_url",
        Map,
        Means("the certificates that Mitt fetches"),
        "The certificate and its intermediate certificates in PEM, for each URL.",
    ),
];
