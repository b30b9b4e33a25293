//! A minimal HTTP server for the clients of the functions: each connection has a thread, and every
//! request has a content length.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names are in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// Serves on a free local port until the program ends. Returns `host:port`. The answer `None`
/// closes the connection.
pub(crate) fn serve(
    answer: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static,
) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let answer = Arc::clone(&answer);
            // A client that disconnects is not an error.
            std::thread::spawn(move || talk(stream, &*answer));
        }
    });
    Ok(address)
}

fn talk(
    stream: TcpStream,
    answer: &(impl Fn(&Request) -> Option<Response> + ?Sized),
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader)? {
        let Some(response) = answer(&request) else {
            break;
        };
        writer.write_all(&response.bytes())?;
    }
    Ok(())
}

fn read(from: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        let header = (name.to_ascii_lowercase(), value.trim().to_owned());
        request.headers.push(header);
    }
    let length = request.header("content-length");
    let length = length.and_then(|length| length.parse().ok());
    request.body = vec![0; length.unwrap_or_default()];
    from.read_exact(&mut request.body)?;
    Ok(Some(request))
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        let (_, value) = all.find(|(known, _)| known == name)?;
        Some(value)
    }
}

impl Response {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let length = self.body.len();
        let mut head = format!("HTTP/1.1 {} x\r\ncontent-length: {length}\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
