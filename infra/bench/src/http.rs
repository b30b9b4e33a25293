//! A minimal HTTP/1.1 server and client for connections within this machine. Each connection has a
//! thread, and every message has a content length.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request or a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    first_line: String,
    /// The headers without the content length.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Serves on a free local port until the program ends. Returns `host:port`. If the handler returns
/// `None`, the server closes the connection.
pub(crate) fn serve(
    answer: impl Fn(&Message) -> Option<Message> + Send + Sync + 'static,
) -> Result<String> {
    accept(move |stream| talk(stream, &answer))
}

/// Like [`serve`], but with TLS.
pub(crate) fn serve_tls(
    tls: Arc<ServerConfig>,
    answer: impl Fn(&Message) -> Option<Message> + Send + Sync + 'static,
) -> Result<String> {
    accept(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&tls)).map_err(Error::other)?;
        talk(StreamOwned::new(connection, stream), &answer)
    })
}

/// Accepts connections on a free local port, and calls a function for each in a new thread.
fn accept(serve: impl Fn(TcpStream) -> Result<()> + Send + Sync + 'static) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let serve = Arc::clone(&serve);
            // A client that disconnects is not an error.
            std::thread::spawn(move || stream.set_nodelay(true).and_then(|()| serve(stream)));
        }
    });
    Ok(address)
}

fn talk(stream: impl Read + Write, answer: impl Fn(&Message) -> Option<Message>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = Message::read(&mut stream)? {
        let Some(response) = answer(&request) else {
            break;
        };
        stream.get_mut().write_all(&response.bytes())?;
    }
    Ok(())
}

impl Message {
    pub(crate) fn response(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            first_line: format!("HTTP/1.1 {status} x"),
            headers: Vec::new(),
            body: body.into(),
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, header: &str, value: impl Into<String>) -> Self {
        self.headers.push((header.to_owned(), value.into()));
        self
    }

    /// Sends the request to another server, on a separate connection.
    pub(crate) fn send(&self, address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.write_all(&self.bytes())?;
        let response = Self::read(&mut BufReader::new(stream))?;
        response.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads a message. Returns `None` if the connection has ended.
    fn read(from: &mut impl BufRead) -> Result<Option<Self>> {
        let mut message = Self::default();
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        line.trim_end().clone_into(&mut message.first_line);
        let mut length = 0;
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            if name == "content-length" {
                length = value.parse().unwrap_or_default();
            } else {
                message.headers.push((name, value.to_owned()));
            }
        }
        message.body = vec![0; length];
        from.read_exact(&mut message.body)?;
        Ok(Some(message))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.first_line);
        let length = ("content-length".to_owned(), self.body.len().to_string());
        for (name, value) in self.headers.iter().chain([&length]) {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }

    pub(crate) fn method(&self) -> &str {
        self.word(0)
    }

    pub(crate) fn path(&self) -> &str {
        self.word(1)
    }

    /// Returns the status of a response.
    pub(crate) fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or_default()
    }

    fn word(&self, at: usize) -> &str {
        self.first_line.split(' ').nth(at).unwrap_or_default()
    }

    /// Returns the value of a header. The name must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        let (_, value) = all.find(|(known, _)| known == name)?;
        Some(value)
    }

    /// Returns the operation of an AWS service, such as `DynamoDB_20120810` and `PutItem`.
    pub(crate) fn operation(&self) -> Option<(&str, &str)> {
        self.header("x-amz-target")?.split_once('.')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let address = serve(|request| {
            let said = format!("{} {}", request.method(), request.path());
            Some(Message::response(418, said).with("x-amz-target", "A.B"))
        });
        let request = Message {
            first_line: "POST /a HTTP/1.1".to_owned(),
            ..Message::response(0, "body")
        };
        let response = request.send(&address.unwrap()).unwrap();
        assert_eq!((response.status(), &*response.body), (418, &b"POST /a"[..]));
        assert_eq!(response.operation(), Some(("A", "B")));
    }
}
