//! The generated part of a page.

use anyhow::Context as _;

const BEGIN: &str = "<!-- begin: written by `make cost`, not by hand -->\n";
const END: &str = "<!-- end -->\n";

/// Replaces the generated part of a page.
pub fn replaced(page: &str, generated: &str) -> anyhow::Result<String> {
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
        let page = format!("# Cost\n\n{BEGIN}\nold\n\n{END}\nMore.\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, page.replace("old", "new"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
    }

    #[test]
    fn a_page_without_the_lines_is_left_alone() {
        assert!(replaced("# Cost\n", "new").is_err());
        assert!(replaced(BEGIN, "new").is_err());
    }

    #[test]
    fn the_page_of_this_project_has_a_place_for_it() {
        let page = include_str!("../../../docs/cost.md");
        assert!(replaced(page, "new").is_ok());
    }
}
