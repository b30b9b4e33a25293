//! The console of `dev`.

use shared::base::env::env_var;

use crate::cli::{DevArgs, Global};
use crate::output::CliError;
use crate::target::{Chosen, TargetOptions};
use crate::verbs::console::{Options, Server};

/// The usual port of the console.
const PORT: u16 = 8788;

/// Starts the console. It may write, because nothing of a local stack is real. Another program can
/// use the usual port; then the console has a free one.
pub(super) fn start(args: &DevArgs, global: &Global) -> anyhow::Result<Server> {
    let mut global = global.clone();
    global.target = TargetOptions::default();
    if Chosen::is_named(&global.target)? {
        global.target.context = Some("local".to_owned());
    }
    let options = |port| Options {
        port,
        write: env_var("WEBHOOKCTL_READ_ONLY").is_none_or(|it| it == "0"),
        private: false,
        code_life: None,
    };
    if args.port == 0 {
        return Server::start(&global, options(0));
    }
    Server::start(&global, options(PORT)).or_else(|error| {
        let taken = error.downcast_ref::<CliError>();
        match taken.is_some_and(|error| error.code == "console.port") {
            true => Server::start(&global, options(0)),
            false => Err(error),
        }
    })
}
