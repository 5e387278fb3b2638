//! Finds the user who asked for root.

use std::ffi::CString;

use nix::unistd::{Gid, Uid, User, getgrouplist};

/// The variables that say who asked for root, as `sudo`, `doas` and `pkexec` set them.
pub const VARIABLES: [&str; 4] = ["SUDO_UID", "SUDO_GID", "DOAS_USER", "PKEXEC_UID"];

/// A user who asked for root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoker {
    /// The user.
    pub user: u32,
    /// The user's group.
    pub group: u32,
    /// Every group of the user.
    pub(crate) groups: Vec<u32>,
}

/// Why the user who asked for root is not known.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable `{variable}` is `{value}`, which names no user of this computer")]
pub struct InvokerError {
    /// The variable.
    pub variable: &'static str,
    /// What it says.
    pub value: String,
}

impl Invoker {
    /// The first user but root that a variable names. A variable that names no user is an error: working as root
    /// instead would give the user more rights than they have.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, InvokerError> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        for name in ["SUDO_UID", "DOAS_USER", "PKEXEC_UID"] {
            let Some(value) = given(name) else { continue };
            let unknown = || InvokerError {
                variable: name,
                value: value.clone(),
            };
            let is_name = name == "DOAS_USER";
            let user = if is_name {
                let found = User::from_name(&value).ok().flatten();
                found.ok_or_else(unknown)?.uid.as_raw()
            } else {
                let number: u32 = value.parse().map_err(|_| unknown())?;
                // The kernel's number for no user.
                Some(number)
                    .filter(|number| *number != u32::MAX)
                    .ok_or_else(unknown)?
            };
            if user == 0 {
                continue;
            }
            let group = (name == "SUDO_UID").then(|| given("SUDO_GID")).flatten();
            let group = group.and_then(|group| group.parse().ok());
            return Self::of(user, group).map(Some).ok_or_else(unknown);
        }
        Ok(None)
    }

    /// The user of that number, with the groups that the computer's database gives them. A group that a variable names
    /// counts where the database has it too, or has no such user.
    fn of(user: u32, group: Option<u32>) -> Option<Self> {
        let Some(known) = User::from_uid(Uid::from_raw(user)).ok().flatten() else {
            let group = group.filter(|group| ![0, u32::MAX].contains(group))?;
            return Some(Self {
                user,
                group,
                groups: vec![group],
            });
        };
        let own = known.gid.as_raw();
        let name = CString::new(known.name).ok()?;
        let groups = getgrouplist(&name, Gid::from_raw(own)).unwrap_or_default();
        let mut groups: Vec<_> = groups.into_iter().map(Gid::as_raw).collect();
        if groups.is_empty() {
            groups.push(own);
        }
        let group = group.filter(|group| groups.contains(group)).unwrap_or(own);
        Some(Self {
            user,
            group,
            groups,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pairs: &[(&str, &str)]) -> Result<Option<(u32, u32)>, InvokerError> {
        let value = |name: &str| {
            let mut pairs = pairs.iter();
            let (_, value) = pairs.find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        let found = Invoker::find(value)?;
        Ok(found.map(|invoker| (invoker.user, invoker.group)))
    }

    #[test]
    fn promise_02_the_user_who_asked_for_root_is_known_by_sudo_doas_or_pkexec() {
        // No database has this user.
        let sudo = [("SUDO_UID", "424242"), ("SUDO_GID", "4343")];
        assert_eq!(find(&sudo), Ok(Some((424_242, 4343))));
        let nobody = User::from_name("nobody").unwrap().unwrap();
        let nobody = (nobody.uid.as_raw(), nobody.gid.as_raw());
        assert_eq!(find(&[("DOAS_USER", "nobody")]), Ok(Some(nobody)));
        let number = nobody.0.to_string();
        assert_eq!(find(&[("PKEXEC_UID", &number)]), Ok(Some(nobody)));
        assert_eq!(find(&[]), Ok(None));
        assert_eq!(find(&[("SUDO_UID", "0"), ("SUDO_GID", "0")]), Ok(None));
    }

    #[test]
    fn promise_02_no_variable_raises_rights() {
        // A variable of ours, which a file in a repository could set, no longer counts.
        let sudo = [
            ("SUDO_UID", "424242"),
            ("SUDO_GID", "4343"),
            ("MULLION_OWNER", "0:0"),
        ];
        assert_eq!(find(&sudo), Ok(Some((424_242, 4343))));
        // Root's group is not a group of theirs.
        let nobody = User::from_name("nobody").unwrap().unwrap();
        let number = nobody.uid.to_string();
        let found = find(&[("SUDO_UID", &number), ("SUDO_GID", "0")]);
        assert_eq!(found, Ok(Some((nobody.uid.as_raw(), nobody.gid.as_raw()))));
        // Root, asked for by root that doas gave to a user, works for that user.
        let nested = [("SUDO_UID", "0"), ("DOAS_USER", "nobody")];
        assert_eq!(find(&nested).unwrap().unwrap().0, nobody.uid.as_raw());
        for bad in [
            &[("SUDO_UID", "joe")][..],
            &[("SUDO_UID", "-1")],
            &[("SUDO_UID", "4294967295"), ("SUDO_GID", "1")],
            &[("SUDO_UID", "424242")],
            &[("SUDO_UID", "424242"), ("SUDO_GID", "0")],
            &[("DOAS_USER", "no such user")],
            &[("PKEXEC_UID", "x")],
        ] {
            assert!(find(bad).is_err(), "{bad:?}");
        }
    }
}
