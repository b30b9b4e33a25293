//! The server of the protocol. Another release of the protocol's crate changes only this file.

use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Listed,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value};
use tokio::io::DuplexStream;
use tokio::sync::watch;

use super::answer::Answered;
use crate::output::CliError;

/// A tool, as the agent sees it.
pub(super) struct Offer {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The JSON schema of the arguments.
    pub(super) schema: Arc<Map<String, Value>>,
    pub(super) only_reads: bool,
    pub(super) is_idempotent: bool,
}

/// The tools of a server: those that read the inbox, or those of a worker.
pub(super) trait Tools: Send + Sync {
    fn instructions(&self) -> &'static str;

    fn offers(&self) -> Vec<Offer>;

    /// Runs an offered tool. When the agent cancels the call, `cancelled` becomes true and the future
    /// is dropped.
    fn run(
        self: Arc<Self>,
        tool: &'static str,
        arguments: Map<String, Value>,
        cancelled: watch::Receiver<bool>,
    ) -> BoxFuture<'static, Result<Answered, &'static str>>;
}

/// Serves the tools until the end of the input.
pub(super) async fn serve(tools: Arc<dyn Tools>, input: DuplexStream) -> anyhow::Result<()> {
    let offers = tools.offers();
    let server = Server { tools, offers };
    let service = server.serve((input, tokio::io::stdout())).await;
    let service = service.map_err(|error| stopped(&error))?;
    service.waiting().await.map_err(|error| stopped(&error))?;
    Ok(())
}

fn stopped(error: &dyn std::fmt::Display) -> CliError {
    CliError::failed(
        "mcp.protocol",
        format!("the connection to the agent failed: {error}"),
    )
}

struct Server {
    tools: Arc<dyn Tools>,
    offers: Vec<Offer>,
}

impl Server {
    fn offer(&self, name: &str) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.name == name)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(tools)
            .with_server_info(Implementation::new("webhookctl", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.tools.instructions())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offers.iter().map(listed).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Listed> {
        self.offer(name).map(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.offer(&request.name) else {
            return Err(ErrorData::invalid_params("unknown tool", None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let (cancel, cancelled) = watch::channel(false);
        tokio::select! {
            answer = Arc::clone(&self.tools).run(tool.name, arguments, cancelled) => match answer {
                Ok(answer) => Ok(result(answer).into()),
                Err(error) => Err(ErrorData::internal_error(error, None)),
            },
            () = context.ct.cancelled() => {
                cancel.send_replace(true);
                Err(ErrorData::internal_error("cancelled", None))
            }
        }
    }
}

fn listed(offer: &Offer) -> Listed {
    let hints = ToolAnnotations::from_raw(
        None,
        Some(offer.only_reads),
        Some(false),
        Some(offer.is_idempotent),
        Some(false),
    );
    Listed::new(offer.name, offer.about, Arc::clone(&offer.schema)).with_annotations(hints)
}

fn result(answer: Answered) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    let mut result = if answer.failed {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(answer.document);
    result
}
