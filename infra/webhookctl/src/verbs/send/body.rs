//! Creates the content of a test webhook: a sample or a given body, changed by the arguments.

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use shared::base::clock::UnixMillis;

use super::account;
use super::target::Target;
use crate::cli::{Assignment, SendArgs};
use crate::files;
use crate::output::CliError;
use crate::output::error::nearest;
use crate::samples::{self, Draft, Sample};

/// Returns a draft with the given body or the body of a sample.
pub(super) fn draft(
    target: &Target,
    args: &SendArgs,
    given: Option<&Bytes>,
) -> anyhow::Result<Draft> {
    let verifier = &target.verifier;
    let kind = args.event_type.as_deref();
    if let Some(kind) = kind {
        check_type(&verifier.preset.id, kind)?;
    }
    let mut draft = samples::draft(
        &verifier.preset,
        &verifier.variant,
        kind,
        args.id.as_deref(),
        UnixMillis::now(),
    )?;
    if let Some(kind) = kind.filter(|kind| *kind != draft.kind) {
        let message = format!("an event of {} cannot have the type '{kind}'", draft.preset);
        let error = CliError::usage("send.no_type", message);
        let only = format!("every event has the type '{}'", draft.kind);
        return Err(match draft.kind.as_str() {
            "" => error
                .note("the webhooks of this preset have no type")
                .into(),
            _ => error.note(only).into(),
        });
    }
    if let Some(body) = given {
        draft.body = body.clone();
    }
    let what = format!("the sample of {} {}", draft.preset, draft.kind);
    change_all(&mut draft, args, &what)?;
    if let Some(account) = &args.account {
        account::set(&mut draft, &verifier.preset, account)?;
    }
    Ok(draft)
}

/// Applies the changes of `--set`.
pub(super) fn change_all(draft: &mut Draft, args: &SendArgs, what: &str) -> anyhow::Result<()> {
    for assignment in &args.set {
        change(draft, assignment, what)?;
    }
    Ok(())
}

/// Returns the body that replaces the sample's body, if one is given.
pub(super) fn given(args: &SendArgs) -> anyhow::Result<Option<Bytes>> {
    Ok(match (&args.data, &args.file) {
        (Some(text), _) if text == "-" => Some(files::read_stdin("the body")?.into()),
        (Some(text), _) => Some(text.clone().into()),
        (None, Some(path)) => Some(files::read(path, "the body")?.into()),
        (None, None) => None,
    })
}

/// Checks the event type. A type that is almost the type of a sample is a typo. Any other type is
/// valid, and is sent with a generic body.
fn check_type(preset: &str, kind: &str) -> Result<(), CliError> {
    let kinds = Sample::kinds(preset);
    if kinds.contains(&kind) {
        return Ok(());
    }
    match nearest(kind, kinds.iter().copied()).filter(|meant| is_typo(kind, meant)) {
        None => Ok(()),
        Some(meant) => Err(CliError::usage(
            "send.no_type",
            format!("no sample of {preset} {kind}"),
        )
        .note(format!("samples: {}", kinds.join(", ")))
        .tip(format!("did you mean '{meant}'?"))),
    }
}

/// Two changed letters are a typo. Types of one object, such as `charge.failed` and
/// `charge.refunded`, differ in more.
fn is_typo(kind: &str, meant: &str) -> bool {
    strsim::damerau_levenshtein(kind, meant) <= 2
}

/// Returns a note if the preset has no sample of the event type, so that the body is generic.
pub(super) fn no_sample(target: &Target, args: &SendArgs) -> Option<String> {
    let kind = args.event_type.as_deref()?;
    let preset = &target.verifier.preset.id;
    let own_body = args.data.is_some() || args.file.is_some();
    let kinds = Sample::kinds(preset);
    if own_body || kinds.contains(&kind) {
        return None;
    }
    let near = near(kind, &kinds);
    let samples = match (kinds.as_slice(), near.as_slice()) {
        ([], _) => format!("{preset} has no samples"),
        (kinds, []) => format!("samples of {preset}: {}", kinds.join(", ")),
        (_, near) => format!("similar types: {}", near.join(", ")),
    };
    Some(format!(
        "no sample of {preset} {kind}: the body has only the fields that the preset needs; {samples}"
    ))
}

/// Returns the types that share a word with this type, such as `charge.refunded` with
/// `charge.failed`.
fn near<'k>(kind: &str, kinds: &[&'k str]) -> Vec<&'k str> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let own = words(kind);
    let shares = |known: &&&str| words(known).iter().any(|word| own.contains(word));
    kinds.iter().filter(shares).copied().collect()
}

fn change(draft: &mut Draft, assignment: &Assignment, what: &str) -> anyhow::Result<()> {
    if let Ok(mut body) = serde_json::from_slice::<Value>(&draft.body) {
        set(&mut body, assignment, what)?;
        draft.body = serde_json::to_vec(&body)?.into();
        return Ok(());
    }
    let form = String::from_utf8_lossy(&draft.body).into_owned();
    draft.body = set_field(&form, assignment, what)?.into();
    Ok(())
}

/// Changes a field of a form body.
fn set_field(form: &str, assignment: &Assignment, what: &str) -> anyhow::Result<String> {
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    let names: Vec<String> = form.split('&').map(name).collect();
    if !assignment.add && !names.contains(&assignment.path) {
        return Err(no_path(assignment, what, &names).into());
    }
    let value = utf8_percent_encode(&assignment.value, NON_ALPHANUMERIC);
    let new = format!("{}={value}", assignment.path);
    let mut pairs: Vec<&str> = form.split('&').collect();
    match names.iter().position(|name| *name == assignment.path) {
        Some(at) => pairs.splice(at..=at, [new.as_str()]).for_each(drop),
        None => pairs.push(&new),
    }
    Ok(pairs.join("&"))
}

/// Changes a field of a JSON body. A path that does not exist is a typo, unless the argument adds
/// the field.
///
/// The path names an element of a list by its index.
fn set(body: &mut Value, assignment: &Assignment, what: &str) -> anyhow::Result<()> {
    let value = serde_json::from_str(&assignment.value)
        .unwrap_or_else(|_| Value::String(assignment.value.clone()));
    let mut known = Vec::new();
    paths(body, "", &mut known);
    if !assignment.add && !known.contains(&assignment.path) {
        return Err(no_path(assignment, what, &known).into());
    }
    let mut at = body;
    for key in assignment.path.split('.') {
        let next = match at {
            Value::Object(map) => Some(
                map.entry(key)
                    .or_insert_with(|| Value::Object(serde_json::Map::new())),
            ),
            Value::Array(list) => key.parse().ok().and_then(|at: usize| list.get_mut(at)),
            _ => None,
        };
        at = next.ok_or_else(|| {
            CliError::usage(
                "send.no_path",
                format!(
                    "the path {} goes through a value that is not an object",
                    assignment.path
                ),
            )
        })?;
    }
    *at = value;
    Ok(())
}

fn no_path(assignment: &Assignment, what: &str, known: &[String]) -> CliError {
    let Assignment { path, value, .. } = assignment;
    let error = CliError::usage("send.no_path", format!("{what} has no {path}"));
    let adds = format!("--set +{path}={value} adds a new field");
    match nearest(path, known.iter().map(String::as_str)) {
        Some(meant) => error.tip(format!("did you mean {meant}? {adds}")),
        None => error.tip(adds),
    }
}

fn paths(value: &Value, prefix: &str, found: &mut Vec<String>) {
    let mut below = |key: &str, value: &Value| {
        let path = if prefix.is_empty() {
            key.to_owned()
        } else {
            format!("{prefix}.{key}")
        };
        paths(value, &path, found);
        found.push(path);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(at, value)| below(&at.to_string(), value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(add: bool, path: &str) -> Assignment {
        Assignment {
            add,
            path: path.into(),
            value: "9 9".into(),
        }
    }

    #[test]
    fn a_field_is_changed_and_a_typo_is_not_added() {
        let body = || serde_json::json!({"data": {"object": {"amount": 1}}, "items": [{"n": 1}]});
        let mut changed = body();
        set(&mut changed, &assign(false, "data.object.amount"), "x").unwrap();
        set(&mut changed, &assign(false, "items.0.n"), "x").unwrap();
        assert_eq!(changed["data"]["object"]["amount"], "9 9");
        assert_eq!(changed["items"][0]["n"], "9 9");

        let error = set(&mut body(), &assign(false, "data.object.amuont"), "x").unwrap_err();
        let error = error.downcast::<CliError>().unwrap();
        let tip = error.tip.unwrap();
        assert!(tip.contains("did you mean data.object.amount?"), "{tip}");

        let mut added = body();
        set(&mut added, &assign(true, "data.new.field"), "x").unwrap();
        assert_eq!(added["data"]["new"]["field"], "9 9");
        for bad in ["data.object.amount.deep", "items.1", "items.x"] {
            assert!(set(&mut body(), &assign(true, bad), "x").is_err(), "{bad}");
        }
    }

    #[test]
    fn types_that_share_a_word_are_near() {
        let kinds = ["payment_intent.succeeded", "charge.refunded"];
        assert_eq!(near("charge.failed", &kinds), ["charge.refunded"]);
        assert_eq!(
            near("Payment.created", &kinds),
            ["payment_intent.succeeded"]
        );
        assert!(near("invoice.paid", &kinds).is_empty());
        assert!(is_typo("charge.refundd", "charge.refunded"));
        assert!(!is_typo("charge.failed", "charge.refunded"));
    }

    #[test]
    fn a_field_of_a_form_is_changed_alike() {
        let form = "From=%2B1&To=%2B2";
        let set = |add, path: &str| set_field(form, &assign(add, path), "x");
        assert_eq!(set(false, "From").unwrap(), "From=9%209&To=%2B2");
        assert_eq!(set(true, "Body").unwrap(), "From=%2B1&To=%2B2&Body=9%209");
        assert!(set(false, "Form").is_err());
    }
}
