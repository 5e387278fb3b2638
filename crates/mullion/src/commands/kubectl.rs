//! `mullion kubectl`: the matching kubectl, with the cluster's kubeconfig.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mullion_artifacts::{Store, StoreError};
use mullion_catalog::{Judgement, Model};
use mullion_live::ClusterState;
use mullion_plan::{PartKind, Wanted};
use mullion_spec::cluster::ControlPlane;
use mullion_spec::words::Os;

use super::kubeconfig::not_up;
use super::validate::refuse;
use crate::arguments::KubectlArguments;
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::workshop;

const NAME: &str = "kubectl";

/// Becomes kubectl: this comes back only where that failed.
pub fn kubectl(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &KubectlArguments,
    environment: &Environment,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let (kubeconfig, context) = way(model, environment)?;
    let program = program(model, environment)?;
    let mut command = Command::new(&program);
    command
        .env("KUBECONFIG", kubeconfig)
        .args(context)
        .args(&wishes.arguments);
    // What was said before must be read before.
    console.out.flush()?;
    console.err.flush()?;
    // A kubeconfig may name programs that kubectl runs: not as root for whoever wrote the file.
    let error = match &model.cluster().control_plane {
        ControlPlane::Existing { .. } => mullion_rights::lower_to_invoker(&mut command).exec(),
        ControlPlane::Made { .. } => mullion_rights::lower(&mut command).exec(),
    };
    let what = format!("`{}` could not be started", program.display());
    Err(Failure::new(Class::ThisComputer, what)
        .because(&error)
        .hint("look at it with `mullion artifacts verify`"))
}

/// The kubeconfig, and what kubectl has to be told besides.
fn way(model: &Model, environment: &Environment) -> Result<(PathBuf, Option<OsString>), Failure> {
    let cluster = model.cluster();
    match &cluster.control_plane {
        ControlPlane::Existing {
            kubeconfig,
            context,
        } => {
            let context = context
                .as_ref()
                .map(|context| format!("--context={context}").into());
            Ok((environment.path_of(kubeconfig), context))
        }
        ControlPlane::Made { .. } => {
            let state = ClusterState::find(&environment.state, &cluster.name);
            let kept = state.map(|state| state.kubeconfig_path());
            let kept = kept.filter(|path| path.is_file());
            Ok((kept.ok_or_else(|| not_up(model))?, None))
        }
    }
}

/// The cache that a cluster's parts are in.
pub(super) fn store(model: &Model, environment: &Environment) -> Result<Store, Failure> {
    let folder = environment.cache_of(model.cluster())?;
    let custody = workshop::custody(model.cluster(), environment);
    Store::open_with(&folder, custody).map_err(|error| unusable(&folder, &error))
}

/// That a folder cannot be used as a cache.
pub(super) fn unusable(folder: &Path, error: &StoreError) -> Failure {
    let what = format!("the cache `{}` cannot be used", folder.display());
    let failure = Failure::new(Class::ThisComputer, what).because(error);
    error.hints().into_iter().fold(failure, Failure::hint)
}

fn program(model: &Model, environment: &Environment) -> Result<PathBuf, Failure> {
    let parts = Wanted::of(model).parts;
    let is_ours = |part: &&mullion_plan::Part| {
        part.name == NAME && part.os == Os::Linux && part.kind == PartKind::Program
    };
    let version = model.kubernetes().version;
    let part = parts.iter().find(is_ours).ok_or_else(|| {
        let what = format!("no kubectl is known for Kubernetes {version} on this computer");
        Failure::new(Class::OurBug, what)
    })?;
    let store = store(model, environment)?;
    store
        .check_use()
        .map_err(|error| unusable(store.folder(), &error))?;
    store.path(part).ok_or_else(|| {
        Failure::new(Class::ThisComputer, format!("{part} is not in the cache"))
            .hint("get it with `mullion artifacts fetch`")
    })
}
