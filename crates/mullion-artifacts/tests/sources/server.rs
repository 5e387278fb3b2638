//! A small HTTP server that does exactly what a test wants, faults included.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) target: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// How a body is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    Whole,
    /// So many bytes, then the connection ends.
    CutAfter(usize),
    /// So many bytes, then nothing for a long time.
    StallAfter(usize),
    /// Again and again, without a length and without an end.
    Endless,
    /// In pieces of that size, with a pause after each.
    Slow(usize, Duration),
    /// The head already byte by byte, with a pause after each.
    SlowHead(Duration),
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) manner: Manner,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            manner: Manner::Whole,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn sent(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    /// The file, or the part of it that was asked for, as a good server has it.
    pub(crate) fn file(request: &Request, body: &[u8], tag: &str) -> Self {
        let range = request
            .header("range")
            .and_then(|range| range.strip_prefix("bytes="))
            .and_then(|range| range.strip_suffix('-'))
            .and_then(|first| first.parse::<usize>().ok());
        let unchanged = request.header("if-range").is_none_or(|seen| seen == tag);
        match range {
            Some(first) if first >= body.len() => Self::new(416, ""),
            Some(first) if unchanged => {
                let range = format!("bytes {first}-{}/{}", body.len() - 1, body.len());
                Self::new(206, &body[first..]).with("content-range", range)
            }
            _ => Self::new(200, body),
        }
        .with("etag", tag)
    }
}

type Answers = dyn Fn(usize, &Request) -> Reply + Send + Sync;

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// `answers` is given the number of the request, from 0, and the request.
    pub(crate) fn start(
        answers: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let answers: Arc<Answers> = Arc::new(answers);
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
                thread::spawn(move || serve(&stream, &*answers, &log));
            }
        });
        Self { port, seen }
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn targets(&self) -> Vec<String> {
        self.seen().into_iter().map(|one| one.target).collect()
    }
}

fn serve(stream: &TcpStream, answers: &Answers, log: &Mutex<Vec<Request>>) {
    let Some(mut request) = read(stream) else {
        return;
    };
    // As a proxy: whoever is let through speaks on as if to the host itself.
    if let Some(host) = request.target.strip_prefix("CONNECT ").map(str::to_owned) {
        let _ = (&*stream).write_all(b"HTTP/1.1 200 Word\r\n\r\n");
        let Some(inner) = read(stream) else { return };
        request = inner;
        request.target = format!("{host} {}", request.target);
    }
    let number = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    // Whoever asked may have gone; that is the point of some tests.
    let _ = answer(stream, &answers(number, &request));
    let _ = stream.shutdown(Shutdown::Both);
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split_whitespace();
    let (method, target) = (words.next()?, words.next()?);
    let target = match method {
        "CONNECT" => format!("CONNECT {target}"),
        _ => target.to_owned(),
    };
    let mut headers = Vec::new();
    for line in lines {
        let line = line.ok()?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some(Request { target, headers })
}

fn answer(mut stream: &TcpStream, reply: &Reply) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Word\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if !matches!(reply.manner, Manner::Endless) {
        let _ = write!(head, "content-length: {}\r\n", reply.body.len());
    }
    head.push_str("\r\n");
    if let Manner::SlowHead(pause) = reply.manner {
        for byte in head.as_bytes().chunks(1) {
            stream.write_all(byte)?;
            thread::sleep(pause);
        }
    } else {
        stream.write_all(head.as_bytes())?;
    }
    match reply.manner {
        Manner::Whole | Manner::SlowHead(_) => stream.write_all(&reply.body),
        Manner::Endless => loop {
            stream.write_all(&reply.body)?;
        },
        Manner::CutAfter(count) => stream.write_all(&reply.body[..count]),
        Manner::StallAfter(count) => {
            stream.write_all(&reply.body[..count])?;
            thread::sleep(Duration::from_secs(20));
            Ok(())
        }
        Manner::Slow(size, pause) => {
            for piece in reply.body.chunks(size) {
                stream.write_all(piece)?;
                thread::sleep(pause);
            }
            Ok(())
        }
    }
}
