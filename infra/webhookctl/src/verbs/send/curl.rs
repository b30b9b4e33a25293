//! Writes the request as a shell command.

use std::fmt::Write as _;

use crate::samples::Signed;

/// Returns a `curl` command that sends the same bytes.
pub(super) fn command(url: &str, signed: &Signed) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let mut command = format!("curl -sS -X POST {}", quoted(url));
    for (name, value) in &signed.headers {
        let _ = write!(command, " \\\n  -H {}", quoted(&format!("{name}: {value}")));
    }
    let _ = writeln!(
        command,
        " \\\n  --data-binary {}",
        quoted(&String::from_utf8_lossy(&signed.body))
    );
    command
}
