//! `mullion doctor`: what this computer lacks for the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mullion_artifacts::{Store, toolchain};
use mullion_catalog::{Judgement, Model};
use mullion_plan::Unattended;
use mullion_spec::cluster::{Carrier, MediaPlace, Origin};
use mullion_spec::words::{Driver, Os};

use super::validate::refuse;
use crate::arguments::DoctorArguments;
use crate::console::{Console, Format};
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
    let mut variables: BTreeMap<_, _> = environment
        .values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    if let Some(folder) = go_folder(console, model, environment, fix)? {
        let path = variables.get("PATH").cloned().unwrap_or_default();
        let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            variables.insert("PATH".into(), path);
        }
    }
    // The built-in cluster is nobody's choice: everything is looked at then.
    let model = Some(model).filter(|_| judgement.verdict.source.name() != file::BUILT_IN);
    let wishes = Wishes {
        fix,
        cache: environment.cache.clone(),
        state: environment.state.clone(),
        machines: model.map(machines).unwrap_or_default(),
        media: model
            .map(|model| media(model, environment))
            .unwrap_or_default(),
        variables,
    };
    doctor::doctor(console, &wishes)
}

/// The folder of the Go in the cache, which builds what this computer's own cannot; to cure, it is fetched there.
fn go_folder(
    console: &mut Console<'_>,
    model: &Model,
    environment: &Environment,
    fix: Fix,
) -> Result<Option<PathBuf>, Failure> {
    // Looking makes no folder.
    if fix == Fix::Look && !environment.cache.is_dir() {
        return Ok(None);
    }
    let unusable = |error: &dyn std::error::Error| {
        Failure::new(
            Class::ThisComputer,
            "no Go could be had that builds Kubernetes",
        )
        .because(error)
    };
    let store = Store::open(&environment.cache).map_err(|error| unusable(&error))?;
    let mut sources = workshop::sources(model, environment);
    let own = sources.go.program.clone();
    sources.offline |= fix == Fix::Look;
    match toolchain(&store, &sources, &Unattended) {
        Ok(go) if own.as_deref() == Some(go.program.as_path()) => Ok(None),
        Ok(go) => {
            if fix == Fix::Install && console.format == Format::Text {
                writeln!(console.err, "Go {} is in the cache", go.version)?;
            }
            Ok(go.program.parent().map(Path::to_path_buf))
        }
        Err(_) if fix == Fix::Look => Ok(None),
        // What can be downloaded needs no Go: the look says what is missing.
        Err(error) => {
            writeln!(console.err, "{}", unusable(&error).what)?;
            Ok(None)
        }
    }
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
                    Some(environment.folder.join(path))
                }
                MediaPlace::Url(_) => None,
            },
            Carrier::Made { .. } | Carrier::Existing { .. } => None,
        })
        .collect()
}
