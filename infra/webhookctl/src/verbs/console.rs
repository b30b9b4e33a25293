//! `console`: serves the inbox to a browser on this machine.

mod api;
mod assets;
mod browser;
mod facts;
mod guard;
mod join;
mod keep;
mod live;
mod refusal;
mod server;
mod session;
mod write;

use std::time::Duration;

use serde_json::json;

use self::browser::Page;
pub(super) use self::server::{Notice, Options, Server};
use super::keys::{Key, Keys};
use crate::cli::{ConsoleArgs, Global};
use crate::output::{Exit, Printer};
use crate::target::Deployment;

/// How long a code is good.
const CODE_LIFE: Duration = Duration::from_secs(60);

pub(super) async fn console(
    args: ConsoleArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    if args.write {
        inbox.may_write("serve a console that changes events")?;
    }
    let server = Server::start(
        global,
        Options {
            port: args.port,
            write: args.write,
            private: args.private,
            code_life: Some(CODE_LIFE),
        },
    )?;
    let who = facts::operator(&inbox).await;
    let mut shown = Shown {
        opens: !args.no_open && out.terminal.asks,
        page: None,
        out,
    };
    shown.heading(&inbox, args.write, who.as_deref())?;
    shown.address(&server).await?;
    shown.until_stopped(server).await
}

/// The terminal of the console.
struct Shown<'o> {
    out: &'o mut Printer,
    opens: bool,
    /// The file that the browser opens, until a page has a session.
    page: Option<Page>,
}

impl Shown<'_> {
    fn heading(
        &mut self,
        inbox: &Deployment,
        write: bool,
        who: Option<&str>,
    ) -> anyhow::Result<()> {
        if self.out.format.is_json() {
            return Ok(());
        }
        let account = inbox.deployed.as_ref().and_then(|it| it.account.as_deref());
        let place: Vec<&str> = inbox.region().into_iter().chain(account).collect();
        let place = match place.as_slice() {
            [] => String::new(),
            place => format!(" ({})", place.join(", ")),
        };
        let may = if write { "read-write" } else { "read-only" };
        let who = who.map_or_else(String::new, |who| format!(", as {who}"));
        let text = format!("Console for {}{place}, {may}{who}\n", inbox.name);
        self.out.text(&text)
    }

    /// Opens the page, or prints its address with a new code.
    async fn address(&mut self, server: &Server) -> anyhow::Result<()> {
        let address = server.address()?;
        if self.out.format.is_json() {
            let line = json!({"event": "ready", "url": server.url(), "address": address});
            return self.out.json_line(&line);
        }
        if self.opens {
            self.page = browser::open(&address).await;
        }
        if self.page.is_some() {
            let text = format!("  ➜ {}   opened in your browser\n", server.url());
            return self.out.text(&text);
        }
        self.out
            .text(&format!("  ➜ {address}\n    good once, for a minute\n"))
    }

    async fn until_stopped(mut self, mut server: Server) -> anyhow::Result<Exit> {
        let which = "o open again   n new session, end all others   q stop";
        let mut keys = Keys::of_terminal(which, self.out);
        let mut warned = false;
        let mut end = std::pin::pin!(super::dev::stopped());
        loop {
            tokio::select! {
                ended = &mut end => return ended.map(|()| Exit::Interrupted),
                key = keys.next() => match key {
                    Key::Char('q') if server.is_busy() && !warned => {
                        warned = true;
                        self.out.say("A replay runs. Press q again to leave it; `webhookctl replay apply` \
                                      resumes it.");
                    }
                    Key::Char('q') => return Ok(Exit::Done),
                    Key::Char('o') => self.address(&server).await?,
                    Key::Char('n') => {
                        server.end_sessions();
                        self.address(&server).await?;
                    }
                    _ => {}
                },
                Some(notice) = server.notices.recv() => self.notice(notice),
            }
        }
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Opened => self.page = None,
            Notice::UsedAgain => self.out.say(
                "warning: the address was opened a second time; if this was not you, press n to end \
                 all sessions",
            ),
        }
    }
}
