//! `mullion doctor`: what this computer lacks for the cluster.

use std::collections::{BTreeMap, BTreeSet};

use mullion_catalog::{Judgement, Model};
use mullion_spec::cluster::{Carrier, MediaPlace, Origin};
use mullion_spec::words::{Driver, Os};

use super::validate::refuse;
use crate::arguments::DoctorArguments;
use crate::console::Console;
use crate::doctor::{self, Fix, Wishes};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::file;

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
    // The built-in cluster is nobody's choice: everything is looked at then.
    let model = Some(model).filter(|_| judgement.verdict.source.name() != file::BUILT_IN);
    let wishes = Wishes {
        fix: if wishes.fix { Fix::Install } else { Fix::Look },
        cache: environment.cache.clone(),
        state: environment.state.clone(),
        machines: model.map(machines).unwrap_or_default(),
        media: model
            .map(|model| media(model, environment))
            .unwrap_or_default(),
        variables: environment
            .values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    };
    doctor::doctor(console, &wishes)
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
