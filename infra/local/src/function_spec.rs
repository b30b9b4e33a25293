//! The settings of a function's processes, from the template and the options of the stack.

use anyhow::{Context, bail};

use super::clients::Endpoints;
use super::emulators::Emulators;
use super::lambda::{Elsewhere, FunctionSpec};
use super::names::{REGION, SECRET_KEY};
use super::template::{FunctionDefinition, Template};
use super::{Options, access_key};

pub(super) fn spec(
    id: &str,
    template: &Template,
    options: &Options,
    emulators: &Emulators,
    endpoints: &Endpoints,
) -> anyhow::Result<FunctionSpec> {
    let function = template.function(id)?;
    let elsewhere = options.elsewhere.get(id).map(|url| Elsewhere {
        url: url.clone(),
        names: [function.binary.clone(), id.to_owned()],
    });
    let executable = options.binaries.join(&function.binary);
    // The process has another working directory than the caller, so the path must be absolute.
    let executable = match (executable.canonicalize(), &elsewhere) {
        (Ok(executable), _) => executable,
        (Err(_), Some(_)) => executable,
        (Err(_), None) => bail!(
            "the function {id} is not built: {} does not exist",
            executable.display()
        ),
    };
    let mut environment = function.environment.clone();
    if let Some(file) = &options.sources_file {
        let file = file
            .canonicalize()
            .with_context(|| format!("find the sources file {}", file.display()))?;
        environment.insert(
            "MITT_SOURCES_FILE".into(),
            file.to_string_lossy().into_owned(),
        );
    }
    environment.extend(runtime_environment(function, options, endpoints));
    environment.extend(options.function_env.clone());
    Ok(FunctionSpec {
        id: id.to_owned(),
        arn: function.arn.clone(),
        executable,
        timeout: function.timeout,
        environment,
        max_processes: function
            .reserved_concurrency
            .unwrap_or(options.max_processes),
        log_file: emulators
            .folder()
            .join("logs")
            .join(format!("{}.log", function.binary)),
        freeze: options.freeze,
        elsewhere,
    })
}

/// Returns the variables that Lambda sets for a function, with the endpoints of the local services.
fn runtime_environment(
    function: &FunctionDefinition,
    options: &Options,
    endpoints: &Endpoints,
) -> [(String, String); 20] {
    let log_level = function.log_level.as_deref().unwrap_or("INFO");
    let memory = function.memory_mb.to_string();
    [
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", access_key(function, options)),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ("AWS_SESSION_TOKEN", "local"),
        // A call to a service without an emulator must fail here and not go to AWS.
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_ENDPOINT_URL_DYNAMODB", &endpoints.dynamodb),
        ("AWS_ENDPOINT_URL_SQS", &endpoints.sqs),
        ("AWS_ENDPOINT_URL_S3", &endpoints.s3),
        ("AWS_ENDPOINT_URL_SSM", &endpoints.ssm),
        ("AWS_LAMBDA_FUNCTION_NAME", &function.name),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &memory),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ("AWS_LAMBDA_LOG_LEVEL", log_level),
        ("_HANDLER", "bootstrap"),
        ("LANG", "en_US.UTF-8"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("TZ", ":UTC"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}
