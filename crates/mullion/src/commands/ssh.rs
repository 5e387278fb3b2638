//! `mullion ssh`: a login on a machine, by the system's own program.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use mullion_catalog::{Judgement, Model};
use mullion_plan::StepError;
use mullion_spec::shape::nearest;
use mullion_spec::value::MachineName;
use mullion_ssh::{Login, Shell, TransportError, known_hosts, known_hosts_line, openssh_arguments};

use super::validate::refuse;
use crate::arguments::SshArguments;
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::shell::quoted;
use crate::workshop;

/// Becomes ssh: this comes back only where that failed.
pub fn ssh(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &SshArguments,
    environment: &Environment,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let machine = &wishes.machine;
    let adapter = workshop::open(model, environment)?;
    let login = adapter
        .login(machine)
        .map_err(|error| told(model, machine, &error))?;
    all_known(machine, &login)?;
    let kept = adapter
        .state()
        .keep_known_hosts(machine, &known_hosts(&login));
    let file = kept.map_err(|error| {
        let what = format!("the host keys of {machine} could not be written");
        Failure::new(Class::ThisComputer, what).because(&error)
    })?;
    let arguments = openssh_arguments(&login, &file).map_err(|error| refused(machine, &error))?;
    let mut command = Command::new("ssh");
    command
        .args(arguments)
        .args(remote(&wishes.command, &login.shell));
    if mullion_rights::is_root_by_default() {
        // Who asked for root does not say which programs root runs.
        command.env("PATH", mullion_program::SYSTEM_PATH);
    }
    console.out.flush()?;
    console.err.flush()?;
    let error = mullion_rights::lower(&mut command).exec();
    let failure = Failure::new(
        Class::ThisComputer,
        "the program `ssh` could not be started",
    );
    Err(match error.kind() {
        ErrorKind::NotFound => failure.hint("install it with `apt-get install openssh-client`"),
        _ => failure.because(&error),
    })
}

/// A failed step, as a failure of a command about one machine.
pub(super) fn told(model: &Model, machine: &MachineName, error: &StepError) -> Failure {
    if let Some(failure) = unknown(model, machine) {
        return failure;
    }
    let mut failure = Failure::new(Class::Machine, error.words.clone());
    failure.causes.extend(error.causes.iter().cloned());
    failure
        .causes
        .extend(error.tail.iter().map(|line| format!("it said: {line}")));
    failure.hints.extend(error.hints.iter().cloned());
    if failure.hints.is_empty() {
        failure =
            failure.hint("see with `mullion status` how it is, and make it so with `mullion up`");
    }
    failure
}

/// Says that the file has no such machine, where it has none.
pub(super) fn unknown(model: &Model, machine: &MachineName) -> Option<Failure> {
    let known = model.cluster().machines();
    let known: Vec<_> = known.map(|known| known.name.to_string()).collect();
    if known.iter().any(|known| known == machine.as_str()) {
        return None;
    }
    let what = format!(
        "cluster `{}` has no machine `{machine}`",
        model.cluster().name
    );
    Some(not_among(
        Failure::new(Class::Usage, what),
        machine.as_str(),
        &known,
    ))
}

/// Adds what was probably meant, or what there is.
pub(super) fn not_among(failure: Failure, word: &str, known: &[String]) -> Failure {
    const SHOWN: usize = 12;
    if let Some(meant) = nearest(word, known.iter().map(String::as_str)) {
        return failure.hint(format!("did you mean `{meant}`?"));
    }
    let mut shown: Vec<_> = known.iter().take(SHOWN).cloned().collect();
    if known.len() > SHOWN {
        shown.push(format!("and {} more", known.len() - SHOWN));
    }
    failure.hint(format!("there are {}", shown.join(", ")))
}

/// Every machine on the way must be known by its key: `ssh` asks nobody here.
fn all_known(machine: &MachineName, login: &Login) -> Result<(), Failure> {
    let mut next = Some(login);
    while let Some(login) = next {
        if known_hosts_line(login).is_none() {
            let what = format!(
                "the host key of {} is not known, so nobody logs in to {machine}",
                login.place()
            );
            let failure = Failure::new(Class::Machine, what);
            return Err(match login.host_key {
                Some(_) => failure.hint("`ssh` needs the key itself: write `hostKey: ssh-ed25519 AAAA…` instead of a fingerprint"),
                None => failure.hint("write it into the file as `hostKey`, or let `mullion up` reach the machine first"),
            });
        }
        next = login.jump.as_deref();
    }
    Ok(())
}

fn refused(machine: &MachineName, error: &TransportError) -> Failure {
    let failure =
        Failure::new(Class::Machine, format!("`ssh` cannot log in to {machine}")).because(error);
    match error {
        TransportError::KeyInMemory { .. } => {
            failure.hint("keep the key in a file of mode 0600 and name it: `key: {file: …}`")
        }
        _ => failure,
    }
}

/// A command as `ssh` takes it, which puts blanks between its words and hands them to a shell: a single word is meant
/// for that shell, several are the words of one program.
fn remote(words: &[OsString], shell: &Shell) -> Vec<OsString> {
    match (words, shell) {
        ([] | [_], _) => words.to_vec(),
        (several, Shell::Posix) => several.iter().map(|word| quoted(word)).collect(),
        (several, Shell::Cmd { .. }) => several.iter().map(for_cmd).collect(),
    }
}

/// The word as `cmd` and programs on Windows take it: in quotation marks where it has blanks.
fn for_cmd(word: &OsString) -> OsString {
    if !word.to_string_lossy().contains(' ') {
        return word.clone();
    }
    let mut quoted = OsString::from("\"");
    quoted.push(word);
    quoted.push("\"");
    quoted
}

#[cfg(test)]
mod tests {
    use mullion_ssh::Key;

    use super::*;

    fn words(command: &[&str]) -> Vec<String> {
        let command: Vec<_> = command.iter().map(OsString::from).collect();
        let words = remote(&command, &Shell::Posix).into_iter();
        words.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn several_words_stay_words_and_one_is_for_the_shell() {
        assert_eq!(words(&["ls | wc -l"]), ["ls | wc -l"]);
        assert_eq!(words(&["ls", "-l", "/a"]), ["ls", "-l", "/a"]);
        assert_eq!(
            words(&["sh", "-c", "echo it's; id", ""]),
            ["sh", "-c", r"'echo it'\''s; id'", "''"]
        );
    }

    #[test]
    fn a_machine_without_a_known_key_is_not_logged_in_to() {
        let machine: MachineName = "lin1".parse().unwrap();
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
        let login = |host| Login::new("root", host, Key::File("/key".into()));
        let known = login("a").host_key(key);
        assert!(all_known(&machine, &known).is_ok());
        let failure = all_known(&machine, &known.clone().jump(login("b"))).unwrap_err();
        assert!(failure.what.contains("root@b:22"), "{failure}");
        let failure = all_known(&machine, &login("c").host_key("SHA256:abc")).unwrap_err();
        assert!(failure.to_string().contains("fingerprint"), "{failure}");
    }
}
