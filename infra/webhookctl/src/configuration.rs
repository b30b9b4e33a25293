//! The reference of all settings: the sources file, the stack parameters and the environment
//! variables.

mod environment;
mod page;
mod parameters;

use shared::sources::settings::{Absent, Kind, Setting};

pub(crate) use page::page;

/// The template that this program contains.
const TEMPLATE: &str = include_str!("../../../template.yaml");

/// Returns the default of a setting as text.
pub(crate) fn default(setting: &Setting) -> String {
    match setting.absent {
        Absent::Required => "required".to_owned(),
        Absent::Is(value) => format!("`{value}`"),
        Absent::Means(text) => text.to_owned(),
    }
}

/// Returns the type of a setting as text, with the allowed words.
pub(crate) fn kind(setting: &Setting) -> String {
    match setting.kind {
        Kind::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            words.join(", ")
        }
        kind => kind.name().to_owned(),
    }
}

/// Returns the meaning of a setting without links. A link becomes its text and the path of its page.
pub(crate) fn meaning(setting: &Setting) -> String {
    let mut shown = String::new();
    let mut rest = setting.meaning;
    while let Some((before, link)) = rest.split_once("](") {
        let (Some((before, label)), Some((target, after))) =
            (before.rsplit_once('['), link.split_once(')'))
        else {
            break;
        };
        shown.extend([before, label]);
        if !target.starts_with('#') {
            shown.extend([" (infra/docs/", target, ")"]);
        }
        rest = after;
    }
    (shown + rest).replace('`', "")
}

/// Returns the example of a setting as a line of the file.
pub(crate) fn example(setting: &Setting) -> Option<String> {
    let value = setting.example?;
    Some(format!("{} = {value}", setting.key()))
}
