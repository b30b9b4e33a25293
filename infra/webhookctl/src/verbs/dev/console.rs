//! The console of `dev`.

use shared::base::env::env_var;

use crate::cli::{DevArgs, Global};
use crate::target::{Chosen, TargetOptions};
use crate::verbs::console::{Options, Server};

/// Starts the console, unless `dev` ends after the demo. It may write, because nothing of a local stack is real.
pub(super) fn start(args: &DevArgs, global: &Global) -> anyhow::Result<Option<Server>> {
    if args.once {
        return Ok(None);
    }
    let mut global = global.clone();
    global.target = TargetOptions::default();
    if Chosen::is_named(&global.target)? {
        global.target.context = Some("local".to_owned());
    }
    let options = Options {
        private: false,
        port: (args.port == 0).then_some(0),
        write: env_var("WEBHOOKCTL_READ_ONLY").is_none_or(|it| it == "0"),
        code_life: None,
    };
    Server::start(&global, options).map(Some)
}
