//! Accounts that services run as.

use serde::{Deserialize, Serialize};

/// How Windows calls the account of the system itself.
const SYSTEM: &str = "LocalSystem";
/// What it is called elsewhere; nothing is said of a service that is the system's.
const ALSO_SYSTEM: [&str; 4] = [SYSTEM, r".\LocalSystem", r"NT AUTHORITY\SYSTEM", ""];
/// Accounts of Windows' own that have no password.
const BUILT_IN: [&str; 4] = [
    r"NT AUTHORITY\LocalService",
    r"NT AUTHORITY\Local Service",
    r"NT AUTHORITY\NetworkService",
    r"NT AUTHORITY\Network Service",
];
/// What the names of accounts begin with that Windows makes for services, one for each.
const VIRTUAL: &str = r"NT SERVICE\";

/// The account that a service runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Account(String);

impl Account {
    /// The system itself.
    pub fn system() -> Self {
        Self(SYSTEM.to_owned())
    }

    /// The account of that name.
    pub fn new(name: &str) -> Self {
        if is_among(&ALSO_SYSTEM, name) {
            return Self::system();
        }
        Self(name.to_owned())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether it is the system itself.
    pub fn is_the_systems(&self) -> bool {
        self.0 == SYSTEM
    }

    /// Whether it is somebody's, with a password that only they know.
    pub fn is_a_users(&self) -> bool {
        !self.is_the_systems() && !is_among(&BUILT_IN, &self.0) && !self.is_virtual()
    }

    /// The password that Windows wants to hear with it: it wants none with one that it made for a service.
    pub fn password(&self) -> Option<&'static str> {
        (!self.is_virtual()).then_some("")
    }

    fn is_virtual(&self) -> bool {
        let start = self.0.get(..VIRTUAL.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(VIRTUAL))
    }
}

fn is_among(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_the_system_s_or_without_a_password_or_somebody_s() {
        for name in ["", "localsystem", r".\LocalSystem", r"NT Authority\System"] {
            let account = Account::new(name);
            assert_eq!(account, Account::system(), "{name}");
            assert_eq!(account.password(), Some(""));
        }
        for (name, password) in [
            (r"NT AUTHORITY\LocalService", Some("")),
            (r"nt authority\network service", Some("")),
            (r"NT Service\containerd", None),
        ] {
            let account = Account::new(name);
            assert!(!account.is_the_systems() && !account.is_a_users(), "{name}");
            assert_eq!((account.name(), account.password()), (name, password));
        }
        for name in [r".\builder", r"EXAMPLE\kube$", "kube@example.com", "NT"] {
            assert!(Account::new(name).is_a_users(), "{name}");
        }
    }
}
