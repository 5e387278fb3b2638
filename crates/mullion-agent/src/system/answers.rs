//! Whether something on this machine answers.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A machine that does not answer itself in this time is not well.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Whether an HTTP request is answered well.
pub(super) fn well(port: u16, path: &str) -> bool {
    let ask = || -> io::Result<bool> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIME)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(start.starts_with(b"HTTP/1.") && start.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
