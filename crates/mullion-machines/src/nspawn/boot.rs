//! Starts and ends a machine.
//!
//! Everything that a machine has mounted is in name spaces that end with its processes: however it ends, and
//! whoever else is killed, no mount stays behind. Its cable to the bridge goes with its network name space.

use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fs_err::File;
use mullion_plan::{Attend, News};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_wire::Patience;
use mullion_wire::text::one_line;

use super::cgroup::Group;
use super::place::{Home, Label, ON_DISK};
use super::process::{Body, PROGRAM, Running, root_argument};
use super::units::Units;
use super::{exec, isolation, names, unit};
use crate::driver::Stop;
use crate::error::DriverError;
use crate::quirks::{Init, quirks};
use crate::wish::NetworkWish;

/// How long a machine's first process may usually take to appear, while what carries the machine lives.
const FIRST_PROCESS: Duration = Duration::from_mins(1);

/// How often a start that takes long is reported.
const REPORT: Duration = Duration::from_secs(10);

/// How long a start waits for the login to open.
const LOGIN: Duration = Duration::from_secs(5);

/// After so long a cable that cannot be seen is taken for plugged.
const UNSEEN: Duration = Duration::from_millis(500);

/// How long a machine may take to shut down.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// How long the kernel may take to end what was killed.
pub(super) const KILLED: Duration = Duration::from_secs(10);

/// How often a state is looked at.
pub(super) const PAUSE: Duration = Duration::from_millis(15);

/// How much of a console is kept from earlier starts.
const CONSOLE: u64 = 1 << 20;

/// What the container program ends with when the machine wants to be started anew.
pub(super) const AGAIN: i32 = 133;

/// Mounts a machine's clone and becomes the container program. In a mount name space of its own.
const BECOME: &str = "\
set -eu
mount -t overlay mullion -o \"$1\" \"$2\"
shift 2
exec \"$@\"
";

/// The same where nobody keeps machines running: stays, has the container program enter the machine's control
/// groups, and starts it anew when the machine restarts itself, with those groups empty again.
///
/// What our caller has open without our knowing, as `flock` has its file, must not stay open as long as the machine; a
/// shell can close one digit's worth of it.
const KEEP: &str = "\
set -u
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
mount -t overlay mullion -o \"$1\" \"$2\" || exit
again=$3 groups=$4
shift 4
while :; do
  sh -c '
    groups=$1
    shift
    while [ \"$groups\" -gt 0 ]; do
      echo $$ > \"$1/cgroup.procs\" || exit
      groups=$((groups - 1))
      shift
    done
    exec \"$@\"
  ' mullion-machine \"$groups\" \"$@\"
  code=$?
  [ \"$code\" -eq \"$again\" ] || exit \"$code\"
  left=$groups
  for group; do
    [ \"$left\" -gt 0 ] || break
    left=$((left - 1))
    find \"$group\" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null
  done
done
";

/// Starts a machine that is whole and does not run, and waits until its first process is there.
///
/// `network` where systemd starts the machine with this computer too.
pub(super) fn start(
    home: &Home,
    label: &Label,
    (units, network): (&Units, Option<&NetworkWish>),
    pace: &Pace,
    attendant: &dyn Attend,
) -> Result<(), DriverError> {
    let body = Body::new(home, &label.cluster, &label.name)?;
    let mut child = match quirks()?.init {
        Init::Systemd => {
            unit::start(home, label, units, network)?;
            None
        }
        Init::Other => {
            let group = body.group();
            for what in group.make(&label.size, isolation::tasks(&label.size)?)? {
                let why = "its control groups cannot".to_owned();
                attendant.hear(News::Unlimited { what, why });
            }
            Some(detached(home, label, group)?)
        }
    };
    let seen = await_first_process(&label.name, pace, attendant, &mut || {
        look(&body, || match &mut child {
            Some(child) => Ok(child.try_wait()?.is_some()),
            None => unit_has_ended(&body, label),
        })
    });
    let seen = seen?;
    if let Some(mut child) = child {
        if seen == Seen::Begun && Running::find(&body)?.is_none() {
            // Without its overlay no later look finds it: another start would use the same folders beside it.
            end_session(&mut child)?;
        } else {
            reap(child);
        }
    }
    judge(home, label, seen, pace, attendant)
}

/// Waits for the first process of a machine that an earlier start left on its way.
pub(super) fn resume(
    home: &Home,
    label: &Label,
    body: &Body,
    pace: &Pace,
    attendant: &dyn Attend,
) -> Result<(), DriverError> {
    let init = quirks()?.init;
    let seen = await_first_process(&label.name, pace, attendant, &mut || {
        look(body, || match init {
            Init::Systemd => unit_has_ended(body, label),
            Init::Other => Ok(Running::find(body)?.is_none()),
        })
    })?;
    judge(home, label, seen, pace, attendant)
}

/// Looks at a machine that starts. Without a first process, `has_ended` decides.
fn look(
    body: &Body,
    has_ended: impl FnOnce() -> Result<bool, DriverError>,
) -> Result<Seen, DriverError> {
    Ok(if body.is_led() {
        Seen::Led
    } else if has_ended()? {
        Seen::Over
    } else {
        Seen::Begun
    })
}

/// Whether the unit of a machine has ended.
///
/// The processes alone do not prove an end: [`Running`] finds them only after they mounted the overlay. On a busy
/// computer that takes seconds after `systemctl start` returned, and a unit that restarts has no process for a moment.
fn unit_has_ended(body: &Body, label: &Label) -> Result<bool, DriverError> {
    // This look repeats every few milliseconds, and asking systemd starts a program.
    Ok(!body.group().is_populated() && unit::has_ended(&label.cluster, &label.name)?)
}

/// What a start that was waited for comes to.
fn judge(
    home: &Home,
    label: &Label,
    seen: Seen,
    pace: &Pace,
    attendant: &dyn Attend,
) -> Result<(), DriverError> {
    let (cluster, machine) = (label.cluster.clone(), label.name.clone());
    let tail = || tail(&home.console(), 10);
    match seen {
        Seen::Led => {}
        // It stays on its way: on a loaded computer the next attempt finds it further than a new one would be.
        Seen::Begun if !attendant.is_called_off() => {
            return Err(DriverError::Slow {
                cluster,
                machine,
                limit: pace.limit,
                tail: tail()?,
            });
        }
        Seen::Begun => {
            end(home, (&cluster, &machine), Stop::AtOnce, attendant)?;
            return Err(DriverError::CalledOff);
        }
        Seen::Over => {
            end(home, (&cluster, &machine), Stop::AtOnce, attendant)?;
            return Err(DriverError::Ended {
                cluster,
                machine,
                tail: tail()?,
            });
        }
    }
    await_login(label, attendant);
    Ok(())
}

/// What a look at a machine that starts shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Its first process runs.
    Led,
    /// What carries it lives, and its first process is not there yet.
    Begun,
    /// What carried it has ended.
    Over,
}

/// How a start is waited for.
pub(super) struct Pace {
    pub(super) limit: Duration,
    report: Duration,
    pause: Duration,
}

impl Pace {
    /// For a run that is so patient.
    pub(super) fn of(patience: Patience) -> Self {
        Self {
            limit: patience.times(FIRST_PROCESS),
            report: REPORT,
            pause: PAUSE,
        }
    }
}

/// Looks until the first process is there, the machine has ended, the time is up or the work is called off.
fn await_first_process(
    machine: &MachineName,
    pace: &Pace,
    attendant: &dyn Attend,
    look: &mut dyn FnMut() -> Result<Seen, DriverError>,
) -> Result<Seen, DriverError> {
    let begun = Instant::now();
    let mut next_report = pace.report;
    loop {
        let seen = look()?;
        let elapsed = begun.elapsed();
        if seen != Seen::Begun || elapsed > pace.limit || attendant.is_called_off() {
            return Ok(seen);
        }
        if elapsed >= next_report {
            attendant.hear(News::Line(format!(
                "{machine} starts slowly: waited {} s of at most {} s for its first process",
                elapsed.as_secs(),
                pace.limit.as_secs()
            )));
            next_report += pace.report;
        }
        std::thread::sleep(pace.pause);
    }
}

/// Waits a little for the login to open, so that nobody's first attempt meets a closed door. The start is a
/// success either way.
fn await_login(label: &Label, attendant: &dyn Attend) {
    let begun = Instant::now();
    let cable = names::cable(&label.cluster, &label.name);
    let carrier = Path::new("/sys/class/net").join(cable).join("carrier");
    let is_plugged = || match fs_err::read_to_string(&carrier) {
        Ok(text) => text.trim() == "1",
        // In a network name space of its own the driver does not see its own interfaces there.
        Err(error) if error.kind() == ErrorKind::NotFound => begun.elapsed() > UNSEEN,
        Err(_) => false,
    };
    let login = SocketAddr::from((label.address, 22));
    while begun.elapsed() < LOGIN && !attendant.is_called_off() {
        // Who asks for an address before the cable is plugged waits a second for the kernel to ask again.
        if is_plugged() && TcpStream::connect_timeout(&login, 3 * PAUSE).is_ok() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends a machine, and takes away what could stay of it outside its folder. One that does not run: success.
pub(super) fn end(
    home: &Home,
    (cluster, machine): (&ClusterName, &MachineName),
    how: Stop,
    attendant: &dyn Attend,
) -> Result<(), DriverError> {
    let body = Body::new(home, cluster, machine)?;
    // Its groups, its unit and its cable have the names of ours.
    if let Some(trouble) = super::used_elsewhere(&body) {
        return Err(super::left_alone(machine, trouble));
    }
    if how == Stop::Graceful
        && let Some(running) = Running::find(&body)?
    {
        // The container program passes it on as the signal for a clean power-off.
        running.ask_to_end()?;
        let begun = Instant::now();
        while running.is_alive() && begun.elapsed() < SHUTDOWN {
            if attendant.is_called_off() {
                return Err(DriverError::CalledOff);
            }
            std::thread::sleep(PAUSE);
        }
    }
    let begun = Instant::now();
    while let Some(running) = Running::find(&body)? {
        running.kill()?;
        if begun.elapsed() > KILLED {
            return Err(DriverError::DoesNotEnd {
                cluster: cluster.clone(),
                machine: machine.clone(),
            });
        }
        std::thread::sleep(PAUSE);
    }
    if quirks()?.init == Init::Systemd {
        unit::settle(cluster, machine)?;
    }
    body.group().remove()?;
    let container = names::container(cluster, machine);
    // The container program leaves it behind where it is killed.
    super::erase::erase(&Path::new("/run/systemd/nspawn/propagate").join(container))?;
    let cable = names::cable(cluster, machine);
    if Path::new("/sys/class/net").join(&cable).exists() {
        // Usually gone with the machine's name space a moment later: then there is nothing to delete.
        let _ = exec::run("ip", &["link", "delete", "dev", &cable]);
    }
    Ok(())
}

/// The options of the overlay that is a machine's root.
fn overlay(home: &Home, label: &Label) -> String {
    let lower = label.template_path.join("root");
    format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        home.upper().display(),
        home.work().display()
    )
}

/// The container program with its arguments.
fn container(home: &Home, label: &Label) -> Vec<String> {
    let mut args: Vec<String> = [
        PROGRAM,
        "--quiet",
        "--register=no",
        "--keep-unit",
        "--kill-signal=SIGRTMIN+4",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=read-only",
        "--bind=/dev/kmsg",
    ]
    .map(String::from)
    .into();
    args.extend(isolation::arguments());
    args.push(root_argument(&home.root()));
    let container = names::container(&label.cluster, &label.name);
    args.push(format!("--machine={container}"));
    args.push(format!("--hostname={}", label.name));
    args.push(format!(
        "--network-bridge={}",
        names::bridge(&label.cluster)
    ));
    for (folder, inside) in ON_DISK {
        args.push(format!(
            "--bind={}:{inside}",
            home.on_disk(folder).display()
        ));
    }
    args.push("--boot".into());
    args
}

/// What the container program must be told by its environment: a kernel's settings that kubelet may write, and no locks
/// of its own, which would stay behind when it is killed.
pub(super) const ENVIRONMENT: [(&str, &str); 2] = [
    ("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "yes"),
    ("SYSTEMD_NSPAWN_LOCK", "0"),
];

/// Begins a command in a mount name space of its own.
const APART: [&str; 6] = ["unshare", "--mount", "--propagation", "slave", "sh", "-c"];

/// A command that mounts a machine's clone and becomes the container program.
pub(super) fn becoming(home: &Home, label: &Label) -> Vec<String> {
    let mut args = APART.map(String::from).to_vec();
    args.extend([
        BECOME.into(),
        "mullion-machine".into(),
        overlay(home, label),
        home.root().display().to_string(),
    ]);
    args.extend(container(home, label));
    args
}

/// A command that mounts a machine's clone and keeps the container program running in the machine's groups.
fn keeping(home: &Home, label: &Label, group: &Group) -> Vec<String> {
    let groups: Vec<_> = group
        .folders()
        .map(|folder| folder.display().to_string())
        .collect();
    let mut args = APART.map(String::from).to_vec();
    args.extend([
        KEEP.into(),
        "mullion-machine".into(),
        overlay(home, label),
        home.root().display().to_string(),
        AGAIN.to_string(),
        groups.len().to_string(),
    ]);
    args.extend(groups);
    args.extend(container(home, label));
    args
}

/// Starts a machine as a process of its own session, which outlives this one.
fn detached(home: &Home, label: &Label, group: &Group) -> Result<Child, DriverError> {
    let console = open_console(&home.console())?;
    exec::program("setsid")
        .args(keeping(home, label, group))
        .envs(ENVIRONMENT)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(console.try_clone()?.into_parts().0)
        .stderr(console.into_parts().0)
        .spawn()
        .map_err(|error| exec::not_started("setsid", error))
}

/// Ends what [`detached`] started, with everything in its session's first process group.
fn end_session(child: &mut Child) -> Result<(), DriverError> {
    let pid = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    child.wait()?;
    Ok(())
}

/// The console's file, begun anew when it has grown large.
pub(super) fn open_console(path: &Path) -> Result<File, DriverError> {
    let is_large = fs_err::metadata(path).is_ok_and(|meta| meta.len() > CONSOLE);
    if is_large {
        fs_err::remove_file(path)?;
    }
    Ok(File::options().create(true).append(true).open(path)?)
}

/// Takes note of the machine's end for as long as this process lives, so that no dead process stays in the list.
fn reap(mut child: Child) {
    std::thread::spawn(move || child.wait());
}

/// The most that is read of a console.
const LONGEST_TAIL: u64 = 1 << 20;

/// The last lines of a file; none where it is not there.
pub(super) fn tail(path: &Path, lines: usize) -> Result<Vec<String>, DriverError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    // The machine decides how much there is of it.
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_TAIL)))?;
    let mut bytes = Vec::new();
    file.take(LONGEST_TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<_> = text
        .lines()
        .map(plain)
        .filter(|line| !line.is_empty())
        .collect();
    Ok(all[all.len().saturating_sub(lines)..].to_vec())
}

/// A console's line without colours and cursor movements.
pub(super) fn plain(line: &str) -> String {
    one_line(line).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hears lines, and calls off after the first one where it is told to.
    #[derive(Default)]
    struct Listener {
        lines: std::sync::Mutex<Vec<String>>,
        calls_off: bool,
    }

    impl Attend for Listener {
        fn hear(&self, news: News) {
            if let News::Line(line) = news {
                self.lines.lock().unwrap().push(line);
            }
        }

        fn is_called_off(&self) -> bool {
            self.calls_off && !self.lines.lock().unwrap().is_empty()
        }
    }

    #[test]
    fn a_start_is_waited_for_while_the_machine_lives_and_reported() {
        let pace = Pace {
            limit: Duration::from_millis(100),
            report: Duration::from_millis(20),
            pause: Duration::from_millis(1),
        };
        let machine = "lin1".parse().unwrap();
        let wait = |listener: &Listener, look: &mut dyn FnMut() -> Seen| {
            await_first_process(&machine, &pace, listener, &mut || Ok(look())).unwrap()
        };
        let listener = Listener::default();
        assert_eq!(wait(&listener, &mut || Seen::Begun), Seen::Begun);
        let lines = listener.lines.into_inner().unwrap();
        // A loaded computer may oversleep some.
        assert!((1..=5).contains(&lines.len()), "{lines:?}");
        assert!(lines[0].starts_with("lin1 starts slowly"), "{lines:?}");
        // One that ended, or is there, is not waited for.
        for end in [Seen::Over, Seen::Led] {
            let listener = Listener::default();
            let mut looks = 0;
            let seen = wait(&listener, &mut || {
                looks += 1;
                if looks < 3 { Seen::Begun } else { end }
            });
            assert_eq!((seen, looks), (end, 3));
        }
        let listener = Listener {
            calls_off: true,
            ..Listener::default()
        };
        assert_eq!(wait(&listener, &mut || Seen::Begun), Seen::Begun);
        assert_eq!(listener.lines.into_inner().unwrap().len(), 1);
    }

    #[test]
    fn a_unit_that_is_slow_to_mount_the_overlay_is_waited_for() {
        let home = Home {
            folder: "/no/such".into(),
        };
        let label = Label {
            cluster: "none".parse().unwrap(),
            ..unit::tests::label()
        };
        // No process carries this machine: only the answer of systemd differs.
        let body = Body::new(&home, &label.cluster, &label.name).unwrap();
        let see = || look(&body, || unit_has_ended(&body, &label)).unwrap();
        for (active, wanted) in [
            ("activating", Seen::Begun),
            ("active", Seen::Begun),
            ("deactivating", Seen::Begun),
            ("inactive", Seen::Over),
            ("failed", Seen::Over),
        ] {
            exec::play::by(move |name, args| {
                assert_eq!(name, "systemctl");
                assert_eq!(args.last(), Some(&"mullion-none.lin1.service"));
                Ok(format!(
                    "LoadState=loaded\nActiveState={active}\nFragmentPath=\n"
                ))
            });
            assert_eq!(see(), wanted, "{active}");
        }
        // An answer without a state proves no end.
        exec::play::by(|_, _| Ok(String::new()));
        assert_eq!(see(), Seen::Begun);
    }

    #[test]
    fn promise_12_a_consoles_tail_has_no_control_sequences_and_no_empty_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console.log");
        assert!(tail(&path, 3).unwrap().is_empty());
        fs_err::write(
            &path,
            "one\r\n\n[\x1b[0;32m  OK  \x1b[0m] t\x1b]0;x\x07wo\x1b[K\n\x1b[H\n\u{202e}\u{9b}2J\n",
        )
        .unwrap();
        assert_eq!(tail(&path, 5).unwrap(), ["one", "[  OK  ] two"]);
        assert_eq!(tail(&path, 1).unwrap(), ["[  OK  ] two"]);
    }
}
