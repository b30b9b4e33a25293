//! Finds the process at the other end of a local connection.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

/// A connection, as the process that accepted it sees it.
#[derive(Clone, Copy)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(crate) here: SocketAddr,
}

type Processes = Box<dyn Fn() -> Vec<u32> + Send + Sync>;

/// The processes that can be at the other end.
#[derive(Default)]
pub(crate) struct Callers(OnceLock<Processes>);

impl Callers {
    pub(crate) fn are(&self, processes: impl Fn() -> Vec<u32> + Send + Sync + 'static) {
        let is_first = self.0.set(Box::new(processes)).is_ok();
        assert!(is_first, "the processes are set once");
    }

    /// Returns the process at the other end, or `None` if it has exited.
    pub(crate) async fn find(&self, connection: Connection) -> Option<u32> {
        let processes = self.0.get()?;
        // The kernel's table is read in parts while it changes, so one read can miss the
        // connection.
        for _ in 0..10 {
            if let Some(process) = caller(connection, &processes()) {
                return Some(process);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }
}

/// Returns the process of `processes` that holds the other end.
fn caller(connection: Connection, processes: &[u32]) -> Option<u32> {
    let inode = if cfg!(target_os = "linux") {
        inode(connection)
    } else {
        return by_lsof(connection.peer, processes);
    }?;
    let link = format!("socket:[{inode}]");
    processes.iter().copied().find(|process| {
        let Ok(files) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
            return false;
        };
        files
            .flatten()
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|to| to.to_str() == Some(&link))
    })
}

/// Returns the inode of the socket. The fields of a line are number, local address, remote address,
/// state and others; the tenth is the inode. Other sockets can have the same local port and another
/// remote address.
/// <https://docs.kernel.org/networking/proc_net_tcp.html>
fn inode(connection: Connection) -> Option<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let (local, remote) = (port(connection.peer), port(connection.here));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&local) && fields.get(2)?.ends_with(&remote);
        is_it.then(|| fields.get(9).map(ToString::to_string))?
    })
}

fn by_lsof(peer: SocketAddr, processes: &[u32]) -> Option<u32> {
    let of_port = format!("-iTCP:{}", peer.port());
    let output = std::process::Command::new("lsof")
        .args(["-nP", "-t", &of_port])
        .output()
        .expect("lsof lists the owner of a connection");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.parse().ok())
        .find(|process| processes.contains(process))
}

#[tokio::test]
async fn a_connection_of_our_own_is_found() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (here, there) = tokio::join!(
        tokio::net::TcpStream::connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    let (_here, (there, peer)) = (here.unwrap(), there.unwrap());
    let here = there.local_addr().unwrap();
    let connection = Connection { peer, here };
    let me = std::process::id();
    assert_eq!(caller(connection, &[1, me]), Some(me));
    assert_eq!(caller(connection, &[1]), None);
    let here = SocketAddr::from(([127, 0, 0, 1], 1));
    assert_eq!(caller(Connection { peer, here }, &[me]), None);
}
