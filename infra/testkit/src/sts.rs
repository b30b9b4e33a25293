//! An STS that always returns the same identity.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub const WHO: &str = "arn:aws:sts::111122223333:assumed-role/operator/anna";

/// Serves until the test ends. Returns the URL.
pub async fn sts() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.read(&mut [0; 8192]).await;
            let body = format!(
                "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>{WHO}</Arn><UserId>A</UserId>\
                 <Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
            );
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    Ok(url)
}
