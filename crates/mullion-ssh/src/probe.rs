//! The commands that change nothing.

use mullion_wire::{Blueprint, Request, write_line};

use crate::command::Command;
use crate::limits;
use crate::shell::Shell;

/// A command that changes nothing. The list is closed: whoever holds only a [`crate::ReadTransport`] can ask nothing
/// else of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// Is anybody there?
    Alive,
    /// Which start is it in? One line that no other start has.
    BootId,
    /// When was it last shut down? Nothing where nobody wrote that down, as on Linux. Not every Windows counts its starts:
    /// where it does not, this tells one from the other.
    LastShutdown,
    /// A file's SHA-256: one line that begins with it. Status 1 when there is no such file.
    Digest {
        /// The file.
        path: String,
    },
    /// What is it, and what does it stand on? One line a thing, `word=value`; nothing on Windows, where the agent tells.
    Machine,
    /// What an agent knows: [`Request::Facts`]; its events come as lines.
    AgentFacts {
        /// The agent's program.
        program: String,
    },
    /// How does what is there differ from a blueprint? [`Request::Compare`]; its events come as lines.
    AgentCompare {
        /// The agent's program.
        program: String,
        /// The blueprint.
        blueprint: Box<Blueprint>,
    },
}

impl Probe {
    /// The command itself, for a shell.
    pub fn command(&self, shell: &Shell) -> Command {
        let command = match (self, shell) {
            (Self::Alive | Self::LastShutdown, Shell::Posix) => Command::new("true"),
            (Self::Machine, Shell::Posix) => Command::script(MACHINE, [""; 0]),
            (Self::Alive | Self::Machine, Shell::Cmd { .. }) => Command::new("ver"),
            (Self::BootId, Shell::Posix) => {
                Command::new("cat").arg("/proc/sys/kernel/random/boot_id")
            }
            // Windows counts its starts, with the service `SysMain`.
            (Self::BootId, Shell::Cmd { .. }) => Command::new("reg").args(BOOTS),
            (Self::LastShutdown, Shell::Cmd { .. }) => Command::new("reg").args(SHUTDOWN),
            (Self::Digest { path }, Shell::Posix) => Command::new("sha256sum").args(["--", path]),
            (Self::Digest { path }, Shell::Cmd { agent }) => digest_by(agent, path),
            (Self::AgentFacts { program }, shell) => asked(shell, program, &Request::Facts),
            (Self::AgentCompare { program, blueprint }, shell) => {
                let blueprint = (**blueprint).clone();
                asked(shell, program, &Request::Compare { blueprint })
            }
        };
        command.within(limits::PROBE)
    }
}

/// One line for each thing, `word=value`. Uses nothing that a bare Debian lacks.
const MACHINE: &str = r#"
echo "arch=$(uname -m)"
echo "cpus=$(nproc)"
echo "memory=$(awk '/^MemTotal:/ {print $2}' /proc/meminfo)"
echo "free=$(df --output=avail -B1 /var/lib 2>/dev/null | tail -1 | tr -d ' ')"
echo "clock=$(date +%s)"
echo "systemd=$([ -d /run/systemd/system ] && echo yes || echo no)"
container=$(systemd-detect-virt --container 2>/dev/null || true)
echo "container=${container:-none}"
kind=$(stat -fc %T /sys/fs/cgroup 2>/dev/null)
if [ "$kind" = cgroup2fs ]; then echo cgroups=2; elif [ -d /sys/fs/cgroup/unified ]; then echo cgroups=hybrid; else echo cgroups=1; fi
echo "capabilities=$(awk '/^CapEff:/ {print $2}' /proc/self/status)"
echo "swaps=$(($(wc -l < /proc/swaps) - 1))"
if [ -e /var/lib/mullion/state.json ]; then echo kubernetes=ours; else
echo "kubernetes=$(ls -d /etc/kubernetes/*.conf /etc/kubernetes/manifests/*.yaml /var/lib/etcd/member 2>/dev/null | head -1)"; fi
ip -o addr show scope global 2>/dev/null | awk '{print "address=" $2 " " $4}'
if grep -qE '^nameserver' /etc/resolv.conf 2>/dev/null; then echo resolver=yes; else echo resolver=no; fi
"#;

const BOOTS: [&str; 4] = [
    "query",
    r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters",
    "/v",
    "BootId",
];

const SHUTDOWN: [&str; 4] = [
    "query",
    r"HKLM\SYSTEM\CurrentControlSet\Control\Windows",
    "/v",
    "ShutdownTime",
];

/// The digest of a file, told by an agent that is there: one line that begins with it.
pub(crate) fn digest_by(agent: &str, path: &str) -> Command {
    Command::new(agent).args(["digest", path])
}

fn asked(shell: &Shell, agent: &str, request: &Request) -> Command {
    let command = match shell {
        // An agent that is not there is told by the status that shells have for it, also where `sudo` stands before it.
        Shell::Posix => Command::script(r#"[ -x "$1" ] || exit 127; exec "$1" serve"#, [agent]),
        Shell::Cmd { .. } => Command::new(agent).arg("serve"),
    };
    // Every request is text, numbers and sorted maps: JSON holds them all. An empty line would be refused.
    command.stdin(write_line(request).unwrap_or_default())
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
        let command = probe.command(&Shell::Posix);
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
        let path = "--force".to_owned();
        assert_eq!(
            Probe::Digest { path }.command(&Shell::Posix).line(),
            "sha256sum -- --force"
        );
    }

    #[test]
    fn windows_is_asked_in_its_own_words() {
        let agent = r"C:\ProgramData\mullion\mullion-agent.exe";
        let shell = Shell::Cmd {
            agent: agent.into(),
        };
        let line = |probe: Probe| shell.line(&probe.command(&shell)).unwrap();
        assert_eq!(line(Probe::Alive), "ver");
        assert_eq!(
            line(Probe::LastShutdown),
            r"reg query HKLM\SYSTEM\CurrentControlSet\Control\Windows /v ShutdownTime"
        );
        let path = r"C:\a b\c".to_owned();
        assert_eq!(
            line(Probe::Digest { path }),
            format!(r#"if exist "{agent}" ({agent} digest ^"C:\a b\c^") else exit 127"#)
        );
        let program = agent.to_owned();
        assert_eq!(
            line(Probe::AgentFacts { program }),
            format!(r#"if exist "{agent}" ({agent} serve) else exit 127"#)
        );
    }
}
