//! The runtime of the local stack, which is separate from the caller's runtime.
//!
//! The stack has its own threads. Therefore a test that pauses its clock does not affect the stack,
//! race conditions can occur as in AWS, and a drop ends all connections and tasks at once.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context;
use axum::Router;
use tokio::{runtime::Runtime, task::JoinHandle};

/// A runtime that ends with its owner.
pub(crate) struct Engine(Option<Runtime>);

impl Engine {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .thread_name("local-stack")
            .enable_all()
            .build()
            .context("start the threads of the local stack")?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> tokio::runtime::Handle {
        self.0
            .as_ref()
            .expect("only the drop removes the runtime")
            .handle()
            .clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // A normal drop would block, which is not allowed in async code.
            runtime.shutdown_background();
        }
    }
}

/// Listens on a loopback port. Port 0 selects a free one.
pub(crate) fn listen(port: u16) -> anyhow::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("listen on 127.0.0.1:{port}"))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Serves until the engine ends or the task is aborted.
pub(crate) fn serve(
    engine: &tokio::runtime::Handle,
    listener: TcpListener,
    router: Router,
) -> anyhow::Result<JoinHandle<()>> {
    let _inside = engine.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(engine.spawn(async move {
        if let Err(error) = axum::serve(listener, service).await {
            tracing::error!(error = %error, "a local server stopped");
        }
    }))
}
