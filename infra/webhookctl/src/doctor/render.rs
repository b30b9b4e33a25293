//! The page of all checks, `infra/docs/doctor.md`.

use std::fmt::Write as _;

use super::ALL;

const BEGIN: &str = "\
# What `webhookctl doctor` checks

`webhookctl doctor` checks the configuration and the health of a deployment. Each check has a stable
name, a reason and a fix. `--only` takes the names of checks or groups. Exit code 5 means that a
check failed. With `--strict`, a warning also causes exit code 5. If a check cannot run, `doctor`
reports it as not checked, and does not count it as passed. For example, the local stack has no
alarms, and an operator may lack a permission. `doctor` changes nothing and reads no secret. Only
`--end-to-end` sends an event, to a source whose only action is `keep`.

`make docs` generates this page from the checks.
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = BEGIN.to_owned();
    let mut group = "";
    for check in ALL {
        if check.group() != group {
            group = check.group();
            let _ = write!(page, "\n## {}\n", heading(group));
        }
        let _ = write!(
            page,
            "\n### {}\n\n{}. {}\n\nFix: {}.\n",
            check.name, check.title, check.why, check.fix
        );
    }
    page
}

/// The heading of a group.
pub(crate) fn heading(group: &str) -> &str {
    match group {
        "context" => "Context",
        "timing" => "Timing",
        "queue" => "Queues",
        "function" => "Functions",
        "table" => "Table",
        "secret" => "Secrets",
        "schedule" => "Schedules",
        "alarm" => "Alarms",
        "source" => "Sources",
        "event" => "Events",
        "iam" => "Permissions (yours)",
        "end_to_end" => "End to end",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::output::error::anchor;

    #[test]
    fn the_page_says_what_the_checks_say() {
        let written = include_str!("../../../docs/doctor.md");
        assert_eq!(written, page(), "run `make docs`");
    }

    #[test]
    fn each_check_has_a_name_of_its_own_and_says_why() {
        let names: BTreeSet<&str> = ALL.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), ALL.len());
        let anchors: BTreeSet<String> = names.iter().map(|name| anchor(name)).collect();
        assert_eq!(anchors.len(), ALL.len());
        for check in ALL {
            assert!(check.why.ends_with('.'), "{}", check.name);
            assert!(!check.fix.ends_with('.'), "{}", check.name);
            assert_ne!(heading(check.group()), check.group(), "{}", check.name);
        }
    }
}
