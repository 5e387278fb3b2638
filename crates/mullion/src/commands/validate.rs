//! `mullion validate`: every mistake of the file at once.

use mullion_catalog::{Judgement, Model};
use mullion_spec::cluster::Duty;
use mullion_spec::draft::Verdict;
use mullion_spec::finding::Severity;
use mullion_spec::render::render;
use mullion_spec::words::Os;

use crate::console::{BAD, Console, FAINT, Format, GOOD};
use crate::failure::{Class, Failure};
use crate::views::findings::{Validation, plural, tally};

/// Says what was found about a file; the exit code of what is wrong with it.
pub fn validate(console: &mut Console<'_>, judgement: &Judgement) -> Result<u8, Failure> {
    let verdict = &judgement.verdict;
    if console.format == Format::Json {
        console.json("Validation", &Validation::new(verdict))?;
        return Ok(exit_code(verdict));
    }
    tell(console, verdict)?;
    if let Some(model) = &judgement.model {
        let sound = console.styled(GOOD, "is sound");
        writeln!(
            console.out,
            "{} {sound}: {}",
            verdict.source.name(),
            summary(model)
        )?;
        let next = console.styled(FAINT, "next: mullion plan");
        writeln!(console.out, "{next}")?;
    }
    Ok(exit_code(verdict))
}

/// Says why a file cannot be used, for commands that need one.
pub fn refuse(console: &mut Console<'_>, verdict: &Verdict) -> Result<u8, Failure> {
    match console.format {
        Format::Json => console.json("Validation", &Validation::new(verdict))?,
        Format::Text => tell(console, verdict)?,
    }
    Ok(exit_code(verdict))
}

/// Shows findings with their lines, and how many there are.
pub fn tell(console: &mut Console<'_>, verdict: &Verdict) -> Result<(), Failure> {
    // Results are kept back for speed; what was said before must be read before.
    console.out.flush()?;
    write!(console.err, "{}", render(verdict, console.err_colour))?;
    if let Some(first) = verdict.findings.first() {
        let name = verdict.source.name();
        let line = format!(
            "{name}: {}; `mullion explain {}` says more of the first",
            tally(verdict),
            first.finding.rule.code
        );
        let style = if verdict.count(Severity::Error) > 0 {
            BAD
        } else {
            FAINT
        };
        let line = console.styled_err(style, &line);
        writeln!(console.err, "{line}")?;
    }
    Ok(())
}

/// The exit code of a verdict.
fn exit_code(verdict: &Verdict) -> u8 {
    if verdict.count(Severity::Error) > 0 {
        Class::File.exit_code()
    } else {
        0
    }
}

/// A cluster in one line.
pub fn summary(model: &Model) -> String {
    let cluster = model.cluster();
    let count = |duty: Duty, os: Os| {
        cluster
            .groups
            .iter()
            .filter(|group| group.duty == duty && group.system.os() == os)
            .map(|group| group.numbers.len())
            .sum::<usize>()
    };
    let parts: Vec<_> = [
        (count(Duty::LoadBalancer, Os::Linux), "load balancer"),
        (count(Duty::ControlPlane, Os::Linux), "control plane"),
        (count(Duty::Worker, Os::Linux), "Linux worker"),
        (count(Duty::Worker, Os::Windows), "Windows worker"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, noun)| plural(count, noun))
    .collect();
    format!(
        "cluster `{}`, Kubernetes {}, {}",
        cluster.name,
        model.kubernetes().version,
        parts.join(", ")
    )
}
