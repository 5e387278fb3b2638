//! Commands that are given up are ended.
//!
//! OpenSSH passes signals on only to users who are not root, and lets everything run on when its channel is closed. So
//! every command first says which process it is, and another command ends that. What comes before that word is not the
//! command's but its shell's, whose settings may print what they like; it is left out.
//!
//! Windows' OpenSSH ends a command with its channel, so that there nothing is announced.

use std::sync::Arc;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::time::timeout;

use super::session::Session;
use crate::command::Command;
use crate::keys::unique;
use crate::limits;
use crate::quote::quoted;

/// Says which process it is, then becomes the command.
const ANNOUNCE: &str = "echo \"$0 $$\"; exec \"$@\"";

/// Ends a process and its group: politely, then not. `$1` the process, `$2` the tenths of seconds between the two.
const FAREWELL: &str = "kill -s TERM -- \"-$1\" 2> /dev/null || exit 0
left=$2
while [ \"$left\" -gt 0 ] && kill -s 0 -- \"-$1\" 2> /dev/null; do
    sleep 0.1 || sleep 1
    left=$((left - 1))
done
kill -s KILL -- \"-$1\" 2> /dev/null
exit 0";

/// More than this before the announcement, and there is none.
const NOISE: usize = 64 * 1024;

/// Takes the announcement out of what comes on standard output, and everything before it.
pub(super) struct Announcement {
    token: String,
    begun: Vec<u8>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Awaited,
    Heard(u32),
    Missed,
    /// There is none: the command ends with its channel.
    None,
}

impl Announcement {
    pub(super) fn new() -> Self {
        Self {
            token: format!("mullion-{}", unique()),
            begun: Vec::new(),
            state: State::Awaited,
        }
    }

    /// No announcement: the command ends with its channel.
    pub(super) fn none() -> Self {
        Self {
            token: String::new(),
            begun: Vec::new(),
            state: State::None,
        }
    }

    /// A command in the words of a shell, so that it announces itself. The process stays the same all along: nothing
    /// stands between us and its exit status or signal.
    pub(super) fn line(&self, command: &str) -> String {
        if self.state == State::None {
            return command.to_owned();
        }
        format!("exec sh -c {} {} {command}", quoted(ANNOUNCE), self.token)
    }

    /// Takes bytes of standard output, and passes on those that are the command's.
    pub(super) fn take(&mut self, bytes: &[u8], pass: &mut dyn FnMut(&[u8])) {
        if self.state != State::Awaited {
            pass(bytes);
            return;
        }
        self.begun.extend_from_slice(bytes);
        if let Some((process, end)) = self.found() {
            self.state = State::Heard(process);
            self.begun.drain(..end);
            self.finish(pass);
        } else if self.begun.len() > NOISE {
            self.state = State::Missed;
            self.finish(pass);
        }
    }

    /// The process that was announced, and where its line ends. The shell's words before it need not end a line.
    fn found(&self) -> Option<(u32, usize)> {
        let token = self.token.as_bytes();
        let start = self
            .begun
            .windows(token.len())
            .position(|part| part == token)?;
        let after = start + token.len();
        let length = self.begun[after..].iter().position(|byte| *byte == b'\n')?;
        let process = std::str::from_utf8(&self.begun[after..after + length]).ok()?;
        Some((process.trim().parse().ok()?, after + length + 1))
    }

    /// Passes on what is left: without an announcement, all that came. A shell that runs nothing says why.
    pub(super) fn finish(&mut self, pass: &mut dyn FnMut(&[u8])) {
        if !self.begun.is_empty() {
            pass(&std::mem::take(&mut self.begun));
        }
    }
}

/// Ends a command that nobody listens to any more, and its channel.
pub(super) async fn leave(
    session: Session,
    mut read: ChannelReadHalf,
    write: Arc<ChannelWriteHalf<Msg>>,
    mut announcement: Announcement,
) {
    // It may have been given up before it was heard of.
    let listening = async {
        while let State::Awaited = announcement.state {
            match read.wait().await {
                Some(ChannelMsg::Data { data }) => announcement.take(&data, &mut |_| {}),
                Some(ChannelMsg::Close) | None => return,
                Some(_) => {}
            }
        }
    };
    let _ = timeout(limits::FAREWELL, listening).await;
    if announcement.state == State::None {
        let _ = write.close().await;
        return;
    }
    // Whoever it reaches ends sooner; for the others there is `dismiss`.
    let _ = write.signal(Sig::TERM).await;
    // What still comes is read and forgotten, so that it holds up nobody else. russh forgets a channel only when the
    // server closes it, so that is awaited.
    let emptying = async { while read.wait().await.is_some() {} };
    let ended = async { tokio::join!(dismiss(&session, &announcement), emptying) };
    if timeout(2 * limits::FAREWELL, ended).await.is_err() {
        let _ = write.close().await;
    }
}

async fn dismiss(session: &Session, announcement: &Announcement) {
    let State::Heard(process) = announcement.state else {
        return;
    };
    let tenths = limits::FAREWELL.as_secs() * 10;
    let farewell = Command::script(FAREWELL, [process.to_string(), tenths.to_string()]);
    let line = format!("exec {}{}", session.prefix(), farewell.line());
    let Ok((mut channel, _permit)) = session.open_channel("kill").await else {
        return;
    };
    if channel.exec(true, line).await.is_ok() {
        while channel.wait().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(announcement: &mut Announcement, pieces: &[&[u8]]) -> String {
        let mut found = Vec::new();
        let mut pass = |bytes: &[u8]| found.extend_from_slice(bytes);
        for piece in pieces {
            announcement.take(piece, &mut pass);
        }
        announcement.finish(&mut pass);
        String::from_utf8(found).unwrap()
    }

    #[test]
    fn only_the_announcement_is_taken_wherever_it_is_cut() {
        let mut announcement = Announcement::new();
        let text = format!("noise\nmore{} 4711\nmine\nrest", announcement.token);
        for cut in 0..text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            announcement.state = State::Awaited;
            assert_eq!(passed(&mut announcement, &[one, two]), "mine\nrest");
            assert_eq!(announcement.state, State::Heard(4711));
        }
    }

    #[test]
    fn without_an_announcement_everything_is_passed_on() {
        let mut announcement = Announcement::new();
        assert_eq!(passed(&mut announcement, &[b"one\n", b"two"]), "one\ntwo");
        assert_eq!(announcement.state, State::Awaited);
        let mut announcement = Announcement::new();
        let noise = vec![b'x'; NOISE + 1];
        assert_eq!(passed(&mut announcement, &[&noise, b"y"]).len(), NOISE + 2);
    }
}
