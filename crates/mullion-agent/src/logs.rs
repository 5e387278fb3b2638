//! Logs whose writers append to one file for ever: what is in them is set aside once it is much, and removed once it is
//! old.
//!
//! What is set aside has the names that `kube-log-runner` gives, `kubelet-20250131-235959.log`, in UTC, and its age is
//! counted as there, from when it was last written: a later `kube-log-runner` that does all this itself goes on with it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mullion_wire::AttendedLog;

use crate::failure::AgentError;
use crate::system::{Kind, System, SystemError};

/// How often logs are looked at.
const PAUSE: Duration = Duration::from_mins(1);

/// Logs that are looked at.
#[derive(Debug)]
pub(crate) struct Logs {
    wanted: Vec<AttendedLog>,
    /// When that was last done.
    looked: Option<SystemTime>,
}

impl Logs {
    pub(crate) fn new(wanted: &[AttendedLog]) -> Self {
        Self {
            wanted: wanted.to_vec(),
            looked: None,
        }
    }

    /// Looks at them, where it is time to. `on_line` hears what was done and what could not be.
    pub(crate) fn look(
        &mut self,
        system: &dyn System,
        now: SystemTime,
        on_line: &mut dyn FnMut(&str),
    ) {
        if !is_time(self.looked, now) {
            return;
        }
        self.looked = Some(now);
        for log in &self.wanted {
            match seen(system, &log.path) {
                Ok(seen) => settle(system, log, &seen, now, on_line),
                Err(error) => tell(&log.path, error, on_line),
            }
        }
    }
}

/// A clock that was put back is no reason to wait until it is where it was.
fn is_time(looked: Option<SystemTime>, now: SystemTime) -> bool {
    let since = looked.and_then(|looked| now.duration_since(looked).ok());
    since.is_none_or(|since| since >= PAUSE)
}

/// A log, and what was set aside of it.
#[derive(Debug, Default)]
struct Seen {
    /// Its size; nothing where there is no such file.
    log: Option<u64>,
    /// Paths, with their times in nanoseconds since 1970.
    aside: Vec<(String, i64)>,
}

fn seen(system: &dyn System, path: &str) -> Result<Seen, SystemError> {
    let mut seen = Seen::default();
    let (folder, _) = path.rsplit_once('/').unwrap_or((".", path));
    for name in system.list(folder)? {
        let found = format!("{folder}/{name}");
        if found != path && !is_aside(path, &found) {
            continue;
        }
        let Some(look) = system.look(&found)?.filter(|look| look.kind == Kind::File) else {
            continue;
        };
        if found == path {
            seen.log = Some(look.size);
        } else {
            seen.aside.push((found, look.modified));
        }
    }
    Ok(seen)
}

/// Removes and sets aside. One that cannot be removed, since somebody reads it, is no reason to let the log grow.
fn settle(
    system: &dyn System,
    log: &AttendedLog,
    seen: &Seen,
    now: SystemTime,
    on_line: &mut dyn FnMut(&str),
) {
    // First, so that there is room.
    for path in old(log, seen, now) {
        match system.remove(path) {
            Ok(_) => on_line(&format!("`{path}` was removed: it is old")),
            Err(error) => tell(path, error, on_line),
        }
    }
    if let Some(to) = next(log, seen, now) {
        match system.pour(&log.path, &to) {
            Ok(()) => on_line(&format!("`{}` was set aside as `{to}`", log.path)),
            Err(error) => tell(&log.path, error, on_line),
        }
    }
}

fn tell(path: &str, error: SystemError, on_line: &mut dyn FnMut(&str)) {
    let error = AgentError::from(error).chain().join(": ");
    on_line(&format!("`{path}` stays as it is: {error}"));
}

/// What was set aside long enough ago.
fn old<'a>(
    log: &AttendedLog,
    seen: &'a Seen,
    now: SystemTime,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let age = Duration::from_secs(log.removed_after_s);
    seen.aside
        .iter()
        .filter(move |(_, modified)| {
            let written = Duration::from_nanos(u64::try_from(*modified).unwrap_or_default());
            // What is of a time to come was written before the clock was put back.
            let since = now.duration_since(UNIX_EPOCH + written);
            since.is_ok_and(|since| since > age)
        })
        .map(|(path, _)| path.as_str())
}

/// Where the log is set aside to; nothing where it is not to be. A name that is taken, after a clock was put back, is
/// another one at the next look.
fn next(log: &AttendedLog, seen: &Seen, now: SystemTime) -> Option<String> {
    let size = seen.log?;
    let (stem, ending) = parts(&log.path);
    let to = format!("{stem}-{}{ending}", stamp(now));
    let is_free = !seen.aside.iter().any(|(path, _)| *path == to);
    (size >= log.aside_from && is_free).then_some(to)
}

/// A path without its ending, and the ending with its dot.
fn parts(path: &str) -> (&str, &str) {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = path[name..].rfind('.');
    path.split_at(dot.map_or(path.len(), |dot| name + dot))
}

/// Whether a path is one that a log may have been set aside as.
fn is_aside(log: &str, path: &str) -> bool {
    let (stem, ending) = parts(log);
    let stamp = path
        .strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_suffix(ending));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    stamp
        .and_then(|stamp| stamp.split_once('-'))
        .is_some_and(|(day, time)| {
            (day.len(), time.len()) == (8, 6) && is_number(day) && is_number(time)
        })
}

/// A time as names have it.
fn stamp(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// The date of the Gregorian calendar so many days after the first of 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted in years that begin in March, and so end with the leap day, from one that begins 400 of them.
    let days = days + 719_468;
    let of_era = days % 146_097;
    let of_years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_years + of_years / 4 - of_years / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = days / 146_097 * 400 + of_years + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "C:/var/log/containerd/containerd.log";

    fn log() -> AttendedLog {
        AttendedLog {
            path: LOG.into(),
            aside_from: 100,
            removed_after_s: 3600,
        }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn aside(stamp: &str, seconds: i64) -> (String, i64) {
        let path = format!("C:/var/log/containerd/containerd-{stamp}.log");
        (path, seconds * 1_000_000_000)
    }

    #[test]
    fn a_log_is_set_aside_from_its_size_on_under_a_name_of_its_time() {
        let now = at(1_738_367_999);
        let of = |size| Seen {
            log: Some(size),
            aside: vec![],
        };
        let to = aside("20250131-235959", 0).0;
        assert_eq!(next(&log(), &of(99), now), None);
        assert_eq!(next(&log(), &of(100), now), Some(to));
        assert_eq!(next(&log(), &Seen::default(), now), None);
    }

    #[test]
    fn what_is_old_goes_and_what_is_of_a_time_to_come_stays() {
        let seen = Seen {
            log: None,
            aside: vec![
                aside("19700101-000000", 0),
                aside("19700101-000001", 1),
                aside("20250131-235959", 1_738_367_999),
            ],
        };
        let found: Vec<_> = old(&log(), &seen, at(3601)).collect();
        assert_eq!(found, [seen.aside[0].0.as_str()]);
    }

    #[test]
    fn after_a_clock_was_put_back_logs_are_looked_at_and_no_name_is_given_twice() {
        assert!(is_time(None, at(1000)));
        assert!(!is_time(Some(at(1000)), at(1059)));
        assert!(is_time(Some(at(1000)), at(1060)));
        assert!(is_time(Some(at(1000)), at(999)));
        let seen = Seen {
            log: Some(100),
            aside: vec![aside("19700101-001640", 1000)],
        };
        assert_eq!(next(&log(), &seen, at(1000)), None);
        assert!(next(&log(), &seen, at(1060)).is_some());
    }

    #[test]
    fn names_of_others_are_theirs() {
        let folder = "C:/var/log/containerd";
        assert!(is_aside(LOG, &aside("20250131-235959", 0).0));
        for name in [
            "containerd.log",
            "containerd-20250131-235959.txt",
            "containerd-20250131-23595.log",
            "containerd-20250131-2359590.log",
            "containerd-20250131235959.log",
            "containerd-2025o131-235959.log",
            "containerd-shim-20250131-235959.log",
            "kubelet-20250131-235959.log",
            "panic.log",
        ] {
            assert!(!is_aside(LOG, &format!("{folder}/{name}")), "{name}");
        }
        // A dot of a folder is no ending.
        assert!(is_aside("/a.b/log", "/a.b/log-20250131-235959"));
    }

    #[test]
    fn times_are_written_by_the_calendar() {
        for (seconds, written) in [
            (0, "19700101-000000"),
            (951_782_399, "20000228-235959"),
            (951_782_400, "20000229-000000"),
            (951_868_800, "20000301-000000"),
            (1_735_689_599, "20241231-235959"),
            (4_107_542_400, "21000301-000000"),
        ] {
            assert_eq!(stamp(at(seconds)), written);
        }
    }
}
