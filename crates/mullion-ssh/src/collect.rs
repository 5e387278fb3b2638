//! Lines that somebody wants together.

use std::collections::VecDeque;

use crate::command::{Exit, Output, Stream};
use crate::limits;

/// Both streams, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    out: String,
    err: String,
}

impl Collected {
    pub(crate) fn add(&mut self, stream: Stream, line: &str) {
        let text = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        if text.len() + line.len() < limits::COLLECTED {
            text.push_str(line);
            text.push('\n');
        }
    }

    pub(crate) fn into_output(self, exit: Exit) -> Output {
        let Self { out, err } = self;
        Output { exit, out, err }
    }
}

/// The last lines.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    pub(crate) fn add(&mut self, line: &str) {
        if self.0.len() == limits::TAIL {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_last_lines_in_order() {
        let mut tail = Tail::default();
        for line in 0..limits::TAIL + 2 {
            tail.add(&line.to_string());
        }
        let lines = tail.into_lines();
        assert_eq!(lines.len(), limits::TAIL);
        assert_eq!(lines[0], "2");
    }

    #[test]
    fn what_is_collected_has_a_bound() {
        let mut collected = Collected::default();
        let line = "x".repeat(limits::COLLECTED / 3);
        for _ in 0..9 {
            collected.add(Stream::Out, &line);
        }
        let output = collected.into_output(Exit { status: 0 });
        assert!(output.out.len() < limits::COLLECTED);
        assert!(output.err.is_empty());
    }
}
