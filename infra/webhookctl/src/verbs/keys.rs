//! Reads single key presses from a terminal.

use std::io::Read as _;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::output::Printer;

/// A key that a command accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
}

/// The source of pressed keys. Without a terminal, there are no keys.
pub(super) struct Keys(Option<Terminal>);

struct Terminal {
    pressed: UnboundedReceiver<Key>,
    before: Termios,
}

impl Keys {
    /// Starts to read single keys, unless `--no-input` is given, and prints the list of keys.
    /// Ctrl-C still interrupts the command.
    pub(super) fn of_terminal(which: &str, out: &mut Printer) -> Self {
        if !(out.terminal.stdout.terminal && out.terminal.asks) || is_behind() {
            return Self(None);
        }
        let Ok(before) = tcgetattr(std::io::stdin()) else {
            return Self(None);
        };
        let mut single = before.clone();
        single.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        if tcsetattr(std::io::stdin(), OptionalActions::Now, &single).is_err() {
            return Self(None);
        }
        out.say(&format!("  {which}"));
        let (press, pressed) = unbounded_channel();
        // A read of a terminal cannot be cancelled, so the thread runs until the process ends.
        std::thread::spawn(move || {
            let mut sequence = Sequence::default();
            for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
                if let Some(key) = sequence.take(byte)
                    && press.send(key).is_err()
                {
                    break;
                }
            }
        });
        Self(Some(Terminal { pressed, before }))
    }

    /// Returns whether a terminal is attached.
    pub(super) fn are_taken(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the next key. Without a terminal, waits forever.
    pub(super) async fn next(&mut self) -> Key {
        if let Some(terminal) = &mut self.0
            && let Some(key) = terminal.pressed.recv().await
        {
            return key;
        }
        std::future::pending().await
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(terminal) = &self.0 {
            // Restores the settings. Ignores an error, because a closed terminal does not need its
            // settings.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &terminal.before);
        }
    }
}

/// Returns whether the process is a background job. The kernel stops a background job that changes
/// the terminal.
fn is_behind() -> bool {
    tcgetpgrp(std::io::stdin()).is_ok_and(|front| front != getpgrp())
}

/// The state of an escape sequence. An arrow key sends three bytes, and the first of them is
/// Escape.
#[derive(Clone, Copy, Debug, Default)]
enum Sequence {
    #[default]
    Begins,
    Escaped,
    Inside,
}

impl Sequence {
    /// Returns the key that this byte completes, if there is one.
    /// <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>
    fn take(&mut self, byte: u8) -> Option<Key> {
        let (next, key) = match (*self, byte) {
            (_, 0x1b) => (Self::Escaped, None),
            // If a modifier such as Shift is pressed, numbers come before the letter.
            (Self::Escaped, b'[' | b'O') | (Self::Inside, b'0'..=b'9' | b';') => {
                (Self::Inside, None)
            }
            (Self::Inside, b'A') => (Self::Begins, Some(Key::Up)),
            (Self::Inside, b'B') => (Self::Begins, Some(Key::Down)),
            (Self::Inside, _) => (Self::Begins, None),
            (_, byte) => (Self::Begins, Some(Key::Char(char::from(byte)))),
        };
        *self = next;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_keys_and_what_else_begins_like_them_is_none() {
        let keys = |bytes: &[u8]| -> Vec<Key> {
            let mut sequence = Sequence::default();
            let keys = bytes.iter().filter_map(|byte| sequence.take(*byte));
            keys.collect()
        };
        assert_eq!(keys(b"rq"), [Key::Char('r'), Key::Char('q')]);
        assert_eq!(keys(b"\x1b[A\x1bOBd"), [Key::Up, Key::Down, Key::Char('d')]);
        assert_eq!(keys(b"\x1b[1;2Aq"), [Key::Up, Key::Char('q')]);
        // The bytes are the Left key, a function key, and Escape before a letter.
        assert_eq!(keys(b"\x1b[D\x1b[15~\x1bq"), [Key::Char('q')]);
    }
}
