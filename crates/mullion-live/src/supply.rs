//! Artifacts and templates: what machines are made of.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mullion_artifacts::{Item, RootWish, supply, supply_root};
use mullion_catalog::Catalog;
use mullion_plan::{Attend, ErrorClass, Part, PartKind, StepError, TemplateId, TemplateSystem};
use mullion_spec::cluster::{Origin, System};
use mullion_spec::words::{Driver, Os};
use mullion_template::{
    DriveContent, DriveFile, Face, LinuxTemplate, Program, Source, StandInTemplate, TemplateError,
    Templates,
};
use mullion_wire::Sha256Digest;

use super::known_images::known_images;
use super::{Adapter, lock};

/// What a template holds.
pub(super) struct TemplateContent<'a> {
    pub(super) driver: Driver,
    pub(super) system: &'a TemplateSystem,
    pub(super) parts: &'a [Part],
    pub(super) images: &'a BTreeMap<String, Option<Sha256Digest>>,
    pub(super) containerd: Option<&'a str>,
}

/// A template to build, with everything that goes into it.
#[derive(Debug)]
pub(super) enum TemplateWish {
    /// A Linux.
    Linux(LinuxTemplate),
    /// A stand-in for Windows.
    StandIn(Box<StandInTemplate>),
}

/// Builds templates.
pub(super) trait BuildTemplates: Send + Sync {
    /// Builds a template in that folder of templates, and gives its path.
    fn build(
        &self,
        templates: &Templates,
        wish: &TemplateWish,
        attendant: &dyn Attend,
    ) -> Result<PathBuf, TemplateError>;
}

/// Builds them on this computer.
pub(super) struct BuildHere;

impl BuildTemplates for BuildHere {
    fn build(
        &self,
        templates: &Templates,
        wish: &TemplateWish,
        attendant: &dyn Attend,
    ) -> Result<PathBuf, TemplateError> {
        match wish {
            TemplateWish::Linux(wish) => templates.build_linux(wish, attendant),
            TemplateWish::StandIn(wish) => templates.build_stand_in(wish, attendant),
        }
    }
}

impl Adapter<'_> {
    /// A part is in the store, and its digest is right.
    pub(super) fn fetch(&self, part: &Part, attendant: &dyn Attend) -> Result<(), StepError> {
        if super::is_own(part) {
            return Ok(());
        }
        let artifacts = self.model.artifacts();
        supply(
            &self.store,
            artifacts,
            part,
            &self.outfit.sources,
            attendant,
        )
        .map(|_| ())
        .map_err(|error| error.to_step_error())
    }

    /// Every one of those parts is there.
    pub(super) fn check_stock(&self, parts: &[Part]) -> Result<(), StepError> {
        let missing: Vec<_> = parts
            .iter()
            .filter(|part| !super::is_own(part) && !self.store.has(part))
            .map(ToString::to_string)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let words = format!("not in the cache: {}", missing.join(", "));
        Err(StepError::new(ErrorClass::Refused, words).hint(FETCH))
    }

    /// A template is finished.
    pub(super) fn build_template(
        &self,
        id: &TemplateId,
        content: &TemplateContent<'_>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let wish = match content.system {
            TemplateSystem::Linux { release } => {
                TemplateWish::Linux(self.linux_template(id, release, content, attendant)?)
            }
            TemplateSystem::Windows { .. } => {
                let wish = self.stand_in_template(id, content, attendant)?;
                TemplateWish::StandIn(Box::new(wish))
            }
        };
        let built = self
            .builder
            .build(&self.patient_templates(), &wish, attendant);
        self.template_built(id, built, attendant)
    }

    /// What a Linux template is built from.
    fn linux_template(
        &self,
        id: &TemplateId,
        release: &str,
        content: &TemplateContent<'_>,
        attendant: &dyn Attend,
    ) -> Result<LinuxTemplate, StepError> {
        let release = Catalog::builtin().linux(release).ok_or_else(|| {
            let words = format!("the catalog has no Linux `{release}`");
            StepError::new(ErrorClass::Refused, words)
        })?;
        let root_tar = self.root_tar(&RootWish::linux(release), attendant)?;
        let mut programs = Vec::new();
        let mut images = Vec::new();
        for part in content.parts {
            match part.kind {
                PartKind::Program if is_on_machines(&part.name) => {
                    programs.push(Program::new(&part.name, self.source(part)?));
                }
                PartKind::Image => images.push(self.source(part)?),
                PartKind::Program | PartKind::Archive => {}
            }
        }
        for archive in self.users_archives(content.images)? {
            images.push(archive.source()?);
        }
        Ok(LinuxTemplate {
            id: id.clone(),
            root_tar,
            programs,
            images,
        })
    }

    /// The templates, with the patience of this run.
    fn patient_templates(&self) -> Templates {
        self.templates.clone().patient(*lock(&self.patience))
    }

    /// A template was built, or not; where it was, older ones of it go.
    fn template_built(
        &self,
        id: &TemplateId,
        built: Result<PathBuf, TemplateError>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        built
            .map_err(|error| failed(format!("template {} could not be built", id.name), &error))?;
        self.remove_older_templates(id, attendant);
        Ok(())
    }

    /// What Windows machines are brought.
    pub(super) fn windows_outfit(&self) -> Result<&super::WindowsOutfit, StepError> {
        self.outfit.windows.as_ref().ok_or_else(|| {
            StepError::new(
                ErrorClass::Refused,
                "this program was built without what Windows machines are brought",
            )
            .hint("install mullion with `cargo xtask up`, which puts it inside")
        })
    }

    /// What a template of stand-ins for Windows is built from.
    fn stand_in_template(
        &self,
        id: &TemplateId,
        content: &TemplateContent<'_>,
        attendant: &dyn Attend,
    ) -> Result<StandInTemplate, StepError> {
        let outfit = self.windows_outfit()?;
        let driver = content.driver;
        let differs = mullion_catalog::Catalog::builtin()
            .driver(driver)
            .differs
            .as_ref();
        let differs = differs.ok_or_else(|| {
            let words = format!("machines of driver {driver} stand in for nothing");
            StepError::new(ErrorClass::Refused, words)
        })?;
        let root_tar = self.root_tar(&RootWish::stand_in(), attendant)?;
        let face = face(content.system).ok_or_else(|| {
            let words = format!("template {} holds no Windows", id.name);
            StepError::new(ErrorClass::Refused, words)
        })?;
        let containerd = content.containerd.ok_or_else(|| {
            let words = format!("template {} has no configuration of containerd", id.name);
            StepError::new(ErrorClass::Refused, words)
        })?;
        let mut linux = LinuxTemplate {
            id: id.clone(),
            root_tar,
            programs: Vec::new(),
            images: Vec::new(),
        };
        let shims = outfit.shims.iter().map(|(name, bytes)| DriveFile {
            path: format!("windows/system32/{name}"),
            content: DriveContent::Bytes(bytes.to_vec()),
        });
        let mut drive: Vec<_> = shims.collect();
        for part in content.parts {
            match (part.os, part.kind) {
                (Os::Linux, PartKind::Program) if is_in_stand_in(&part.name) => {
                    let program = Program::new(&part.name, self.source(part)?);
                    linux.programs.push(program);
                }
                (Os::Linux, PartKind::Image) if is_image_of_stand_in(&part.name) => {
                    linux.images.push(self.source(part)?);
                }
                // So that no machine is sent them.
                (Os::Windows, PartKind::Program) if !super::is_own(part) => {
                    let path = mullion_render::windows_program_path(&part.name);
                    drive.push(DriveFile {
                        path: path.trim_start_matches("C:/").to_owned(),
                        content: DriveContent::Copy(self.source(part)?),
                    });
                }
                _ => {}
            }
        }
        Ok(StandInTemplate {
            linux,
            face,
            program: outfit.stand_in.to_vec(),
            drive,
            containerd: containerd.to_string(),
            cri_port: differs.cri_port,
            write_network: mullion_render::WRITE_NETWORK.to_owned(),
            images: known_images(self.model.artifacts()),
        })
    }

    /// The suites of the Linux machines that we make.
    pub fn suites(&self) -> Vec<String> {
        let catalog = mullion_catalog::Catalog::builtin();
        let groups = self.model.cluster().groups.iter();
        let mut suites: Vec<_> = groups
            .filter_map(|group| match (&group.system, &group.carrier) {
                (
                    System::Linux { release },
                    mullion_spec::cluster::Carrier::Made {
                        origin: Origin::Packages,
                        ..
                    },
                ) => catalog.linux(release).map(|release| release.suite.clone()),
                _ => None,
            })
            .collect();
        suites.sort();
        suites.dedup();
        suites
    }

    /// Where a part is.
    pub(super) fn stored(&self, part: &Part) -> Result<PathBuf, StepError> {
        Ok(self.source(part)?.path)
    }

    /// The same, with the digest that it is held to when it is used.
    fn source(&self, part: &Part) -> Result<Source, StepError> {
        self.held(&Item::Part(part.clone()))
    }

    fn held(&self, item: &Item) -> Result<Source, StepError> {
        let record = self.store.record(item).ok_or_else(|| {
            StepError::new(ErrorClass::Refused, format!("{item} is not in the cache")).hint(FETCH)
        })?;
        let path = self.store.folder().join(item.folder()).join(&record.file);
        Ok(Source::held_to(path, record.sha256))
    }

    /// A root file system, got where it is not there.
    fn root_tar(&self, wish: &RootWish, attendant: &dyn Attend) -> Result<Source, StepError> {
        supply_root(&self.store, wish, &self.outfit.sources, attendant)
            .map_err(|error| error.to_step_error())?;
        self.held(&wish.item())
    }
}

/// What helps when the cache lacks something that was there when the work began.
pub(super) const FETCH: &str = "`mullion artifacts fetch` gets what is missing";

fn failed(what: String, error: &TemplateError) -> StepError {
    let mut failure = StepError::new(error.class(), what).because(error);
    failure.hints.extend(error.hint());
    failure
}

/// The revision that stand-ins say they have. Nothing depends on it: a revision never matters to containers.
const STAND_IN_REVISION: u32 = 3807;

/// What a stand-in says that it is; nothing for a Linux.
fn face(system: &TemplateSystem) -> Option<Face> {
    let TemplateSystem::Windows {
        version,
        edition,
        desktop,
    } = system
    else {
        return None;
    };
    let release = Catalog::builtin().windows(*version);
    let (product, edition) = (&release.product, edition.to_string());
    let capital = edition[..1].to_uppercase() + &edition[1..];
    Some(Face {
        build: release.build,
        revision: STAND_IN_REVISION,
        product: format!("{product} {capital}"),
        edition: format!("Server{capital}"),
        desktop: *desktop,
    })
}

/// Linux programs that do in a stand-in what Windows' own would do.
fn is_in_stand_in(name: &str) -> bool {
    const CARRYING: &[&str] = &["flanneld", "kube-proxy", "kube-router"];
    CARRYING.contains(&name)
        || (is_on_machines(name) && !["kubeadm", "kubelet", "kubectl"].contains(&name))
}

/// Images that pods of a stand-in are made of.
fn is_image_of_stand_in(name: &str) -> bool {
    ["pause", "agnhost"].contains(&name)
}

/// Programs that only images hold are not laid down on machines.
pub(super) fn is_on_machines(name: &str) -> bool {
    const MACHINE: &[&str] = &[
        "bridge",
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
        "host-local",
        "kubeadm",
        "kubectl",
        "kubelet",
        "loopback",
        "portmap",
    ];
    MACHINE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_failed_says_what_helps_and_one_that_was_called_off_is_no_failure() {
        let missing = TemplateError::Start {
            program: "setpriv".into(),
            cause: std::io::ErrorKind::NotFound.into(),
        };
        let error = failed("template a could not be built".into(), &missing);
        assert_eq!(error.class, ErrorClass::Refused);
        assert_eq!(error.hints.len(), 1);
        assert_eq!(error.causes[0], "`setpriv` could not be started");
        let off = failed(
            "template a could not be built".into(),
            &TemplateError::CalledOff,
        );
        assert_eq!(off.class, ErrorClass::Interrupted);
    }
}
