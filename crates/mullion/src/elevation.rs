//! Asks for root once, for the steps that need it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use mullion_catalog::Model;
use mullion_rights::Invoker;

use crate::console::{Console, Presence};
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::{shell, workshop};

/// Where root works for the user who asked for it: from now on files are read and written with that user's rights.
///
/// `sudo` may have changed `HOME` to root's. State is then kept there, by root, as long as no one but root could have
/// put anything there.
pub fn act_for_invoker(environment: &Environment) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // One that is not UTF-8 is there, too, and names nobody.
    let variable = |name: &str| {
        let value = environment.values.get(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    let failed = |error: &dyn std::error::Error| {
        Failure::new(
            Class::ThisComputer,
            "it is not known for which user root works",
        )
        .because(error)
    };
    let found = Invoker::find(variable).map_err(|error| {
        let unset = error.variables().into_iter();
        let unset: Vec<_> = unset.map(|name| format!("--unset={name}")).collect();
        failed(&error)
            .hint("let `sudo`, `doas` or `pkexec` set the variable: run the command without a change to it")
            .hint(format!("or, if root works for root, type `env {} mullion …`", unset.join(" ")))
    })?;
    let Some(invoker) = found else {
        return Ok(());
    };
    mullion_rights::act_for(invoker).map_err(|error| failed(&error))?;
    let state = &environment.state;
    if !mullion_rights::can_use(state) && mullion_rights::belongs_to_root(state) {
        mullion_rights::default_to_root();
    }
    Ok(())
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
    let mut sudo = Command::new("sudo");
    sudo.args(KEEP).arg("--").arg(program);
    sudo.args(arguments.iter().skip(1));
    sudo.env_clear()
        .envs(&environment.values)
        .envs(secrets)
        .env("HOME", &environment.home);
    sudo
}

/// What to type where nobody can be asked. The program by its whole path: `sudo` looks in few folders.
fn typed(program: &Path, arguments: &[OsString]) -> String {
    let words = ["sudo"].into_iter().chain(KEEP).map(OsStr::new);
    let words = words.chain([program.as_os_str()]);
    shell::line(words.chain(arguments.iter().skip(1).map(OsString::as_os_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            values,
            [
                ("HOME", "/home/user"),
                ("HTTPS_PROXY", "http://me:hunter2@proxy"),
                ("LOGIN_KEY", "hunter3"),
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
}
