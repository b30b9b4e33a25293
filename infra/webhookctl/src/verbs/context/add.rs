//! `context add`: stores the resource names of a deployment as a context.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use serde_json::Value;
use shared::aws::Aws;

use super::read;
use crate::cli::{ContextAddArgs, Global};
use crate::files;
use crate::output::{CliError, Exit, Printer};
use crate::target::{Context, Contexts, Names, with_context, with_default};

pub(super) async fn add(
    args: ContextAddArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let contexts = Contexts::read()?;
    let elder = known(&args, &contexts)?;
    let stack = args.stack.clone().or(elder.stack.clone());
    let aws = || contexts.aws(&args.name, &global.target);
    let (names, account) = match (&args.outputs, &stack, &global.target.table) {
        (Some(file), _, _) => (outputs(file)?, None),
        (None, Some(stack), _) => {
            let aws = aws()?;
            (
                of_stack(stack, &args.name, &aws).await?,
                account(&aws).await,
            )
        }
        (None, None, Some(table)) => (of_table(table), account(&aws()?).await),
        (None, None, None) => {
            return Err(CliError::usage("context.nothing", "no deployment is named")
                .tip("pass --stack STACK, --outputs FILE, or --table NAME")
                .into());
        }
    };
    let region = match args.outputs {
        Some(_) => global.target.region.clone().or(elder.region),
        None => Some(aws()?.region().to_owned()),
    };
    let context = Context {
        stack,
        region,
        profile: global.target.profile.clone().or(elder.profile),
        account: account.or(elder.account),
        sources: source_file(&args)?.or(elder.sources),
        protected: args.protected || elder.protected,
        read_only: args.read_only || elder.read_only,
        names,
    };
    let file = contexts.user_file()?;
    let mut text = with_context(&read(file)?, &args.name, &context)?;
    let first = contexts.default.is_none() && contexts.all.is_empty();
    if first {
        text = with_default(&text, &args.name)?;
    }
    files::replace(file, &text, None)?;
    let table = context.names.table.as_deref().unwrap_or_default();
    out.say(&format!(
        "{}: table {table}, written to {}",
        args.name,
        file.display()
    ));
    if first {
        out.say("This context is the default; `context use` selects another one.");
    }
    out.tip(&format!("webhookctl -c {} doctor", args.name));
    Ok(Exit::Done)
}

/// Returns the stored context of this name, or an empty context. Without `--refresh`, an existing
/// context is an error, so that `add` does not overwrite it by mistake.
fn known(args: &ContextAddArgs, contexts: &Contexts) -> Result<Context, CliError> {
    Contexts::check_new_name(&args.name)?;
    if args.refresh {
        contexts.get(&args.name)?;
    }
    let Some(elder) = contexts.all.get(&args.name) else {
        return Ok(Context::default());
    };
    if !args.refresh {
        let message = format!("context '{}' already exists", args.name);
        return Err(CliError::usage("context.exists", message)
            .tip(format!("webhookctl context add {} --refresh", args.name)));
    }
    Ok(elder.clone())
}

/// Reads the names that the stack publishes in one SSM parameter.
async fn of_stack(stack: &str, context: &str, aws: &Aws) -> anyhow::Result<Names> {
    let name = Names::parameter(stack);
    let answer = aws.ssm().get_parameter().name(&name).send().await;
    let is_unknown = |error: &GetParameterError| error.is_parameter_not_found();
    if let Err(error) = &answer
        && error.as_service_error().is_some_and(is_unknown)
    {
        let message = format!(
            "stack '{stack}' publishes no resource names in {}",
            aws.region()
        );
        return Err(CliError::failed("context.no_stack", message)
            .note(format!(
                "the SSM parameter {name} does not exist; older templates do not create it"
            ))
            .tip(format!(
                "aws cloudformation describe-stacks --stack-name {stack} | webhookctl context add \
                 {context} --outputs -"
            ))
            .into());
    }
    let answer = answer.with_context(|| format!("read the names of the stack {stack}"))?;
    let value = answer.parameter.and_then(|parameter| parameter.value);
    let names: Names = serde_json::from_str(&value.unwrap_or_default())
        .with_context(|| format!("the parameter {name} does not contain valid resource names"))?;
    with_table(names.without_empty())
}

fn outputs(file: &Path) -> anyhow::Result<Names> {
    parsed(&files::read(file, "the outputs")?)
}

/// Collects all pairs of `OutputKey` and `OutputValue`, at any depth of the document.
fn parsed(text: &[u8]) -> anyhow::Result<Names> {
    let document: Value = serde_json::from_slice(text).context("the outputs are not JSON")?;
    let mut outputs = BTreeMap::new();
    let mut left = vec![&document];
    while let Some(value) = left.pop() {
        let said = value["OutputKey"]
            .as_str()
            .zip(value["OutputValue"].as_str());
        outputs.extend(said.map(|(key, value)| (key.to_owned(), value.to_owned())));
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.values()),
            _ => {}
        }
    }
    with_table(Names::from_outputs(&outputs))
}

fn with_table(names: Names) -> anyhow::Result<Names> {
    if names.table.is_none() {
        let message =
            "the outputs contain no table name; check that the stack uses Mitt's template";
        return Err(CliError::failed("context.no_table", message).into());
    }
    Ok(names)
}

fn of_table(table: &str) -> Names {
    Names {
        table: Some(table.to_owned()),
        ..Names::default()
    }
}

/// Returns the AWS account. Later commands compare it with the account of their credentials. A
/// context does not need it, so an error is ignored.
async fn account(aws: &Aws) -> Option<String> {
    let sts = aws_sdk_sts::Client::new(&aws.sdk_config("STS"));
    sts.get_caller_identity().send().await.ok()?.account
}

fn source_file(args: &ContextAddArgs) -> anyhow::Result<Option<PathBuf>> {
    let Some(file) = &args.sources else {
        return Ok(None);
    };
    let whole = file.canonicalize();
    let whole = whole.with_context(|| format!("find the sources {}", file.display()))?;
    Ok(Some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_found_in_what_either_tool_prints() {
        let list = r#"[{"OutputKey":"TableName","OutputValue":"t"},
                       {"OutputKey":"QueueUrl","OutputValue":"https://q"}]"#;
        for text in [
            list.to_owned(),
            format!("{{\"Stacks\":[{{\"StackName\":\"a\",\"Outputs\":{list}}}]}}"),
        ] {
            let names = parsed(text.as_bytes()).unwrap();
            assert_eq!(names.table.as_deref(), Some("t"));
            assert_eq!(names.queue_url.as_deref(), Some("https://q"));
        }
        assert!(parsed(b"[]").is_err());
        assert!(parsed(b"TableName t").is_err());
    }
}
