//! Every rule of this crate is broken by its own example, and says so.

use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::render::{Colour, render};
use mullion_spec::rules;
use mullion_spec::source::Source;

#[test]
fn show() {
    for rule in rules::all() {
        let Some(example) = rule.example else {
            continue;
        };
        let verdict = Draft::read(
            Source::new("cluster.yaml", example),
            &Surroundings::default(),
        )
        .conclude();
        let codes: Vec<_> = verdict
            .findings
            .iter()
            .map(|l| l.finding.rule.code)
            .collect();
        println!("=== {} {codes:?}", rule.code);
        println!("{}", render(&verdict, Colour::Plain));
    }
}
