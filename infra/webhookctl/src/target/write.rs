//! Changes to the user's context file. All other lines, including comments, stay unchanged.

use std::fmt::Write as _;

use super::Names;

/// A context as stored in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) stack: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) sources: Option<String>,
    pub(crate) protected: bool,
    pub(crate) read_only: bool,
    pub(crate) names: Names,
}

/// The file with this context, which replaces a context of the same name.
pub(crate) fn added(text: &str, name: &str, entry: &Entry) -> String {
    let mut kept = without(text, name).trim_end().to_owned();
    if !kept.is_empty() {
        kept.push_str("\n\n");
    }
    kept + &section(name, entry)
}

/// The file with another default.
pub(crate) fn chosen_by_default(text: &str, name: &str) -> String {
    let line = format!("default = {}\n", quoted(name));
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let before_tables = lines
        .iter()
        .position(|line| line.trim_start().starts_with('['))
        .unwrap_or(lines.len());
    let is_default = |text: &&str| {
        let key = text.split('=').next().unwrap_or_default();
        text.contains('=') && key.trim() == "default"
    };
    let at = lines.iter().take(before_tables).position(is_default);
    match at {
        Some(at) => {
            lines.splice(at..=at, [line.as_str()]);
        }
        None => lines.insert(0, &line),
    }
    lines.concat()
}

fn section(name: &str, entry: &Entry) -> String {
    let mut text = format!("[context.{name}]\n");
    let mut line = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
    };
    line("stack", &entry.stack);
    line("region", &entry.region);
    line("profile", &entry.profile);
    line("account", &entry.account);
    line("sources", &entry.sources);
    for (key, _, value) in entry.names.clone().fields() {
        line(key, value);
    }
    for (key, said) in [
        ("protected", entry.protected),
        ("read_only", entry.read_only),
    ] {
        if said {
            let _ = writeln!(text, "{key} = true");
        }
    }
    text
}

/// The text without the section of a context.
fn without(text: &str, name: &str) -> String {
    let mut within = false;
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let Some(head) = trimmed.strip_prefix('[') {
            let head = head.split(']').next().unwrap_or_default();
            let head: String = head.chars().filter(|c| !" \"'".contains(*c)).collect();
            within = head == format!("context.{name}");
        }
        if !within {
            kept.push_str(line);
        }
    }
    kept
}

/// A TOML string. JSON strings use escapes that TOML basic strings accept.
/// <https://toml.io/en/v1.0.0#string>
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\ndefault = \"prod\"\n\n[context.prod]\nstack = \"a\"\n# why\n\
                        protected = true\n\n[context.staging]\nstack = \"b\"\n";

    fn entry() -> Entry {
        Entry {
            stack: Some("c \"quoted\"".to_owned()),
            protected: true,
            names: Names {
                table: Some("c-Inbox-1".to_owned()),
                ..Names::default()
            },
            ..Entry::default()
        }
    }

    #[test]
    fn a_context_is_added_and_the_rest_stays() {
        let text = added(FILE, "new", &entry());
        assert!(text.starts_with(FILE), "{text}");
        let end = "\n[context.new]\nstack = \"c \\\"quoted\\\"\"\ntable = \"c-Inbox-1\"\nprotected = true\n";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(added("", "new", &entry()), end.trim_start());
    }

    #[test]
    fn a_context_takes_the_place_of_its_elder() {
        let text = added(FILE, "prod", &entry());
        assert_eq!(text.matches("[context.prod]").count(), 1);
        assert!(text.contains("# mine\n") && text.contains("stack = \"b\"\n"));
        assert!(!text.contains("stack = \"a\""), "{text}");
    }

    #[test]
    fn the_default_stands_above_the_tables() {
        let text = chosen_by_default(FILE, "staging");
        assert_eq!(
            text,
            FILE.replace("default = \"prod\"", "default = \"staging\"")
        );
        let text = chosen_by_default("[context.a]\ndefault_x = 1\n", "a");
        assert!(text.starts_with("default = \"a\"\n[context.a]\n"), "{text}");
    }
}
