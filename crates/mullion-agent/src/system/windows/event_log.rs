//! Entries in the event log `Application`.

use windows::Win32::Foundation::HANDLE;
use windows::Win32::System::EventLog::{
    DeregisterEventSource, EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, RegisterEventSourceW,
    ReportEventW,
};
use windows::core::PCWSTR;

use super::super::{EVENT_SOURCE, LogEntry, SystemError};
use super::call::{Wide, failed};

/// The longest text that an entry takes has 31,839 units; a sign is at most two.
const LONGEST: usize = 15_000;

/// The log, open under the agent's source.
struct Source(HANDLE);

impl Drop for Source {
    fn drop(&mut self) {
        // The process ends soon, and the handle with it.
        let _ = unsafe { DeregisterEventSource(self.0) };
    }
}

pub(super) fn write(entry: LogEntry, words: &str) -> Result<(), SystemError> {
    let name = Wide::new(EVENT_SOURCE);
    let handle = unsafe { RegisterEventSourceW(PCWSTR::null(), name.as_ptr()) };
    let source = Source(handle.map_err(failed("RegisterEventSource"))?);
    let kind = match entry {
        LogEntry::Failed => EVENTLOG_ERROR_TYPE,
        LogEntry::Applied | LogEntry::PutBack => EVENTLOG_INFORMATION_TYPE,
    };
    let words: String = words.chars().take(LONGEST).collect();
    let words = Wide::new(&words);
    let texts = [words.as_ptr()];
    let written = unsafe {
        ReportEventW(
            source.0,
            kind,
            0,
            entry.number(),
            None,
            0,
            Some(&texts),
            None,
        )
    };
    written.map_err(failed("ReportEvent"))
}
