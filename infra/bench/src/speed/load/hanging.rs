//! A destination that hangs, with its source and its circuit breaker.

use std::io::{copy, sink};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use shared::base::clock::UnixMillis;
use shared::delivery::breaker::{Breakers, CallResult, Pass, Position};

use crate::speed::load::Case;
use crate::speed::stores::Stores;
use crate::webhook::SOURCE;

/// The source, the action and the destination that hang.
pub(super) const HANGING: &str = "hanging";

/// The time limit of the action that hangs. The default is longer, and the measurement would then
/// take minutes.
pub(super) const HANGING_TIMEOUT: &str = "2s";

/// A destination that accepts connections and never answers.
#[derive(Clone)]
pub(super) struct Hanging {
    address: String,
    calls: Arc<AtomicUsize>,
}

impl Hanging {
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                counted.fetch_add(1, Ordering::Relaxed);
                // Reads until the client closes the connection.
                std::thread::spawn(move || copy(&mut stream, &mut sink()));
            }
        });
        Ok(Self { address, calls })
    }

    /// Returns the source whose events go to this destination. The source has the secret of the
    /// measured source.
    pub(super) fn source(&self) -> String {
        let (address, secret) = (&self.address, SOURCE);
        format!(
            "\n[[source]]\nname = \"{HANGING}\"\npreset = \"stripe\"\nsecret = \"{secret}\"\n\
             [[source.action]]\nkind = \"http\"\nurl = \"http://{address}/hooks\"\n\
             secret = \"destination\"\ndestination = \"{HANGING}\"\ntimeout = \"{HANGING_TIMEOUT}\"\n"
        )
    }

    /// Fails if the calls do not match the case, because its times would then be those of another
    /// case. An open circuit breaker lets at most some probes through.
    pub(super) fn check(&self, case: Case, hangs: usize) -> anyhow::Result<()> {
        let calls = self.calls.load(Ordering::Relaxed);
        let matches = match case {
            Case::Distinct | Case::Duplicates => calls == 0,
            Case::Hanging => calls > 0,
            Case::Open => calls < hangs,
        };
        ensure!(matches, "{calls} calls of the destination that hangs");
        Ok(())
    }
}

/// Opens the circuit breaker of the destination that hangs, as a processor does after failed calls.
pub(super) fn open_breaker(stores: &Stores) -> anyhow::Result<()> {
    let breakers = Breakers::new(local::clients::dynamodb(&stores.url), "inbox");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let now = UnixMillis::now();
    let position = runtime.block_on(async {
        for _ in 0..5 {
            let failure = CallResult::Failure;
            breakers.heard(HANGING, Pass::Free, failure, now, 1.0).await;
        }
        breakers.read_position(HANGING, now).await
    })?;
    ensure!(
        matches!(position, Position::Open { .. }),
        "the circuit breaker is {position:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_do_not_fit_the_case_are_an_error() {
        let hanging = Hanging::start().unwrap();
        let fits = |case, calls| {
            hanging.calls.store(calls, Ordering::Relaxed);
            hanging.check(case, 20).is_ok()
        };
        assert!(fits(Case::Distinct, 0) && !fits(Case::Duplicates, 1));
        assert!(fits(Case::Hanging, 20) && !fits(Case::Hanging, 0));
        assert!(fits(Case::Open, 1) && !fits(Case::Open, 20));
    }
}
