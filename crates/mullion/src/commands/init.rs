//! `mullion init`: a commented cluster file.

use std::path::Path;

use clap::ValueEnum as _;
use mullion_catalog::Judgement;
use mullion_spec::draft::Surroundings;
use mullion_spec::finding::Severity;
use mullion_spec::source::Source;
use mullion_spec::value::ClusterName;
use schemars::JsonSchema;
use serde::Serialize;

use super::validate::tell;
use crate::arguments::{InitArguments, Profile};
use crate::console::{Console, Format, GOOD, Presence};
use crate::failure::{Class, Failure};
use crate::file;
use crate::output_file::{self, Readers, Replace};
use crate::views::kubeinit;

/// What `init` wrote.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Init {
    /// The file.
    pub file: String,
    /// The cluster's name.
    pub name: String,
}

/// Writes a commented cluster file.
pub fn init(
    console: &mut Console<'_>,
    wishes: &InitArguments,
    named: Option<&Path>,
    folder: &Path,
) -> Result<u8, Failure> {
    if named == Some(Path::new("-")) {
        return Err(Failure::new(
            Class::Usage,
            "`-` is standard input, and `init` writes a file",
        )
        .hint("name a file, or leave `--file` out"));
    }
    let path = named.unwrap_or(Path::new(file::USUAL));
    let shown = path.display().to_string();
    let target = folder.join(path);
    // Before any question: nobody likes to answer for nothing.
    if !wishes.force && (target.exists() || target.is_symlink()) {
        return Err(occupied(&shown));
    }
    let name = name(wishes, folder)?;
    let text = if let Some(words) = &wishes.spec {
        kubeinit::file(words, wishes.compute_os, &name)?
    } else {
        let chosen = wishes.profile.map_or_else(|| ask(console), Ok)?;
        if let Some(refusal) = refusal(chosen) {
            return Err(refusal);
        }
        profile(chosen).replace("NAME", name.as_str())
    };
    let judgement = judge(&shown, &text);
    write(folder, path, &text, wishes.force)?;
    let result = Init {
        file: shown,
        name: name.as_str().to_owned(),
    };
    match console.format {
        Format::Json => console.json("Init", &result)?,
        Format::Text => {
            let wrote = console.styled(GOOD, "wrote");
            let option = match named {
                Some(path) => format!(" --file {}", path.display()),
                None => String::new(),
            };
            writeln!(
                console.out,
                "{wrote} {}\n\nnext: look it over, then\n  mullion validate{option}\n  mullion plan{option}",
                result.file
            )?;
            // What a later release will take is written all the same, but nobody should find out by surprise.
            tell(console, &judgement.verdict)?;
        }
    }
    Ok(0)
}

fn profile(profile: Profile) -> &'static str {
    match profile {
        Profile::Local => include_str!("../../profiles/local.yaml"),
        Profile::WindowsVm => include_str!("../../profiles/windows-vm.yaml"),
        Profile::ExistingMachines => include_str!("../../profiles/existing-machines.yaml"),
    }
}

fn judge(shown: &str, text: &str) -> Judgement {
    file::judge(Source::new(shown, text), &Surroundings::default())
}

/// Why this release cannot make a profile's cluster; none where it can.
fn refusal(chosen: Profile) -> Option<Failure> {
    let text = profile(chosen).replace("NAME", "demo");
    let judgement = judge(file::USUAL, &text);
    if judgement.model.is_some() {
        return None;
    }
    let word = chosen.to_possible_value()?;
    let findings = judgement.verdict.findings.iter();
    let errors = findings.filter(|located| located.finding.severity == Severity::Error);
    let refusal = Failure::new(
        Class::Usage,
        format!("this release cannot make the profile `{}`", word.get_name()),
    );
    let told = errors.fold(refusal, |refusal, located| {
        let finding = &located.finding;
        let mut refusal = refusal;
        let cause = format!("[{}] {}", finding.rule.code, finding.message);
        refusal.causes.push(cause);
        let remedies = finding.remedies().into_iter();
        remedies.fold(refusal, Failure::hint)
    });
    Some(told)
}

/// Asks for the kind of cluster where somebody can answer; else takes the one that works anywhere.
fn ask(console: &Console<'_>) -> Result<Profile, Failure> {
    if console.presence == Presence::Unattended || console.format == Format::Json {
        return Ok(Profile::Local);
    }
    let profiles = [
        (
            Profile::Local,
            "on this computer, with a stand-in for Windows (nothing else needed)",
        ),
        (
            Profile::WindowsVm,
            "a real Windows in a virtual machine (needs installation media)",
        ),
        (
            Profile::ExistingMachines,
            "machines that you have already, by SSH",
        ),
    ];
    // One that this release cannot make is not offered.
    let profiles: Vec<_> = profiles
        .into_iter()
        .filter(|(profile, _)| refusal(*profile).is_none())
        .collect();
    let chosen = dialoguer::Select::new()
        .with_prompt("What kind of cluster?")
        .items(profiles.iter().map(|(_, text)| *text))
        .default(0)
        .interact_opt()
        .map_err(|error| {
            Failure::new(Class::ThisComputer, "the answer could not be read").because(&error)
        })?;
    match chosen {
        Some(index) => Ok(profiles[index].0),
        None => Err(Failure::new(Class::Usage, "no kind of cluster was chosen")
            .hint("name one: `mullion init --profile local`")),
    }
}

fn name(wishes: &InitArguments, folder: &Path) -> Result<ClusterName, Failure> {
    if let Some(name) = &wishes.name {
        return name.parse().map_err(|error| {
            Failure::new(Class::Usage, format!("`{name}` cannot be a cluster's name"))
                .because(&error)
                .hint("take lower-case letters, digits and hyphens")
        });
    }
    let of_folder = folder
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok());
    Ok(match of_folder {
        Some(name) => name,
        None => "demo".parse().map_err(|error| {
            Failure::new(Class::OurBug, "the default name is none").because(&error)
        })?,
    })
}

fn write(folder: &Path, path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let shown = &path.display().to_string();
    let replace = if force {
        Replace::Allowed
    } else {
        Replace::Refused
    };
    output_file::write(folder, path, text, replace, Readers::Usual).map_err(|error| {
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => occupied(shown),
            _ => Failure::new(
                Class::ThisComputer,
                format!("`{shown}` could not be written"),
            )
            .because(&error)
            .hint("give another place with `--file`"),
        }
    })
}

fn occupied(shown: &str) -> Failure {
    Failure::new(Class::Usage, format!("`{shown}` is there already"))
        .hint("overwrite it with `--force`, or name another file with `--file`")
}
