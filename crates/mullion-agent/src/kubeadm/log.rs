//! The few lines of kubelet's log that tell something.

use std::collections::BTreeSet;

/// A line is cut off here: kubelet's can have thousands of signs.
const LONGEST: usize = 400;

/// The last lines that differ in what they say. kubelet repeats one complaint ten times a second, which hides the cause
/// beside it.
pub(super) fn telling(log: &[String], count: usize) -> Vec<String> {
    let mut said = BTreeSet::new();
    let mut lines: Vec<_> = log
        .iter()
        .rev()
        .filter(|line| !is_information(line) && said.insert(message(line)))
        .take(count)
        .map(|line| line.chars().take(LONGEST).collect())
        .collect();
    lines.reverse();
    lines
}

/// Whether a line is of kubelet's own form, `I1115 10:22:28.745982     404 file.go:75] …`, and no complaint.
fn is_information(line: &str) -> bool {
    line.starts_with('I') && line.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
}

/// What a line says, without when, and without about which pod.
fn message(line: &str) -> &str {
    let said = line.split_once("] ").map_or(line, |(_, said)| said);
    match said.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or(quoted),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_complaint_does_not_hide_another() {
        let mut log = vec![
            r#"E1115 10:22:26.9 404 kuberuntime_manager.go:1640] "CreatePodSandbox for pod failed" err="open /etc/resolv.conf""#.to_owned(),
            r#"I1115 10:22:27.0 404 kubelet_node_status.go:75] "Attempting to register node""#.to_owned(),
        ];
        for second in 10..60 {
            log.push(format!(
                r#"E1115 10:22:{second}.4 404 kubelet.go:3516] "Unable to register mirror pod" node="n""#
            ));
        }
        log.push("kubelet.service: Failed with result 'exit-code'.".to_owned());
        let lines = telling(&log, 10);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0].contains("resolv.conf"));
        assert!(lines[1].contains("10:22:59"), "the last of its kind");
    }
}
