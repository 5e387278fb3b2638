//! `mullion node`: a machine added, removed, reset or started anew.
//!
//! To add and to remove is to change the file and bring the cluster up: the file stays the one place that says what is
//! wanted.

mod difference;
mod single;

use std::io;
use std::path::{Path, PathBuf};

use mullion_catalog::{Judgement, Model};
use mullion_plan::Stage;
use mullion_spec::edit::{self, EditError};
use mullion_spec::source::Source;
use mullion_spec::value::{GroupName, MachineName};

use super::kubeconfig::{replace, resolved};
use super::plan::obstructed;
use super::ssh::not_among;
use super::up::{plan_now, up};
use super::validate::refuse;
use crate::arguments::{NodeArguments, NodeVerb, UpArguments};
use crate::consent::{answerable, consent};
use crate::console::{BAD, Console, Format, GOOD};
use crate::elevation::elevate;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::file::{Aim, Judged};
use crate::invocation::Invocation;
use crate::views::run as view;
use crate::{file, workshop};

/// The mark that some editors put before a text.
const MARK: &str = "\u{feff}";

/// What the name of a cluster file's source is where it came through standard input.
const STANDARD_INPUT: &str = "-";

/// Does what is asked with a node.
pub fn node(
    console: &mut Console<'_>,
    judged: &Judged,
    wishes: &NodeArguments,
    file: Option<&Path>,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<u8, Failure> {
    let judgement = &judged.judgement;
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let change = match &wishes.verb {
        NodeVerb::Reset { machine, yes } => {
            let errand = single::Errand { machine, yes: *yes };
            return single::reset(console, judged, model, &errand, environment, invocation);
        }
        NodeVerb::Reboot { machine, yes } => {
            let errand = single::Errand { machine, yes: *yes };
            return single::reboot(console, model, &errand, environment, invocation);
        }
        NodeVerb::Add { count: 0, .. } => {
            return Err(
                Failure::new(Class::Usage, "no machine more is as many as there are")
                    .hint("`--count` is how many are added: 1 where it is left out"),
            );
        }
        NodeVerb::Add { group, count, yes } => Change {
            what: What::Add(group, *count),
            yes: *yes,
        },
        NodeVerb::Remove { machine, yes } => Change {
            what: What::Remove(machine),
            yes: *yes,
        },
    };
    let place = FilePlace::find(judgement, file, environment)?;
    change_file(console, model, &change, &place, environment, invocation)
}

struct Change<'a> {
    what: What<'a>,
    yes: bool,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Add(&'a GroupName, u32),
    Remove(&'a MachineName),
}

/// The file that a change is made to.
struct FilePlace {
    name: String,
    path: PathBuf,
}

impl FilePlace {
    /// The file that was judged, where it is one that can be changed.
    fn find(
        judgement: &Judgement,
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let refused =
            |why: &str| Failure::new(Class::Usage, format!("{why}, so it cannot be changed"));
        let judged = judgement.verdict.source.name();
        match named {
            Some(path) if path == Path::new(STANDARD_INPUT) => {
                Err(refused("the cluster file came through standard input")
                    .hint("name the file with `--file FILE`"))
            }
            Some(path) => Ok(Self {
                name: path.display().to_string(),
                path: environment.folder.join(path),
            }),
            None if judged == file::BUILT_IN => Err(refused("the built-in cluster has no file")
                .hint("write one with `mullion init`, then give the command again")),
            None if judged == file::USUAL => Ok(Self {
                name: file::USUAL.into(),
                path: environment.folder.join(file::USUAL),
            }),
            None => Err(
                refused("with `--cluster` there is only the copy that the last run kept")
                    .hint("go to the folder of the cluster's file, or name it with `--file FILE`"),
            ),
        }
    }

    /// Its text, and what stands before it.
    fn read(&self) -> Result<(&'static str, String), Failure> {
        let _rights = mullion_rights::as_invoker();
        let text = fs_err::read_to_string(&self.path).map_err(|error| {
            Failure::new(Class::File, format!("`{}` cannot be read", self.name)).because(&error)
        })?;
        Ok(match text.strip_prefix(MARK) {
            Some(rest) => (MARK, rest.to_owned()),
            None => ("", text),
        })
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let _rights = mullion_rights::as_invoker();
        let target = resolved(&self.path);
        replace(&target, text.as_bytes())
    }
}

fn change_file(
    console: &mut Console<'_>,
    model: &Model,
    change: &Change<'_>,
    place: &FilePlace,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<u8, Failure> {
    // The verdict's text has its secrets blanked out: the file itself is what is changed.
    let (mark, before) = place.read()?;
    let after = changed(&before, change.what).map_err(|error| explained(&error, place))?;
    let source = Source::new(place.name.clone(), after.clone());
    let judged = Judged::here(source, environment, Aim::Make)?;
    let judgement = &judged.judgement;
    let Some(new_model) = &judgement.model else {
        if console.format == Format::Text {
            let name = &place.name;
            writeln!(
                console.err,
                "`{name}` was not changed, since after the change it would have mistakes:\n"
            )?;
        }
        return refuse(console, &judgement.verdict);
    };
    // Before anything is touched: the command that is run again as root does everything that follows.
    let mut reasons = workshop::reasons_for_root(new_model, environment);
    if reasons.is_empty() {
        reasons = workshop::needs_root(model);
    }
    elevate(
        console,
        environment,
        new_model,
        invocation.arguments,
        &reasons,
    )?;
    if console.format == Format::Text {
        for line in difference::lines(&place.name, &before, &after) {
            let line = match line.as_bytes().first() {
                Some(b'+') => console.styled_err(GOOD, &line),
                Some(b'-') => console.styled_err(BAD, &line),
                _ => line,
            };
            writeln!(console.err, "{line}")?;
        }
    }
    let mut yes = change.yes;
    if let What::Remove(machine) = change.what {
        match may_go(console, new_model, machine, yes, environment)? {
            Consent::Given => yes = true,
            Consent::Obstructed(code) => return Ok(code),
        }
    }
    place.write(&format!("{mark}{after}")).map_err(|error| {
        Failure::new(
            Class::File,
            format!("`{}` could not be written, and is as it was", place.name),
        )
        .because(&error)
    })?;
    if console.format == Format::Text {
        let wrote = console.styled_err(GOOD, "changed");
        writeln!(console.err, "{wrote} {}\n", place.name)?;
    }
    let wishes = UpArguments {
        yes,
        ..UpArguments::default()
    };
    let result = up(console, &judged, &wishes, environment, invocation);
    if !matches!(result, Ok(0)) && console.format == Format::Text {
        let name = &place.name;
        let again = invocation.next(&new_model.cluster().name, &["up"]);
        writeln!(
            console.err,
            "`{name}` stays changed: go on with `{again}`, not with this command again"
        )?;
    }
    result
}

fn changed(text: &str, what: What<'_>) -> Result<String, EditError> {
    match what {
        What::Add(group, count) => edit::add_machines(text, group, count),
        What::Remove(machine) => edit::remove_machine(text, machine),
    }
}

/// Why the file was not changed, and what to do instead.
fn explained(error: &EditError, place: &FilePlace) -> Failure {
    let name = &place.name;
    let failure = Failure::new(Class::Usage, format!("`{name}` was not changed: {error}"));
    match error {
        EditError::NoGroup { group, known } => not_among(failure, group.as_str(), known),
        EditError::NoMachine { machine, known } => not_among(failure, machine.as_str(), known),
        EditError::Addresses { group } => {
            failure.hint(format!("write its address into `addresses` of group `{group}`, then `mullion up`"))
        }
        EditError::LastAddress { group, .. } => {
            failure.hint(format!("take group `{group}` out of `{name}`, then `mullion up`"))
        }
        EditError::ShortControlPlane => failure.hint(
            "write the groups out: `machines: [{name: cp, role: control-plane, count: 3}, {name: lin, count: 1}]`",
        ),
        EditError::LoadBalancer { .. } => failure.hint("it goes with the last but one control plane"),
        EditError::Form { .. } => failure.hint("change `count` and `skip` there by hand, then `mullion up`"),
        _ => failure,
    }
}

enum Consent {
    Given,
    Obstructed(u8),
}

/// Asks whether a machine may go, and tells what else would.
fn may_go(
    console: &mut Console<'_>,
    model: &Model,
    machine: &MachineName,
    yes: bool,
    environment: &Environment,
) -> Result<Consent, Failure> {
    let what = format!("remove {machine} with everything on it");
    answerable(console, &what, yes)?;
    let adapter = workshop::open(model, environment)?;
    let (_, _, plan) = plan_now(&adapter, model)?;
    if !plan.obstacles().is_empty() {
        view::obstructed(console, model, &plan, None)?;
        return Ok(Consent::Obstructed(obstructed(&plan)));
    }
    if yes {
        return Ok(Consent::Given);
    }
    let others = plan
        .steps()
        .iter()
        .filter(|step| step.stage == Stage::Retire && step.machine.as_ref() != Some(machine));
    let others: Vec<_> = others.map(mullion_plan::Step::title).collect();
    let what = if others.is_empty() {
        what
    } else {
        format!("{what}, and also {}", others.join(", "))
    };
    consent(console, &what, yes)?;
    Ok(Consent::Given)
}

#[cfg(test)]
mod tests {
    use mullion_spec::draft::Surroundings;

    use super::*;

    fn environment(folder: &Path) -> Environment {
        Environment::new(folder.into(), |_| None)
    }

    fn judged(name: &str) -> Judgement {
        let source = Source::new(name, "machines: {linux: 1}\n");
        file::judge(source, &Surroundings::default())
    }

    #[test]
    fn only_a_file_that_is_there_can_be_changed() {
        let folder = Path::new("/work");
        let find = |name: &str, named: Option<&str>| {
            FilePlace::find(&judged(name), named.map(Path::new), &environment(folder))
        };
        let path = |found: Result<FilePlace, Failure>| found.map(|place| place.path).unwrap();
        assert_eq!(
            path(find("cluster.yaml", None)),
            folder.join("cluster.yaml")
        );
        assert_eq!(
            path(find("a/b.yaml", Some("a/b.yaml"))),
            folder.join("a/b.yaml")
        );
        for (name, named, hint) in [
            (file::BUILT_IN, None, "mullion init"),
            ("standard input", Some("-"), "--file"),
            ("the file of cluster demo", None, "--cluster"),
        ] {
            let failure = find(name, named).err().unwrap();
            assert!(failure.to_string().contains(hint), "{failure}");
            assert_eq!(failure.class, Class::Usage);
        }
    }

    #[test]
    fn a_mark_before_the_text_stays_and_so_do_links_and_modes() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (
            folder.path().join("real.yaml"),
            folder.path().join("cluster.yaml"),
        );
        fs_err::write(&real, "\u{feff}machines: {linux: 1}\n").unwrap();
        fs_err::set_permissions(&real, std::fs::Permissions::from_mode(0o664)).unwrap();
        fs_err::os::unix::fs::symlink("real.yaml", &link).unwrap();
        let place = FilePlace {
            name: "cluster.yaml".into(),
            path: link.clone(),
        };
        let (mark, text) = place.read().unwrap();
        let group: GroupName = "lin".parse().unwrap();
        let text = changed(&text, What::Add(&group, 1)).unwrap();
        place.write(&format!("{mark}{text}")).unwrap();
        assert_eq!(
            fs_err::read_to_string(&real).unwrap(),
            "\u{feff}machines: {linux: 2}\n"
        );
        assert!(link.is_symlink());
        let mode = fs_err::metadata(&real).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o664);
    }

    #[test]
    fn every_refusal_names_the_file_and_a_remedy() {
        let place = FilePlace {
            name: "c.yaml".into(),
            path: "c.yaml".into(),
        };
        let (group, machine): (GroupName, MachineName) =
            ("lin".parse().unwrap(), "lin1".parse().unwrap());
        for error in [
            EditError::NoGroup {
                group: group.clone(),
                known: vec!["cp".into()],
            },
            EditError::NoMachine {
                machine: machine.clone(),
                known: vec!["cp1".into()],
            },
            EditError::Addresses {
                group: group.clone(),
            },
            EditError::LastAddress {
                machine: machine.clone(),
                group,
            },
            EditError::ShortControlPlane,
            EditError::LoadBalancer { machine },
            EditError::Form {
                place: "machines[0]".into(),
                line: 3,
            },
        ] {
            let failure = explained(&error, &place);
            assert!(failure.what.contains("c.yaml"), "{failure}");
            assert!(!failure.hints.is_empty(), "{failure}");
        }
    }
}
