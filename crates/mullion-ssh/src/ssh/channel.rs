//! One command in one channel: fed, heard, and watched until the channel is closed.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mullion_plan::Attend;
use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Error, Sig};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::guard::in_words;
use super::leave::{Announcement, leave};
use super::session::Session;
use crate::command::Stream;
use crate::error::{Cause, TransportError};
use crate::limits;
use crate::shell::Shell;

/// How a command ended by itself or by a signal.
pub(super) enum Ending {
    Status(i32),
    Signal(String),
}

/// What a command is watched by.
pub(super) struct Watch<'a> {
    /// The command, for errors.
    pub(super) doing: &'a str,
    pub(super) attendant: &'a dyn Attend,
    pub(super) began: Instant,
    pub(super) deadline: Option<Duration>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        doing: &'a str,
        attendant: &'a dyn Attend,
        deadline: Option<Duration>,
    ) -> Self {
        Self {
            doing,
            attendant,
            began: Instant::now(),
            deadline,
        }
    }

    /// Whether it may go on.
    pub(super) fn check(&self, place: &str) -> Result<(), TransportError> {
        if self.attendant.is_called_off() {
            return Err(TransportError::CalledOff {
                place: place.to_owned(),
                doing: self.doing.to_owned(),
            });
        }
        match self.deadline {
            Some(after) if self.began.elapsed() >= after => Err(TransportError::Deadline {
                place: place.to_owned(),
                command: self.doing.to_owned(),
                after,
            }),
            _ => Ok(()),
        }
    }

    /// How long may be waited until the next look.
    pub(super) fn pause(&self) -> Duration {
        let left = self.deadline.map_or(limits::ASK_EVERY, |after| {
            after.saturating_sub(self.began.elapsed())
        });
        left.min(limits::ASK_EVERY)
    }
}

/// As many places as there may be channels at once.
pub(super) struct Gate {
    places: Arc<Semaphore>,
    left: AtomicUsize,
    /// Set once a channel was opened: the server allows at least one.
    has_opened: AtomicBool,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits::CHANNELS)),
            left: AtomicUsize::new(limits::CHANNELS),
            has_opened: AtomicBool::new(false),
        }
    }

    async fn enter(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.places.clone().acquire_owned().await
    }

    /// The server allows fewer. Where others have channels open, a place is taken away, so that calls wait for each
    /// other here instead of asking it again and again. Two are always left: whoever listens may use the transport.
    /// Where none has, a command that was given up is about to end.
    async fn narrow(&self, permit: OwnedSemaphorePermit) {
        let free = self.places.available_permits();
        let fewer = |left: usize| (left > 2 && left > free + 1).then(|| left - 1);
        let narrowed = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        if narrowed.is_ok() {
            permit.forget();
        } else {
            drop(permit);
            sleep(limits::CHANNEL_BUSY_EVERY).await;
        }
    }
}

/// What a command reads: pieces that a task of its own sends, as far as the other side takes them.
struct Feed {
    sender: Option<mpsc::Sender<Vec<u8>>>,
    /// The piece that goes next.
    piece: Vec<u8>,
    task: JoinHandle<()>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        // It may wait for a window that nobody opens any more.
        self.task.abort();
    }
}

/// What happened next.
enum Turn {
    Heard(Option<ChannelMsg>),
    /// The next piece was taken, or nobody takes any more.
    Fed(Result<(), ()>),
    Waited,
}

/// The next piece of a source; empty at its end.
pub(super) fn piece_of(source: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(limits::PIECE);
    source.take(limits::PIECE as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

impl Session {
    /// Opens a channel. Of a server that allows fewer at once than we do, one is awaited that another call closes.
    pub(super) async fn open_channel(
        &self,
        doing: &str,
    ) -> Result<(Channel<Msg>, OwnedSemaphorePermit), TransportError> {
        let lost = || self.lost(doing);
        let gate = self.gate();
        let began = Instant::now();
        loop {
            let permit = gate.enter().await.map_err(|_| lost())?;
            let opening = self.link().handle.channel_open_session();
            let refusal = match timeout(limits::CHANNEL, opening).await {
                Ok(Ok(channel)) => {
                    gate.has_opened.store(true, Ordering::Relaxed);
                    return Ok((channel, permit));
                }
                Ok(Err(error @ Error::ChannelOpenFailure(_))) => error,
                Ok(Err(_)) => return Err(lost()),
                Err(_) => {
                    return Err(TransportError::Lost {
                        place: self.at().to_owned(),
                        doing: doing.to_owned(),
                        source: Cause::new("it opens no channel any more"),
                    });
                }
            };
            let never = !gate.has_opened.load(Ordering::Relaxed);
            if never || began.elapsed() > limits::CHANNEL_BUSY {
                return Err(TransportError::Channel {
                    place: self.at().to_owned(),
                    doing: doing.to_owned(),
                    source: Cause::new(in_words(&refusal)),
                });
            }
            gate.narrow(permit).await;
        }
    }

    /// The same, as long as the watch allows. A channel that comes too late is closed again.
    pub(super) fn channel(
        &self,
        watch: &Watch<'_>,
    ) -> Result<(Channel<Msg>, OwnedSemaphorePermit), TransportError> {
        let (sender, receiver) = oneshot::channel();
        let session = self.clone();
        let doing = watch.doing.to_owned();
        self.engine().spawn(async move {
            let opened = session.open_channel(&doing).await;
            if let Err(Ok((channel, _permit))) = sender.send(opened) {
                let _ = channel.close().await;
            }
        });
        self.watched(watch, async {
            receiver
                .await
                .unwrap_or_else(|_| Err(self.lost(watch.doing)))
        })
    }

    /// Runs a command in the words of a shell, and hands on what it writes. The channel's being closed is its end,
    /// nothing else.
    pub(super) fn run_line(
        &self,
        line: &str,
        stdin: Option<&mut dyn Read>,
        watch: &Watch<'_>,
        on_bytes: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Ending, TransportError> {
        let (channel, _permit) = self.channel(watch)?;
        let (mut read, write) = channel.split();
        let write = Arc::new(write);
        let mut announcement = match self.shell() {
            Shell::Posix => Announcement::new(),
            Shell::Cmd { .. } => Announcement::none(),
        };
        let asked = self.watched(watch, async {
            let asked = write.exec(true, announcement.line(line)).await;
            asked.map_err(|_| self.lost(watch.doing))
        });
        let result = asked.and_then(|()| {
            let mut on_message = |stream, bytes: &[u8]| match stream {
                Stream::Out => announcement.take(bytes, &mut |bytes| on_bytes(stream, bytes)),
                Stream::Err => on_bytes(stream, bytes),
            };
            self.attend(&mut read, &write, stdin, watch, &mut on_message)
        });
        announcement.finish(&mut |bytes| on_bytes(Stream::Out, bytes));
        match &result {
            // Nothing runs there.
            Err(TransportError::Channel { .. }) => {
                self.engine().spawn(async move { write.close().await });
            }
            Err(_) if self.is_open() => {
                let leaving = leave(self.clone(), read, write, announcement);
                let leaving = self.engine().spawn(leaving);
                // A moment is worth it: what is tried again must not meet what was given up.
                let _ = self
                    .engine()
                    .wait(async { timeout(limits::PARTING, leaving).await });
            }
            Ok(_) | Err(_) => {}
        }
        result
    }

    /// Waits for a future, and gives up when the watch says so.
    pub(super) fn watched<T>(
        &self,
        watch: &Watch<'_>,
        future: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        self.engine().wait(async {
            tokio::pin!(future);
            loop {
                watch.check(self.at())?;
                if let Ok(done) = timeout(watch.pause(), &mut future).await {
                    return done;
                }
            }
        })
    }

    fn attend(
        &self,
        read: &mut ChannelReadHalf,
        write: &Arc<ChannelWriteHalf<Msg>>,
        mut stdin: Option<&mut dyn Read>,
        watch: &Watch<'_>,
        on_bytes: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Ending, TransportError> {
        let engine = self.engine();
        let mut feed = if let Some(source) = &mut stdin {
            Some(self.feed(write, *source, watch)?)
        } else {
            self.watched(watch, async {
                let ended = write.eof().await;
                ended.map_err(|_| self.lost(watch.doing))
            })?;
            None
        };
        let mut ending = None;
        loop {
            watch.check(self.at())?;
            let turn = engine.wait(next(read, feed.as_mut(), watch.pause()));
            match turn {
                Turn::Waited => {}
                Turn::Fed(taken) => {
                    if let (Some(fed), Some(source)) = (&mut feed, &mut stdin) {
                        fed.piece = piece_of(*source).map_err(|error| self.unread(watch, error))?;
                        if taken.is_err() || fed.piece.is_empty() {
                            // The task sends what it has, then the end.
                            fed.sender = None;
                        }
                    }
                }
                Turn::Heard(None) => return Err(self.lost(watch.doing)),
                Turn::Heard(Some(message)) => match message {
                    ChannelMsg::Data { data } => on_bytes(Stream::Out, &data),
                    ChannelMsg::ExtendedData { data, ext: 1 } => on_bytes(Stream::Err, &data),
                    ChannelMsg::ExitStatus { exit_status } => {
                        // Windows has negative ones, and larger ones than fit.
                        ending = Some(Ending::Status(exit_status.cast_signed()));
                    }
                    ChannelMsg::ExitSignal { signal_name, .. } => {
                        ending = Some(Ending::Signal(name_of(&signal_name)));
                    }
                    ChannelMsg::Failure => {
                        return Err(TransportError::Channel {
                            place: self.at().to_owned(),
                            doing: watch.doing.to_owned(),
                            source: Cause::new("the server runs no commands for this user"),
                        });
                    }
                    ChannelMsg::Close => {
                        return ending.ok_or_else(|| TransportError::Lost {
                            place: self.at().to_owned(),
                            doing: watch.doing.to_owned(),
                            source: Cause::new("the channel was closed without an exit status"),
                        });
                    }
                    _ => {}
                },
            }
        }
    }

    /// Begins to send what a source gives.
    fn feed(
        &self,
        write: &Arc<ChannelWriteHalf<Msg>>,
        source: &mut dyn Read,
        watch: &Watch<'_>,
    ) -> Result<Feed, TransportError> {
        let piece = piece_of(source).map_err(|error| self.unread(watch, error))?;
        let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(limits::PIECES);
        let write = write.clone();
        let task = self.engine().spawn(async move {
            while let Some(piece) = pieces.recv().await {
                if write.data_bytes(piece).await.is_err() {
                    return;
                }
            }
            let _ = write.eof().await;
        });
        Ok(Feed {
            sender: (!piece.is_empty()).then_some(sender),
            piece,
            task,
        })
    }

    fn unread(&self, watch: &Watch<'_>, source: io::Error) -> TransportError {
        TransportError::Source {
            place: self.at().to_owned(),
            path: watch.doing.to_owned(),
            source,
        }
    }

    /// The connection is gone.
    pub(super) fn lost(&self, doing: &str) -> TransportError {
        TransportError::Lost {
            place: self.at().to_owned(),
            doing: doing.to_owned(),
            source: self.link().ended(),
        }
    }
}

async fn next(read: &mut ChannelReadHalf, feed: Option<&mut Feed>, pause: Duration) -> Turn {
    let feed = feed.and_then(|feed| Some((feed.sender.as_ref()?, &mut feed.piece)));
    let Some((sender, piece)) = feed else {
        return match timeout(pause, read.wait()).await {
            Ok(message) => Turn::Heard(message),
            Err(_) => Turn::Waited,
        };
    };
    tokio::select! {
        biased;
        message = read.wait() => Turn::Heard(message),
        permit = sender.reserve() => Turn::Fed(match permit {
            Ok(permit) => {
                permit.send(std::mem::take(piece));
                Ok(())
            }
            Err(_) => Err(()),
        }),
        () = sleep(pause) => Turn::Waited,
    }
}

fn name_of(signal: &Sig) -> String {
    match signal {
        Sig::Custom(name) => name.clone(),
        known => format!("{known:?}"),
    }
}
