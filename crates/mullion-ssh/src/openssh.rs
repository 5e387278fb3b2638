//! The same login for the system's own `ssh` program.

use std::path::Path;

use crate::error::TransportError;
use crate::keys::Pin;
use crate::login::{Key, Login};
use crate::quote::joined;

/// Arguments by which `ssh` logs in as we do: with that key and no other, to that machine and no other, through the
/// same machines. `known_hosts` is a file that holds what [`known_hosts`](fn@known_hosts) gives. A command may follow
/// them.
///
/// The user's own settings are left out: what we reach, `ssh` reaches in the same way.
pub fn openssh_arguments(login: &Login, known_hosts: &Path) -> Result<Vec<String>, TransportError> {
    let mut arguments: Vec<String> = ["-F", "none"].map(Into::into).into();
    let mut option = |name: &str, value: &str| {
        arguments.extend(["-o".into(), format!("{name}={value}")]);
    };
    match &login.key {
        Key::File(path) => {
            option("IdentityFile", &as_value(path));
            option("IdentitiesOnly", "yes");
            option("IdentityAgent", "none");
        }
        Key::Agent { socket } => option("IdentityAgent", &as_value(socket)),
        Key::Pem(_) => {
            let place = login.place();
            return Err(TransportError::KeyInMemory { place });
        }
    }
    option("UserKnownHostsFile", &as_value(known_hosts));
    option("GlobalKnownHostsFile", "none");
    option("StrictHostKeyChecking", "yes");
    option("UpdateHostKeys", "no");
    option("PreferredAuthentications", "publickey");
    option("ServerAliveInterval", "5");
    option("ServerAliveCountMax", "3");
    option("LogLevel", "ERROR");
    if let Some(jump) = &login.jump {
        let mut through = openssh_arguments(jump, known_hosts)?;
        let target = login.address_and_port();
        through.splice(..0, ["ssh".into(), "-W".into(), target]);
        let line = joined(through.iter().map(String::as_str));
        // `ssh` reads per cent signs in this line before its shell does.
        option("ProxyCommand", &line.replace('%', "%%"));
    }
    arguments.extend(["-l".into(), login.user.clone()]);
    arguments.extend(["-p".into(), login.port.to_string()]);
    arguments.push(login.address.clone());
    Ok(arguments)
}

/// A path as a value of `ssh`'s settings: in quotes, and per cent signs stand for themselves.
fn as_value(path: &Path) -> String {
    let path = path.display().to_string();
    let path = path.replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{}\"", path.replace('%', "%%"))
}

/// The line for `ssh`'s file of known hosts, where the machine's key is known. Of a fingerprint there is none.
pub fn known_hosts_line(login: &Login) -> Option<String> {
    let Pin::Key(key) = Pin::read(login.host_key.as_deref())? else {
        return None;
    };
    let host = if login.port == 22 {
        login.address.clone()
    } else {
        format!("[{}]:{}", login.address, login.port)
    };
    Some(format!("{host} {}", crate::keys::line_of(&key)))
}

/// A file of known hosts for a login and all machines that it goes through.
pub fn known_hosts(login: &Login) -> String {
    let mut text = String::new();
    let mut next = Some(login);
    while let Some(login) = next {
        if let Some(line) = known_hosts_line(login) {
            text.push_str(&line);
            text.push('\n');
        }
        next = login.jump.as_deref();
    }
    text
}

#[cfg(test)]
mod tests {
    use mullion_wire::Secret;

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn login(address: &str) -> Login {
        let file = Key::File("/keys/id".into());
        Login::new("root", address, file).host_key(format!("{KEY} comment"))
    }

    fn arguments(login: &Login) -> Vec<String> {
        openssh_arguments(login, Path::new("/state/known_hosts")).unwrap()
    }

    #[test]
    fn a_direct_login_uses_its_key_its_hosts_and_nothing_of_the_users() {
        assert_eq!(
            arguments(&login("192.0.2.7").port(2222)).join(" "),
            "-F none -o IdentityFile=\"/keys/id\" -o IdentitiesOnly=yes -o IdentityAgent=none \
             -o UserKnownHostsFile=\"/state/known_hosts\" -o GlobalKnownHostsFile=none \
             -o StrictHostKeyChecking=yes -o UpdateHostKeys=no -o PreferredAuthentications=publickey \
             -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o LogLevel=ERROR \
             -l root -p 2222 192.0.2.7"
        );
    }

    #[test]
    fn an_agent_is_named_by_its_socket() {
        let mut login = login("a");
        login.key = Key::Agent {
            socket: "/run/agent 100%".into(),
        };
        let arguments = arguments(&login);
        assert!(arguments.contains(&"IdentityAgent=\"/run/agent 100%%\"".to_owned()));
        assert!(
            !arguments
                .iter()
                .any(|argument| argument.contains("IdentityFile"))
        );
    }

    #[test]
    fn a_key_that_has_no_file_is_refused() {
        let mut login = login("a");
        login.key = Key::Pem(Secret::new("hunter2"));
        let error = openssh_arguments(&login, Path::new("/k")).unwrap_err();
        assert!(matches!(error, TransportError::KeyInMemory { .. }));
    }

    #[test]
    fn every_machine_on_the_way_has_its_own_key_and_line() {
        let mut middle = login("middle").port(23);
        middle.key = Key::File("/keys/it's 5%".into());
        let login = login("2001:db8::7").jump(middle.jump(login("first")));
        let arguments = arguments(&login);
        let proxy = arguments
            .iter()
            .find_map(|argument| argument.strip_prefix("ProxyCommand="))
            .unwrap();
        assert!(
            proxy.starts_with("ssh -W '[2001:db8::7]:22' -F none "),
            "{proxy}"
        );
        assert!(proxy.ends_with(" -l root -p 23 middle"), "{proxy}");
        // Once for the setting itself, once more for the line that it is in.
        assert!(proxy.contains(r"it'\''s 5%%%%"), "{proxy}");
        assert!(proxy.contains("ProxyCommand=ssh -W middle:23 "), "{proxy}");
        assert_eq!(
            known_hosts(&login),
            format!("2001:db8::7 {KEY}\n[middle]:23 {KEY}\nfirst {KEY}\n")
        );
    }

    #[test]
    fn a_fingerprint_makes_no_line() {
        let fingerprint = crate::fingerprint(KEY).unwrap();
        assert_eq!(known_hosts_line(&login("a").host_key(fingerprint)), None);
        let mut unknown = login("a");
        unknown.host_key = None;
        assert_eq!(known_hosts_line(&unknown), None);
    }
}
