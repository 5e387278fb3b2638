//! Durations as people read them.

use std::time::Duration;

/// The largest units of a duration: `40 ms`, `0.4 s`, `12 s`, `3 min 5 s`, `2 h 1 min`, `3 d 4 h`.
pub fn shown(duration: Duration) -> String {
    let ms = duration.as_millis();
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match ms {
        0 => return "0 s".into(),
        1..100 => return format!("{ms} ms"),
        100..10_000 => {
            let tenths = (ms + 50) / 100;
            return match tenths % 10 {
                0 => format!("{} s", tenths / 10),
                tenth => format!("{}.{tenth} s", tenths / 10),
            };
        }
        _ => {}
    }
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => two((minutes, "min"), (seconds % 60, "s")),
        (0, hours, _) => two((hours, "h"), (minutes % 60, "min")),
        (days, _, _) => two((days, "d"), (hours % 24, "h")),
    }
}

/// The larger unit, and the smaller one where there is any of it.
fn two((large, unit): (u64, &str), (small, smaller): (u64, &str)) -> String {
    match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {smaller}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_at_every_size() {
        for (ms, text) in [
            (0, "0 s"),
            (40, "40 ms"),
            (400, "0.4 s"),
            (1_000, "1 s"),
            (440, "0.4 s"),
            (9_877, "9.9 s"),
            (9_999, "10 s"),
            (12_400, "12 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (69_000, "1 min 9 s"),
            (7_260_000, "2 h 1 min"),
            (86_400_000, "1 d"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(shown(Duration::from_millis(ms)), text);
        }
    }
}
