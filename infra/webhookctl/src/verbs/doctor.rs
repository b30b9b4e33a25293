//! `doctor`: checks the deployment and suggests fixes.

mod bundle;
mod canary;
mod gather;
mod probe;
mod render;
mod sources;

use shared::base::clock::UnixMillis;

use crate::cli::{DoctorArgs, Global};
use crate::doctor::{ALL, Check, Checked, END_TO_END, Verdict, judge, page};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;
pub(super) use gather::{queues, table};
pub(super) use probe::told;
pub(super) use sources::secrets as wanted_secrets;

pub(super) async fn doctor(
    args: DoctorArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    if args.markdown {
        out.painted(&page())?;
        return Ok(Exit::Done);
    }
    let wanted = wanted(&args)?;
    let inbox = Deployment::open(&global.target).await?;
    if args.end_to_end {
        inbox.may_write("send a canary")?;
    }
    let facts = Box::pin(gather::gather(&inbox, UnixMillis::now())).await?;
    let mut checked = judge(&facts, &wanted);
    if args.end_to_end {
        let finding = Box::pin(canary::canary(&args, global)).await?;
        checked.retain(|it| it.check != END_TO_END.name);
        checked.push(END_TO_END.with(finding));
    } else if args.only.is_empty() {
        checked.retain(|it| it.check != END_TO_END.name);
    }
    render::tell(&inbox, &facts, &checked, out)?;
    if let Some(file) = &args.bundle {
        bundle::write(file, &inbox, &facts, &checked, out)?;
    }
    Ok(exit(&checked, args.strict))
}

/// Returns the checks that `--only` names, in the order of [`ALL`]. Without `--only`, returns all
/// checks.
fn wanted(args: &DoctorArgs) -> Result<Vec<&'static Check>, CliError> {
    for name in &args.only {
        let known = |check: &&Check| check.name == name || check.group() == name;
        if !ALL.iter().any(known) {
            return Err(unknown(name));
        }
    }
    let is_wanted = |check: &&Check| {
        let mut names = args.only.iter();
        args.only.is_empty() || names.any(|name| check.name == name || check.group() == name)
    };
    Ok(ALL.iter().copied().filter(is_wanted).collect())
}

fn unknown(name: &str) -> CliError {
    let names = ALL.iter().flat_map(|check| [check.name, check.group()]);
    CliError::usage("doctor.unknown", format!("unknown check '{name}'"))
        .tip("infra/docs/doctor.md lists them")
        .did_you_mean(name, names)
}

fn exit(checked: &[Checked], strict: bool) -> Exit {
    let worst = checked.iter().map(|it| it.result).max();
    match worst {
        Some(Verdict::Fail) => Exit::No,
        Some(Verdict::Warn) if strict => Exit::No,
        _ => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(names: &[&str]) -> Result<Vec<&'static Check>, CliError> {
        wanted(&DoctorArgs {
            only: names.iter().map(|&name| name.to_owned()).collect(),
            ..DoctorArgs::default()
        })
    }

    #[test]
    fn checks_are_named_alone_or_by_their_group() {
        let one = only(&["timing.chain"]).unwrap();
        assert_eq!(
            one.iter().map(|it| it.name).collect::<Vec<_>>(),
            ["timing.chain"]
        );
        assert!(only(&["queue", "iam"]).unwrap().len() > 5);
        assert_eq!(only(&[]).unwrap().len(), ALL.len());
        let error = only(&["queue.dlq_retnetion"]).unwrap_err();
        assert_eq!(
            error.tip.as_deref(),
            Some("did you mean 'queue.dlq_retention'?")
        );
    }
}
