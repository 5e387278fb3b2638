//! Documents: what renderers are given, and how what a plan shows becomes what a machine is sent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mullion_plan::{
    Action, Applied, Attend, Carried, Document, Documents, ErrorClass, Inspected, MachineDocuments,
    News, Observed, Part, Plan, StepError, Wanted,
};
use mullion_render::{Ground, MachineDocument, RenderError};
use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_wire::{Blueprint, Content, Named, Sha256Digest};
use serde::Serialize;

use super::{Adapter, lock};

impl Adapter<'_> {
    /// All documents of the cluster, from what was found.
    pub fn documents(&self, observed: &Observed) -> Documents {
        Documents::render(self.model, &self.wanted(), observed)
    }

    /// Contents of every file that the cluster file names.
    pub fn contents(&self) -> BTreeMap<PathBuf, Content> {
        let files = self.outfit.contents.iter();
        files
            .map(|(name, file)| (name.clone(), file.content.clone()))
            .collect()
    }

    /// Renders the documents of a machine of which nobody knew enough, shows them, and keeps them for the steps that apply
    /// them.
    pub(super) fn render_inspected(
        &self,
        machine: &MachineName,
        found: &Inspected,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let basis = self.basis()?;
        // What control planes have told since the plan was made: a load balancer's document has their addresses.
        let seats = self.seats();
        let others = seats.filter_map(|seat| Some((seat.clone(), self.node_address(&seat).ok()?)));
        let rendered = Documents::after_inspection(
            self.model,
            &self.wanted(),
            &basis.observed,
            (machine, found),
            &others.collect(),
        );
        if let Err(RenderError::UnknownMachine(_)) = &rendered {
            // Its address may come with its agent, or with a command of the user's.
            attendant.hear(News::Line(format!(
                "the address by which {machine} is a node is not known yet: its documents are rendered later"
            )));
            return Ok(());
        }
        let rendered = rendered.map_err(|error| {
            let words = format!("the documents of {machine} cannot be rendered");
            StepError::new(ErrorClass::Refused, words).because(&error)
        })?;
        if let Some(document) = rendered.machine.known() {
            let digest = document.digest();
            attendant.hear(News::Line(format!(
                "rendered the document of {machine}: {digest}"
            )));
            if let Applied::Document(mark) = Applied::of(document) {
                for (entry, value) in &mark.entries {
                    attendant.hear(News::Line(format!("rendered {entry}: {value}")));
                }
            }
        }
        let init = rendered.init.known().map(Carried::json);
        let join = rendered.join.known().map(Carried::json);
        for configuration in init.into_iter().chain(join) {
            attendant.hear(News::Line(format!("rendered for kubeadm: {configuration}")));
        }
        lock(&self.rendered).insert(machine.clone(), rendered);
        Ok(())
    }

    /// Whether a machine that stands on something else than was planned with has the same documents all the same.
    pub(super) fn is_alike(
        &self,
        machine: &MachineName,
        planned: Ground,
        found: &Inspected,
    ) -> Result<bool, StepError> {
        let basis = self.basis()?;
        let wanted = self.wanted();
        let of = |ground| {
            let found = Inspected {
                ground,
                ..found.clone()
            };
            let facts = &basis.observed;
            let none = BTreeMap::new();
            Documents::after_inspection(self.model, &wanted, facts, (machine, &found), &none).ok()
        };
        let is_known = |documents: &MachineDocuments| documents.machine.known().is_some();
        let planned = of(Some(planned)).filter(is_known);
        let found = of(found.ground).filter(is_known);
        let without_ground = |documents: MachineDocuments| MachineDocuments {
            ground: None,
            ..documents
        };
        Ok(planned.is_some() && planned.map(without_ground) == found.map(without_ground))
    }

    /// The document of a step: the one that it carries, or the one that the inspection of its machine led to.
    pub(super) fn document<T: Serialize>(
        &self,
        machine: &MachineName,
        document: &Document<T>,
        attendant: &dyn Attend,
        of: impl Fn(&MachineDocuments) -> &Document<T>,
    ) -> Result<Carried<T>, StepError> {
        if let Some(carried) = document.known() {
            return Ok(carried.clone());
        }
        let found = |rendered: &BTreeMap<MachineName, MachineDocuments>| {
            of(rendered.get(machine)?).known().cloned()
        };
        if let Some(carried) = found(&lock(&self.rendered)) {
            return Ok(carried);
        }
        // It may have told its addresses since, or another machine its own. Where it has none that fits, that is told.
        self.node_address(machine)?;
        let again = self.inspected_again(machine)?;
        self.render_inspected(machine, &again, attendant)?;
        found(&lock(&self.rendered)).ok_or_else(|| {
            let words = format!("too little is known to render the documents of {machine}");
            StepError::new(ErrorClass::NotYet, words)
        })
    }

    /// The blueprint as an agent gets it: programs by the digests that the cache has, and the user's files by what was read
    /// when they were planned with.
    pub(super) fn bound(
        &self,
        document: &MachineDocument,
        attendant: &dyn Attend,
    ) -> Result<Blueprint, StepError> {
        let mut programs = Vec::new();
        let blueprint = document.blueprint.bind(|named| {
            let content = self.content_of(named)?;
            if let Named::Program { name, version, .. } = named {
                programs.push(format!("{name} {version} is {}", content.sha256()));
            }
            Ok::<_, StepError>(content)
        })?;
        if !programs.is_empty() {
            attendant.hear(News::Line(programs.join(", ")));
        }
        Ok(blueprint)
    }

    /// What is in a file of a document.
    pub(super) fn content_of(&self, named: &Named) -> Result<Content, StepError> {
        match named {
            Named::Text(text) => Ok(Content::Text(text.to_string())),
            Named::Program { name, os, version } => {
                let (sha256, size) = if name == super::AGENT {
                    let agent = &self.windows_outfit()?.agent;
                    (agent.sha256.clone(), agent.bytes.len() as u64)
                } else {
                    let is_it = |part: &&Part| {
                        part.name == *name && part.os.to_string() == *os && part.version == *version
                    };
                    self.stored_program(name, self.parts().iter().find(is_it))?
                };
                Ok(Content::Stored { sha256, size })
            }
            Named::UserFile { sha256, .. } => {
                let mut files = self.outfit.contents.values();
                let file = files.find(|file| file.content.sha256() == *sha256);
                file.map(|file| file.content.clone()).ok_or_else(|| {
                    let words = format!("the file of yours with digest {sha256} is another now");
                    StepError::new(ErrorClass::Outdated, words)
                })
            }
        }
    }

    /// The digests of the programs that a plan's documents name, as far as they are in the cache: `linux/kubelet 1.36.4`.
    pub fn programs_of(&self, plan: &Plan) -> BTreeMap<String, Sha256Digest> {
        let documents = plan.steps().iter().filter_map(|step| match &step.action {
            Action::ApplyBlueprint { document } => document.known(),
            _ => None,
        });
        let mut programs = BTreeMap::new();
        for named in documents.flat_map(|document| &document.blueprint.files) {
            if let Named::Program { name, os, version } = &named.content {
                let key = format!("{os}/{name} {version}");
                if !programs.contains_key(&key)
                    && let Ok(content) = self.content_of(&named.content)
                {
                    programs.insert(key, content.sha256());
                }
            }
        }
        programs
    }

    /// The parts of the model.
    pub(super) fn parts(&self) -> &[Part] {
        self.parts.get_or_init(|| Wanted::of(self.model).parts)
    }

    fn stored_program(
        &self,
        name: &str,
        part: Option<&Part>,
    ) -> Result<(Sha256Digest, u64), StepError> {
        let stored = part.and_then(|part| {
            let size = self.store.path(part)?.metadata().ok()?.len();
            Some((self.store.digest(part)?, size))
        });
        stored.ok_or_else(|| {
            let words = format!("program `{name}` is not in the cache");
            StepError::new(ErrorClass::Refused, words).hint(super::supply::FETCH)
        })
    }

    /// The control planes of the file.
    pub(super) fn seats(&self) -> impl Iterator<Item = MachineName> {
        let machines = self.cluster().machines();
        machines
            .filter(|machine| machine.group.duty == Duty::ControlPlane)
            .map(|seat| seat.name)
    }
}
