//! One request and its answer.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use mullion_plan::Attend;
use ureq::http::{HeaderMap, Uri};
use ureq::{Agent, Timeout};

use super::{Fetch, FetchError, shown};
use crate::digest::Stopped;
use crate::sources::Patience;

const LOOK_AGAIN: Duration = Duration::from_millis(50);
const PIECE: usize = 128 * 1024;
const MAX_HOPS: usize = 10;

/// What the thread hands over.
enum Piece {
    Head(u16, Box<HeaderMap>),
    Data(Vec<u8>),
    End,
    Failed(Failure),
}

/// How an exchange failed.
#[derive(Debug)]
enum Failure {
    /// Before anything was heard of the host.
    Connecting(ureq::Error),
    /// Later.
    Talking(ureq::Error),
    /// For good: what the host showed is not believed, or the request is none.
    Refused(ureq::Error),
}

/// An answer whose body is still on its way.
pub(crate) struct Answer<'a> {
    /// Where it came from in the end.
    pub(crate) address: String,
    pub(crate) status: u16,
    headers: Box<HeaderMap>,
    pieces: Receiver<Piece>,
    attendant: &'a dyn Attend,
    rest: io::Cursor<Vec<u8>>,
    ended: bool,
    pace: Pace,
}

/// How fast a body must come.
struct Pace {
    window: Duration,
    least: u64,
    /// How long this window has lasted. Only waiting counts: who writes to a slow disk does not accuse the server.
    waited: Duration,
    /// What came in this window.
    came: u64,
}

impl Pace {
    const fn new(patience: Patience) -> Self {
        Self {
            window: patience.window,
            least: patience.least,
            waited: Duration::ZERO,
            came: 0,
        }
    }

    /// Refuses a server that sent too little in a window that is over.
    fn check(&mut self) -> io::Result<()> {
        if self.waited < self.window {
            return Ok(());
        }
        if self.came < self.least {
            let (least, window) = (self.least, self.window);
            let words = format!("fewer than {least} bytes came within {window:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, words));
        }
        (self.waited, self.came) = (Duration::ZERO, 0);
        Ok(())
    }
}

impl Answer<'_> {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// All of it, where it is no longer than that.
    pub(crate) fn bytes(mut self, limit: u64) -> Result<Vec<u8>, FetchError> {
        let mut all = Vec::new();
        let address = shown(&self.address);
        Read::by_ref(&mut self)
            .take(limit + 1)
            .read_to_end(&mut all)
            .map_err(|error| {
                if crate::digest::is_stop(&error) {
                    FetchError::CalledOff
                } else {
                    FetchError::Broken {
                        address: address.clone(),
                        times: 1,
                        source: error.into(),
                    }
                }
            })?;
        if all.len() as u64 > limit {
            return Err(FetchError::Unexpected {
                address,
                expected: "a short document",
            });
        }
        Ok(all)
    }

    /// The failure that a status stands for, if it is one.
    pub(crate) fn refusal(&self) -> Option<FetchError> {
        let address = shown(&self.address);
        match self.status {
            200..=299 => None,
            404 | 410 => Some(FetchError::NotFound { address }),
            status => Some(FetchError::Status { address, status }),
        }
    }
}

impl Read for Answer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.rest.read(buffer)?;
            if read > 0 || self.ended || buffer.is_empty() {
                return Ok(read);
            }
            let asked = Instant::now();
            let piece = self.pieces.recv_timeout(LOOK_AGAIN);
            self.pace.waited += asked.elapsed();
            match piece {
                Ok(Piece::Data(data)) => {
                    self.pace.came += data.len() as u64;
                    self.rest = io::Cursor::new(data);
                }
                Ok(Piece::End) => {
                    self.ended = true;
                    return Ok(0);
                }
                Ok(Piece::Failed(failure)) => return Err(failure.into_io()),
                Ok(Piece::Head(..)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if self.attendant.is_called_off() {
                return Err(io::Error::other(Stopped));
            }
            self.pace.check()?;
        }
    }
}

impl<'a> Fetch<'a> {
    /// Asks for an address, follows where it leads, and gives the answer, whatever its status is.
    pub(crate) fn get(
        &self,
        address: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer<'a>, FetchError> {
        let mut at = address.to_owned();
        let mut headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        if let Some(words) = &self.authorization {
            headers.push(("authorization".into(), words.clone()));
        }
        for _ in 0..=MAX_HOPS {
            let answer = self.hop(&at, &headers)?;
            let to = match answer.status {
                301 | 302 | 303 | 307 | 308 => answer.header("location"),
                _ => None,
            };
            let Some(to) = to else {
                return Ok(answer);
            };
            let refused = || FetchError::Redirect {
                address: shown(address),
                to: shown(to),
            };
            let next = join(&at, to).ok_or_else(refused)?;
            // What was asked for safely is not taken unsafely.
            if at.starts_with("https://") && !next.starts_with("https://") {
                return Err(refused());
            }
            if authority(&at) != authority(&next) {
                headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
            }
            at = next;
        }
        Err(FetchError::Redirect {
            address: shown(address),
            to: shown(&at),
        })
    }

    fn hop(&self, address: &str, headers: &[(String, String)]) -> Result<Answer<'a>, FetchError> {
        let bad = || FetchError::Address {
            address: shown(address),
        };
        let uri: Uri = address.parse().map_err(|_| bad())?;
        let host = uri.authority().ok_or_else(bad)?.as_str();
        let host = host.rsplit('@').next().unwrap_or(host).to_owned();
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(bad());
        }
        let reach = &self.sources.reach;
        if reach.is_lost(&host) {
            return Err(FetchError::Lost { host });
        }
        let agent = self.way.to(&uri, self.sources)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match self.exchange(&agent, &uri, headers)? {
                Ok(answer) => {
                    reach.answered(&host);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let address = shown(address);
            match failure {
                Failure::Refused(error) => {
                    let source = Box::new(error);
                    return Err(FetchError::Unreachable { address, source });
                }
                // Somebody is there: whoever goes on with a download decides how often.
                Failure::Talking(error) => return Err(broken(address, error)),
                Failure::Connecting(error) => {
                    // A name that is not known and a silence will not change in a moment; a refusal may.
                    let is_final = tries >= 2
                        || !matches!(&error, ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused);
                    if is_final && reach.lose(&host) {
                        let source = Box::new(error);
                        return Err(FetchError::Unreachable { address, source });
                    }
                    if is_final {
                        return Err(broken(address, error));
                    }
                }
            }
            self.wait(self.sources.patience.pause)?;
        }
    }

    /// One request, on a thread of its own, up to the head of its answer.
    fn exchange(
        &self,
        agent: &Agent,
        uri: &Uri,
        headers: &[(String, String)],
    ) -> Result<Result<Answer<'a>, Failure>, FetchError> {
        let (send, pieces) = sync_channel(8);
        let mut request = agent.get(uri.clone());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        thread::spawn(move || talk(request, &send));
        loop {
            match pieces.recv_timeout(LOOK_AGAIN) {
                Ok(Piece::Head(status, headers)) => {
                    return Ok(Ok(Answer {
                        address: uri.to_string(),
                        status,
                        headers,
                        pieces,
                        attendant: self.attendant,
                        rest: io::Cursor::new(Vec::new()),
                        ended: false,
                        pace: Pace::new(self.sources.patience),
                    }));
                }
                Ok(Piece::Failed(failure)) => return Ok(Err(failure)),
                Ok(Piece::Data(_) | Piece::End) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Err(Failure::Talking(ureq::Error::ConnectionFailed)));
                }
            }
            if self.attendant.is_called_off() {
                return Err(FetchError::CalledOff);
            }
        }
    }

    /// Waits, unless it is called off.
    pub(super) fn wait(&self, pause: Duration) -> Result<(), FetchError> {
        let begun = Instant::now();
        while begun.elapsed() < pause {
            if self.attendant.is_called_off() {
                return Err(FetchError::CalledOff);
            }
            thread::sleep(LOOK_AGAIN.min(pause));
        }
        Ok(())
    }
}

/// The thread's work. It ends when nobody listens any more, at the latest with the next piece.
fn talk(request: ureq::RequestBuilder<ureq::typestate::WithoutBody>, send: &SyncSender<Piece>) {
    let response = match request.call() {
        Ok(response) => response,
        Err(error) => {
            let _ = send.send(Piece::Failed(Failure::of(error)));
            return;
        }
    };
    let (head, body) = response.into_parts();
    let head = Piece::Head(head.status.as_u16(), Box::new(head.headers));
    if send.send(head).is_err() {
        return;
    }
    let mut reader = body.into_reader();
    loop {
        let mut piece = vec![0; PIECE];
        let last = match reader.read(&mut piece) {
            Ok(0) => Some(Piece::End),
            Ok(read) => {
                piece.truncate(read);
                if send.send(Piece::Data(piece)).is_err() {
                    return;
                }
                None
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => Some(Piece::Failed(Failure::Talking(error.into()))),
        };
        if let Some(last) = last {
            let _ = send.send(last);
            return;
        }
    }
}

impl Failure {
    /// What a request that got no answer failed of.
    fn of(error: ureq::Error) -> Self {
        match &error {
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::ConnectProxyFailed(_) => Self::Connecting(error),
            ureq::Error::Io(io) => match io.kind() {
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::TimedOut
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted => Self::Talking(error),
                // A certificate that is not trusted comes as a failure to read.
                io::ErrorKind::InvalidData => Self::Refused(error),
                // A failed look-up of a name has no kind of its own.
                _ => Self::Connecting(error),
            },
            ureq::Error::Timeout(_) | ureq::Error::Protocol(_) | ureq::Error::BodyStalled => {
                Self::Talking(error)
            }
            _ => Self::Refused(error),
        }
    }

    fn into_io(self) -> io::Error {
        let (Self::Connecting(error) | Self::Talking(error) | Self::Refused(error)) = self;
        error.into_io()
    }
}

fn broken(address: String, error: ureq::Error) -> FetchError {
    FetchError::Broken {
        address,
        times: 1,
        source: Box::new(error),
    }
}

/// Scheme and host of an address.
fn authority(address: &str) -> &str {
    let start = address.find("://").map_or(0, |place| place + 3);
    let end = address[start..]
        .find('/')
        .map_or(address.len(), |place| start + place);
    &address[..end]
}

/// Where a `Location` leads from an address.
fn join(from: &str, to: &str) -> Option<String> {
    if to.starts_with("http://") || to.starts_with("https://") {
        return Some(to.to_owned());
    }
    let host = authority(from);
    if let Some(rest) = to.strip_prefix("//") {
        let scheme = host.split("://").next()?;
        return Some(format!("{scheme}://{rest}"));
    }
    if to.starts_with('/') {
        return Some(format!("{host}{to}"));
    }
    if to.contains("://") || to.is_empty() {
        return None;
    }
    let path = from.split(['?', '#']).next()?;
    let folder = &path[..=path.rfind('/').filter(|place| *place >= host.len())?];
    Some(format!("{folder}{to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_joined_to_where_it_was_said() {
        let from = "https://a.org/x/y?z";
        for (to, there) in [
            ("https://b.org/c", Some("https://b.org/c")),
            ("/c", Some("https://a.org/c")),
            ("c", Some("https://a.org/x/c")),
            ("//b.org/c", Some("https://b.org/c")),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(join(from, to).as_deref(), there, "{to}");
        }
    }
}
