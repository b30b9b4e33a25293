//! Rewrites the generated part of a page.

use std::path::Path;

use anyhow::Context as _;

const END: &str = "<!-- end -->\n";

/// Replaces the part of a page that `make TARGET` writes.
pub(crate) fn rewrite(path: &Path, target: &str, generated: &str) -> anyhow::Result<()> {
    let old = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let new = replaced(&old, target, generated)?;
    std::fs::write(path, new).with_context(|| format!("write {}", path.display()))
}

fn replaced(page: &str, target: &str, generated: &str) -> anyhow::Result<String> {
    let begin = format!("<!-- begin: written by `make {target}`, not by hand -->\n");
    let missing = |line: &str| format!("the page has no line {}", line.trim_end());
    let (before, rest) = page.split_once(&begin).with_context(|| missing(&begin))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(END))?;
    Ok(format!("{before}{begin}\n{generated}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- begin: written by `make cost`, not by hand -->\n";

    #[test]
    fn what_stands_between_the_lines_is_replaced_and_nothing_else() {
        let page = format!("# Cost\n\n{BEGIN}\nold\n\n{END}\nMore.\n");
        let new = replaced(&page, "cost", "new\n").unwrap();
        assert_eq!(new, page.replace("old", "new"));
        assert_eq!(replaced(&new, "cost", "new\n").unwrap(), new);
    }

    #[test]
    fn a_page_without_the_lines_is_left_alone() {
        assert!(replaced("# Cost\n", "cost", "new").is_err());
        assert!(replaced(BEGIN, "cost", "new").is_err());
        assert!(replaced(&format!("{BEGIN}{END}"), "bench", "new").is_err());
    }

    #[test]
    fn the_pages_of_this_project_have_a_place_for_it() {
        let cost = include_str!("../../docs/cost.md");
        assert!(replaced(cost, "cost", "new").is_ok());
        let speed = include_str!("../../docs/performance.md");
        assert!(replaced(speed, "bench", "new").is_ok());
    }
}
