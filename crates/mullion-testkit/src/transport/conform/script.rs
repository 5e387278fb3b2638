//! The commands of the suite, and how a machine in memory plays them.

use std::time::Duration;

use mullion_wire::Sha256Digest;

use crate::transport::memory::{Answer, Files};
use mullion_ssh::{Command, Stdin};

/// Ends with `$1`.
pub(super) const EXIT: &str = "exit \"$1\"";
/// Ends by a signal.
pub(super) const KILLED: &str = "kill -KILL $$";
/// Lines in pieces, on both streams.
pub(super) const PIECES: &str =
    "printf 'one\\ntw'; sleep 0.05; printf 'o\\n\\nthree'; echo oops >&2";
/// A byte that no text has.
pub(super) const ODD: &str = "printf 'a\\377b\\n'";
/// A line of `$1` bytes.
pub(super) const LONG: &str = "head -c \"$1\" /dev/zero | tr '\\0' x";
/// A line, then nothing for long.
pub(super) const BEGUN: &str = "echo begun; sleep 60";
/// How long that is.
pub(super) const LONG_TIME: Duration = Duration::from_mins(1);

/// Plays the commands of the suite for a machine in memory.
pub fn scripted(command: &Command, files: &mut Files) -> Option<Answer> {
    let args: Vec<_> = command.args.iter().map(String::as_str).collect();
    let given = match &command.stdin {
        Stdin::Empty => &[][..],
        Stdin::Bytes(bytes) => bytes,
    };
    let mode = |path: &str| files.get(path).map_or(0, |file| file.mode);
    Some(match (command.program.as_str(), &args[..]) {
        ("sh", ["-c", EXIT, _, status]) => Answer::exit(status.parse().ok()?),
        ("sh", ["-c", KILLED, ..]) => Answer::signal("KILL"),
        ("sh", ["-c", PIECES, ..]) => Answer::exit(0)
            .out("one\ntw")
            .err("oops\n")
            .out("o\n\nthree"),
        ("sh", ["-c", ODD, ..]) => Answer::exit(0).out(*b"a\xffb\n"),
        ("sh", ["-c", LONG, _, size]) => Answer::exit(0).out(vec![b'x'; size.parse().ok()?]),
        ("sh", ["-c", BEGUN, ..]) => Answer::exit(0).out("begun\n").takes(LONG_TIME),
        ("sha256sum", []) => Answer::exit(0).out(format!("{}  -\n", Sha256Digest::of(given))),
        ("seq", ["1", last]) => {
            let lines: Vec<_> = (1..=last.parse::<u64>().ok()?)
                .map(|n| n.to_string())
                .collect();
            Answer::exit(0).out(lines.join("\n") + "\n")
        }
        ("stat", ["-c", "%a", path]) => Answer::exit(0).out(format!("{:o}\n", mode(path))),
        ("ls", ["-A", folder]) => {
            let inside =
                |path: &String| Some(path.strip_prefix(folder)?.strip_prefix('/')?.to_owned());
            let names: Vec<_> = files.keys().filter_map(inside).collect();
            Answer::exit(0).out(names.join("\n"))
        }
        ("rm", ["-rf", "--", folder]) => {
            files.retain(|path, _| !path.starts_with(folder));
            Answer::exit(0)
        }
        _ => return None,
    })
}
