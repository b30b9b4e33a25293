//! A client of the Model Context Protocol, which checks each answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::folder::Folder;

/// A client of the protocol.
pub(crate) struct Agent {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Agent {
    pub(crate) fn start(folder: &Folder, flags: &[&str]) -> anyhow::Result<Self> {
        let mut command = folder.webhookctl(&[&["mcp"], flags].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut agent = Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().context("stdout is piped")?),
            child,
            next: 0,
        };
        let client = json!({"name": "test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let hello = agent.ask("initialize", &hello)?;
        let instructions = hello["result"]["instructions"].as_str().unwrap_or_default();
        ensure!(instructions.contains("untrusted"), "{hello}");
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(agent)
    }

    fn say(&mut self, message: &Value) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is open")?;
        writeln!(stdin, "{message}")?;
        Ok(stdin.flush()?)
    }

    /// Sends a request, and returns the next line on stdout, which must be its answer.
    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        ensure!(answer["id"] == id, "{line}");
        ensure!(line.len() <= 33 * 1024, "{method}: {} bytes", line.len());
        Ok(answer)
    }

    pub(crate) fn tools(&mut self) -> anyhow::Result<Vec<Value>> {
        let list = self.ask("tools/list", &json!({}))?;
        Ok(list["result"]["tools"]
            .as_array()
            .cloned()
            .unwrap_or_default())
    }

    /// Calls a tool. Returns its document, and whether it failed.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<(Value, bool)> {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let result = &answer["result"];
        let document = result["structuredContent"].clone();
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let (_, written) = text.split_once('\n').unwrap_or_default();
        ensure!(
            answer["error"].is_object() || serde_json::from_str::<Value>(written)? == document,
            "{answer}"
        );
        Ok((document, result["isError"] == true))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the strings and names that are not marked as foreign.
pub(crate) fn outside<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| outside(item, found)),
        Value::Object(object) if object.len() == 1 && object.contains_key("untrusted") => {}
        Value::Object(object) => {
            for (name, value) in object {
                found.push(name);
                outside(value, found);
            }
        }
        _ => {}
    }
}
