//! Parts and templates.

use std::collections::BTreeMap;

use mullion_artifacts::{Item, RootWish};
use mullion_catalog::Catalog;
use mullion_plan::{Action, Carried, Part, PartKind, TemplateSystem, Unattended};
use mullion_spec::words::{Driver, Edition, Os, WindowsVersion};
use mullion_wire::Sha256Digest;

use super::super::Adapter;
use super::super::made::id;
use super::world::World;
use super::{Case, change};

fn part(name: &str, os: Os, kind: PartKind, version: &str) -> Part {
    Part {
        name: name.into(),
        os,
        kind,
        version: version.into(),
    }
}

fn kubelet() -> Part {
    part("kubelet", Os::Linux, PartKind::Program, "1.0.0")
}

/// The parts that are in the cache.
fn cached() -> [Part; 4] {
    [
        kubelet(),
        part("ctr", Os::Linux, PartKind::Program, "1.0.0"),
        part("pause", Os::Linux, PartKind::Image, "1.0.0"),
        part("kubelet", Os::Windows, PartKind::Program, "1.0.0"),
    ]
}

/// Fills the cache.
fn fill(_world: &World, adapter: &Adapter<'_>) {
    let file = adapter.outfit.state.with_file_name("file");
    let releases = ["bookworm", "trixie"];
    let releases = releases.map(|release| Catalog::builtin().linux(release).unwrap());
    let roots = releases.map(RootWish::linux).into_iter();
    let roots = roots.chain([RootWish::stand_in()]).map(|wish| wish.item());
    for item in cached().map(Item::Part).into_iter().chain(roots) {
        fs_err::write(&file, format!("{item}")).unwrap();
        adapter.store().put(&item, &file, &Unattended).unwrap();
    }
}

fn linux() -> Action {
    Action::BuildTemplate {
        template: id("debian"),
        driver: Driver::Nspawn,
        system: TemplateSystem::Linux {
            release: "bookworm".into(),
        },
        parts: vec![kubelet()],
        images: BTreeMap::new(),
        containerd: None,
    }
}

fn stand_in() -> Action {
    Action::BuildTemplate {
        template: id("windows"),
        driver: Driver::Wine,
        system: windows(WindowsVersion::V2022, Edition::Standard, false),
        parts: vec![kubelet()],
        images: BTreeMap::new(),
        containerd: Some(Carried::new("version = 3".into())),
    }
}

fn windows(version: WindowsVersion, edition: Edition, desktop: bool) -> TemplateSystem {
    TemplateSystem::Windows {
        version,
        edition,
        desktop,
    }
}

pub(super) fn cases() -> Vec<Case> {
    let [_, ctr, pause, windows_kubelet] = cached();
    vec![
        // Nothing outside may be asked, so that the part is named by the refusal.
        Case::new(None, |_| Action::Fetch { part: kubelet() })
            .outcome(change!(
                Fetch.part = part("kubeadm", Os::Linux, PartKind::Program, "1.0.0")
            ))
            .outcome(change!(
                Fetch.part = part("kubelet", Os::Windows, PartKind::Program, "1.0.0")
            ))
            .outcome(change!(
                Fetch.part = part("kubelet", Os::Linux, PartKind::Image, "1.0.0")
            ))
            .outcome(change!(
                Fetch.part = part("kubelet", Os::Linux, PartKind::Program, "1.0.1")
            )),
        // The cache of this computer is looked at, and nothing is asked.
        Case::new(None, |_| Action::CheckStock {
            parts: vec![kubelet()],
        })
        .after(fill)
        .outcome(change!(
            CheckStock.parts = vec![
                kubelet(),
                part("kubelet", Os::Linux, PartKind::Program, "1.0.1")
            ]
        ))
        .outcome(change!(
            CheckStock.parts = vec![part("kubectl", Os::Linux, PartKind::Program, "1.0.0")]
        ))
        .outcome(change!(
            CheckStock.parts = vec![part("ctr", Os::Windows, PartKind::Program, "1.0.0")]
        ))
        .outcome(change!(
            CheckStock.parts = vec![part("ctr", Os::Linux, PartKind::Image, "1.0.0")]
        )),
        Case::new(None, |_| linux())
            .after(fill)
            .calls(change!(BuildTemplate.template = id("other")))
            .calls(change!(
                BuildTemplate.template = mullion_plan::TemplateId {
                    name: "debian".into(),
                    ..id("other")
                }
            ))
            .calls(change!(
                BuildTemplate.system = TemplateSystem::Linux {
                    release: "trixie".into()
                }
            ))
            .calls(change!(
                BuildTemplate.system = windows(WindowsVersion::V2022, Edition::Standard, false)
            ))
            .calls({
                let parts = vec![kubelet(), ctr];
                change!(BuildTemplate.parts = parts.clone())
            })
            .calls({
                let parts = vec![kubelet(), pause];
                change!(BuildTemplate.parts = parts.clone())
            })
            // One that is not in the cache is refused.
            .calls(change!(
                BuildTemplate.parts = vec![part("kubelet", Os::Linux, PartKind::Program, "1.0.1")]
            )),
        Case::new(None, |_| linux()).after(fill).calls(change!(
            BuildTemplate.images = [("app:1".into(), Some(Sha256Digest::of(b"1")))].into()
        )),
        Case::new(None, |_| stand_in())
            .after(fill)
            .calls(change!(BuildTemplate.driver = Driver::Nspawn))
            .calls(change!(
                BuildTemplate.system = windows(WindowsVersion::V2025, Edition::Standard, false)
            ))
            .calls(change!(
                BuildTemplate.system = windows(WindowsVersion::V2022, Edition::Datacenter, false)
            ))
            .calls(change!(
                BuildTemplate.system = windows(WindowsVersion::V2022, Edition::Standard, true)
            ))
            .calls(change!(BuildTemplate.parts = vec![windows_kubelet.clone()]))
            .calls(change!(
                BuildTemplate.containerd = Some(Carried::new("version = 4".into()))
            ))
            .calls(change!(BuildTemplate.containerd = None)),
    ]
}
