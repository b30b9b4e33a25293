//! Changes the user's context file. All other settings and the comments stay unchanged.

use anyhow::Context as _;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use super::file::Context;

/// Returns the text of the file with this context. Replaces the settings of a context that has the
/// same name.
pub(crate) fn with_context(text: &str, name: &str, context: &Context) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse().context("read the context file")?;
    let mut parent = Table::new();
    parent.set_implicit(true);
    let parent = document.entry("context").or_insert(Item::Table(parent));
    let all = parent
        .as_table_like_mut()
        .context("`context` in the context file is not a TOML table")?;
    let own = all.entry(name).or_insert(toml_edit::table());
    let own = own
        .as_table_like_mut()
        .context("the context in the context file is not a TOML table")?;

    let sources = context
        .sources
        .as_ref()
        .map(|file| file.display().to_string());
    for (key, said) in [
        ("stack", &context.stack),
        ("region", &context.region),
        ("profile", &context.profile),
        ("account", &context.account),
        ("sources", &sources),
    ] {
        set(own, key, said.as_ref());
    }
    for (key, _, said) in context.names.clone().fields() {
        set(own, key, said.as_ref());
    }
    set(own, "protected", context.protected.then_some(true));
    set(own, "read_only", context.read_only.then_some(true));
    Ok(document.to_string())
}

/// Returns the text of the file with another default context.
pub(crate) fn with_default(text: &str, name: &str) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse().context("read the context file")?;
    set(document.as_table_mut(), "default", Some(name));
    Ok(document.to_string())
}

/// Sets or removes a key. If the key stays, its comments stay too.
fn set(table: &mut dyn TableLike, key: &str, value: Option<impl Into<Value>>) {
    let Some(value) = value else {
        table.remove(key);
        return;
    };
    let mut value = value.into();
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Names;

    const FILE: &str = "# mine\ndefault = \"prod\"\n\n[context.prod]\nstack = \"a\"\n# why\n\
                        protected = true\n\n[context.staging]\nstack = \"b\"\n";

    fn context() -> Context {
        Context {
            stack: Some("c \"quoted\"".to_owned()),
            protected: true,
            names: Names {
                table: Some("c-Inbox-1".to_owned()),
                ..Names::default()
            },
            ..Context::default()
        }
    }

    #[test]
    fn a_context_is_added_and_the_rest_stays() {
        let text = with_context(FILE, "new", &context()).unwrap();
        assert!(text.starts_with(FILE), "{text}");
        let end =
            "\n[context.new]\nstack = 'c \"quoted\"'\ntable = \"c-Inbox-1\"\nprotected = true\n";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(
            with_context("", "new", &context()).unwrap(),
            end.trim_start()
        );
    }

    #[test]
    fn a_context_takes_the_place_of_its_elder() {
        let text = with_context(FILE, "prod", &context()).unwrap();
        assert_eq!(text.matches("[context.prod]").count(), 1);
        assert!(text.contains("# mine\n") && text.contains("stack = \"b\"\n"));
        assert!(text.contains("# why\nprotected = true\n"), "{text}");
        assert!(!text.contains("stack = \"a\""), "{text}");
    }

    #[test]
    fn the_default_stands_above_the_tables() {
        let text = with_default(FILE, "staging").unwrap();
        assert_eq!(
            text,
            FILE.replace("default = \"prod\"", "default = \"staging\"")
        );
        let text = with_default("[context.a]\ndefault_x = 1\n", "a").unwrap();
        assert!(text.starts_with("default = \"a\"\n[context.a]\n"), "{text}");
    }
}
