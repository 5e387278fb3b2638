//! Root, for the steps that need it: asked for once, and what the user should own stays theirs.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use mullion_catalog::Model;

use crate::console::{Console, Presence};
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::{shell, workshop};

/// The variable that tells the elevated process whose files it writes.
pub const OWNER: &str = "MULLION_OWNER";

/// Whose the user's files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The user's group.
    pub group: u32,
}

impl Owner {
    /// Whoever runs this process.
    pub fn of_process() -> Self {
        Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }

    /// Whoever asked for root, as the variables say: our own, else those of `sudo`.
    pub fn given(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let ours = variable(OWNER).and_then(|text| Self::read(&text));
        let of_sudo = || {
            let number = |name| variable(name)?.parse().ok();
            Some(Self {
                user: number("SUDO_UID")?,
                group: number("SUDO_GID")?,
            })
        };
        ours.or_else(of_sudo).filter(|owner| owner.user != 0)
    }

    /// Whether they could have made what is at that path themselves, or what is around it.
    pub fn could_make(self, path: &Path) -> bool {
        between(self, path).is_some()
    }

    /// Reads `1000:1000`.
    pub fn read(text: &str) -> Option<Self> {
        let (user, group) = text.split_once(':')?;
        Some(Self {
            user: user.parse().ok()?,
            group: group.parse().ok()?,
        })
    }
}

/// Root, or the process becomes `sudo` that runs the same command as root, or how to do that.
///
/// `reasons` are the steps that need it; where there are none, nothing is asked for.
pub fn elevate(
    console: &mut Console<'_>,
    environment: &Environment,
    model: &Model,
    arguments: &[OsString],
    reasons: &[String],
) -> Result<(), Failure> {
    if reasons.is_empty() || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let words = format!("root is needed to {}", reasons.join(", "));
    let program = std::env::current_exe()?;
    if console.presence == Presence::Unattended {
        return Err(Failure::new(Class::ThisComputer, words)
            .hint(format!("type `{}`", typed(&program, arguments))));
    }
    writeln!(console.err, "{words}; asking sudo once")?;
    console.out.flush()?;
    console.err.flush()?;
    let secrets = workshop::secret_variables(model.cluster());
    let secrets = secrets
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut sudo = sudo(&program, arguments, environment, secrets);
    // It takes our place, so that Ctrl-C and the exit code are the command's own.
    let error = sudo.exec();
    Err(
        Failure::new(Class::ThisComputer, "sudo could not be started")
            .because(&error)
            .hint(format!("run as root: {}", shell::line(arguments))),
    )
}

/// What keeps the variables: all that `sudo` is started with, and `HOME` also where `sudo` is set up to change it.
///
/// Names after `--preserve-env=` would do for the others, too, but `sudo` writes the values of those into its log.
const KEEP: [&str; 2] = ["--preserve-env", "--preserve-env=HOME"];

/// `sudo`, with the variables that the elevated process may see and no others.
fn sudo<'a>(
    program: &Path,
    arguments: &[OsString],
    environment: &Environment,
    secrets: impl Iterator<Item = (&'a str, OsString)>,
) -> Command {
    let owner = Owner::of_process();
    let mut sudo = Command::new("sudo");
    sudo.args(KEEP).arg("--").arg(program);
    sudo.args(arguments.iter().skip(1));
    sudo.env_clear()
        .envs(&environment.values)
        .envs(secrets)
        .env("HOME", &environment.home)
        .env(OWNER, format!("{}:{}", owner.user, owner.group));
    sudo
}

/// What to type where nobody can be asked. The program by its whole path: `sudo` looks in few folders.
fn typed(program: &Path, arguments: &[OsString]) -> String {
    let words = ["sudo"].into_iter().chain(KEEP).map(OsStr::new);
    let words = words.chain([program.as_os_str()]);
    shell::line(words.chain(arguments.iter().skip(1).map(OsString::as_os_str)))
}

/// Gives what root wrote in the user's own folders to the user.
///
/// A folder that the user could not have made is root's, and stays so: `sudo` may have changed `HOME` to root's.
pub fn give_back(owner: Option<Owner>, folders: &[impl AsRef<Path>]) {
    let Some(owner) = owner else { return };
    for folder in folders {
        let folder = folder.as_ref();
        let Some(between) = between(owner, folder) else {
            continue;
        };
        for around in between {
            // As below: what cannot be given stays root's.
            let _ = std::os::unix::fs::lchown(around, Some(owner.user), Some(owner.group));
        }
        give(owner, folder);
    }
}

/// The folders of others between a folder and the next one around it that is the owner's; nothing where none is.
fn between(owner: Owner, folder: &Path) -> Option<Vec<&Path>> {
    let mut between = Vec::new();
    for around in folder.ancestors() {
        let Ok(found) = around.symlink_metadata() else {
            continue;
        };
        let is_open = found.mode() & 0o002 != 0 && between.is_empty();
        if found.uid() == owner.user || (is_open && around != folder) {
            return Some(between);
        }
        if found.uid() != 0 {
            return None;
        }
        if around != folder {
            between.push(around);
        }
    }
    None
}

fn give(owner: Owner, path: &Path) {
    let Ok(found) = path.symlink_metadata() else {
        return;
    };
    if found.uid() == 0 {
        // What cannot be given stays root's, and is readable all the same where it was before.
        let _ = std::os::unix::fs::lchown(path, Some(owner.user), Some(owner.group));
    }
    if found.is_dir()
        && let Ok(entries) = fs_err::read_dir(path)
    {
        for entry in entries.flatten() {
            give(owner, &entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_owner_is_two_numbers() {
        let owner = Owner {
            user: 1000,
            group: 100,
        };
        assert_eq!(Owner::read("1000:100"), Some(owner));
        for bad in ["", "1000", "root:root", "1:2:3"] {
            assert_eq!(Owner::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn whoever_typed_sudo_is_the_owner_where_we_did_not() {
        let owner = |pairs: &[(&str, &str)]| {
            let found = |name: &str| {
                let mut pairs = pairs.iter();
                let (_, value) = pairs.find(|(known, _)| *known == name)?;
                Some((*value).to_owned())
            };
            Owner::given(found).map(|owner| (owner.user, owner.group))
        };
        let of_sudo = [("SUDO_UID", "1000"), ("SUDO_GID", "100")];
        assert_eq!(owner(&of_sudo), Some((1000, 100)));
        let ours = [&of_sudo[..], &[(OWNER, "7:8")]].concat();
        assert_eq!(owner(&ours), Some((7, 8)));
        assert_eq!(owner(&[("SUDO_UID", "0"), ("SUDO_GID", "0")]), None);
        assert_eq!(owner(&[("SUDO_UID", "1000")]), None);
        assert_eq!(owner(&[]), None);
    }

    fn environment() -> Environment {
        Environment::new("/work".into(), |name| match name {
            "HOME" => Some("/home/user".into()),
            "HTTPS_PROXY" => Some("http://me:hunter2@proxy".into()),
            "XDG_STATE_HOME" => Some("/home/user/state".into()),
            _ => None,
        })
    }

    #[test]
    fn sudo_gets_values_in_its_environment_and_never_as_words() {
        let arguments = ["mullion", "-f", "my lab.yaml", "up"].map(OsString::from);
        let secrets = [("LOGIN_KEY", OsString::from("hunter3"))].into_iter();
        let program = Path::new("/home/user/bin/mullion");
        let sudo = sudo(program, &arguments, &environment(), secrets);
        let words: Vec<_> = sudo.get_args().collect();
        assert_eq!(
            words,
            [
                "--preserve-env",
                "--preserve-env=HOME",
                "--",
                "/home/user/bin/mullion",
                "-f",
                "my lab.yaml",
                "up"
            ]
        );
        let values: Vec<_> = sudo
            .get_envs()
            .map(|(name, value)| (name.to_str().unwrap(), value.unwrap().to_str().unwrap()))
            .collect();
        let Owner { user, group } = Owner::of_process();
        assert_eq!(
            values,
            [
                ("HOME", "/home/user"),
                ("HTTPS_PROXY", "http://me:hunter2@proxy"),
                ("LOGIN_KEY", "hunter3"),
                (OWNER, &format!("{user}:{group}")),
                ("XDG_STATE_HOME", "/home/user/state"),
            ]
        );
    }

    #[test]
    fn what_is_to_be_typed_works_as_it_stands() {
        let arguments = ["mullion", "-f", "my lab.yaml", "up"].map(OsString::from);
        assert_eq!(
            typed(Path::new("/home/user/bin/mullion"), &arguments),
            "sudo --preserve-env --preserve-env=HOME /home/user/bin/mullion -f 'my lab.yaml' up"
        );
    }

    #[test]
    fn only_what_the_owner_could_have_made_is_given_to_them() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let state = home.join(".local/state/mullion");
        let beside = home.join(".local/beside");
        fs_err::create_dir_all(state.join("runs")).unwrap();
        fs_err::write(&beside, "root's").unwrap();
        let owner = Owner {
            user: 4242,
            group: 4242,
        };
        let users = |path: &Path| fs_err::symlink_metadata(path).unwrap().uid();
        give_back(Some(owner), &[&state]);
        assert_eq!(users(&state), 0, "nothing around it is the owner's");
        assert!(!owner.could_make(&home.join(".kube/config")));
        std::os::unix::fs::chown(&home, Some(owner.user), None).unwrap();
        give_back(Some(owner), &[&state]);
        assert!(owner.could_make(&home.join(".kube/config")));
        assert_eq!(users(&state.join("runs")), owner.user);
        assert_eq!(users(&home.join(".local")), owner.user);
        assert_eq!(users(&beside), 0, "what is beside it is not ours");
        let shared = folder.path().join("shared");
        let cache = shared.join("mullion");
        fs_err::create_dir_all(&cache).unwrap();
        fs_err::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
        give_back(Some(owner), &[&cache]);
        assert_eq!(users(&cache), owner.user);
        assert_eq!(users(&shared), 0);
    }
}
