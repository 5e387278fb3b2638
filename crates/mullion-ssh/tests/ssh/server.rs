//! An OpenSSH server of our own.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use mullion_ssh::{Key, KeyPair, Login, Session, Ssh, generate_key};
use tempfile::TempDir;

const SSHD: &str = "/usr/sbin/sshd";

const USUAL: [&str; 9] = [
    "ListenAddress 127.0.0.1",
    "PidFile none",
    "UsePAM no",
    "StrictModes no",
    "PermitRootLogin prohibit-password",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "LogLevel VERBOSE",
    "MaxStartups 100",
];

/// A running server. It ends, with every connection, when it is dropped.
pub(crate) struct Server {
    folder: TempDir,
    child: Child,
    pub(crate) port: u16,
    pub(crate) host_key: String,
    pub(crate) user_key: KeyPair,
    said: Mutex<mpsc::Receiver<String>>,
}

/// What a server is like.
pub(crate) struct Setup {
    lines: Vec<String>,
    sftp: Option<String>,
    host_keys: Vec<PathBuf>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            lines: Vec::new(),
            sftp: Some("internal-sftp".into()),
            host_keys: Vec::new(),
        }
    }

    /// One more line of settings.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// With that SFTP server, or none.
    pub(crate) fn sftp(mut self, sftp: Option<&str>) -> Self {
        self.sftp = sftp.map(Into::into);
        self
    }

    /// With a further host key.
    pub(crate) fn host_key(mut self, file: &Path) -> Self {
        self.host_keys.push(file.to_owned());
        self
    }

    pub(crate) fn start(self) -> Server {
        assert!(
            Path::new(SSHD).exists(),
            "{SSHD} is missing: apt-get install openssh-server"
        );
        if is_root() {
            // The server insists on it, and only a running system has it.
            fs_err::create_dir_all("/run/sshd").unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        // Another user than the one who runs the tests may have to read the keys.
        fs_err::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let host = generate_key().unwrap();
        let user = generate_key().unwrap();
        let host_file = folder.path().join("host");
        write_private(&host_file, host.private.reveal());
        fs_err::write(folder.path().join("authorized_keys"), &user.public).unwrap();
        let port = free_port();
        let mut settings = vec![
            format!("Port {port}"),
            format!("HostKey {}", host_file.display()),
            // What the user's own shell does at its start is not our matter.
            format!("SetEnv HOME={}", folder.path().display()),
            format!(
                "AuthorizedKeysFile {}",
                folder.path().join("authorized_keys").display()
            ),
        ];
        settings.extend(USUAL.map(Into::into));
        settings.extend(self.sftp.map(|sftp| format!("Subsystem sftp {sftp}")));
        let keys = self.host_keys.iter();
        settings.extend(keys.map(|key| format!("HostKey {}", key.display())));
        settings.extend(self.lines);
        let config = folder.path().join("config");
        fs_err::write(&config, settings.join("\n") + "\n").unwrap();
        let mut child = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, said) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let server = Server {
            folder,
            child,
            port,
            host_key: host.public,
            user_key: user,
            said: Mutex::new(said),
        };
        server.wait_for("Server listening");
        server
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Setup::new().start()
    }

    /// A login that is let in.
    pub(crate) fn login(&self) -> Login {
        Login::new(user(), "127.0.0.1", Key::Pem(self.user_key.private.clone()))
            .port(self.port)
            .host_key(self.host_key.clone())
            .sudo(mullion_ssh::Sudo::Never)
    }

    pub(crate) fn connect(&self) -> Session {
        Ssh::new().unwrap().connect(&self.login()).unwrap()
    }

    /// A folder for files on "the machine".
    pub(crate) fn scratch(&self) -> String {
        let path = self.folder.path().join("scratch");
        fs_err::create_dir_all(&path).unwrap();
        path.display().to_string()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The private key of the user, in a file.
    pub(crate) fn key_file(&self) -> PathBuf {
        let file = self.folder.path().join("user");
        write_private(&file, self.user_key.private.reveal());
        file
    }

    /// Waits until the server has said something.
    pub(crate) fn wait_for(&self, words: &str) {
        let mut heard = Vec::new();
        let said = self.said.lock().unwrap();
        while let Ok(line) = said.recv_timeout(Duration::from_secs(20)) {
            if line.contains(words) {
                return;
            }
            heard.push(line);
        }
        panic!("the server never said `{words}`: {heard:#?}");
    }

    /// The processes that serve connections, but not what runs in them.
    fn serving(&self) -> Vec<u32> {
        let mut found = vec![self.child.id()];
        let mut next = 0;
        while next < found.len() {
            for child in children(found[next]) {
                if name(child) == "sshd" {
                    found.push(child);
                }
            }
            next += 1;
        }
        found.split_off(1)
    }

    /// Sends a signal to the processes that serve connections.
    pub(crate) fn signal_serving(&self, signal: &str) {
        let serving = self.serving();
        assert!(!serving.is_empty(), "nothing is served");
        for process in serving {
            kill(signal, process);
        }
    }

    /// Ends every connection, but not the server.
    pub(crate) fn cut(&self) {
        self.signal_serving("KILL");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let serving = self.serving();
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in serving {
            kill("KILL", process);
        }
    }
}

fn kill(signal: &str, process: u32) {
    let _ = Command::new("kill")
        .args(["-s", signal, &process.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Processes by parent, from `/proc`.
fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc").unwrap().flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        let stat = fs_err::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in brackets may hold spaces; the parent is the second field behind it.
        let of = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1));
        if of == Some(parent.to_string().as_str()) {
            found.push(process);
        }
    }
    found
}

fn name(process: u32) -> String {
    let path = format!("/proc/{process}/comm");
    fs_err::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn write_private(file: &Path, text: &str) {
    fs_err::write(file, text).unwrap();
    fs_err::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Makes a key with OpenSSH's own program: the file, and its public line.
pub(crate) fn made_key(file: &Path, kind: &str) -> String {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-t", kind, "-f"])
        .arg(file)
        .status();
    assert!(status.unwrap().success());
    fs_err::read_to_string(file.with_extension("pub")).unwrap()
}

/// The user who runs the tests.
pub(crate) fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) fn is_root() -> bool {
    user() == "root"
}
