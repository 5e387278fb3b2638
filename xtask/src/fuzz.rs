//! `cargo xtask fuzz`: hostile input for everything that reads what others wrote.

use std::time::Duration;

use crate::{XtaskError, tools};

/// How long each target gets with `cargo xtask test --slow`.
pub const SLOW: Duration = Duration::from_mins(1);

/// Fuzzes all targets or one. Inputs that fail are written below `target/fuzz`.
pub fn run(
    target: Option<&str>,
    time: Option<Duration>,
    seed: Option<u64>,
) -> Result<(), XtaskError> {
    let mut command = tools::cargo(&["run", "--quiet", "--package=mullion-fuzz", "--", "run"]);
    command.args(target);
    if let Some(time) = time {
        command.arg("--for").arg(time.as_secs().to_string());
    }
    if let Some(seed) = seed {
        command.arg("--seed").arg(seed.to_string());
    }
    tools::run(&mut command)
}

/// Reads `90s`, `10m` or `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time such as `90s`, `10m` or `2h`");
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        for wrong in [
            "",
            "5",
            "m",
            "-1s",
            "1d",
            "0s",
            "18446744073709551615h",
            "ä",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
