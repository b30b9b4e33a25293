//! Starts a receiver.

use std::process::Stdio;

use testkit::root;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The program that runs the scripts of a folder.
#[derive(Clone, Copy)]
pub(super) struct Driver {
    program: &'static str,
    folder: &'static str,
}

pub(super) const NODE: Driver = Driver {
    program: "node",
    folder: "infra/tests/receivers/node",
};
pub(super) const PYTHON: Driver = Driver {
    program: ".venv/receivers/bin/python",
    folder: "infra/tests/receivers/python",
};

/// A running receiver. It ends on drop.
pub(super) struct App {
    pub(super) port: u16,
    _process: Child,
}

impl App {
    /// Starts a receiver on a free port, which it prints.
    pub(super) async fn start(driver: Driver, script: &str, secret: &str) -> Self {
        let program = match driver.program {
            "node" => "node".into(),
            path => root().join(path),
        };
        let mut process = Command::new(program)
            .arg(script)
            .current_dir(root().join(driver.folder))
            .env("SECRET", secret)
            .env("PORT", "0")
            .env("PYTHONUNBUFFERED", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the SDKs are installed");
        let output = process.stdout.take().unwrap();
        let mut lines = BufReader::new(output).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap();
            let line = line.unwrap_or_else(|| panic!("{script} ended before it served"));
            if let Some(port) = line.strip_prefix("port ") {
                break port.parse().unwrap();
            }
        };
        // The receiver must not block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            port,
            _process: process,
        }
    }
}
