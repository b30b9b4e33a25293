//! Single keys, where a person sits at a terminal.

use std::io::{IsTerminal as _, Read as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::output::Printer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Send the last event again.
    Again,
    Pause,
    Stop,
}

/// The keys that are pressed; none without a terminal.
pub(super) struct Keys(Option<Terminal>);

struct Terminal {
    pressed: UnboundedReceiver<Key>,
    before: Termios,
}

impl Keys {
    /// Takes single keys, and says which there are. Ctrl-C stays what it is.
    pub(super) fn of_terminal(out: &mut Printer) -> Self {
        if !(out.terminal.stdout.terminal && std::io::stdin().is_terminal()) {
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
        out.say("  r send again   p pause   q stop");
        let (press, pressed) = unbounded_channel();
        // It ends with the process: a read of a terminal cannot be called back.
        std::thread::spawn(move || {
            for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
                if let Some(key) = key(byte)
                    && press.send(key).is_err()
                {
                    break;
                }
            }
        });
        Self(Some(Terminal { pressed, before }))
    }

    /// The next key; waits for ever where there is no terminal.
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
            // A terminal that is gone needs nothing back.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &terminal.before);
        }
    }
}

fn key(byte: u8) -> Option<Key> {
    match byte {
        b'r' => Some(Key::Again),
        b'p' => Some(Key::Pause),
        b'q' => Some(Key::Stop),
        _ => None,
    }
}
