//! A machine of the tests: a drive, a script in Wine's place, and an OpenSSH server where one is wanted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use mullion_ssh::{Key, KeyPair, Login, generate_key};
use tempfile::TempDir;

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mullion-standin");

const SSHD: &str = "/usr/sbin/sshd";

/// Keeps its arguments and what it finds around itself, gives back what it reads, and ends with 300, as far as a Unix
/// process can.
const FAKE: &str = r#"#!/bin/sh
{
    for argument; do printf 'argument %s\n' "$argument"; done
    printf 'prefix %s\n' "$WINEPREFIX"
    printf 'debug %s\n' "$WINEDEBUG"
    printf 'extra %s\n' "$EXTRA"
    printf 'folder %s\n' "$PWD"
    printf 'line %s\n' "$MULLION_LINE_0"
    printf 'rest %s\n' "$MULLION_LINE_1"
} > "$KEPT"
printf 'said\r\n'
printf 'warned\r\n' >&2
[ "$MULLION_LINE_0" = "read it" ] && cat
# As Wine's services do: they keep standard error, and nothing else.
if [ "$MULLION_LINE_0" = "start services" ]; then sleep 20 < /dev/null > /dev/null & fi
[ "$MULLION_LINE_0" = "complain" ] && head -c 1000000 /dev/zero >&2
if [ "$MULLION_LINE_0" = "stay" ]; then sleep 300 & printf 'stays %s\nstays %s\n' $! $$ >> "$KEPT"; wait; fi
[ "$MULLION_LINE_0" = "die" ] && kill -9 $$
exit 44
"#;

pub(crate) struct Machine {
    folder: TempDir,
    pub(crate) config: PathBuf,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs_err::create_dir_all(path.join("prefix/drive_c/users/Administrator")).unwrap();
        let fake = path.join("wine");
        fs_err::write(&fake, FAKE).unwrap();
        fs_err::set_permissions(&fake, PermissionsExt::from_mode(0o755)).unwrap();
        let config = path.join("standin.toml");
        let settings = format!(
            "program = '{}'\nprefix = '{}'\n\n[environment]\nEXTRA = 'set'\nKEPT = '{}'\n",
            fake.display(),
            path.join("prefix").display(),
            path.join("kept").display(),
        );
        fs_err::write(&config, settings).unwrap();
        Self { folder, config }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of drive C:.
    pub(crate) fn drive(&self) -> PathBuf {
        self.path().join("prefix/drive_c")
    }

    /// What the script kept, by its name: the first of them.
    pub(crate) fn kept(&self, name: &str) -> Vec<String> {
        let kept = fs_err::read_to_string(self.path().join("kept")).unwrap();
        let of_name = |line: &str| {
            let (found, rest) = line.split_once(' ').unwrap_or((line, ""));
            (found == name).then(|| rest.to_owned())
        };
        kept.lines().filter_map(of_name).collect()
    }

    /// Runs the program with something to read.
    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        self.run_as(Command::new(PROGRAM).args(arguments), input)
    }

    pub(crate) fn run_as(&self, command: &mut Command, input: &[u8]) -> Output {
        let mut child = command
            .env_remove("SSH_ORIGINAL_COMMAND")
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }
}

/// An OpenSSH server of our own. It ends when it is dropped.
pub(crate) struct Server {
    folder: TempDir,
    child: Child,
    port: u16,
    host_key: String,
    user_key: KeyPair,
}

impl Server {
    /// With that command for whoever logs in, whatever they ask for, and that SFTP.
    pub(crate) fn start(forced: &str, sftp: &str) -> Self {
        assert!(
            Path::new(SSHD).exists(),
            "{SSHD} is missing: apt-get install openssh-server"
        );
        if user() == "root" {
            // The server insists on it, and only a running system has it.
            fs_err::create_dir_all("/run/sshd").unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs_err::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        let (host, user_key) = (generate_key().unwrap(), generate_key().unwrap());
        write_private(&path.join("host"), host.private.reveal());
        write_private(&path.join("user"), user_key.private.reveal());
        fs_err::write(path.join("authorized_keys"), &user_key.public).unwrap();
        let port = free_port();
        let show = |name: &str| path.join(name).display().to_string();
        let settings = [
            format!("Port {port}"),
            format!("HostKey {}", show("host")),
            format!("AuthorizedKeysFile {}", show("authorized_keys")),
            format!("SetEnv HOME={}", path.display()),
            format!("Subsystem sftp {sftp}"),
            format!("ForceCommand {forced}"),
            "ListenAddress 127.0.0.1".into(),
            "PidFile none".into(),
            "UsePAM no".into(),
            "StrictModes no".into(),
            "PermitRootLogin prohibit-password".into(),
            "PasswordAuthentication no".into(),
        ];
        fs_err::write(path.join("config"), settings.join("\n") + "\n").unwrap();
        let mut child = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(path.join("config"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut heard = Vec::new();
        loop {
            let line = lines.next().map(Result::unwrap_or_default);
            let line = line.unwrap_or_else(|| panic!("the server did not start: {heard:#?}"));
            if line.contains("Server listening") {
                break;
            }
            heard.push(line);
        }
        // Its pipe must not fill.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            folder,
            child,
            port,
            host_key: host.public,
            user_key,
        }
    }

    /// A login of our own transport.
    pub(crate) fn login(&self) -> Login {
        Login::new(user(), "127.0.0.1", Key::Pem(self.user_key.private.clone()))
            .port(self.port)
            .host_key(self.host_key.clone())
            .sudo(mullion_ssh::Sudo::Never)
    }

    /// A program of OpenSSH's, with this server and a login.
    pub(crate) fn client(&self, program: &str, port_flag: &str) -> Command {
        let known = self.folder.path().join("known");
        let line = format!("[127.0.0.1]:{} {}\n", self.port, self.host_key.trim());
        fs_err::write(&known, line).unwrap();
        let mut command = Command::new(program);
        command
            .args(["-q", "-F", "none", port_flag, &self.port.to_string(), "-i"])
            .arg(self.folder.path().join("user"))
            .args(["-o", &format!("UserKnownHostsFile={}", known.display())])
            .args(["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]);
        command
    }
}

/// `user@127.0.0.1`
pub(crate) fn target() -> String {
    format!("{}@127.0.0.1", user())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn write_private(file: &Path, text: &str) {
    fs_err::write(file, text).unwrap();
    fs_err::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
}

/// The user who runs the tests.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
