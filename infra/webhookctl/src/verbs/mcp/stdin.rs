//! The standard input as a stream.
//!
//! At its end, the runtime waits for a read of tokio's stdin, and a signal does not interrupt this
//! read. A thread of its own does not delay the end of the process.

use std::io::{ErrorKind, Read as _};

use futures::executor::block_on;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;

/// The bytes that are read ahead.
const AHEAD: usize = 64 * 1024;

/// Starts to read. The second value becomes true at the end of the input.
pub(super) fn stdin() -> (DuplexStream, watch::Receiver<bool>) {
    let (mut to, from) = tokio::io::duplex(AHEAD);
    let (ended, ends) = watch::channel(false);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; AHEAD];
        loop {
            let read = match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let bytes = buffer.get(..read).unwrap_or_default();
            if block_on(to.write_all(bytes)).is_err() {
                break;
            }
        }
        ended.send_replace(true);
    });
    (from, ends)
}
