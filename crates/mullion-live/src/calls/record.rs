//! What was recorded of one step, without what no two runs have in common.

use mullion_testkit::{api, ssh};

/// Everything that the adapter asked of the outside, and what came of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) calls: Recorded,
    /// How the step ended, what was told meanwhile, and what is told at the end of the run.
    pub(super) outcome: Vec<String>,
}

/// The calls of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Calls of drivers, in order.
    drivers: Vec<String>,
    /// Commands over SSH with their input, in order.
    commands: Vec<String>,
    /// Requests to the API server and to etcd with their bodies. The adapter sends some of them side by side, so these are
    /// sorted.
    requests: Vec<String>,
    /// Templates that are built, with everything that goes into them.
    templates: Vec<String>,
}

/// The parts of a record as they come.
pub(super) struct Raw {
    pub(super) drivers: Vec<String>,
    pub(super) commands: Vec<ssh::Asked>,
    pub(super) requests: Vec<api::Asked>,
    pub(super) templates: Vec<String>,
    pub(super) outcome: Vec<String>,
}

impl Raw {
    /// The record. `known` is what this world alone has, such as its folder and its ports, with a word for each.
    pub(super) fn clean(self, known: &[(String, &str)]) -> Record {
        let commands = self.commands.iter().map(|asked| {
            let stdin = String::from_utf8_lossy(&asked.stdin);
            format!("{}\n{stdin}", asked.line)
        });
        let requests = self.requests.iter().map(|asked| {
            let api::Asked {
                method,
                path,
                query,
                body,
                is_apply,
            } = asked;
            format!("{method} {path}?{query} {is_apply} {body}")
        });
        let mut parts = [
            self.drivers,
            commands.collect(),
            requests.collect(),
            self.templates,
            self.outcome,
        ];
        let tokens: Vec<_> = parts
            .iter()
            .flatten()
            .flat_map(|line| tokens(line))
            .collect();
        for line in parts.iter_mut().flatten() {
            for (what, word) in known {
                *line = line.replace(what, word);
            }
            for (id, secret) in &tokens {
                *line = line.replace(secret, "<secret>").replace(id, "<token>");
            }
            *line = without_times(&without_numbers(line));
        }
        let [drivers, commands, mut requests, templates, outcome] = parts;
        requests.sort();
        Record {
            calls: Recorded {
                drivers,
                commands,
                requests,
                templates,
            },
            outcome,
        }
    }
}

/// The bootstrap tokens in a text: `abcdef.0123456789abcdef`, by their halves.
fn tokens(text: &str) -> Vec<(String, String)> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let words = text
        .split(|letter: char| !letter.is_ascii() || !(is_letter(letter as u8) || letter == '.'));
    let halves = words.filter_map(|word| word.split_once('.'));
    let tokens = halves.filter(|(id, secret)| (id.len(), secret.len()) == (6, 16));
    tokens
        .map(|(id, secret)| (id.into(), secret.into()))
        .collect()
}

/// A text without the random numbers by which commands announce themselves and uploads are called.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["mullion-", "."]
        .iter()
        .filter_map(|mark| Some(rest.find(mark)? + mark.len()))
        .min()
    {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        let is_number = digits == 16 && (before.ends_with('-') || after[16..].starts_with(".part"));
        rest = if is_number {
            out.push_str("<number>");
            &after[16..]
        } else {
            after
        };
    }
    out + rest
}

/// A text without points in time: `2026-11-15T09:00:00`.
fn without_times(text: &str) -> String {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let mut bytes = text.as_bytes().to_vec();
    for at in 0..bytes.len().saturating_sub(FORM.len() - 1) {
        let here = &mut bytes[at..at + FORM.len()];
        let fits = here.iter().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == form,
        });
        if fits {
            here.copy_from_slice(FORM);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn what_no_two_runs_have_in_common_is_left_out() {
    let line = "exec sh -c x mullion-0123456789abcdef /a.0123456789abcdef.part /b.0123456789abcdef mullion-agent";
    assert_eq!(
        without_numbers(line),
        "exec sh -c x mullion-<number> /a.<number>.part /b.0123456789abcdef mullion-agent"
    );
    assert_eq!(
        without_times("\"2026-11-15T09:10:00Z\", 2026-11-15"),
        "\"0000-00-00T00:00:00Z\", 2026-11-15"
    );
    let token = ("abcdef".to_owned(), "0123456789abcdef".to_owned());
    assert_eq!(
        tokens("\"token\":\"abcdef.0123456789abcdef\" k8s.io"),
        [token]
    );
}
