//! The local stack runs the real functions and the real template in one process, on 127.0.0.1.
//!
//! [`Stack::start`] reads `template.yaml`, starts the emulated services, creates the table, the
//! queues and the bucket, and runs the function binaries as Lambda does. It makes no calls to other
//! machines. [`Emulators`] runs only the services. [`preflight`] checks that an emulator, this one
//! or another, gives the guarantees that the ledger needs.

mod api_gateway;
pub mod clients;
mod dynamodb;
mod emulators;
mod event_source_mapping;
mod function_spec;
mod invoke;
mod json_service;
pub mod lambda;
mod lambda_config_api;
pub mod names;
pub mod preflight;
mod rights;
mod runtime;
mod s3;
pub mod schedule;
mod secret_changes;
mod secrets_manager;
mod sqs;
mod ssm;
mod state_dir;
pub mod template;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use serde_json::Value;
use tokio::task::JoinHandle;

use api_gateway::Front;
pub use clients::{Clients, Endpoints};
pub use emulators::Emulators;
use event_source_mapping::Poller;
use function_spec::spec;
use invoke::InvokeApi;
use lambda::Functions;
pub use lambda::{FunctionError, Invocation, Outcome};
use names::ACCESS_KEY;
use rights::Guard;
pub use rights::Rights;
pub use secret_changes::kept_secrets;
pub use state_dir::{Kept, Part};
use template::FunctionDefinition;
pub use template::{Naming, TableDefinition, Template, create_table};

/// The options of a stack.
#[derive(Debug, Clone)]
pub struct Options {
    pub template: PathBuf,
    /// The folder with the executables `catcher`, `processor` and `backup-sync`.
    pub binaries: PathBuf,
    /// The folder that stores table, objects and parameters. `None` deletes them with the stack.
    pub state: Option<PathBuf>,
    /// The port of the HTTP API; 0 selects a free one.
    pub port: u16,
    /// The value of `MITT_SOURCES_FILE`.
    pub sources_file: Option<PathBuf>,
    /// Values for the template's parameters. They override the defaults.
    pub parameters: BTreeMap<String, String>,
    /// Whether the template's schedules run. Tests and the demo invoke the functions directly.
    pub schedules: bool,
    /// Whether the queues are polled. If not, messages stay in the queues.
    pub mappings: bool,
    /// The maximum number of concurrent processes of a function for which the template sets no
    /// limit.
    pub max_processes: usize,
    /// Whether processes are stopped between invocations, as Lambda does.
    pub freeze: bool,
    /// Additional variables for every function. They override the stack's own.
    pub function_env: BTreeMap<String, String>,
    /// Whether to enforce the permissions of each function's role in the template.
    pub rights: Option<Rights>,
    /// The functions that another tool runs, by logical id, and the URL of its Invoke API, such as
    /// `http://127.0.0.1:9000`.
    pub elsewhere: BTreeMap<String, String>,
}

impl Options {
    /// Returns the defaults for tests: in-memory data, a free port, mappings but no schedules.
    pub fn new(template: impl Into<PathBuf>, binaries: impl Into<PathBuf>) -> Self {
        Self {
            template: template.into(),
            binaries: binaries.into(),
            state: None,
            port: 0,
            sources_file: None,
            parameters: BTreeMap::new(),
            schedules: false,
            mappings: true,
            max_processes: 10,
            freeze: false,
            function_env: BTreeMap::new(),
            rights: None,
            elsewhere: BTreeMap::new(),
        }
    }
}

/// A running stack. A drop kills all processes immediately. [`Stack::stop`] also waits until the
/// processes have exited.
pub struct Stack {
    options: Options,
    template: Template,
    functions: Functions,
    front: Front,
    invoke: InvokeApi,
    tasks: Vec<JoinHandle<()>>,
    /// The endpoints that the functions call: the services, or the servers in front of them that
    /// check permissions.
    function_endpoints: Endpoints,
    // The services. This is the last field, because the fields above use the services until they
    // are dropped.
    emulators: Emulators,
}

impl Stack {
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let emulators = Emulators::start(options.state.as_deref())?;
        let template = load(&options.template, &options, &emulators)?;
        emulators.provision(&template).await?;
        let handle = emulators.engine.handle();
        let guard = options.rights.as_ref();
        let guard = guard.map(|rights| Guard::new(rights, &template.roles));
        let guard: Option<Arc<Guard>> = guard.transpose()?;
        let function_endpoints = match &guard {
            Some(guard) => guard.stand_before(&handle, emulators.endpoints())?,
            None => emulators.endpoints().clone(),
        };
        let specs = template
            .functions
            .keys()
            .map(|id| spec(id, &template, &options, &emulators, &function_endpoints))
            .collect::<anyhow::Result<_>>()?;
        let functions = Functions::new(handle.clone(), specs);
        let front = Front::serve(&handle, options.port, &template.routes, functions.clone())?;
        let invoke = InvokeApi::serve(&handle, &template, functions.clone())?;
        let mut tasks = Vec::new();
        for mapping in template.mappings.iter().filter(|_| options.mappings) {
            let queue = template.queue(&mapping.queue)?;
            // Lambda polls a queue with the permissions of the function's role.
            let role = access_key(template.function(&mapping.function)?, &options);
            let poller = Poller {
                client: clients::sqs_as(role, &function_endpoints.sqs),
                queue_url: queue.url.clone(),
                queue_arn: queue.arn.clone(),
                mapping: mapping.clone(),
                functions: functions.clone(),
            };
            for _ in 0..mapping.max_concurrency.unwrap_or(options.max_processes) {
                tasks.push(handle.spawn(poller.clone().run()));
            }
        }
        for schedule in template.schedules.iter().filter(|_| options.schedules) {
            tasks.push(handle.spawn(schedule::run(schedule.clone(), functions.clone())));
        }
        Ok(Self {
            options,
            template,
            functions,
            front,
            invoke,
            tasks,
            function_endpoints,
            emulators,
        })
    }

    /// Returns `http://127.0.0.1:<port>`, without `/in/{source}`.
    pub fn front_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.front.port)
    }

    /// Returns the URL of Lambda's `Invoke` API.
    pub fn lambda_url(&self) -> &str {
        &self.invoke.url
    }

    pub fn endpoints(&self) -> &Endpoints {
        self.emulators.endpoints()
    }

    /// Returns the endpoints that the functions call. With [`Options::rights`], the endpoints check
    /// each call against the role of the function.
    pub fn function_endpoints(&self) -> &Endpoints {
        &self.function_endpoints
    }

    /// Creates clients for use on the current runtime.
    pub fn clients(&self) -> Clients {
        self.emulators.clients()
    }

    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Returns the name of the table.
    pub fn table(&self) -> anyhow::Result<&str> {
        Ok(&self.template.table_definition()?.name)
    }

    /// Returns the URL of a queue by its logical id: `WorkQueue`, `WorkDeadLetters`, `SpillQueue`.
    pub fn queue_url(&self, id: &str) -> anyhow::Result<&str> {
        Ok(&self.template.queue(id)?.url)
    }

    /// Returns the name of a bucket by its logical id: `Bodies`.
    pub fn bucket(&self, id: &str) -> anyhow::Result<&str> {
        let name = self.template.buckets.get(id);
        Ok(name.with_context(|| format!("the template has no bucket {id}"))?)
    }

    /// Returns the environment variables of a function in the template, with the names of this
    /// machine.
    pub fn environment(&self, function: &str) -> anyhow::Result<&BTreeMap<String, String>> {
        Ok(&self.template.function(function)?.environment)
    }

    /// Returns the SSM path of a function's secrets.
    pub fn secrets_path(&self, function: &str) -> anyhow::Result<&str> {
        let path = self.environment(function)?.get("MITT_SECRETS_PATH");
        Ok(path.with_context(|| {
            format!("the function {function} has no variable MITT_SECRETS_PATH")
        })?)
    }

    /// Runs a function once: `stack.invoke("BackupSync", &json!({"task": "sweep"}))`.
    pub async fn invoke(&self, function: &str, payload: &Value) -> anyhow::Result<Invocation> {
        self.functions
            .invoke(function, payload.to_string().into())
            .await
    }

    /// Replaces a function while the stack runs, as a deployment does. The function gets its binary
    /// in `binaries` and its settings in `template`. Running invocations finish in their old
    /// processes. The rest of the stack does not change.
    pub fn deploy(&self, function: &str, template: &Path, binaries: &Path) -> anyhow::Result<()> {
        let template = load(template, &self.options, &self.emulators)?;
        let options = Options {
            binaries: binaries.to_owned(),
            ..self.options.clone()
        };
        let endpoints = &self.function_endpoints;
        let spec = spec(function, &template, &options, &self.emulators, endpoints)?;
        self.functions.deploy(spec)
    }

    /// Kills the processes of the function, so that their invocations fail. Returns the number of
    /// processes.
    pub async fn kill_function_processes(&self, function: &str) -> anyhow::Result<usize> {
        self.functions.kill(function).await
    }

    /// Returns the ids of the function's processes.
    pub fn function_processes(&self, function: &str) -> anyhow::Result<Vec<u32>> {
        self.functions.process_ids(function)
    }

    /// Returns the executables of the function's processes, by process id.
    pub fn function_executables(&self, function: &str) -> anyhow::Result<BTreeMap<u32, PathBuf>> {
        self.functions.executables(function)
    }

    /// Returns the path of the file with the function's output.
    pub fn log_file(&self, function: &str) -> anyhow::Result<PathBuf> {
        self.functions.log_file(function)
    }

    /// Returns the state folder, or a temporary one.
    pub fn folder(&self) -> &Path {
        self.emulators.folder()
    }

    /// Stops the stack, and waits until the processes have exited.
    pub async fn stop(self) {
        self.front.close();
        self.invoke.close();
        for task in &self.tasks {
            task.abort();
        }
        self.functions.close().await;
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.functions.close_now();
    }
}

/// Returns the access key of a function. With [`Options::rights`], it is the name of the function's
/// role.
fn access_key<'a>(function: &'a FunctionDefinition, options: &Options) -> &'a str {
    match (&options.rights, &function.role) {
        (Some(_), Some(role)) => role,
        _ => ACCESS_KEY,
    }
}

/// Reads the template with the names of this machine.
fn load(path: &Path, options: &Options, emulators: &Emulators) -> anyhow::Result<Template> {
    let naming = Naming {
        queue_base: emulators.endpoints().sqs.clone(),
        parameters: options.parameters.clone(),
        ..Naming::default()
    };
    Template::load(path, &naming)
}
