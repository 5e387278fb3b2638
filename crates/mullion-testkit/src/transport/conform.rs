//! Holds every transport to the contracts of [`mullion_ssh::ReadTransport`] and [`mullion_ssh::Transport`].
//!
//! The machine in memory passes it first, the real one through the same calls. It needs a machine with the commands
//! that every Linux has; [`scripted`] plays them for a machine in memory.

mod script;

use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::ports::{Breach, require};
use mullion_plan::{Attend, News, Unattended};
use mullion_wire::Sha256Digest;

use mullion_ssh::Class;
use mullion_ssh::LONGEST_LINE;
use mullion_ssh::Probe;
use mullion_ssh::Transport;
use mullion_ssh::TransportError;
use mullion_ssh::{Command, Put, Stream, Upload};
pub use script::scripted;
use script::{BEGUN, EXIT, KILLED, LONG, ODD, PIECES};

/// Far less than the longest command takes: whoever ended it did not wait for it.
const SOON: Duration = Duration::from_secs(30);

/// Runs the whole suite. `scratch` is a folder on the machine whose files are the suite's.
pub fn conforms(transport: &dyn Transport, scratch: &str) -> Result<(), Breach> {
    statuses(transport)?;
    lines(transport)?;
    much_output(transport)?;
    input(transport)?;
    time(transport)?;
    listening(transport)?;
    reading(transport, scratch)?;
    putting(transport, scratch)?;
    bad_uploads(transport, scratch)?;
    at_once(transport)?;
    transport
        .succeed(
            &Command::new("rm").args(["-rf", "--", scratch]),
            &Unattended,
        )
        .or_breach("the suite's files can be removed")
}

/// A connection that is lost in the middle is an error. `sever` cuts it.
pub fn conforms_when_lost(
    transport: &dyn Transport,
    sever: &mut dyn FnMut(),
) -> Result<(), Breach> {
    const LOST: &str = "a lost connection is an error, never success";
    let began = Instant::now();
    let mut heard = Vec::new();
    let result = transport.run(
        &Command::script(BEGUN, [""; 0]),
        &Unattended,
        &mut |_, line| {
            heard.push(line.to_owned());
            sever();
        },
    );
    require(
        heard == ["begun"],
        "what came before the loss is heard",
        || format!("{heard:?}"),
    )?;
    match result {
        Err(error) if error.class() == Class::Lost => {}
        other => return Err(breach(LOST, format!("{other:?}"))),
    }
    require(began.elapsed() < SOON, "a loss is noticed", || {
        format!("{:?}", began.elapsed())
    })?;
    for result in [
        transport.output(&Command::new("true")).map(drop),
        transport.answer(&Probe::Alive).map(drop),
        transport
            .put_bytes("/nowhere/file", b"abc", 0o644)
            .map(drop),
        transport.read_file("/etc/hostname", 1024).map(drop),
    ] {
        match result {
            Err(error) if matches!(error.class(), Class::Lost | Class::Unreachable) => {}
            other => return Err(breach(LOST, format!("afterwards: {other:?}"))),
        }
    }
    Ok(())
}

fn statuses(transport: &dyn Transport) -> Result<(), Breach> {
    const VALUE: &str = "an exit status is a value";
    for status in [0, 1, 3, 127, 255] {
        let command = Command::script(EXIT, [status.to_string()]);
        let exit = transport.output(&command).or_breach(VALUE)?.exit;
        require(exit.status == status, VALUE, || {
            format!("{} instead of {status}", exit.status)
        })?;
    }
    match transport.output(&Command::script(KILLED, [""; 0])) {
        Err(TransportError::Signal { signal, .. }) if signal == "KILL" => {}
        other => {
            let contract = "a command that a signal ended is an error of its own";
            return Err(breach(contract, format!("{other:?}")));
        }
    }
    match transport.succeed(&Command::script(EXIT, ["3"]), &Unattended) {
        Err(TransportError::Failed { status: 3, .. }) => Ok(()),
        other => Err(breach(
            "what must succeed and does not is an error",
            format!("{other:?}"),
        )),
    }
}

fn lines(transport: &dyn Transport) -> Result<(), Breach> {
    const WHOLE: &str = "lines are whole and in order, each on its stream";
    let (out, err) = heard(transport, &Command::script(PIECES, [""; 0])).or_breach(WHOLE)?;
    require(out == ["one", "two", "", "three"], WHOLE, || {
        format!("{out:?}")
    })?;
    require(err == ["oops"], WHOLE, || format!("{err:?}"))?;
    let (out, _) = heard(transport, &Command::script(ODD, [""; 0])).or_breach(WHOLE)?;
    require(out == ["a\u{fffd}b"], "what is not UTF-8 is marked", || {
        format!("{out:?}")
    })?;
    let long = (LONGEST_LINE + 1000).to_string();
    let (out, _) = heard(transport, &Command::script(LONG, [long])).or_breach(WHOLE)?;
    let is_cut = out.len() == 1 && out[0].ends_with("(1000 bytes left out)");
    require(is_cut, "a line that is too long is cut and says so", || {
        format!("{} lines", out.len())
    })
}

fn much_output(transport: &dyn Transport) -> Result<(), Breach> {
    const ALL: &str = "all of much output comes, in order";
    const LAST: u64 = 100_000;
    let mut expected = 1;
    let mut wrong = None;
    let command = Command::new("seq").args(["1".to_owned(), LAST.to_string()]);
    let result = transport.run(&command, &Unattended, &mut |_, line| {
        if line != expected.to_string() {
            wrong.get_or_insert_with(|| format!("`{line}` instead of {expected}"));
        }
        expected += 1;
    });
    let exit = result.or_breach(ALL)?;
    if let Some(wrong) = wrong {
        return Err(breach(ALL, wrong));
    }
    require(exit.is_success() && expected == LAST + 1, ALL, || {
        format!("ends before {expected}")
    })
}

fn input(transport: &dyn Transport) -> Result<(), Breach> {
    const WHOLE: &str = "a command reads exactly what it is given";
    const UNREAD: &str = "input that nobody reads holds up nothing";
    let bytes: Vec<u8> = (0..1_200_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    for given in [&[][..], b"a", &bytes] {
        let command = Command::new("sha256sum").stdin(given);
        let output = transport.output(&command).or_breach(WHOLE)?;
        let digest = Sha256Digest::of(given);
        require(output.out.starts_with(digest.as_str()), WHOLE, || {
            format!("{} bytes: {output:?}", given.len())
        })?;
    }
    let nothing = Command::new("cat");
    let output = transport
        .output(&nothing)
        .or_breach("without input, its end comes at once")?;
    require(output.out.is_empty(), WHOLE, || output.out)?;
    let command = Command::script(EXIT, ["7"]).stdin(bytes.repeat(4));
    let exit = transport.output(&command).or_breach(UNREAD)?.exit;
    require(exit.status == 7, UNREAD, || exit.status.to_string())
}

/// Calls off after the first look.
struct Impatient(AtomicBool);

impl Attend for Impatient {
    fn hear(&self, _: News) {}
    fn is_called_off(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn time(transport: &dyn Transport) -> Result<(), Breach> {
    const LATE: &str = "a command that takes too long is given up in time";
    const OFF: &str = "what is called off ends soon";
    let began = Instant::now();
    let command = Command::script(BEGUN, [""; 0]).within(Duration::from_millis(300));
    match transport.output(&command) {
        Err(TransportError::Deadline { .. }) if began.elapsed() < SOON => {}
        other => {
            return Err(breach(
                LATE,
                format!("{other:?} after {:?}", began.elapsed()),
            ));
        }
    }
    let began = Instant::now();
    let attendant = Impatient(AtomicBool::new(false));
    let command = Command::script(BEGUN, [""; 0]);
    let result = transport.run(&command, &attendant, &mut |_, _| {
        attendant.0.store(true, Ordering::Relaxed);
    });
    match result {
        Err(TransportError::CalledOff { .. }) if began.elapsed() < SOON => {}
        other => {
            return Err(breach(
                OFF,
                format!("{other:?} after {:?}", began.elapsed()),
            ));
        }
    }
    let output = transport.output(&Command::script(EXIT, ["0"]));
    output
        .or_breach("after a command was given up, the next one runs")
        .map(drop)
}

fn listening(transport: &dyn Transport) -> Result<(), Breach> {
    const NESTED: &str = "whoever listens may use the same transport";
    let mut nested = Vec::new();
    let command = Command::script(PIECES, [""; 0]);
    let result = transport.run(&command, &Unattended, &mut |_, _| {
        nested.push(
            transport
                .answer(&Probe::Alive)
                .map(|answer| answer.exit.status),
        );
    });
    let _ = result.or_breach(NESTED)?;
    let is_well = nested.len() == 5 && nested.iter().all(|status| matches!(status, Ok(0)));
    require(is_well, NESTED, || format!("{nested:?}"))
}

fn reading(transport: &dyn Transport, scratch: &str) -> Result<(), Breach> {
    const SAME: &str = "a file is read as it was put";
    let path = format!("{scratch}/read it's $HOME");
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    transport.put_bytes(&path, &bytes, 0o600).or_breach(SAME)?;
    let size = bytes.len() as u64;
    let found = transport.read_file(&path, size).or_breach(SAME)?;
    require(found == bytes, SAME, || format!("{} bytes", found.len()))?;
    match transport.read_file(&path, size - 1) {
        Err(TransportError::TooLarge { .. }) => {}
        other => return Err(breach("a larger file than wanted is refused", said(other))),
    }
    match transport.read_file(&format!("{scratch}/none"), 10) {
        Err(TransportError::NoFile { .. }) => {}
        other => return Err(breach("a missing file is an error of its own", said(other))),
    }
    match transport.read_file("etc/hostname", 10) {
        Err(TransportError::Path { .. }) => {}
        other => return Err(breach("a path is absolute", said(other))),
    }
    let digest = transport.answer(&Probe::Digest { path }).or_breach(SAME)?;
    require(
        digest.out.contains(Sha256Digest::of(&bytes).as_str()),
        SAME,
        || digest.out,
    )
}

/// A source that must not be read.
struct Untouched;

impl std::io::Read for Untouched {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("it was read"))
    }
}

fn putting(transport: &dyn Transport, scratch: &str) -> Result<(), Breach> {
    const PUT: &str = "a file is put with its bytes and permissions";
    const AGAIN: &str = "a file that is there already is not sent again";
    let path = format!("{scratch}/folder/that is new/file");
    let upload = |bytes: &[u8], mode| Upload {
        path: path.clone(),
        size: bytes.len() as u64,
        sha256: Sha256Digest::of(bytes),
        mode,
    };
    let large: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
    for (bytes, mode) in [(&b"first"[..], 0o640), (&large, 0o755), (b"", 0o600)] {
        let put = transport
            .put(&upload(bytes, mode), &mut &bytes[..], &Unattended)
            .or_breach(PUT)?;
        require(put == Put::Sent, PUT, || {
            format!("{put:?} of {} bytes", bytes.len())
        })?;
        let found = transport.read_file(&path, 10_000_000).or_breach(PUT)?;
        require(found == bytes, PUT, || {
            format!("{} of {} bytes", found.len(), bytes.len())
        })?;
        require_mode(transport, &path, mode)?;
        let other = mode ^ 0o100;
        let put = transport.put(&upload(bytes, other), &mut Untouched, &Unattended);
        let put = put.or_breach(AGAIN)?;
        require(put == Put::AlreadyThere, AGAIN, || format!("{put:?}"))?;
        require_mode(transport, &path, other)?;
    }
    alone(transport, &format!("{scratch}/folder/that is new"), "file")
}

fn bad_uploads(transport: &dyn Transport, scratch: &str) -> Result<(), Breach> {
    const KEPT: &str = "an upload that failed changes nothing";
    let folder = format!("{scratch}/bad");
    let path = format!("{folder}/file");
    transport.put_bytes(&path, b"good", 0o644).or_breach(KEPT)?;
    let upload = |size, of: &[u8]| Upload {
        path: path.clone(),
        size,
        sha256: Sha256Digest::of(of),
        mode: 0o600,
    };
    match transport.put(&upload(3, b"new"), &mut &b"bad"[..], &Unattended) {
        Err(TransportError::Digest { .. }) => {}
        other => {
            return Err(breach(
                "a wrong digest is an error of its own",
                format!("{other:?}"),
            ));
        }
    }
    for (given, size) in [(&b"new"[..], 4), (b"new", 2)] {
        match transport.put(&upload(size, b"new"), &mut &given[..], &Unattended) {
            Err(TransportError::Source { .. }) => {}
            other => {
                return Err(breach(
                    "a wrong size is an error of the source",
                    format!("{other:?}"),
                ));
            }
        }
    }
    match transport.put(&upload(3, b"new"), &mut Untouched, &Unattended) {
        Err(TransportError::Source { .. }) => {}
        other => {
            return Err(breach(
                "a source that fails is an error of its own",
                format!("{other:?}"),
            ));
        }
    }
    let impatient = Impatient(AtomicBool::new(true));
    match transport.put(&upload(3, b"new"), &mut &b"new"[..], &impatient) {
        Err(TransportError::CalledOff { .. }) => {}
        other => return Err(breach("an upload can be called off", format!("{other:?}"))),
    }
    let found = transport.read_file(&path, 100).or_breach(KEPT)?;
    require(found == b"good", KEPT, || format!("{found:?}"))?;
    require_mode(transport, &path, 0o644)?;
    alone(transport, &folder, "file")
}

fn at_once(transport: &dyn Transport) -> Result<(), Breach> {
    const OWN: &str = "of many commands at once, each gets its own outcome";
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..24_i32 {
            let wrong = &wrong;
            scope.spawn(move || {
                let text = number.to_string().repeat(5000);
                let command = Command::new("cat").stdin(text.as_str());
                let echoed = transport.output(&command);
                let exit = transport.output(&Command::script(EXIT, [number.to_string()]));
                let is_well = matches!(&echoed, Ok(output) if output.out.trim() == text)
                    && matches!(&exit, Ok(output) if output.exit.status == number);
                if !is_well && let Ok(mut wrong) = wrong.lock() {
                    wrong.push(format!(
                        "{number}: {:?}, {exit:?}",
                        echoed.map(|output| output.exit)
                    ));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_default();
    require(wrong.is_empty(), OWN, || wrong.join("; "))
}

fn require_mode(transport: &dyn Transport, path: &str, mode: u32) -> Result<(), Breach> {
    const MODE: &str = "a file has the permissions that were wanted";
    let output = transport
        .output(&Command::new("stat").args(["-c", "%a", path]))
        .or_breach(MODE)?;
    let found = output.out.trim();
    require(found == format!("{mode:o}"), MODE, || {
        format!("{found} instead of {mode:o}")
    })
}

/// Nothing is left beside a file.
fn alone(transport: &dyn Transport, folder: &str, file: &str) -> Result<(), Breach> {
    const ALONE: &str = "nothing is left beside a file";
    let output = transport
        .output(&Command::new("ls").args(["-A", folder]))
        .or_breach(ALONE)?;
    require(output.out.trim() == file, ALONE, || output.out)
}

fn heard(
    transport: &dyn Transport,
    command: &Command,
) -> Result<(Vec<String>, Vec<String>), TransportError> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = transport.run(command, &Unattended, &mut |stream, line| match stream {
        Stream::Out => out.push(line.to_owned()),
        Stream::Err => err.push(line.to_owned()),
    })?;
    if !exit.is_success() {
        err.push(format!("status {}", exit.status));
    }
    Ok((out, err))
}

fn said(result: Result<Vec<u8>, TransportError>) -> String {
    match result {
        Ok(bytes) => format!("{} bytes", bytes.len()),
        Err(error) => format!("{error:?}"),
    }
}

fn breach(contract: &'static str, words: impl Display) -> Breach {
    Breach {
        contract,
        words: words.to_string(),
    }
}

/// An error where none should be.
trait OrBreach<T> {
    fn or_breach(self, contract: &'static str) -> Result<T, Breach>;
}

impl<T> OrBreach<T> for Result<T, TransportError> {
    fn or_breach(self, contract: &'static str) -> Result<T, Breach> {
        self.map_err(|error| breach(contract, format!("{error}: {error:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::memory::{Fault, Memory};

    #[test]
    fn a_machine_in_memory_conforms() {
        let machine = Memory::new("memory", scripted);
        conforms(&machine, "/scratch").unwrap();
        assert!(machine.files().is_empty());
    }

    #[test]
    fn a_machine_in_memory_conforms_when_it_is_lost() {
        let machine = Memory::new("memory", scripted);
        conforms_when_lost(&machine, &mut || machine.strike(Fault::Lose { after: 0 })).unwrap();
    }

    #[test]
    fn a_machine_that_breaks_a_contract_does_not_conform() {
        let machine = Memory::new("memory", |command, files| {
            let mut answer = scripted(command, files)?;
            // As a library that invents a status where none came.
            if answer.ending.is_err() {
                answer.ending = Ok(0);
            }
            Some(answer)
        });
        let breach = conforms(&machine, "/scratch").unwrap_err();
        assert_eq!(
            breach.contract,
            "a command that a signal ended is an error of its own"
        );
    }
}
