//! The process list, looked at all the time that a machine or the program works.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::computer::{processes, shown};
use crate::secrets::secrets;

/// The most memory, in kilobytes, that an agent may touch.
const AGENT_MEMORY: u64 = 20_000;

/// What was seen so far.
#[derive(Default)]
struct Seen {
    /// Secrets that a process showed.
    secrets: BTreeSet<String>,
    /// The most memory, in kilobytes, that an agent had touched; the kernel keeps the figure while it runs.
    agent: u64,
}

impl Seen {
    fn look(&mut self) {
        for pid in processes() {
            let line = shown(pid, "cmdline");
            let is_ours = shown(pid, "cgroup").contains("/mullion/") || line.contains("mullion");
            if !is_ours {
                continue;
            }
            for text in [&line, &shown(pid, "environ")] {
                let secrets = secrets(text).into_iter();
                self.secrets
                    .extend(secrets.map(|secret| format!("process `{line}`: {secret}")));
            }
            if shown(pid, "comm").trim() == "mullion-agent" {
                self.agent = self.agent.max(peak(&shown(pid, "status")));
            }
        }
    }
}

/// What the kernel says of the memory that a process had touched at most.
fn peak(status: &str) -> u64 {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("VmHWM:"));
    let value = value.and_then(|value| value.trim().strip_suffix("kB")?.trim().parse().ok());
    value.unwrap_or_default()
}

/// Looks until it is told to end.
pub(crate) struct Watcher {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watcher {
    pub(crate) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !over.load(Ordering::SeqCst) {
                seen.look();
                std::thread::sleep(Duration::from_millis(20));
            }
            seen
        });
        Self { is_over, thread }
    }

    /// No process ever showed a secret, and agents needed little memory: gives the most, in kilobytes.
    #[track_caller]
    pub(crate) fn saw_no_fault(self) -> u64 {
        self.is_over.store(true, Ordering::SeqCst);
        let seen = self.thread.join().unwrap();
        assert!(seen.secrets.is_empty(), "{:#?}", seen.secrets);
        assert!(seen.agent > 0, "no agent was seen");
        assert!(seen.agent < AGENT_MEMORY, "{} kB", seen.agent);
        seen.agent
    }
}
