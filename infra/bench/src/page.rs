//! The generated part of a page.

use anyhow::Context as _;

const BEGIN: &str = "<!-- begin: written by `make bench`, not by hand -->\n";
const END: &str = "<!-- end -->\n";

/// Replaces the generated part of a page.
pub(crate) fn replaced(page: &str, generated: &str) -> anyhow::Result<String> {
    let (before, rest) = page
        .split_once(BEGIN)
        .with_context(|| format!("the page has no line {}", BEGIN.trim_end()))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("the page has no line {}", END.trim_end()))?;
    Ok(format!("{before}{BEGIN}\n{generated}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_the_lines_is_replaced_and_nothing_else() {
        let page = format!("# Speed\n\n{BEGIN}\nold\n\n{END}\nMore.\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, page.replace("old", "new"));
        assert!(replaced("# Speed\n", "new").is_err());
    }

    #[test]
    fn the_page_of_this_project_has_a_place_for_it() {
        let page = include_str!("../../docs/performance.md");
        assert!(replaced(page, "new").is_ok());
    }
}
