//! The text of `--version`.

use std::sync::LazyLock;

/// The oldest release whose stacks this program works with. `infra/docs/compatibility.md` names it
/// too.
const OLDEST_STACK: &str = "0.1.0";

/// Returns the version, the commit if the build knows it, and the oldest stack.
pub(super) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| text(option_env!("MITT_COMMIT")));
    &TEXT
}

fn text(commit: Option<&str>) -> String {
    let commit = commit.filter(|commit| !commit.is_empty());
    let commit = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    format!(
        "{}{commit}\nworks with stacks of version {OLDEST_STACK} and later",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_shown_if_the_build_knows_it() {
        let version = env!("CARGO_PKG_VERSION");
        let known = text(Some("3f2a9c1d0e4b"));
        assert!(known.starts_with(&format!("{version} (3f2a9c1d0e4b)\n")));
        for unknown in [None, Some("")] {
            assert!(text(unknown).starts_with(&format!("{version}\n")));
        }
    }

    #[test]
    fn the_oldest_stack_is_no_newer_than_this_release() {
        let parts = |version: &str| -> Vec<u32> {
            let parts = version.split('.');
            parts.map(|part| part.parse().unwrap()).collect()
        };
        assert_eq!(parts(OLDEST_STACK).len(), 3);
        assert!(parts(OLDEST_STACK) <= parts(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_compatibility_page_names_the_oldest_stack() {
        const PAGE: &str = include_str!("../../../docs/compatibility.md");
        let sentence = format!("works with stacks of version {OLDEST_STACK} and later");
        assert!(PAGE.contains(&sentence), "{sentence}");
        assert!(text(None).contains(&sentence));
    }
}
