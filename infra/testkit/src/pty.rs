//! A program in a terminal: the screen as a user sees it, and the keys that the user presses.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use pty_process::Size;
use pty_process::blocking::{Pty, open};
use rustix::termios::{LocalModes, tcgetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Screen {
    child: Child,
    pty: Arc<Pty>,
    shown: UnboundedReceiver<Vec<u8>>,
    /// The whole output, including cursor movements.
    all: Vec<u8>,
    /// The length of the output that was already checked.
    read: usize,
}

pub struct Ended {
    pub exit: Option<i32>,
    pub text: String,
}

impl Screen {
    /// Starts the program in a terminal with a hundred columns.
    pub fn of(mut command: Command) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(30, 100)).unwrap();
        command.env("TERM", "xterm-256color");
        let child = pty_process::blocking::Command::from(command).spawn(pts);
        let pty = Arc::new(pty);
        let (show, shown) = unbounded_channel();
        let from = Arc::clone(&pty);
        // A read fails when no process has the terminal open.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = (&*from).read(&mut bytes) {
                if show.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child: child.unwrap(),
            pty,
            shown,
            all: Vec::new(),
            read: 0,
        }
    }

    /// Waits until the program shows these words, after the words of the previous call.
    pub async fn shows(&mut self, words: &str) {
        loop {
            let mut rest = self.all[self.read..].windows(words.len());
            if let Some(at) = rest.position(|part| part == words.as_bytes()) {
                self.read += at + words.len();
                return;
            }
            let more = tokio::time::timeout(PATIENCE, self.shown.recv()).await;
            let Ok(Some(more)) = more else {
                panic!("{words:?} is not shown: {}", self.text());
            };
            self.all.extend(more);
        }
    }

    pub fn types(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Returns whether the terminal echoes keys and passes them line by line.
    pub fn is_plain(&self) -> bool {
        let modes = tcgetattr(&*self.pty).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Waits until the program has ended.
    pub async fn ends(&mut self) -> Ended {
        loop {
            let more = tokio::time::timeout(PATIENCE, self.shown.recv()).await;
            assert!(more.is_ok(), "the program does not end: {}", self.text());
            let Ok(Some(more)) = more else {
                break;
            };
            self.all.extend(more);
        }
        Ended {
            exit: self.child.wait().unwrap().code(),
            text: self.text(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.all).into_owned()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
