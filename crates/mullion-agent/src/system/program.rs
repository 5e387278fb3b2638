//! Programs that the agent runs.

use std::ffi::OsString;
use std::time::Duration;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name, looked up in the system's folders, or its path.
    pub name: String,
    /// Its arguments. Never a secret: everybody on the machine can read them.
    pub args: Vec<String>,
    /// What it reads.
    pub input: Vec<u8>,
    /// When it is ended, with everything that it started.
    pub deadline: Duration,
    /// Whose the lock is while it runs.
    pub lock: LockWhile,
    /// What it hears of the agent's environment.
    pub proxy: Proxy,
}

/// Whether a program hears of the proxy that the agent's environment names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// It does.
    Heard,
    /// It does not: it would tell others, who would keep to it after it has changed.
    Hidden,
}

/// Whose the agent's lock is while a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWhile {
    /// The agent's alone.
    AgentLives,
    /// The program's too: where the agent is killed, the next one waits for the program's end.
    ProgramLives,
}

impl Program {
    /// A program that ends within a minute.
    pub fn new<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name: name.to_owned(),
            args: args.into_iter().map(str::to_owned).collect(),
            input: Vec::new(),
            deadline: Duration::from_mins(1),
            lock: LockWhile::AgentLives,
            proxy: Proxy::Heard,
        }
    }

    /// Keeps from it what the agent's environment tells of a proxy.
    #[must_use]
    pub fn without_proxy(mut self) -> Self {
        self.proxy = Proxy::Hidden;
        self
    }

    /// The variables of this environment that it does not hear of.
    pub(super) fn hidden(
        &self,
        names: impl Iterator<Item = OsString>,
    ) -> impl Iterator<Item = OsString> {
        let is_hidden = self.proxy == Proxy::Hidden;
        names.filter(move |name| {
            let name = name.to_string_lossy().to_lowercase();
            is_hidden && name.ends_with("_proxy")
        })
    }

    /// Gives it so much time.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Lets it hold the agent's lock.
    #[must_use]
    pub fn holding_lock(mut self) -> Self {
        self.lock = LockWhile::ProgramLives;
        self
    }

    /// Gives it something to read.
    #[must_use]
    pub fn reading(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_hidden_in_whatever_letters() {
        let names = ["PATH", "HTTP_PROXY", "https_proxy", "No_Proxy", "PROXY"];
        let names = || names.into_iter().map(OsString::from);
        let program = Program::new("kubeadm", ["init"]);
        assert_eq!(program.hidden(names()).count(), 0);
        let hidden: Vec<_> = program.without_proxy().hidden(names()).collect();
        assert_eq!(hidden, ["HTTP_PROXY", "https_proxy", "No_Proxy"]);
    }
}
