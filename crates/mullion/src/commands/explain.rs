//! `mullion explain`: the error catalogue.

use mullion_catalog::Catalog;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::render::render;
use mullion_spec::rules::{self, Rule};
use mullion_spec::shape::nearest;
use mullion_spec::source::Source;
use schemars::JsonSchema;
use serde::Serialize;

use crate::console::{Console, FAINT, Format, STRONG};
use crate::failure::{Class, Failure};

/// Rules of the error catalogue.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The rules that were asked for.
    pub rules: Vec<RuleRow>,
}

/// One rule.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRow {
    /// Its code.
    pub code: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The breach in one line.
    pub title: &'static str,
    /// Why the rule is there.
    pub why: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// A file that breaks it.
    pub example: Option<&'static str>,
}

impl From<&'static Rule> for RuleRow {
    fn from(rule: &'static Rule) -> Self {
        Self {
            code: rule.code,
            name: rule.name,
            title: rule.title,
            why: rule.why,
            remedy: rule.remedy,
            example: rule.example,
        }
    }
}

/// The word that asks for the fields of the cluster file instead of a rule.
const FILE: &str = "file";

/// Explains one rule or the cluster file, or lists all rules.
pub fn explain(console: &mut Console<'_>, code: Option<&str>) -> Result<u8, Failure> {
    if code == Some(FILE) {
        match console.format {
            Format::Json => {
                let text = serde_json::to_string_pretty(&mullion_spec::schema());
                writeln!(console.out, "{}", text.map_err(std::io::Error::from)?)?;
            }
            Format::Text => write!(console.out, "{}", mullion_spec::reference::reference())?,
        }
        return Ok(0);
    }
    let rules: Vec<&'static Rule> = match code {
        None => rules::all().collect(),
        Some(code) => vec![rules::find(code).ok_or_else(|| unknown(code))?],
    };
    if console.format == Format::Json {
        let rules = rules.into_iter().map(RuleRow::from).collect();
        console.json("Explanation", &Explanation { rules })?;
        return Ok(0);
    }
    match rules.as_slice() {
        [rule] if code.is_some() => one(console, rule)?,
        rules => {
            for rule in rules {
                let code = console.styled(STRONG, rule.code);
                writeln!(console.out, "{code}  {:<24} {}", rule.name, rule.title)?;
            }
        }
    }
    Ok(0)
}

fn one(console: &mut Console<'_>, rule: &'static Rule) -> Result<(), Failure> {
    let heading = console.styled(STRONG, &format!("{} {}", rule.code, rule.name));
    writeln!(
        console.out,
        "{heading}: {}\n\n{}\n\nWhat to do: {}",
        rule.title, rule.why, rule.remedy
    )?;
    if let Some(example) = rule.example {
        let source = Source::new("example.yaml", example);
        let draft = Draft::read(source, &Surroundings::default());
        let mut verdict = Catalog::builtin().judge(draft).verdict;
        verdict
            .findings
            .retain(|located| located.finding.rule.code == rule.code);
        let label = console.styled(FAINT, "For example:");
        let shown = render(&verdict, console.out_colour);
        writeln!(console.out, "\n{label}\n\n{}", shown.trim_end())?;
    }
    Ok(())
}

fn unknown(code: &str) -> Failure {
    let words = rules::all()
        .flat_map(|rule| [rule.code, rule.name])
        .chain([FILE]);
    let failure = Failure::new(Class::Usage, format!("there is no rule `{code}`"));
    match nearest(code, words) {
        Some(meant) => failure.hint(format!("did you mean `mullion explain {meant}`?")),
        None => failure.hint("`mullion explain` lists all of them"),
    }
}
