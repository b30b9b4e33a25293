//! The colours, and the function that applies them.

use anstyle::AnsiColor;
pub(crate) use anstyle::Style;

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const TIP: Style = AnsiColor::Green.on_default();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const HEAD: Style = Style::new().bold();

/// Returns the style of a status. The output also has the word of the status, so it contains the
/// same information without colours.
pub(crate) fn of_status(status: &str) -> Style {
    match status.trim() {
        "done" => AnsiColor::Green.on_default(),
        "processing" => AnsiColor::Cyan.on_default(),
        "failed" => AnsiColor::Yellow.on_default(),
        "dead_letter" | "quarantined" => AnsiColor::Red.on_default(),
        _ => Style::new(),
    }
}

/// Returns the text in a style, or unchanged if colours are off. Text from outside must already be
/// safe.
pub(crate) fn paint(colour: bool, style: Style, text: &str) -> String {
    if colour {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}
