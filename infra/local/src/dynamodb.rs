//! Serves DynamoDB with dynoxide, which implements DynamoDB's wire protocol on SQLite.

use std::path::Path;

use anyhow::{Context, anyhow};
use dynoxide::{Database, server};
use tokio::runtime::Handle;

use super::runtime::listen;

/// Serves a database in `file`, or in memory without a file. Returns the URL.
pub(crate) fn serve(engine: &Handle, file: Option<&Path>) -> anyhow::Result<String> {
    let database = match file {
        None => Database::memory(),
        Some(path) => Database::new(&path.to_string_lossy()),
    }
    .map_err(|error| anyhow!("{error}"))
    .with_context(|| match file {
        None => "open a database in memory".to_owned(),
        Some(path) => format!("open the database {}", path.display()),
    })?;
    let (listener, port) = listen(0)?;
    let _inside = engine.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    engine.spawn(async move {
        // The server runs until the engine drops this future.
        let never = std::future::pending();
        if let Err(error) = server::serve_with_shutdown(listener, database, never).await {
            tracing::error!(error, "the local DynamoDB stopped");
        }
    });
    Ok(format!("http://127.0.0.1:{port}"))
}
