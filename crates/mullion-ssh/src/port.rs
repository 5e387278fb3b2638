//! The two ports to a machine: one that only looks, and one that changes.
//!
//! Contracts that hold for every implementation (the suite in `mullion-testkit` watches them):
//!
//! - **Exit status is a value.** A command that ended by itself gives an [`Exit`], whatever its status. A signal, a
//!   deadline and a lost connection are errors of their own, and never an [`Exit`].
//! - **Lines** come whole and in order within each of the two streams, as soon as they end; between the streams there
//!   is no order. A last line without an end is a line. What is not UTF-8 is marked; what is too long is cut, and says
//!   so.
//! - **Whoever listens is quick:** while a listener does not return, others of the same connection may wait. It may
//!   use the same transport.
//! - **Cancellation:** a call ends within a moment after it was called off. A command that was running is asked to
//!   end, which is awaited for that moment, and killed later where it does not.
//! - **Concurrency:** all calls may be made at once, from any threads that are not part of an async runtime.

use std::io::Read;
use std::path::Path;

use mullion_plan::{Attend, Unattended};
use mullion_wire::Sha256Digest;

use crate::collect::{Collected, Tail};
use crate::command::{Command, Exit, Output, Put, Stream, Upload};
use crate::error::TransportError;
use crate::probe::Probe;

/// Looks at a machine, and cannot change it: the compiler refuses.
///
/// ```compile_fail,E0599
/// use mullion_ssh::{Command, ReadTransport, Transport};
///
/// fn change(machine: &dyn ReadTransport) {
///     let _ = machine.run(&Command::new("reboot"), &mullion_plan::Unattended, &mut |_, _| {});
/// }
/// ```
pub trait ReadTransport: Send + Sync {
    /// The machine, as people write it.
    fn place(&self) -> &str;

    /// Asks one of the questions that change nothing; the answer comes as lines.
    fn probe(
        &self,
        probe: &Probe,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError>;

    /// A whole file of at most so many bytes. A larger one is [`TransportError::TooLarge`], a missing one
    /// [`TransportError::NoFile`].
    fn read_file(&self, path: &str, limit: u64) -> Result<Vec<u8>, TransportError>;

    /// Asks a question, and collects the answer.
    fn answer(&self, probe: &Probe) -> Result<Output, TransportError> {
        let mut collected = Collected::default();
        let exit = self.probe(probe, &mut |stream, line| collected.add(stream, line))?;
        Ok(collected.into_output(exit))
    }
}

/// Changes a machine.
///
/// ```
/// use mullion_ssh::{Command, Transport};
///
/// fn change(machine: &dyn Transport) {
///     let _ = machine.run(&Command::new("reboot"), &mullion_plan::Unattended, &mut |_, _| {});
/// }
/// ```
pub trait Transport: ReadTransport {
    /// Runs a command, and hands on its lines as they come.
    ///
    /// - **Effect:** whatever the command does. Where the login says so, it runs as root.
    /// - **Idempotent:** as the command is. After [`TransportError::Lost`], [`TransportError::Deadline`] or
    ///   [`TransportError::CalledOff`] it may have been done or not, and may still be going on.
    fn run(
        &self,
        command: &Command,
        attendant: &dyn Attend,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError>;

    /// Puts a file in place.
    ///
    /// - **Effect:** on success the file has these bytes and permissions. The bytes come under another name beside it,
    ///   are compared with the digest there, and take its place in one moment: nobody ever sees half a file.
    /// - **Idempotent:** where the file has these bytes already, nothing is read from the source and nothing sent; its
    ///   permissions are set.
    /// - **Cancellation:** cut off anywhere, the file is as it was or as it should be. What is left beside it is removed
    ///   when the file is put again an hour later.
    fn put(
        &self,
        upload: &Upload,
        source: &mut dyn Read,
        attendant: &dyn Attend,
    ) -> Result<Put, TransportError>;

    /// Runs a command, and collects its output (of each stream the first megabytes).
    fn output(&self, command: &Command) -> Result<Output, TransportError> {
        let mut collected = Collected::default();
        let exit = self.run(command, &Unattended, &mut |stream, line| {
            collected.add(stream, line);
        })?;
        Ok(collected.into_output(exit))
    }

    /// Runs a command that must succeed. Another status than 0 is [`TransportError::Failed`], with its last lines.
    fn succeed(&self, command: &Command, attendant: &dyn Attend) -> Result<(), TransportError> {
        let mut tail = Tail::default();
        let exit = self.run(command, attendant, &mut |_, line| tail.add(line))?;
        if exit.is_success() {
            return Ok(());
        }
        Err(TransportError::Failed {
            place: self.place().to_owned(),
            command: command.to_string(),
            status: exit.status,
            tail: tail.into_lines(),
        })
    }

    /// Puts these bytes in place.
    fn put_bytes(&self, path: &str, bytes: &[u8], mode: u32) -> Result<Put, TransportError> {
        let upload = Upload {
            path: path.to_owned(),
            size: bytes.len() as u64,
            sha256: Sha256Digest::of(bytes),
            mode,
        };
        self.put(&upload, &mut &bytes[..], &Unattended)
    }

    /// Puts a file of this computer in place, of which the digest is known.
    fn put_file(
        &self,
        file: &Path,
        sha256: &Sha256Digest,
        path: &str,
        mode: u32,
        attendant: &dyn Attend,
    ) -> Result<Put, TransportError> {
        let unread = |source| TransportError::Source {
            place: self.place().to_owned(),
            path: path.to_owned(),
            source,
        };
        let mut source = fs_err::File::open(file).map_err(unread)?;
        let upload = Upload {
            path: path.to_owned(),
            size: source.metadata().map_err(unread)?.len(),
            sha256: sha256.clone(),
            mode,
        };
        self.put(&upload, &mut source, attendant)
    }
}
