//! A program at a terminal: what a person sees of it, and the keys that they press.

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
    /// All that was shown, with what moves the cursor.
    all: Vec<u8>,
    /// Up to where it was read.
    read: usize,
}

pub struct Ended {
    pub exit: Option<i32>,
    pub text: String,
}

impl Screen {
    /// Begins it at a terminal of a hundred columns.
    pub fn of(mut command: Command) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(30, 100)).unwrap();
        command.env("TERM", "xterm-256color");
        let child = pty_process::blocking::Command::from(command).spawn(pts);
        let pty = Arc::new(pty);
        let (show, shown) = unbounded_channel();
        let from = Arc::clone(&pty);
        // A read fails when nobody has the terminal any more.
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

    /// Waits until it shows these words, behind those that were waited for before.
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

    /// Whether keys are shown, and come by the line.
    pub fn is_plain(&self) -> bool {
        let modes = tcgetattr(&*self.pty).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Waits until it has ended.
    pub async fn ends(&mut self) -> Ended {
        loop {
            let more = tokio::time::timeout(PATIENCE, self.shown.recv()).await;
            assert!(more.is_ok(), "it does not end: {}", self.text());
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
