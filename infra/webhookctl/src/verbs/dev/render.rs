//! Prints the output of `dev` at its start, during the demo and while it runs.

use std::path::Path;
use std::time::Duration;

use local::Stack;
use serde::Serialize;
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, State};
use shared::sources::Config;

use super::chaos;
use super::environments::{self, Environments};
use crate::cli::{Chaos, DevArgs};
use crate::demo::Fate;
use crate::demo::downstream::Seen;
use crate::forward::Address;
use crate::inspect::view;
use crate::inspect::{EventRow, columns};
use crate::output::column::short_id;
use crate::output::{CliError, Exit, List, Printer, style, time};
use crate::target::Local;
use crate::verbs::console::Server;
use crate::verbs::send::Sent;

/// The width of the explanations in columns.
const TEXT_WIDTH: usize = 86;

/// Prints progress as text, or as one JSON object per line.
pub(super) struct Teller<'o> {
    pub(super) out: &'o mut Printer,
    pub(super) took: Duration,
}

#[derive(Serialize)]
struct FateLine<'f> {
    event: &'static str,
    at: String,
    case: &'f str,
    preset: &'f str,
    #[serde(rename = "type")]
    kind: &'f str,
    status: Option<u16>,
    took_ms: u128,
    end: &'f str,
    detail: &'f str,
    key: Option<String>,
    wrong: &'f [String],
}

impl Teller<'_> {
    pub(super) fn ready(
        &mut self,
        local: &Local,
        args: &DevArgs,
        forward: Option<&Address>,
        stack: &Stack,
        console: Option<&Server>,
    ) -> anyhow::Result<()> {
        let took = self.took;
        let console = console.map(Server::address).transpose()?;
        let forward = forward.map(|to| to.url().trim_end_matches('/'));
        if self.out.format.is_json() {
            let mut line = json!({"event": "ready", "url": local.url, "took_ms": took.as_millis()});
            if let Some(to) = forward {
                line["forward"] = json!(to);
            }
            if let Some(address) = console {
                line["console"] = json!(address);
            }
            return self.out.json_line(&line);
        }
        let console = console.map_or_else(String::new, |address| format!("Console  {address}\n\n"));
        let forward = forward.map_or_else(String::new, |to| {
            format!("\x20 ➜ events    {to}/<path of the action>\n")
        });
        let state = match &args.state {
            Some(folder) => format!(
                "{}  kept for the next run; --reset deletes it",
                folder.display()
            ),
            None => "in memory  lost when dev stops; --state DIR keeps it".to_owned(),
        };
        self.out.painted(&format!(
            "webhookctl dev · everything on this machine, nothing in AWS\n\n\
             \x20 ✓ table, queues, bucket, secrets  emulated in this process, as in template.yaml\n\
             \x20 ✓ catcher, processor, backup-sync the Lambda binaries, unchanged; logs in {}\n\
             \x20 Ready in {:.1}s\n\n\
             \x20 ➜ webhooks  {}/in/<source>\n\
             {forward}\
             \x20 ➜ state     {state}\n\n{console}",
            stack.folder().join("logs").display(),
            took.as_secs_f64(),
            local.url,
        ))
    }

    /// Prints the injected fault and what to observe.
    pub(super) fn chaos(&mut self, what: Chaos) -> anyhow::Result<()> {
        let (name, breaks, watch) = (chaos::name(what), chaos::breaks(what), chaos::watch(what));
        if self.out.format.is_json() {
            return self.out.json_line(
                &json!({"event": "chaos", "what": name, "breaks": breaks, "watch": watch}),
            );
        }
        let indented = |text: &str| wrapped(text, TEXT_WIDTH).join("\n             ");
        self.out.text(&format!(
            "  ✗ chaos    {name}\n\
             \x20   fault    {}\n\
             \x20   watch    {}\n\n\
             \x20 Now try, in another terminal:\n\
             \x20   webhookctl send stripe -n 20\n\
             \x20   webhookctl inbox inspect <ID> --full\n\
             \x20   webhookctl quarantine list\n\n\
             \x20 Ctrl-C stops it.\n\n",
            indented(breaks),
            indented(watch),
        ))
    }

    /// Prints that a webhook was sent.
    pub(super) fn sent(&mut self, sent: &Sent) -> anyhow::Result<()> {
        let now = UnixMillis::now();
        if self.out.format.is_json() {
            return self.out.json_line(&json!({
                "event": "sent",
                "at": now.rfc3339(),
                "source": sent.source,
                "type": sent.kind,
                "status": sent.status,
                "took_ms": sent.took_ms,
                "quarantined": sent.quarantined,
            }));
        }
        let kept = sent.quarantined.as_deref().map(|id| {
            let id = short_id(id);
            format!("  kept in the quarantine: webhookctl verify {id}")
        });
        self.out.text(&format!(
            "{}  sent  {}  {}  {} in {}ms{}\n",
            time::clock(now.0, now.0),
            sent.source,
            sent.kind,
            sent.status,
            sent.took_ms,
            kept.unwrap_or_default(),
        ))
    }

    /// Prints that the processor was killed while it handled an event.
    pub(super) fn crashed(&mut self) -> anyhow::Result<()> {
        let now = UnixMillis::now();
        if self.out.format.is_json() {
            let line = json!({"event": "crash", "at": now.rfc3339(), "function": "processor"});
            return self.out.json_line(&line);
        }
        self.out.text(&format!(
            "{}  the destination has processed the event; the processor was killed\n",
            time::clock(now.0, now.0)
        ))
    }

    /// Prints whether the fault is on or off.
    pub(super) fn turned(&mut self, is_on: bool) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            return self.out.json_line(&json!({"event": "chaos", "on": is_on}));
        }
        let now = UnixMillis::now();
        self.out.text(&format!(
            "{}  the fault is {}\n",
            time::clock(now.0, now.0),
            if is_on { "on again" } else { "off" },
        ))
    }

    /// Prints the requests and effects that the destination counted for an event that is done.
    pub(super) fn effects(&mut self, id: &str, seen: &Seen) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            return self.out.json_line(&json!({
                "event": "effects",
                "id": id,
                "requests": seen.requests,
                "effects": seen.effects,
            }));
        }
        self.out.text(&format!(
            "              {}  requests to the destination {}, effects {}\n",
            short_id(id),
            seen.requests,
            seen.effects,
        ))
    }

    pub(super) fn fate(&mut self, fate: &Fate) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            let line = FateLine {
                event: "fate",
                at: fate.at.rfc3339(),
                case: fate.case,
                preset: fate.preset,
                kind: fate.kind,
                status: fate.status,
                took_ms: fate.took.as_millis(),
                end: fate.end,
                detail: &fate.detail,
                key: fate.key.as_ref().map(ToString::to_string),
                wrong: &fate.wrong,
            };
            return self.out.json_line(&line);
        }
        let (sign, word) = match fate.end {
            "done" => ("●", "done"),
            "dropped" => ("○", "dropped"),
            "refused" => ("◇", "refused"),
            "waiting" => ("◌", "waiting"),
            "held" => ("◌", "held"),
            _ => ("■", "dead letter"),
        };
        let status = fate
            .status
            .map_or("  -".to_owned(), |status| status.to_string());
        let took = format!("{}ms", fate.took.as_millis());
        let line = format!(
            "  {}  {:<9}  {:<12}  {:<24}  {status}  {took:>6}  {sign} {word:<11}  {}\n",
            time::clock(fate.at.0, fate.at.0),
            fate.case,
            fate.preset,
            fate.kind,
            fate.detail,
        );
        self.out.painted(&line)?;
        for wrong in &fate.wrong {
            let text = style::paint(
                self.out.terminal.stdout.colour,
                style::of_status("dead_letter"),
                wrong,
            );
            self.out
                .painted(&format!("                unexpected: {text}\n"))?;
        }
        Ok(())
    }

    /// Prints the rows of all events of the demo, read from the ledger.
    pub(super) async fn table(
        &mut self,
        ledger: &Ledger,
        config: &Config,
        fates: &[Fate],
    ) -> anyhow::Result<Exit> {
        let now = UnixMillis::now().0;
        let mut items = Vec::new();
        for key in fates.iter().filter_map(|fate| fate.key.as_ref()) {
            if let Some(row) = ledger.event(key).await? {
                items.push(EventRow::new(&view(&row, config), now));
            }
        }
        let count = |end: &str| fates.iter().filter(|fate| fate.end == end).count();
        let wrong = fates.iter().filter(|fate| !fate.wrong.is_empty()).count();
        let sent = fates.iter().filter(|fate| fate.status.is_some()).count();
        let of = |case: &str| fates.iter().filter(|fate| fate.case == case).count();
        let left = match of("agent") {
            0 => String::new(),
            _ => format!(" · {} waiting · {} held", count("waiting"), count("held")),
        };
        let summary = format!(
            "{sent} sent, {} never delivered, {} drifted · {} in the ledger · {} done · {} dropped · {} refused · {} dead{left} · {wrong} unexpected",
            of("missed"),
            of("drift"),
            items.len(),
            count("done"),
            count("dropped"),
            count("refused"),
            count("dead_letter"),
        );
        let example = items
            .iter()
            .find(|item| item.status == State::DeadLetter)
            .map(|item| item.id.clone());
        if self.out.format.is_json() {
            self.out
                .json_line(&json!({"event": "end", "unexpected": wrong, "summary": summary}))?;
        } else {
            self.out.painted("\n")?;
            self.out.list(&List {
                empty: "The ledger is empty.".to_owned(),
                tip: example.map(|id| format!("webhookctl inbox inspect {}", short_id(&id))),
                ..List::new("dev.demo", "local", UnixMillis(now), columns(now), items)
            })?;
            self.out.painted(&format!("\n  {summary}\n"))?;
        }
        if wrong > 0 {
            return Err(CliError::new(
                "dev.demo",
                Exit::No,
                format!(
                    "{wrong} of {} webhooks had an unexpected outcome",
                    fates.len()
                ),
            )
            .into());
        }
        Ok(Exit::Done)
    }

    /// Prints what to try next. `own` is one of the user's sources, if `dev` runs these.
    pub(super) fn staying(&mut self, own: Option<&str>) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            return Ok(());
        }
        if let Some(source) = own {
            return self.out.painted(&format!(
                "\n  Now try, in another terminal:\n\
                 \x20   webhookctl send {source} --wait\n\
                 \x20   webhookctl inbox list\n\
                 \x20   webhookctl secrets list\n\n\
                 \x20 Ctrl-C stops it.\n",
            ));
        }
        self.out.painted(
            "\n  Now try, in another terminal:\n\
             \x20   webhookctl send stripe --wait\n\
             \x20   webhookctl send github --tamper body\n\
             \x20   webhookctl inbox list\n\
             \x20   webhookctl quarantine list\n\
             \x20   webhookctl listen -f :3000/webhooks\n\n\
             \x20 Ctrl-C stops it.\n",
        )
    }
}

impl Teller<'_> {
    /// Prints what to try with the events of the case `agent`.
    pub(super) fn agent(&mut self) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            return Ok(());
        }
        self.out.painted(
            "\n  The case agent, in three other terminals:\n\
             \x20   webhookctl work run --queue refunds -- sleep 600    takes the refund of 20.00; end it with kill -9\n\
             \x20   webhookctl work run --queue refunds -- cat          takes over when the lease of 30 s has ended\n\
             \x20   webhookctl hold list                                shows the refund of 74.00; then:\n\
             \x20   webhookctl hold approve <ID> -m \"a reason\"         gives it to the worker\n",
        )
    }

    /// Prints how to run the functions in other tools, and what differs there.
    pub(super) fn other_tools(
        &mut self,
        args: &DevArgs,
        environments: Option<&Environments>,
    ) -> anyhow::Result<()> {
        let Some(environments) = environments.filter(|_| !self.out.format.is_json()) else {
            return Ok(());
        };
        if let Some(why) = &environments.sources {
            self.out.say(&format!(
                "  functions in containers use the built-in sources, because the table cannot \
                 store these: {why}"
            ));
        }
        // Both tools need the repository, because they build the functions.
        if args.without.is_empty() && !Path::new("template.yaml").is_file() {
            return Ok(());
        }
        let commands = environments::commands();
        let port = args.invoke_port;
        let title = if args.without.is_empty() {
            "  To run the functions in another tool, with these services:".to_owned()
        } else {
            format!("  Start the missing functions in another tool, on port {port}:")
        };
        self.out.painted(&format!("\n{title}\n{commands}"))
    }
}

/// Wraps the text at spaces. Only a word that is longer than `width` makes a longer line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a longword b", 4), ["a", "longword", "b"]);
        assert!(wrapped("", 4).is_empty());
    }
}
