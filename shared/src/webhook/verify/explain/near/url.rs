//! Guesses that the provider signed another URL than the URL of the request.

use super::super::absent::signs_url;
use super::{NearMiss, Search};
use crate::webhook::envelope::Envelope;

/// The maximum number of hosts to try. A sender can name any number of hosts, and each host
/// multiplies the number of guesses.
const MOST_HOSTS: usize = 4;

/// The parts of a URL that proxies change.
#[derive(Clone)]
struct Parts<'u> {
    scheme: &'u str,
    host: &'u str,
    /// The port, including its colon.
    port: String,
    path: String,
    /// The query, including its question mark.
    query: &'u str,
}

impl<'u> Parts<'u> {
    fn read(url: &'u str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = authority.split_at(port_at(authority));
        Some(Self {
            scheme,
            host,
            port: port.to_owned(),
            path: path.to_owned(),
            query,
        })
    }

    fn text(&self) -> String {
        let Self {
            scheme,
            host,
            port,
            path,
            query,
        } = self;
        format!("{scheme}://{host}{port}{path}{query}")
    }
}

/// Returns the index of the colon before the port. If there is no port, returns the length of the
/// text.
fn port_at(authority: &str) -> usize {
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match authority.rfind(':') {
        Some(at) if digits(&authority[at + 1..]) => at,
        _ => authority.len(),
    }
}

/// The alternatives for one part of the URL, each with its description.
type Choice<'u> = Vec<(String, Change<'u>)>;
type Change<'u> = Box<dyn Fn(&mut Parts<'u>) + 'u>;

pub(super) fn url(search: &Search<'_>) -> Option<NearMiss> {
    if !signs_url(search.scheme) && !search.verifier.reads_url() {
        return None;
    }
    let envelope = search.envelope;
    let given = Parts::read(&envelope.url)?;
    let hosts = hosts(envelope);
    let choices = choices(&given, &hosts, envelope);
    // URLs with fewer changes are more likely.
    let mut guesses = combined(&choices);
    guesses.sort_by_key(Vec::len);
    let mut seen = vec![envelope.url.clone()];
    guesses.into_iter().find_map(|changes| {
        let mut parts = given.clone();
        for (_, change) in changes.iter().copied() {
            change(&mut parts);
        }
        let url = parts.text();
        if seen.contains(&url) {
            return None;
        }
        seen.push(url.clone());
        let hit = search.with_envelope(&Envelope {
            url,
            ..envelope.clone()
        })?;
        let said: Vec<&str> = changes.iter().map(|(said, _)| said.as_str()).collect();
        let text = format!(
            "the provider signed the URL {}: configure the exact public URL at the provider, and \
             make sure that no proxy rewrites it",
            said.join(" and ")
        );
        Some(hit.means("other_url", text))
    })
}

/// Returns the host names in the headers that proxies set, each with the name of its header.
fn hosts(envelope: &Envelope) -> Vec<(&'static str, String)> {
    let mut hosts = Vec::new();
    for name in ["x-forwarded-host", "x-original-host", "host"] {
        for value in envelope.headers.all(name) {
            let all = value.split(',').map(str::trim);
            hosts.extend(all.map(|host| (name, host.to_owned())));
        }
    }
    for value in envelope.headers.all("forwarded") {
        let pairs = value.split([';', ',']).map(str::trim);
        let named = pairs.filter_map(|pair| pair.strip_prefix("host="));
        hosts.extend(named.map(|host| ("forwarded", host.trim_matches('"').to_owned())));
    }
    hosts.retain(|(_, host)| !host.is_empty());
    hosts.truncate(MOST_HOSTS);
    hosts
}

fn choices<'u>(
    given: &Parts<'u>,
    hosts: &'u [(&'static str, String)],
    envelope: &Envelope,
) -> [Choice<'u>; 5] {
    let other = if given.scheme == "http" {
        "https"
    } else {
        "http"
    };
    let scheme = vec![option(format!("with {other}://"), move |parts| {
        parts.scheme = other;
    })];

    let host = hosts.iter().map(|(header, name)| {
        let (bare, port) = name.split_at(port_at(name));
        let said = format!("with the host of {header}, {name}");
        option(said, move |parts| {
            parts.host = bare;
            port.clone_into(&mut parts.port);
        })
    });

    let mut port = vec![option("without the port", |parts| parts.port.clear())];
    let forwarded = envelope.headers.all("x-forwarded-port").next();
    port.extend(["443", "80"].into_iter().chain(forwarded).map(|number| {
        let number = format!(":{number}");
        option(format!("with the port {number}"), move |parts| {
            parts.port.clone_from(&number);
        })
    }));

    let path = if given.path.ends_with('/') {
        option("without the slash at the end of its path", |parts| {
            parts.path.pop();
        })
    } else {
        option("with a slash at the end of its path", |parts| {
            parts.path.push('/');
        })
    };

    let query = option("without its query", |parts| parts.query = "");
    [scheme, host.collect(), port, vec![path], vec![query]]
}

fn option<'u>(
    said: impl Into<String>,
    change: impl Fn(&mut Parts<'u>) + 'u,
) -> (String, Change<'u>) {
    (said.into(), Box::new(change))
}

/// Returns all combinations of at most one alternative for each part.
fn combined<'c, 'u>(choices: &'c [Choice<'u>]) -> Vec<Vec<&'c (String, Change<'u>)>> {
    choices.iter().fold(vec![Vec::new()], |all, options| {
        let with = |chosen: &Vec<_>, option| {
            let mut chosen = chosen.clone();
            chosen.push(option);
            chosen
        };
        let more = all
            .iter()
            .flat_map(|chosen| options.iter().map(move |option| with(chosen, option)));
        let more: Vec<_> = more.collect();
        all.into_iter().chain(more).collect()
    })
}
