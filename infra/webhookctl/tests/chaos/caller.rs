//! Which process is at the other end of a connection on this machine.

use std::net::SocketAddr;

/// The one of `processes` that holds the connection from `peer`.
pub(crate) fn caller(peer: SocketAddr, processes: &[u32]) -> Option<u32> {
    let inode = if cfg!(target_os = "linux") {
        inode(peer)
    } else {
        return by_lsof(peer, processes);
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

/// The fields are: number, local address, remote address, state, …, and tenth the inode.
/// <https://docs.kernel.org/networking/proc_net_tcp.html>
fn inode(peer: SocketAddr) -> Option<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    let port = format!(":{:04X}", peer.port());
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&port);
        is_it.then(|| fields.get(9).map(ToString::to_string))?
    })
}

fn by_lsof(peer: SocketAddr, processes: &[u32]) -> Option<u32> {
    let of_port = format!("-iTCP:{}", peer.port());
    let output = std::process::Command::new("lsof")
        .args(["-nP", "-t", &of_port])
        .output()
        .expect("lsof says whose a connection is");
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
    let (_here, (_there, peer)) = (here.unwrap(), there.unwrap());
    let me = std::process::id();
    assert_eq!(caller(peer, &[1, me]), Some(me));
    assert_eq!(caller(peer, &[1]), None);
}
