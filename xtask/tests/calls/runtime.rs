//! A container runtime without containers: it says that it is ready, how full its disk is, and that there is nothing
//! else, so that kubelet gets as far as looking at its machine.

use std::io::Cursor;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;

/// What is sent.
type Bytes = Cursor<Vec<u8>>;

/// Serves until the process ends, and gives the address.
pub(crate) fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                // A client that goes away is no failure.
                tokio::spawn(async move { attend(stream).await.ok() });
            }
        });
    });
    address
}

/// Takes the calls of one connection.
async fn attend(stream: TcpStream) -> Result<(), h2::Error> {
    let mut connection = Builder::new().handshake::<_, Bytes>(stream).await?;
    while let Some(call) = connection.accept().await {
        let (request, response) = call?;
        tokio::spawn(async move { respond(request, response).await.ok() });
    }
    Ok(())
}

/// Answers one call, whatever its message is.
async fn respond(
    request: Request<RecvStream>,
    mut response: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let message = answer(request.uri().path());
    let mut body = request.into_body();
    while let Some(bytes) = body.data().await {
        body.flow_control().release_capacity(bytes?.len())?;
    }
    let mut head = Response::new(());
    let kind = HeaderValue::from_static("application/grpc");
    head.headers_mut().insert("content-type", kind);
    let mut out = response.send_response(head, false)?;
    // Not compressed, and this long.
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = [&[0], &length[..], &message].concat();
    out.send_data(Cursor::new(framed), false)?;
    let mut end = HeaderMap::new();
    end.insert("grpc-status", HeaderValue::from_static("0"));
    out.send_trailers(end)
}

/// The answer to a call. A message without a field is no byte.
fn answer(call: &str) -> Vec<u8> {
    match call.rsplit('/').next() {
        // Of the interface and of the runtime: version, name, version, version of its interface.
        Some("Version") => [
            content(1, "0.1.0"),
            content(2, "containerd"),
            content(3, "2.2.2"),
            content(4, "v1"),
        ]
        .concat(),
        // A status of conditions: what, and whether it holds.
        Some("Status") => {
            let ready = ["RuntimeReady", "NetworkReady"];
            let ready = ready.map(|what| content(1, [content(1, what), number(2, 1)].concat()));
            content(1, ready.concat())
        }
        // Of images and of containers: when it was looked at, where they are, and how much they take.
        Some("ImageFsInfo") => {
            let store = [
                number(1, 1),
                content(2, content(1, r"C:\")),
                content(3, number(1, 1)),
            ]
            .concat();
            [content(1, &store), content(2, &store)].concat()
        }
        _ => Vec::new(),
    }
}

/// A field that is a text or another message.
fn content(field: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let length = u8::try_from(content.len()).unwrap();
    [&[field << 3 | 2, small(length)], content].concat()
}

/// A field that is a number or says whether something is so.
fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, small(value)]
}

/// Larger ones would take another byte.
fn small(value: u8) -> u8 {
    assert!(value < 128);
    value
}
