//! An API server with a handful of objects: it lists them, says that nothing changes, and takes every change for done.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The objects of one kind, at their path.
pub(crate) struct Kind {
    pub(crate) path: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) name: &'static str,
    pub(crate) objects: Vec<Value>,
}

/// Serves until the process ends, and gives the address.
pub(crate) fn serve(kinds: Vec<Kind>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let kinds = Arc::new(kinds);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kinds = Arc::clone(&kinds);
            // A client that goes away is no failure.
            thread::spawn(move || answer_all(&stream, &kinds).ok());
        }
    });
    address
}

/// Answers one request after the other.
fn answer_all(stream: &TcpStream, kinds: &[Kind]) -> std::io::Result<()> {
    let mut input = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let (method, target) = (
            words.next().unwrap_or_default().to_owned(),
            words.next().unwrap_or_default().to_owned(),
        );
        let mut length = 0;
        loop {
            let mut header = String::new();
            input.read_line(&mut header)?;
            let header = header.trim().to_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        if query.contains("watch=true") || query.contains("watch=1") {
            return watch(stream, path, query, kinds);
        }
        let (status, answer) = answer(&method, path, kinds);
        respond(stream, status, &answer)?;
    }
}

fn respond(mut stream: &TcpStream, status: &str, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn answer(method: &str, path: &str, kinds: &[Kind]) -> (&'static str, Value) {
    if let Some(kind) = kinds.iter().find(|kind| kind.path == path) {
        let list = json!({
            "apiVersion": kind.api_version,
            "kind": format!("{}List", kind.name),
            "metadata": {"resourceVersion": "1"},
            "items": kind.objects,
        });
        return ("200 OK", list);
    }
    // One object, or its status.
    let path = path.trim_end_matches("/status");
    let found = kinds.iter().find_map(|kind| {
        let name = path.strip_prefix(kind.path)?.strip_prefix('/')?;
        let mut objects = kind.objects.iter();
        objects.find(|object| object["metadata"]["name"] == name)
    });
    match found {
        Some(object) => ("200 OK", object.clone()),
        None if method == "POST" => ("201 Created", json!({"apiVersion": "v1", "kind": "Event"})),
        None => {
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound",
                "code": 404, "message": format!("{path} is not here"),
            });
            ("404 Not Found", status)
        }
    }
}

/// Tells what there is, where that is asked for, and then nothing more.
fn watch(mut stream: &TcpStream, path: &str, query: &str, kinds: &[Kind]) -> std::io::Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let mut tell = |event: Value| {
        let line = format!("{event}\n");
        write!(stream, "{:x}\r\n{line}\r\n", line.len())
    };
    if let Some(kind) = kinds.iter().find(|kind| kind.path == path)
        && query.contains("sendInitialEvents=true")
    {
        for object in &kind.objects {
            tell(json!({"type": "ADDED", "object": object}))?;
        }
        tell(json!({"type": "BOOKMARK", "object": {
            "apiVersion": kind.api_version, "kind": kind.name,
            "metadata": {
                "resourceVersion": "1",
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        }}))?;
    }
    thread::sleep(Duration::from_mins(10));
    Ok(())
}
