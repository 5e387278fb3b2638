//! A TCP connection that answers at once, and is read in large pieces.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

use crate::limits;

/// The stream of a connection. russh reads every packet in two small pieces, which the buffer makes cheap.
pub(super) fn prompt(stream: TcpStream) -> impl AsyncRead + AsyncWrite + Unpin + Send {
    // Small packets are what a conversation is made of. Where this cannot be set, it is only slower.
    let _ = stream.set_nodelay(true);
    let prompt = Prompt {
        stream,
        left: limits::PROMPT_READS,
    };
    BufReader::with_capacity(limits::READ_BUFFER, prompt)
}

/// Lets the kernel confirm the first packets at once. Until the first command OpenSSH waits for that before it sends
/// another small packet, and kernels like to take 40 ms for it; seen here with every first command.
struct Prompt {
    stream: TcpStream,
    left: u32,
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if self.left > 0 {
            self.left -= 1;
            // The kernel forgets it after a while. Where it cannot be set, it is only slower.
            #[cfg(target_os = "linux")]
            let _ = self.stream.set_quickack(true);
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
