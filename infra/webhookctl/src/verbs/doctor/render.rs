//! Prints the findings: grouped for people, or one object for each check for scripts.

use std::fmt::Write as _;

use crate::doctor::{Checked, Facts, Verdict, heading};
use crate::output::safe::capped;
use crate::output::{Column, Format, List, Printer, safe, style};
use crate::target::Deployment;

/// The maximum width of a title in columns. Longer titles are cut, so that the findings are
/// aligned.
const TITLE: usize = 64;

pub(super) fn tell(
    inbox: &Deployment,
    facts: &Facts,
    checked: &[Checked],
    out: &mut Printer,
) -> anyhow::Result<()> {
    match out.format {
        Format::Jsonl => checked.iter().try_for_each(|it| out.json_line(it)),
        Format::Table | Format::Wide => {
            let text = text(inbox, facts, checked, out.terminal.stdout.colour);
            out.painted(&text)
        }
        _ => list(inbox, facts, checked, out),
    }
}

/// Prints the findings as JSON, CSV or ids.
fn list(
    inbox: &Deployment,
    facts: &Facts,
    checked: &[Checked],
    out: &mut Printer,
) -> anyhow::Result<()> {
    out.list(&List {
        id: "check",
        ..List::new(
            "doctor",
            &inbox.name,
            facts.now,
            vec![
                Column::whole("CHECK", "check"),
                Column::whole("RESULT", "result"),
                Column::text("FOUND", "found", 20),
                Column::text("FIX", "fix", 20),
            ],
            checked.iter().collect(),
        )
    })
}

fn text(inbox: &Deployment, facts: &Facts, checked: &[Checked], colour: bool) -> String {
    let mut text = head(inbox, facts);
    let mut group = "";
    for it in checked {
        let its = it.check.split('.').next().unwrap_or_default();
        if its != group {
            group = its;
            let _ = write!(text, "\n  {}\n", heading(group));
        }
        let found = safe(&it.found);
        let sign = sign(it.result, colour);
        let _ = writeln!(text, "  {sign} {:TITLE$}  {found}", capped(it.title, TITLE));
        let deep = TITLE + 6;
        for detail in &it.details {
            let _ = writeln!(text, "{:deep$}{}", "", safe(detail));
        }
        if let (Verdict::Fail | Verdict::Warn, Some(want)) = (it.result, &it.want) {
            let _ = writeln!(text, "{:deep$}→ {}", "", safe(want));
        }
    }
    text + &end(checked, colour)
}

fn head(inbox: &Deployment, facts: &Facts) -> String {
    let mut parts = vec![inbox.name.clone()];
    parts.extend(facts.region.clone());
    if let Ok(caller) = &facts.caller {
        let who = caller.arn.rsplit(':').next().unwrap_or_default();
        parts.extend([caller.account.clone(), format!("as {who}")]);
    }
    safe(&parts.join(" · ")).into_owned() + "\n"
}

/// Returns the totals, and the fixes for failed checks and warnings.
fn end(checked: &[Checked], colour: bool) -> String {
    let count = |verdict| checked.iter().filter(|it| it.result == verdict).count();
    let mut parts = vec![format!("{} passed", count(Verdict::Pass))];
    for (verdict, word) in [
        (Verdict::Warn, "warnings"),
        (Verdict::Fail, "failed"),
        (Verdict::NotChecked, "not checked"),
    ] {
        match (count(verdict), verdict) {
            (0, _) => {}
            (1, Verdict::Warn) => parts.push("1 warning".to_owned()),
            (count, _) => parts.push(format!("{count} {word}")),
        }
    }
    let mut text = format!("\n{}\n", parts.join(" · "));
    let mut bad: Vec<&Checked> = checked.iter().filter(|it| it.fix.is_some()).collect();
    bad.sort_by_key(|it| std::cmp::Reverse(it.result));
    let width = bad
        .iter()
        .map(|it| it.check.len())
        .max()
        .unwrap_or_default();
    for it in bad {
        let fix = it.fix.as_deref().unwrap_or_default();
        let sign = sign(it.result, colour);
        let _ = writeln!(text, "  {sign} {:width$}  {}", it.check, safe(fix));
    }
    text + "\nwebhookctl status shows which events and sources need attention now.\n"
}

/// Returns a symbol for each verdict, so that the verdicts differ in more than the colour.
fn sign(verdict: Verdict, colour: bool) -> String {
    let (sign, of) = match verdict {
        Verdict::Pass => ("✓", "done"),
        Verdict::Warn => ("!", "failed"),
        Verdict::Fail => ("✗", "dead_letter"),
        Verdict::NotChecked => ("–", ""),
    };
    style::paint(colour, style::of_status(of), sign)
}
