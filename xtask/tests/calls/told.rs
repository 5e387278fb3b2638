//! What a Windows machine is told: the blueprint of one that exists, as the renderer gives it, and the few inputs of it
//! that are others on the bench.

use std::path::{Path, PathBuf};

use mullion_catalog::{ArtifactKind, Catalog};
use mullion_render::{Place, Setting, windows_blueprint};
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_spec::words::Os;
use mullion_wire::{Attended, Blueprint, Content, Definition, Named, Sha256Digest};

/// The machine whose node the API server has.
const FILE: &str = "machines:\n- {name: cp, role: control-plane}\n- {name: win, os: windows, version: \"2022\", \
    addresses: [10.99.7.21], ssh: {user: Administrator, hostKey: \"ssh-ed25519 AAAA\"}}\n";

/// The machine's share of the pods' addresses, as flannel writes it down, and its second address: the agent puts that
/// into arguments when it starts a program.
pub(crate) const SHARE: &str = "FLANNEL_SUBNET=10.244.32.1/24";
const SOURCE_VIP: &str = "10.244.32.2";

/// The machine's blueprint.
pub(crate) struct Told(Blueprint);

impl Told {
    pub(crate) fn render() -> Self {
        let source = Source::new("cluster.yaml", FILE);
        let judgement = Catalog::builtin().judge(Draft::read(source, &Surroundings::default()));
        let model = judgement.model.expect("nothing is wrong with the file");
        let artifacts = model.artifacts().iter();
        let programs = artifacts
            .filter(|found| found.kind == ArtifactKind::Program && found.os == Os::Windows);
        let names = programs.map(|found| found.name.clone());
        let names = names.chain(["mullion-agent".to_owned()]);
        let place = Place {
            address: "10.99.7.21".parse().unwrap(),
            ground: None,
        };
        let setting = Setting {
            model: &model,
            endpoint: "10.99.7.11:6443".parse().unwrap(),
            machine_network: None,
            machines: [("win1".parse().unwrap(), place)].into(),
            programs: [].into(),
            windows_programs: names.map(|name| (name, String::new())).collect(),
            contents: [].into(),
            images: [].into(),
        };
        let blueprint = windows_blueprint(&setting, &"win1".parse().unwrap()).unwrap();
        let bound = blueprint.bind(|named| match named {
            Named::Text(text) => Ok(Content::Text(text.to_string())),
            // Nobody fetches them here: that they are named is all that matters.
            Named::Program { .. } => Ok(Content::Stored {
                sha256: Sha256Digest::of(b""),
                size: 0,
            }),
            Named::UserFile { .. } => Err("the file names no files"),
        });
        Self(bound.unwrap())
    }

    pub(crate) fn blueprint(&self) -> &Blueprint {
        &self.0
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &str) -> &str {
        let file = self.0.files.iter().find(|file| file.path == path);
        match &file.unwrap_or_else(|| panic!("no {path}")).content {
            Content::Text(text) => text,
            Content::Stored { .. } => panic!("{path} is stored"),
        }
    }

    pub(crate) fn definition(&self, service: &str) -> &Definition {
        let mut services = self.0.services.iter();
        let found = services.find(|found| found.name == service).unwrap();
        found.definition.as_ref().unwrap()
    }

    /// The program that a service of the agent's attends to.
    pub(crate) fn attended(&self, service: &str) -> Attended {
        serde_json::from_str(self.text(&format!("C:/etc/mullion/{service}.json"))).unwrap()
    }
}

/// What is another on the bench than on a Windows machine, and nothing else: drive `C:` goes with the program that
/// writes on it, so a folder that all of them share takes its place; and what the agent would put in is put in.
pub(crate) struct Bench {
    /// What is on drive `C:`.
    pub(crate) drive: PathBuf,
}

impl Bench {
    /// A text of the blueprint, for the bench.
    pub(crate) fn adapt(&self, text: &str) -> String {
        let text = text.replace("C:\\", &format!("{}\\", on_drive(&self.drive)));
        let text = text.replace("$(source-vip)", SOURCE_VIP);
        assert!(!text.contains("C:") && !text.contains("$("), "{text}");
        text
    }

    /// Where the bench has a file of a Windows machine.
    pub(crate) fn place(&self, path: &str) -> PathBuf {
        let inner = path.strip_prefix("C:/").expect("a path with its drive");
        self.drive.join(inner)
    }

    /// Writes a file of a Windows machine.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let place = self.place(path);
        fs_err::create_dir_all(place.parent().unwrap()).unwrap();
        fs_err::write(place, text).unwrap();
    }
}

/// A file of this computer as Windows programs name it.
pub(crate) fn on_drive(path: &Path) -> String {
    format!("Z:{}", path.display().to_string().replace('/', "\\"))
}
