//! Prints the result of `verify` as text, one step per line.

use std::fmt::Write as _;

use shared::webhook::event::Sha;
use shared::webhook::preset::{Kind, Scheme};
use shared::webhook::verify::{Arrival, Compared, Steps, Time, Tried};

use super::document::{header, text_of};
use super::{Answer, mask, wording};
use crate::output::count::{plural, thousands};
use crate::output::safe::{capped, safe_bytes};
use crate::output::time::{duration, rfc3339};

/// The maximum number of signatures in the output. The other signatures are only counted.
const MOST_SHOWN: usize = 5;

/// The maximum length of a printed line. The sender chooses the length of a value.
const LINE_CAP: usize = 1000;

pub(super) fn text(answer: &Answer) -> String {
    let mut text = Text::default();
    let verifier = &answer.question.verifier;
    let steps = &answer.explained.steps;
    let variant = match verifier.variant.as_str() {
        "default" => String::new(),
        variant => format!(", variant {variant}"),
    };
    text.step("Preset", &format!("{}{variant}", verifier.preset.id), &[]);
    let scheme = verifier.preset.scheme(&verifier.variant);
    if answer.explained.handshake {
        handshake(&mut text, answer);
    }
    if let Some(scheme) = scheme.filter(|_| steps.place.is_some()) {
        place(&mut text, steps, answer.reveal);
        time(&mut text, steps, scheme);
        signed(&mut text, steps, scheme, answer);
        compare(&mut text, steps, answer);
    }
    if answer.was_searched() {
        let line = match &answer.near {
            Some(near) => format!("found: {}", text_of(near)),
            None => "none of the usual causes fits".to_owned(),
        };
        text.near(answer.near_step(), &line);
    }
    text.out.push('\n');
    let _ = writeln!(text.out, "{}", wording::verdict(answer));
    text.out
}

#[derive(Default)]
struct Text {
    out: String,
    number: usize,
}

impl Text {
    fn step(&mut self, title: &str, mark: &str, lines: &[String]) {
        self.number += 1;
        let number = self.number;
        let mut lines = lines.iter().map(|line| capped(line, LINE_CAP));
        let first = lines.next().unwrap_or_default();
        let line = format!("{number} {title:<11} {mark:<5} {first}");
        let _ = writeln!(self.out, "{}", line.trim_end());
        for line in lines {
            let _ = writeln!(self.out, "{:20}{line}", "");
        }
    }

    /// Prints the step with the near misses. Its number does not depend on the steps that were
    /// printed, because the verdict refers to this number.
    fn near(&mut self, number: usize, line: &str) {
        let _ = writeln!(
            self.out,
            "{number} Near misses\n{:16}{}",
            "",
            capped(line, LINE_CAP)
        );
    }
}

fn mark(good: bool) -> &'static str {
    if good { "ok" } else { "FAIL" }
}

fn handshake(text: &mut Text, answer: &Answer) {
    let mut lines = vec!["a handshake: the provider expects only an answer".to_owned()];
    if let Ok(Arrival::Handshake(reply)) = &answer.explained.verdict {
        lines.push(format!(
            "answered with {} {}, {} bytes",
            reply.status,
            reply.content_type,
            reply.body.len()
        ));
        if reply.secret.is_some() {
            lines.push(
                "the catcher stores the secret of later webhooks from this handshake".to_owned(),
            );
        }
        if answer.reveal {
            lines.push(safe_bytes(reply.body.as_bytes()));
        }
    }
    text.step("Request", mark(answer.is_good()), &lines);
}

fn place(text: &mut Text, steps: &Steps, reveal: bool) {
    let Some(place) = &steps.place else { return };
    let name = header(place);
    let (title, name) = match name {
        Some(name) => ("Header", name),
        None => ("Field", place.to_string()),
    };
    let noun = if steps.is_credential {
        "credential"
    } else {
        "signature"
    };
    let lines = match &steps.found {
        Err(reason) => vec![format!("{name}: no {noun} can be read ({reason})")],
        Ok(found) => {
            let mut lines = vec![match found.len() {
                0 => name,
                count => format!("{name}: {} found", plural(count, noun)),
            }];
            if steps.is_credential {
                lines.push("hidden: it may be the secret itself".to_owned());
            } else {
                let shown = found.iter().take(MOST_SHOWN);
                lines.extend(shown.map(|text| mask::signature(text, reveal)));
                if found.len() > MOST_SHOWN {
                    lines.push(format!("and {} more", found.len() - MOST_SHOWN));
                }
            }
            lines
        }
    };
    text.step(title, mark(steps.found.is_ok()), &lines);
}

fn time(text: &mut Text, steps: &Steps, scheme: &Scheme) {
    match (&steps.time, &scheme.ts) {
        (Some(time), _) => {
            let good = mark(time.verdict.is_ok());
            text.step("Timestamp", good, &[time_line(time)]);
        }
        (None, Some(_)) => text.step("Timestamp", "", &["not checked".to_owned()]),
        (None, None) => {
            let line = match scheme.kind {
                Kind::Jwt => "in the claims of the token",
                _ => "none in this preset",
            };
            text.step("Timestamp", "", &[line.to_owned()]);
        }
    }
}

fn time_line(time: &Time) -> String {
    let text = match &time.text {
        Ok(text) => text,
        Err(reason) => return format!("cannot be read ({reason})"),
    };
    let (Some(seconds), Some(age)) = (time.seconds, time.age) else {
        return text.clone();
    };
    let (past, future) = time.window;
    let (apart, tolerance) = if age < 0 {
        (format!("{} ahead of receipt", duration(-age)), future)
    } else {
        (format!("{} older than receipt", duration(age)), past)
    };
    let tolerance = if time.enforced {
        format!("tolerance {}", duration(tolerance))
    } else {
        "not enforced: the provider documents no maximum age".to_owned()
    };
    let at = rfc3339(seconds.saturating_mul(1000));
    format!("{text} = {at}, {apart} ({tolerance})")
}

fn signed(text: &mut Text, steps: &Steps, scheme: &Scheme, answer: &Answer) {
    let body = &answer.question.envelope.body;
    let mut lines = Vec::new();
    if let Some((number, of)) = steps.item {
        lines.push(format!(
            "item {number} of {of}, each item is signed separately"
        ));
    }
    let mut good = "";
    match &steps.message {
        Some(Ok(message)) => {
            let bytes = thousands(message.bytes());
            lines.push(format!("{}   ({bytes} bytes)", message.template));
            let shown = mask::message(message, answer.reveal);
            if shown != message.template {
                lines.push(shown);
            }
        }
        Some(Err(reason)) => {
            good = "FAIL";
            lines.push(format!("{}: cannot be built ({reason})", scheme.message));
        }
        None => lines.push(match scheme.kind {
            Kind::Token | Kind::Basic => "nothing: the sender sends the secret itself".to_owned(),
            Kind::Jwt => "header and claims of the token".to_owned(),
            _ => scheme.message.to_string(),
        }),
    }
    let sha = mask::hash(&Sha::of(body).hex());
    lines.push(format!(
        "body: {} bytes, sha256 {sha}",
        thousands(body.len())
    ));
    if answer.reveal {
        lines.push(safe_bytes(body));
    }
    text.step("Signed", good, &lines);
}

fn compare(text: &mut Text, steps: &Steps, answer: &Answer) {
    let signatures = steps.found.as_ref().map_or(0, Vec::len);
    if let Some(tried) = steps.tried.iter().find(|tried| tried.is_equal()) {
        let mut lines = vec![format!("secret {}", line(tried, answer.reveal))];
        if let (Compared::Equals(_, number), false) = (&tried.compared, steps.is_credential) {
            lines.push(format!("equal to signature {number} of {signatures}"));
        }
        text.step("Compare", "ok", &lines);
        return;
    }
    if steps.tried.is_empty() {
        let line = match answer.reason() {
            None => "by the public key of the provider",
            Some(_) => "no secret to compare with",
        };
        text.step("Compare", mark(answer.is_good()), &[line.to_owned()]);
        return;
    }
    let untried = |tried: &Tried| matches!(tried.compared, Compared::Untried);
    let first = match answer.reason() {
        None => "by the certificate of the provider",
        Some(_) if steps.tried.iter().all(untried) => "nothing could be compared",
        Some(_) if steps.is_credential => "no secret of this source equals the credential",
        Some(_) => "no secret of this source gives that signature",
    };
    let mut lines = vec![first.to_owned()];
    lines.extend(steps.tried.iter().map(|tried| line(tried, answer.reveal)));
    text.step("Compare", mark(answer.is_good()), &lines);
}

fn line(tried: &Tried, reveal: bool) -> String {
    let name = format!("{} ({})", tried.secret.label(), tried.secret.fingerprint());
    match &tried.compared {
        Compared::Unusable => format!("{name} cannot be read as a key of this scheme"),
        Compared::Equals(Some(gives), _) | Compared::Differs(Some(gives)) => {
            format!("{name} gives {}", mask::signature(gives, reveal))
        }
        Compared::Equals(None, _) => format!("{name} matches"),
        Compared::Differs(None) => format!("{name} does not match"),
        Compared::Untried => name,
    }
}
