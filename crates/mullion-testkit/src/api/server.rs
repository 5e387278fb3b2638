//! Serves objects over TLS on loopback, so that a client connects as it does to a real API server.
//!
//! Its certificate is its own authority. It is good for 127.0.0.1, and for a hundred years.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use super::objects::{Asked, Objects, decoded};

const CERTIFICATE: &str = include_str!("server.crt");
const KEY: &str = include_str!("server.key");

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    objects: Objects,
    /// Answers that are always the same, by path.
    said: BTreeMap<String, Value>,
    asked: Vec<Asked>,
}

impl ApiServer {
    /// Starts a server that has no objects.
    pub fn start() -> io::Result<Self> {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.map_err(io::Error::other)?],
                key.map_err(io::Error::other)?,
            )
            .map_err(io::Error::other)?;
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if server.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (config, shared) = (Arc::clone(&config), Arc::clone(&server));
                // A client that goes away ends its connection with an error, which concerns nobody.
                thread::spawn(move || serve(stream, config, &shared));
            }
        });
        Ok(Self { address, shared })
    }

    /// Where it listens: `127.0.0.1:40123`.
    pub fn place(&self) -> String {
        self.address.to_string()
    }

    /// The certificate of its authority in PEM, in base64.
    pub fn authority() -> String {
        base64(CERTIFICATE.as_bytes())
    }

    /// The key of that certificate in PEM, in base64.
    pub fn key() -> String {
        base64(KEY.as_bytes())
    }

    /// A kubeconfig of its admin.
    pub fn kubeconfig(&self) -> String {
        let (place, authority) = (self.address, Self::authority());
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: admin\n\
             clusters: [{{name: c, cluster: {{server: 'https://{place}', certificate-authority-data: {authority}}}}}]\n\
             contexts: [{{name: admin, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{token: admin}}}}]\n"
        )
    }

    /// Puts an object there.
    pub fn put(&self, path: &str, object: Value) {
        self.state().objects.put(path, object);
    }

    /// Answers every request for a path with that.
    pub fn say(&self, path: &str, answer: Value) {
        self.state().said.insert(path.into(), answer);
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, asked: &Asked) -> (u16, Value) {
        let mut state = self.state();
        state.asked.push(asked.clone());
        match state.said.get(&asked.path) {
            Some(said) => (200, said.clone()),
            None => state.objects.answer(asked),
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, at| {
            number << 8 | usize::from(three.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let letter = LETTERS[number >> (18 - 6 * at) & 63];
            out.push(if at <= three.len() {
                letter.into()
            } else {
                '='
            });
        }
    }
    out
}

/// Answers the requests of one connection until the client closes it.
fn serve(stream: TcpStream, config: Arc<ServerConfig>, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    while let Some(asked) = read(&mut stream)? {
        let (status, answer) = shared.answer(&asked);
        let text = match answer {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let out = stream.get_mut();
        write!(
            out,
            "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )?;
        out.flush()?;
    }
    Ok(())
}

/// The next request of a connection; nothing where the client sends no more.
fn read(stream: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut first = String::new();
    if stream.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next(), words.next());
    let mut length = 0;
    let mut is_apply = false;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "content-type" => is_apply = value.starts_with("application/apply-patch"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let target = target.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Ok(Some(Asked {
        method: method.unwrap_or_default(),
        path: path.into(),
        query: decoded(query),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        is_apply,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_base64() {
        let written = [&b""[..], b"f", b"fo", b"foo", b"foob"].map(base64);
        assert_eq!(written, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
