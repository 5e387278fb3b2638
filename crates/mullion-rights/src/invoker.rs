//! Finds the user who asked for root.

use std::ffi::CString;

use nix::unistd::{Gid, Uid, User, getgrouplist};

/// The variables that say who asked for root, as `sudo`, `doas` and `pkexec` set them.
pub const VARIABLES: [&str; 5] = [
    "SUDO_UID",
    "SUDO_GID",
    "SUDO_USER",
    "DOAS_USER",
    "PKEXEC_UID",
];

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
#[non_exhaustive]
pub enum InvokerError {
    /// A variable is empty, or names no user or group.
    #[error("the variable `{variable}` is `{value}`, which names no {what} of this computer")]
    Unknown {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What it should name.
        what: &'static str,
    },
    /// Two variables name two users.
    #[error(
        "the variable `SUDO_UID` is `{user}`, and `SUDO_USER` is `{name}`, who is not that user"
    )]
    Contradiction {
        /// What `SUDO_UID` says.
        user: u32,
        /// What `SUDO_USER` says.
        name: String,
    },
}

impl InvokerError {
    /// The variables that are wrong.
    pub fn variables(&self) -> Vec<&'static str> {
        match self {
            Self::Unknown { variable, .. } => vec![variable],
            Self::Contradiction { .. } => vec!["SUDO_UID", "SUDO_USER"],
        }
    }
}

impl Invoker {
    /// The first user but root that a variable names.
    ///
    /// A variable that is empty or names no user is an error: working as root instead would give the user more rights
    /// than they have.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, InvokerError> {
        let sudo = match (variable("SUDO_UID"), variable("SUDO_USER")) {
            (Some(user), name) => Some(("SUDO_UID", numbered("SUDO_UID", &user)?, name)),
            (None, Some(name)) => Some(("SUDO_USER", named("SUDO_USER", &name)?, None)),
            (None, None) => None,
        };
        if let Some((known_by, user, name)) = sudo {
            if let Some(name) = name {
                agree(user, name)?;
            }
            let group = variable("SUDO_GID").map(|group| numbered("SUDO_GID", &group));
            if user != 0 {
                return Self::of(known_by, user, group.transpose()?).map(Some);
            }
        }
        if let Some(name) = variable("DOAS_USER") {
            let user = named("DOAS_USER", &name)?;
            if user != 0 {
                return Self::of("DOAS_USER", user, None).map(Some);
            }
        }
        if let Some(number) = variable("PKEXEC_UID") {
            let user = numbered("PKEXEC_UID", &number)?;
            if user != 0 {
                return Self::of("PKEXEC_UID", user, None).map(Some);
            }
        }
        Ok(None)
    }

    /// The user of that number, with the groups that the computer's database gives them. A group that a variable names
    /// counts where the database has it too, or has no such user.
    fn of(known_by: &'static str, user: u32, group: Option<u32>) -> Result<Self, InvokerError> {
        let Some(known) = User::from_uid(Uid::from_raw(user)).ok().flatten() else {
            let group = group.filter(|group| *group != 0);
            let group = group.ok_or_else(|| unknown(known_by, &user.to_string(), "user"))?;
            return Ok(Self {
                user,
                group,
                groups: vec![group],
            });
        };
        let own = known.gid.as_raw();
        // A name of the database has no byte 0.
        let name = CString::new(known.name).unwrap_or_default();
        let groups = getgrouplist(&name, Gid::from_raw(own)).unwrap_or_default();
        let mut groups: Vec<_> = groups.into_iter().map(Gid::as_raw).collect();
        if groups.is_empty() {
            groups.push(own);
        }
        let group = group.filter(|group| groups.contains(group)).unwrap_or(own);
        Ok(Self {
            user,
            group,
            groups,
        })
    }
}

fn unknown(variable: &'static str, value: &str, what: &'static str) -> InvokerError {
    InvokerError::Unknown {
        variable,
        value: value.to_owned(),
        what,
    }
}

/// The user or group of a number.
fn numbered(variable: &'static str, value: &str) -> Result<u32, InvokerError> {
    let what = if variable == "SUDO_GID" {
        "group"
    } else {
        "user"
    };
    let number = value.parse().ok();
    // The kernel's number for no user.
    let number = number.filter(|number| *number != u32::MAX);
    number.ok_or_else(|| unknown(variable, value, what))
}

/// The user of a name.
fn named(variable: &'static str, value: &str) -> Result<u32, InvokerError> {
    let found = User::from_name(value).ok().flatten();
    let found = found.ok_or_else(|| unknown(variable, value, "user"))?;
    Ok(found.uid.as_raw())
}

/// Refuses a name of another user than the number's. One that the database lacks can be any user but root.
fn agree(user: u32, name: String) -> Result<(), InvokerError> {
    if name.is_empty() {
        return Err(unknown("SUDO_USER", &name, "user"));
    }
    let agrees = match User::from_name(&name).ok().flatten() {
        Some(found) => found.uid.as_raw() == user,
        None => user != 0,
    };
    if agrees {
        return Ok(());
    }
    Err(InvokerError::Contradiction { user, name })
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
            // Empty, as a wrapper leaves a variable that it lacks itself.
            &[("SUDO_UID", "")],
            &[("SUDO_UID", ""), ("SUDO_GID", "")],
            &[("SUDO_UID", "0"), ("SUDO_USER", "")],
            &[("SUDO_USER", "")],
            &[("DOAS_USER", "")],
            &[("PKEXEC_UID", "")],
            &[("SUDO_UID", " 0")],
            &[("SUDO_UID", &number), ("SUDO_GID", "x")],
            // Root's number with another user's name, and the other way round.
            &[("SUDO_UID", "0"), ("SUDO_USER", "nobody")],
            &[("SUDO_UID", "0"), ("SUDO_USER", "no such user")],
            &[("SUDO_UID", &number), ("SUDO_USER", "root")],
        ] {
            let error = find(bad).unwrap_err();
            for variable in error.variables() {
                assert!(error.to_string().contains(variable), "{bad:?}: {error}");
                assert!(VARIABLES.contains(&variable), "{bad:?}: {error}");
            }
        }
        // What agrees, and what only the name says.
        let both = [("SUDO_UID", number.as_str()), ("SUDO_USER", "nobody")];
        assert_eq!(find(&both).unwrap().unwrap().0, nobody.uid.as_raw());
        let name = [("SUDO_USER", "nobody")];
        assert_eq!(find(&name).unwrap().unwrap().0, nobody.uid.as_raw());
        let elsewhere = [
            ("SUDO_UID", "424242"),
            ("SUDO_GID", "4343"),
            ("SUDO_USER", "known elsewhere"),
        ];
        assert_eq!(find(&elsewhere), Ok(Some((424_242, 4343))));
        let root = [("SUDO_UID", "0"), ("SUDO_USER", "root")];
        assert_eq!(find(&root), Ok(None));
    }
}
