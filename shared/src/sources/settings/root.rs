//! The settings outside the sources.

use super::Absent::{Is, Required};
use super::Kind::{Boolean, Integer, Strings, Table, Tables};
use super::{Absent, Setting, setting, table};

pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "schema",
        Integer,
        Required,
        "The version of the file format. This release reads version 1.",
        "1",
    ),
    table(
        "forward",
        Table,
        Absent::Means("no host is allowed"),
        "The hosts to which Mitt may send events.",
    ),
    table(
        "source",
        Tables,
        Absent::Means("no source"),
        "The sources. The URL of a source is `https://<api>/in/<name>`.",
    ),
    setting(
        "forward.allow_hosts",
        Strings,
        Is("[]"),
        "The hosts of HTTP destinations, without a port. Mitt rejects a file that names another host.",
        "[\"hooks.example.com\"]",
    ),
    setting(
        "forward.allow_loopback",
        Boolean,
        Is("false"),
        "Allows `http://` URLs of this machine. Only for tests: a deployed function cannot reach \
         them. `webhookctl dev` always allows them.",
        "true",
    ),
];
