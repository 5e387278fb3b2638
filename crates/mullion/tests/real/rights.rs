//! Whose rights root uses: what it creates, reads and leaves alone for the user who asked for it.
//!
//! No machine is made here. Each test has a folder of its own with a home of a user that no database knows, and a network
//! of its own, in which nothing answers.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::lab::Lab;
use crate::trace::{WRITES, changes};
use crate::trial::Trial;

/// A user that owns nothing on this computer.
pub(crate) const USER: u32 = 424_242;

/// What only root may read in [`Bench::outside`].
const SECRET: &str = "hunter2-of-root";

/// Who runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Root, whom the user asked by `sudo`.
    Sudo,
    /// Root itself.
    Root,
}

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("mullion-rights")
            .tempdir()
            .unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(folder.path(), open).unwrap();
        let bench = Self { folder };
        fs_err::create_dir_all(bench.repository()).unwrap();
        for path in [bench.home(), bench.repository()] {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
        fs_err::create_dir_all(bench.outside().join("deep")).unwrap();
        for file in ["secret", "deep/secret"] {
            let file = bench.outside().join(file);
            fs_err::write(&file, SECRET).unwrap();
            let private = std::fs::Permissions::from_mode(0o600);
            fs_err::set_permissions(file, private).unwrap();
        }
        bench
    }

    /// Root's, and nobody else's business.
    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.home().join("repository")
    }

    /// Writes a file of the repository.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.repository().join(name);
        fs_err::write(&path, text).unwrap();
        chown(path, Some(USER), Some(USER)).unwrap();
    }

    /// The program, behind other programs that start it.
    pub(crate) fn command(&self, who: Who, before: &[&str], arguments: &[&str]) -> Command {
        let program = std::env::var_os("MULLION_PROGRAM")
            .map_or_else(|| assert_cmd::cargo::cargo_bin("mullion"), PathBuf::from);
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--"])
            .args(before)
            .arg(program)
            .args(arguments)
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("MULLION_PLACE", self.folder.path().join("place"))
            .stdin(Stdio::null())
            .current_dir(self.repository());
        if who == Who::Sudo {
            let user = USER.to_string();
            command.env("SUDO_UID", &user).env("SUDO_GID", &user);
        }
        command
    }

    pub(crate) fn run(&self, who: Who, arguments: &[&str]) -> Ran {
        ran(&mut self.command(who, &[], arguments))
    }

    /// Everything in root's folder, with its owner, mode and content.
    pub(crate) fn untouched(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        gather(&self.outside(), &mut found);
        found
    }

    /// The owners of everything in the user's home, by path.
    pub(crate) fn owners(&self) -> BTreeMap<PathBuf, u32> {
        let mut found = BTreeMap::new();
        gather(&self.home(), &mut found);
        let owner = |path: PathBuf| {
            let found = fs_err::symlink_metadata(&path).unwrap();
            (path, found.uid())
        };
        found.into_keys().map(owner).collect()
    }
}

impl Drop for Bench {
    /// A run may have made the machines' network before it failed. That went with its namespace; the kernel's settings are
    /// put back.
    fn drop(&mut self) {
        let down = ["down", "--yes", "--cluster", "lab"];
        let mut command = self.command(Who::Root, &[], &down);
        let _ = command.env("HOME", self.folder.path()).output();
    }
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn gather(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let status = fs_err::symlink_metadata(path).unwrap();
    let content = if status.is_file() {
        fs_err::read_to_string(path).unwrap_or_default()
    } else {
        String::new()
    };
    let told = format!(
        "{}:{} {:o} {} {content}",
        status.uid(),
        status.gid(),
        status.mode(),
        status.mtime()
    );
    found.insert(path.to_owned(), told);
    if status.is_dir() {
        for entry in fs_err::read_dir(path).unwrap() {
            gather(&entry.unwrap().path(), found);
        }
    }
}

/// A cluster of a machine that exists already, at an address that nobody has: `up` needs no machine of this computer.
pub(crate) fn cluster(rest: &str) -> String {
    format!(
        "metadata: {{name: lab}}\nmachines:\n- name: cp\n  role: control-plane\n  addresses: [192.0.2.9]\n  \
         ssh: {{key: {{file: id}}, port: 9}}\n{rest}"
    )
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_01_a_cache_that_leads_out_of_the_repository_is_refused_and_nothing_changes_its_owner() {
    let bench = Bench::new();
    let repository = bench.repository();
    symlink(bench.outside(), repository.join("link")).unwrap();
    fs_err::create_dir(repository.join("filled")).unwrap();
    chown(repository.join("filled"), Some(USER), Some(USER)).unwrap();
    symlink(bench.outside(), repository.join("filled/parts")).unwrap();
    let before = (bench.untouched(), bench.owners());
    let absolute = bench.outside().join("new");
    for cache in [
        "../../outside",
        "../../../../../../../../etc",
        "link",
        "link/deep",
        "filled",
        absolute.to_str().unwrap(),
    ] {
        let text = cluster(&format!("artifacts: {{cache: \"{cache}\"}}\n"));
        bench.write("cluster.yaml", &text);
        for command in [
            &["validate"][..],
            &["plan"],
            &["status"],
            &["doctor"],
            &["artifacts", "list"],
            &["artifacts", "fetch"],
            &["up", "--yes"],
        ] {
            let ran = bench.run(Who::Sudo, command);
            assert_eq!(ran.code, 3, "{cache} {command:?} {ran:?}");
            for word in ["artifacts.cache", cache, "because", "hint"] {
                assert!(ran.err.contains(word), "{word}: {ran:?}");
            }
        }
    }
    fs_err::remove_file(repository.join("cluster.yaml")).unwrap();
    assert_eq!((bench.untouched(), bench.owners()), before);
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_01_what_a_run_creates_is_the_users_and_nothing_else_becomes_theirs() {
    let bench = Bench::new();
    // What root left in the user's home stays root's, by whatever name.
    let roots = bench.home().join("roots");
    fs_err::write(&roots, "root's").unwrap();
    let state = bench.home().join(".local/state/mullion");
    fs_err::create_dir_all(&state).unwrap();
    for folder in [".local", ".local/state", ".local/state/mullion"] {
        chown(bench.home().join(folder), Some(USER), Some(USER)).unwrap();
    }
    fs_err::hard_link(&roots, state.join("hard-link")).unwrap();
    symlink(bench.outside(), state.join("elsewhere")).unwrap();
    bench.write("cluster.yaml", &cluster("artifacts: {cache: ./cache}\n"));
    let before = (bench.untouched(), bench.owners());
    let ran = bench.run(Who::Sudo, &["up", "--yes"]);
    assert!([4, 5].contains(&ran.code), "nothing answers: {ran:?}");
    let ran = bench.run(Who::Sudo, &["artifacts", "fetch"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(bench.untouched(), before.0);
    let after = bench.owners();
    for (path, owner) in &after {
        let wanted = before.1.get(path).copied().unwrap_or(USER);
        assert_eq!(*owner, wanted, "{}", path.display());
    }
    for made in ["runs", "clusters/lab/cluster.yaml", "locks/lab.lock"] {
        assert!(after.contains_key(&state.join(made)), "{made}: {after:?}");
    }
    assert!(after.contains_key(&bench.repository().join("cache/locks")));
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_01_a_state_folder_that_leads_to_roots_is_not_used() {
    let bench = Bench::new();
    let state = bench.home().join(".local/state");
    fs_err::create_dir_all(&state).unwrap();
    for folder in [".local", ".local/state"] {
        chown(bench.home().join(folder), Some(USER), Some(USER)).unwrap();
    }
    symlink(bench.outside(), state.join("mullion")).unwrap();
    bench.write("cluster.yaml", &cluster(""));
    let before = bench.untouched();
    let ran = bench.run(Who::Sudo, &["up", "--yes"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("ermission denied"), "{ran:?}");
    assert_eq!(bench.untouched(), before);
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_01_state_in_roots_own_home_stays_roots() {
    let bench = Bench::new();
    bench.write("cluster.yaml", &cluster(""));
    let home = bench.folder.path().join("root-home");
    fs_err::create_dir(&home).unwrap();
    let private = std::fs::Permissions::from_mode(0o700);
    fs_err::set_permissions(&home, private).unwrap();
    let mut command = bench.command(Who::Sudo, &[], &["up", "--yes"]);
    let ran = ran(command.env("HOME", &home));
    assert!([4, 5].contains(&ran.code), "{ran:?}");
    let kept = home.join(".local/state/mullion/clusters/lab/cluster.yaml");
    let found = fs_err::metadata(kept).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600));
}

/// A cache of the user's with the files of this computer's own.
fn share_cache(with: &Path) {
    let home = std::env::var_os("HOME").unwrap();
    let usual = || Path::new(&home).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(usual, PathBuf::from);
    fs_err::create_dir(with).unwrap();
    let mut copy = Command::new("sh");
    copy.args([
        "-c",
        "cp -al \"$0\" \"$1\" 2>/dev/null || cp -a --reflink=auto \"$0\" \"$1\"",
    ]);
    let copied = copy.arg(cache.join("mullion")).arg(with).status();
    assert!(copied.unwrap().success());
    // Locks are root's, and the user makes their own; without their folder it is no cache.
    let locks = with.join("mullion/locks");
    fs_err::remove_dir_all(&locks).unwrap();
    fs_err::create_dir(locks).unwrap();
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn promise_01_a_cluster_is_made_with_the_users_files() {
    let mut trial = Trial::begin("promise_01_a_cluster_is_made_with_the_users_files");
    let text = "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\n\
        machines: [{name: cp, role: control-plane}]\naccess: {sshKey: {file: id}}\n";
    let mut lab = Lab::new("sudo", text);
    let key = lab.path("id");
    let pair = mullion_ssh::generate_key().unwrap();
    fs_err::write(&key, pair.private.reveal()).unwrap();
    fs_err::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    chown(&key, Some(USER), Some(USER)).unwrap();
    share_cache(&lab.path("cache"));
    let user = USER.to_string();
    for (name, value) in [
        ("HOME", lab.path("").to_str().unwrap()),
        ("XDG_CACHE_HOME", lab.path("cache").to_str().unwrap()),
        ("SUDO_UID", &user),
        ("SUDO_GID", &user),
    ] {
        lab.environment.push((name.into(), value.into()));
    }
    // The folders are the user's, and the files in the cache root's, as another user's in a shared one are.
    let mut own = Command::new("find");
    let own = own.arg(lab.path("")).args(["-type", "d", "-exec", "chown"]);
    assert!(own.args([&user, "{}", "+"]).status().unwrap().success());
    let _ = lab.up();
    lab.is_up(&["cp1"]);
    trial.lap("a cluster comes up for a user who asked for root");
    let mut found = BTreeMap::new();
    gather(&lab.state(), &mut found);
    for path in found.into_keys() {
        let status = fs_err::symlink_metadata(&path).unwrap();
        let told = (status.uid(), status.mode() & 0o077);
        assert_eq!(told, (USER, 0), "{}", path.display());
    }
    let machine = fs_err::metadata(lab.machine("cp1")).unwrap();
    assert_eq!(machine.uid(), 0, "machines are root's");
    let mut login = Command::new("ssh");
    login.args(["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]);
    login.args([
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ]);
    login
        .arg("-i")
        .arg(&key)
        .arg(format!("root@{}", lab.address("cp1")));
    let logged_in = ran(login.arg("hostname").stdin(Stdio::null()));
    assert_eq!(
        (logged_in.code, logged_in.out.as_str()),
        (0, "cp1\n"),
        "{logged_in:?}"
    );
    assert!(
        !lab.kept().join("id_ed25519").exists(),
        "no other key is made"
    );
    trial.lap("the user's own key logs in");
    let _ = lab.has_nothing_to_do();
    let _ = lab.down();
    trial.nothing_is_left();
    trial.lap("it goes, and nothing is left");
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_02_root_reads_no_file_that_the_user_could_not() {
    let bench = Bench::new();
    let secret = bench.outside().join("secret");
    let secret = secret.to_str().unwrap();
    symlink(secret, bench.repository().join("link")).unwrap();
    // kubeadm knows patches by their names.
    let patch = "kubeletconfiguration.yaml";
    symlink(secret, bench.repository().join(patch)).unwrap();
    let files = |from: &str| cluster(&format!("  files: [{{from: \"{from}\", to: /srv/x}}]\n"));
    let key = |file: &str| cluster("").replace("file: id", &format!("file: \"{file}\""));
    for (text, what) in [
        (files(secret), "files"),
        (files("link"), "files by a link"),
        (key(secret), "key"),
        (
            cluster(&format!("trust: [{{file: \"{secret}\"}}]\n")),
            "trust",
        ),
        (
            cluster(&format!("kubernetes: {{patches: [{patch}]}}\n")),
            "patches",
        ),
        (
            cluster(&format!(
                "images: [{{ref: \"registry.example/app:1\", archive: \"{secret}\"}}]\n"
            )),
            "archive",
        ),
    ] {
        bench.write("cluster.yaml", &text);
        for command in [&["plan"][..], &["plan", "--json"], &["up", "--yes"]] {
            let ran = bench.run(Who::Sudo, command);
            assert_eq!(ran.code, 3, "{what} {command:?} {ran:?}");
            let told = format!("{}{}", ran.out, ran.err);
            assert!(told.contains("ermission denied"), "{what} {told}");
            assert!(!told.contains(SECRET), "{what} {told}");
        }
    }
    // These are opened when artifacts are fetched.
    for field in ["bundle", "digests"] {
        let text = cluster(&format!(
            "artifacts: {{{field}: \"{secret}\", build: never}}\n"
        ));
        bench.write("cluster.yaml", &text);
        let ran = bench.run(Who::Sudo, &["plan"]);
        assert_eq!(ran.code, 0, "{field} {ran:?}");
        let line = format!("file `{secret}`: the {field} that artifacts are");
        assert!(ran.out.contains(&line), "{field} {ran:?}");
        let ran = bench.run(Who::Sudo, &["artifacts", "fetch"]);
        assert_eq!(ran.code, 4, "{field} {ran:?}");
        assert!(ran.err.contains("ermission denied"), "{field} {ran:?}");
        let told = format!("{}{}", ran.out, ran.err);
        assert!(!told.contains(SECRET), "{field} {told}");
    }
    // This release takes no existing cluster: its kubeconfig is refused before it is opened.
    let existing = format!("controlPlane: {{existing: {{kubeconfig: \"{secret}\"}}}}\n");
    bench.write("cluster.yaml", &(existing + "machines: {linux: 1}\n"));
    for command in [&["plan"][..], &["up", "--yes"]] {
        let ran = bench.run(Who::Sudo, command);
        assert_eq!(ran.code, 3, "{command:?} {ran:?}");
        assert!(ran.err.contains("E0903"), "{command:?} {ran:?}");
        assert!(!ran.err.contains(SECRET), "{command:?} {ran:?}");
    }
    // Root itself may read it where the file names it, and is told that it will be read. A link would hide it. Root does
    // not take the state that the user's commands have made.
    fs_err::remove_dir_all(bench.home().join(".local/state/mullion")).unwrap();
    fs_err::create_dir(bench.repository().join("x")).unwrap();
    let absolute = bench.repository().join("link").display().to_string();
    for hidden in ["link", "x/../link", absolute.as_str()] {
        bench.write("cluster.yaml", &files(hidden));
        let ran = bench.run(Who::Root, &["plan"]);
        assert_eq!(ran.code, 3, "{hidden} {ran:?}");
        assert!(ran.err.contains("leads out of the folder"), "{ran:?}");
    }
    // Whatever folder the command runs in, and whatever the command is.
    bench.write(
        "cluster.yaml",
        &cluster("trust: [{file: link}]\n").replace("link", &absolute),
    );
    let file = bench
        .repository()
        .join("cluster.yaml")
        .display()
        .to_string();
    for command in [&["plan"][..], &["artifacts", "fetch"], &["status"]] {
        let arguments = [&["--file", file.as_str()][..], command].concat();
        let mut command = bench.command(Who::Root, &[], &arguments);
        let ran = ran(command.current_dir("/"));
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.err.contains("leads out of the folder"), "{ran:?}");
    }
    bench.write("cluster.yaml", &files(secret));
    let ran = bench.run(Who::Root, &["plan"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let line = format!("file `{secret}`: copied to `/srv/x` on machines of `cp`");
    assert!(ran.out.contains(&line), "{ran:?}");
    let ran = bench.run(Who::Root, &["plan", "--json"]);
    assert!(ran.out.contains("\"reads\""), "{ran:?}");
    // What the user may read is read.
    bench.write("theirs", "text");
    bench.write("cluster.yaml", &files("theirs"));
    let ran = bench.run(Who::Sudo, &["plan"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // The cluster file itself.
    fs_err::remove_file(bench.repository().join("cluster.yaml")).unwrap();
    symlink(secret, bench.repository().join("cluster.yaml")).unwrap();
    let ran = bench.run(Who::Sudo, &["validate"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(!ran.err.contains(SECRET), "{ran:?}");
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_12_a_login_key_in_a_variable_is_named_and_its_value_is_shown_nowhere() {
    const VALUE: &str = "hunter2-of-the-variable";
    let bench = Bench::new();
    let text = cluster("").replace("{file: id}", "{env: LOGIN_KEY}");
    bench.write("cluster.yaml", &text);
    let written = ["plan", "--out", "plan.json", "--graph", "plan.svg"];
    for (command, words) in [
        (
            &["plan"][..],
            "variable `LOGIN_KEY`: the login key of machines of `cp`",
        ),
        (&["plan", "--json"], "\"name\": \"LOGIN_KEY\""),
        (&written, "variable `LOGIN_KEY`"),
        (
            &["up", "--yes", "--until", "artifacts"],
            "variable `LOGIN_KEY`",
        ),
    ] {
        let mut command_line = bench.command(Who::Sudo, &[], command);
        let ran = ran(command_line.env("LOGIN_KEY", VALUE));
        // Nothing can be fetched here.
        let wanted = if command[0] == "up" { 4 } else { 0 };
        assert_eq!(ran.code, wanted, "{command:?} {ran:?}");
        let told = format!("{}{}", ran.out, ran.err);
        assert!(told.contains(words), "{command:?} {told}");
        assert!(!told.contains(VALUE), "{command:?} {told}");
    }
    let mut found = BTreeMap::new();
    gather(&bench.home(), &mut found);
    for (path, content) in found {
        assert!(!content.contains(VALUE), "{}", path.display());
    }
    // The variable is read, and not a file of its name.
    let ran = bench.run(Who::Sudo, &["plan"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("the variable `LOGIN_KEY`"), "{ran:?}");
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_02_a_pipe_in_a_files_place_is_refused_and_not_waited_for() {
    let bench = Bench::new();
    let pipe = bench.repository().join("pipe");
    let mut made = Command::new("mkfifo");
    let made = made.args(["-m", "666"]).arg(&pipe).status();
    assert!(made.unwrap().success());
    for text in [
        cluster("  files: [{from: pipe, to: /srv/x}]\n"),
        cluster("").replace("file: id", "file: pipe"),
        cluster("trust: [{file: /dev/zero}]\n"),
    ] {
        bench.write("cluster.yaml", &text);
        for who in [Who::Sudo, Who::Root] {
            let begun = Instant::now();
            let ran = ran(&mut bench.command(who, &["timeout", "20"], &["plan"]));
            assert_eq!(ran.code, 3, "{ran:?}");
            assert!(ran.err.contains("not a file"), "{ran:?}");
            assert!(begun.elapsed() < Duration::from_secs(15));
        }
    }
    // A file of the user's that is a link to a pipe, or to a device of the system's.
    fs_err::remove_file(bench.repository().join("cluster.yaml")).unwrap();
    symlink(&pipe, bench.repository().join("cluster.yaml")).unwrap();
    let ran = ran(&mut bench.command(Who::Root, &["timeout", "20"], &["validate"]));
    assert_eq!(ran.code, 3, "{ran:?}");
}

#[test]
#[ignore = "needs root, to see that it is not used"]
fn promise_03_commands_that_look_write_nothing() {
    let bench = Bench::new();
    // A file for each process: lines of one call are not torn apart by another's.
    let traces = bench.folder.path().join("traces");
    let links = |folder: &str| {
        // Wherever something of ours would lie, a link leads to root's folder.
        let folder = bench.home().join(folder);
        fs_err::create_dir_all(folder.parent().unwrap()).unwrap();
        symlink(bench.outside(), folder).unwrap();
    };
    let hostile = cluster("artifacts: {cache: link}\n");
    // kubeadm knows patches by their names.
    let patch = "kubeletconfiguration.yaml";
    symlink(
        bench.outside().join("secret"),
        bench.repository().join(patch),
    )
    .unwrap();
    let linked = "  files: [{from: link/secret, to: /srv/x}]\ntrust: [{file: link/secret}]\n\
                  kubernetes: {patches: [kubeletconfiguration.yaml]}\n\
                  artifacts: {bundle: link/secret, digests: link/secret}\n";
    let linked = cluster(linked).replace("file: id", "file: link/secret");
    let harmless = "metadata: {name: lab}\nmachines: {linux: 1}\n";
    symlink(bench.outside(), bench.repository().join("link")).unwrap();
    symlink(
        bench.outside().join("secret"),
        bench.repository().join("plan.json"),
    )
    .unwrap();
    for (text, is_linked) in [
        (hostile.as_str(), false),
        (linked.as_str(), false),
        (harmless, false),
        (harmless, true),
    ] {
        bench.write("cluster.yaml", text);
        if is_linked {
            links(".cache/mullion");
            links(".local/state/mullion");
        }
        let before = (bench.untouched(), bench.owners());
        for who in [Who::Root, Who::Sudo] {
            for command in [
                &["validate"][..],
                &["plan"],
                &["plan", "--json"],
                &["plan", "--out", "plan.json"],
                &["plan", "--graph", "link/plan.svg"],
                &["status"],
                &["doctor"],
                &["catalog"],
                &["explain", "E0101"],
            ] {
                // What it asks of this computer does not depend on those folders, and takes long.
                if is_linked && command == ["doctor"] {
                    continue;
                }
                fs_err::create_dir(&traces).unwrap();
                let name = traces.join("trace");
                let name = name.to_str().unwrap();
                let strace = ["strace", "-ff", "-qq", "-y", "-o", name, "-e", WRITES];
                let ran = ran(&mut bench.command(who, &strace, command));
                // Root's folder may be listed where the user's own links lead there, and never by a stranger's.
                let outside = if is_linked {
                    Path::new("/nowhere").to_owned()
                } else {
                    bench.outside()
                };
                let entries = fs_err::read_dir(&traces).unwrap();
                let texts = entries.map(|entry| fs_err::read_to_string(entry.unwrap().path()));
                let texts: Vec<_> = texts.map(Result::unwrap).collect();
                fs_err::remove_dir_all(&traces).unwrap();
                assert!(!texts.concat().is_empty(), "{ran:?}");
                let found = changes(&texts.concat(), &outside);
                assert!(
                    found.is_empty(),
                    "{who:?} {command:?} changed:\n{}\n{ran:?}",
                    found.join("\n")
                );
                assert!(!ran.err.contains("bug of ours"), "{ran:?}");
            }
        }
        assert_eq!((bench.untouched(), bench.owners()), before);
    }
}

#[test]
#[ignore = "needs root, to act for another user"]
fn promise_12_what_a_run_writes_is_readable_by_its_owner_alone() {
    let bench = Bench::new();
    bench.write("cluster.yaml", &cluster(""));
    let plan = ["plan", "--out", "plan.json", "--graph", "plan.svg"];
    let ran = bench.run(Who::Sudo, &plan);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = bench.run(Who::Sudo, &["up", "--yes"]);
    assert!([4, 5].contains(&ran.code), "{ran:?}");
    let ran = bench.run(Who::Sudo, &["runs", "show", "--html=run.html"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut files: Vec<_> = ["plan.json", "plan.svg", "run.html"]
        .map(|name| bench.repository().join(name))
        .into();
    let state = bench.home().join(".local/state/mullion");
    let kept = bench.owners().into_keys();
    files.extend(kept.filter(|path| path.starts_with(&state) && path.is_file()));
    assert!(
        files.iter().any(|path| path.ends_with("journal.jsonl")),
        "{files:?}"
    );
    for file in files {
        let found = fs_err::metadata(&file).unwrap();
        let told = (found.mode() & 0o777, found.uid());
        assert_eq!(told, (0o600, USER), "{}", file.display());
    }
}
