//! `mullion doctor`: what this computer lacks for the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mullion_artifacts::{Custody, NEWEST_GO, Sources, Store, toolchain};
use mullion_catalog::{Judgement, Model};
use mullion_plan::Unattended;
use mullion_spec::cluster::{Carrier, MediaPlace, Origin};
use mullion_spec::words::{BuildPolicy, Driver, Os};

use super::validate::refuse;
use crate::arguments::DoctorArguments;
use crate::console::Console;
use crate::doctor::{self, Fix, Wishes};
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::{file, workshop};

/// Looks at this computer for the sake of a cluster.
pub fn doctor(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &DoctorArguments,
    environment: &Environment,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let fix = if wishes.fix { Fix::Install } else { Fix::Look };
    let variables: BTreeMap<_, _> = environment
        .values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let kit = Kit {
        cache: environment.cache_of(model.cluster())?,
        custody: workshop::custody(model.cluster(), environment),
        sources: || workshop::sources(model, environment),
    };
    let go = kit.go(console, fix)?;
    let toolchains = match &go {
        Go::Cached(program) => {
            let version = format!("go version go{NEWEST_GO} linux/amd64");
            [("go".to_owned(), (program.clone(), version))].into()
        }
        _ => BTreeMap::new(),
    };
    // The built-in cluster is nobody's choice: everything is looked at then.
    let model = Some(model).filter(|_| judgement.verdict.source.name() != file::BUILT_IN);
    let wishes = Wishes {
        fix,
        cache: kit.cache.clone(),
        state: environment.state.clone(),
        place: environment.place.clone(),
        machines: model.map(machines).unwrap_or_default(),
        media: model
            .map(|model| media(model, environment))
            .unwrap_or_default(),
        toolchains,
        variables,
    };
    let code = doctor::doctor(console, &wishes)?;
    match go {
        // A package may have brought one meanwhile.
        Go::NotHad(failure) if matches!(kit.go(console, Fix::Look)?, Go::None) => {
            write!(console.err, "{failure}")?;
            Ok(code.max(failure.class.exit_code()))
        }
        _ => Ok(code),
    }
}

/// What a Go is had with.
struct Kit<S> {
    cache: PathBuf,
    custody: Custody,
    sources: S,
}

/// Which Go there is.
enum Go {
    /// This computer's own, which is new enough.
    Own,
    /// The newest, in the cache: that program.
    Cached(PathBuf),
    /// None, and nobody asked for one.
    None,
    /// None, though one was to be fetched.
    NotHad(Failure),
}

impl<S: Fn() -> Sources> Kit<S> {
    /// The Go that builds Kubernetes: this computer's own where it can, else the cache's; to cure, it is fetched there.
    fn go(&self, console: &mut Console<'_>, fix: Fix) -> Result<Go, Failure> {
        // Looking makes no folder.
        if fix == Fix::Look && !self.cache.is_dir() {
            return Ok(Go::None);
        }
        let store =
            Store::open_with(&self.cache, self.custody.clone()).map_err(|error| not_had(&error))?;
        let mut sources = (self.sources)();
        // Whoever builds nothing, or takes everything from a bundle, needs none.
        let may_fetch =
            fix == Fix::Install && !sources.offline && sources.build != BuildPolicy::Never;
        let own = sources.go.program.clone();
        let known = |go: mullion_artifacts::Go| {
            if own.as_ref() == Some(&go.program) {
                Go::Own
            } else {
                Go::Cached(go.program)
            }
        };
        sources.offline = true;
        if let Ok(go) = toolchain(&store, &sources, &Unattended) {
            return Ok(known(go));
        }
        if !may_fetch {
            return Ok(Go::None);
        }
        sources.offline = false;
        writeln!(console.err, "getting Go {NEWEST_GO}")?;
        match toolchain(&store, &sources, &Unattended) {
            Ok(go) => {
                writeln!(console.err, "Go {} is in the cache", go.version)?;
                Ok(known(go))
            }
            Err(error) => {
                let mut failure = not_had(&error);
                failure.hints.extend(error.hints());
                Ok(Go::NotHad(failure))
            }
        }
    }
}

fn not_had(error: &dyn std::error::Error) -> Failure {
    let what = "no Go could be had that builds Kubernetes";
    Failure::new(Class::ThisComputer, what).because(error)
}

fn machines(model: &Model) -> BTreeMap<Driver, BTreeSet<Os>> {
    let mut machines: BTreeMap<Driver, BTreeSet<Os>> = BTreeMap::new();
    for group in &model.cluster().groups {
        let systems = machines.entry(group.carrier.driver()).or_default();
        systems.insert(group.system.os());
    }
    machines
}

fn media(model: &Model, environment: &Environment) -> Vec<std::path::PathBuf> {
    let groups = model.cluster().groups.iter();
    groups
        .filter_map(|group| match &group.carrier {
            Carrier::Made {
                origin: Origin::Media(media),
                ..
            } => match &media.place {
                MediaPlace::Iso(path) | MediaPlace::Vhdx(path) | MediaPlace::Qcow2(path) => {
                    Some(environment.path_of(path))
                }
                MediaPlace::Url(_) => None,
            },
            Carrier::Made { .. } | Carrier::Existing { .. } => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use mullion_artifacts::{GoSource, Patience};
    use mullion_spec::render::Colour;

    use super::*;
    use crate::console::{Format, Presence};

    /// Asks for a Go where there is none, with a proxy that nobody is behind.
    fn ask(fix: Fix, change: impl Fn(&mut Sources)) -> (Go, String) {
        let folder = tempfile::tempdir().unwrap();
        let kit = Kit {
            cache: folder.path().to_owned(),
            custody: Custody {
                ledger: mullion_artifacts::Ledger::new(folder.path().join("state")),
                is_named: false,
                owner: None,
                claims: mullion_artifacts::Claims::default(),
            },
            sources: || {
                let mut sources = Sources {
                    go: GoSource {
                        program: None,
                        module_proxy: Some("http://127.0.0.1:9".into()),
                        ..GoSource::default()
                    },
                    patience: Patience {
                        attempts: 1,
                        ..Patience::default()
                    },
                    ..Sources::default()
                };
                change(&mut sources);
                sources
            },
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            format: Format::Text,
            out_colour: Colour::Plain,
            err_colour: Colour::Plain,
            presence: Presence::Unattended,
        };
        let go = kit.go(&mut console, fix).unwrap();
        (go, String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_go_that_cannot_be_had_is_told_with_cause_and_hint() {
        let (go, said) = ask(Fix::Install, |_| {});
        let Go::NotHad(failure) = go else {
            panic!("{said}")
        };
        assert!(said.contains("getting Go"), "{said}");
        assert!(failure.causes.len() > 1, "{failure}");
        assert!(
            failure.hints.iter().any(|hint| hint.contains("GOPROXY")),
            "{failure}"
        );
    }

    #[test]
    fn no_go_is_fetched_for_whoever_only_looks_or_builds_nothing() {
        for (go, said) in [
            ask(Fix::Look, |_| {}),
            ask(Fix::Install, |sources| sources.offline = true),
            ask(Fix::Install, |sources| sources.build = BuildPolicy::Never),
        ] {
            assert!(matches!(go, Go::None));
            assert_eq!(said, "");
        }
    }

    #[test]
    fn a_go_that_is_too_old_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("go");
        let says = |version: &str| {
            let script = format!("#!/bin/sh\necho go version go{version} linux/amd64\n");
            // By a process that ends: what another test's child holds open for writing cannot be run.
            let wrote = std::process::Command::new("sh")
                .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
                .arg(&program)
                .arg(script)
                .status();
            assert!(wrote.unwrap().success());
        };
        let given = |sources: &mut Sources| sources.go.program = Some(program.clone());
        says("1.19");
        let (go, said) = ask(Fix::Look, given);
        assert!(matches!(go, Go::None), "{said}");
        // To cure it, one is fetched.
        let (go, said) = ask(Fix::Install, given);
        assert!(matches!(go, Go::NotHad(_)), "{said}");
        assert_eq!(said, format!("getting Go {NEWEST_GO}\n"));
        says("1.26.0");
        let (go, said) = ask(Fix::Install, given);
        assert!(matches!(go, Go::Own) && said.is_empty(), "{said}");
    }
}
