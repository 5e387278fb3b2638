//! The commands that change nothing.

use mullion_wire::{Blueprint, Request, write_line};

use crate::command::Command;
use crate::limits;

/// A command that changes nothing. The list is closed: whoever holds only a [`crate::ReadTransport`] can ask nothing
/// else of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// Is anybody there?
    Alive,
    /// Since when is it up? One line: seconds.
    Uptime,
    /// Which start is it in? One line that no other start has.
    BootId,
    /// Its name. One line.
    HostName,
    /// Its kernel: name, release and machine in one line.
    Kernel,
    /// Its distribution: the lines of `os-release`.
    Distribution,
    /// A file's SHA-256: one line that begins with it. Status 1 when there is no such file.
    Digest {
        /// The file.
        path: String,
    },
    /// A service's state in one word: `active`, `failed`, …. Status 0 for `active` only.
    Service {
        /// Its name.
        name: String,
    },
    /// The last lines of a service's journal.
    Journal {
        /// Its name.
        name: String,
        /// How many lines.
        lines: u32,
    },
    /// What an agent knows: [`Request::Facts`]; its events come as lines.
    AgentFacts {
        /// The agent's program.
        program: String,
    },
    /// Which contents an agent lacks for a blueprint: [`Request::Missing`]; its events come as lines.
    AgentMissing {
        /// The agent's program.
        program: String,
        /// The blueprint.
        blueprint: Box<Blueprint>,
    },
}

impl Probe {
    /// The command itself.
    pub(crate) fn command(&self) -> Command {
        let command = match self {
            Self::Alive => Command::new("true"),
            Self::Uptime => Command::new("cat").arg("/proc/uptime"),
            Self::BootId => Command::new("cat").arg("/proc/sys/kernel/random/boot_id"),
            Self::HostName => Command::new("uname").arg("-n"),
            Self::Kernel => Command::new("uname").arg("-srm"),
            Self::Distribution => Command::new("cat").arg("/etc/os-release"),
            Self::Digest { path } => Command::new("sha256sum").args(["--", path]),
            Self::Service { name } => Command::new("systemctl").args(["is-active", "--", name]),
            Self::Journal { name, lines } => Command::new("journalctl").args([
                format!("--unit={name}"),
                format!("--lines={lines}"),
                "--no-pager".into(),
                "--quiet".into(),
                "--output=short-iso".into(),
            ]),
            Self::AgentFacts { program } => asked(program, &Request::Facts),
            Self::AgentMissing { program, blueprint } => asked(
                program,
                &Request::Missing {
                    blueprint: Blueprint::clone(blueprint),
                },
            ),
        };
        command.within(limits::PROBE)
    }
}

fn asked(agent: &str, request: &Request) -> Command {
    // An agent that is not there is told by the status that shells have for it, also where `sudo` stands before it.
    // Every request is text, numbers and sorted maps: JSON holds them all. An empty line would be refused.
    Command::script(r#"[ -x "$1" ] || exit 127; exec "$1" serve"#, [agent])
        .stdin(write_line(request).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Stdin;

    #[test]
    fn an_agent_is_asked_in_one_line() {
        let probe = Probe::AgentFacts {
            program: "/bin/agent".into(),
        };
        let command = probe.command();
        assert!(
            command.line().ends_with("sh /bin/agent"),
            "{}",
            command.line()
        );
        let Stdin::Bytes(line) = command.stdin else {
            panic!("the agent is asked nothing");
        };
        assert_eq!(
            mullion_wire::read_request(std::str::from_utf8(&line).unwrap()).unwrap(),
            Request::Facts
        );
        assert_eq!(line.split(|byte| *byte == b'\n').count(), 2);
    }

    #[test]
    fn a_name_that_looks_like_an_option_stays_a_name() {
        let name = "--force".to_owned();
        assert_eq!(
            Probe::Service { name: name.clone() }.command().line(),
            "systemctl is-active -- --force"
        );
        let path = name.clone();
        assert_eq!(
            Probe::Digest { path }.command().line(),
            "sha256sum -- --force"
        );
        assert!(
            Probe::Journal { name, lines: 5 }
                .command()
                .line()
                .contains("--unit=--force")
        );
    }
}
