//! A network namespace of a test's own.

use std::process::Command;

use crate::ran::tool;

/// A network namespace with a loopback that is up. It is deleted with this value.
pub(crate) struct NetworkNamespace(&'static str);

impl NetworkNamespace {
    pub(crate) fn new(name: &'static str) -> Self {
        tool("ip", &["netns", "add", name]);
        let namespace = Self(name);
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs `ip` inside.
    pub(crate) fn ip(&self, line: &str) -> String {
        let words: Vec<_> = ["-netns", self.0]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        tool("ip", &words)
    }

    /// The words that run a command inside. `ip netns exec` changes mounts too, which machines cannot have.
    pub(crate) fn enter(&self) -> Vec<String> {
        vec!["nsenter".into(), format!("--net=/run/netns/{}", self.0)]
    }

    /// What a file of `/proc/net` says inside.
    pub(crate) fn read(&self, file: &str) -> String {
        let words = self.enter();
        tool(&words[0], &[&words[1], "cat", file])
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", self.0])
            .status();
    }
}
