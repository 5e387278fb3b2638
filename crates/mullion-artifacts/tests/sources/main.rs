//! Every source but the compiler, against servers on this computer that misbehave on purpose.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bundles;
mod cache;
mod downloads;
mod held;
mod mirrors;
mod registry;
mod server;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fs_err as fs;
use mullion_artifacts::bundle::Vouch;
use mullion_artifacts::{
    Claims, Custody, Item, Ledger, Patience, Sources, Store, SupplyError, supply,
};
use mullion_catalog::{ArtifactKind, ArtifactRef, Digest};
use mullion_plan::{Attend, News, Part, PartKind, Unit};
use mullion_spec::words::Os;
use mullion_wire::Sha256Digest;

/// A cache that goes with the test.
pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self::named(false)
    }

    /// The same, in a folder that the cluster file names.
    pub(crate) fn named(is_named: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let custody = custody(folder.path(), is_named);
        let store = Store::open_with(&folder.path().join("cache"), custody).unwrap();
        Self { folder, store }
    }

    /// Trusts the bundles of another computer.
    pub(crate) fn trusting(other: &Self, bundle: &Path) -> Self {
        let ground = Self::new();
        let key = other.store.ledger().unwrap().own_key().unwrap().unwrap();
        let ears = Ears::default();
        mullion_artifacts::bundle::import(&ground.store, bundle, &Vouch::Key(key), &ears).unwrap();
        for record in ground.store.list() {
            let file = ground.store.item_path(&record.item).unwrap();
            fs::remove_dir_all(file.parent().unwrap()).unwrap();
        }
        ground
    }

    /// A list of digests, and sources that are held to it.
    pub(crate) fn listing(&self, lines: &[(&str, &[u8])]) -> Sources {
        let lines = lines
            .iter()
            .map(|(name, bytes)| format!("{}  {name}\n", Sha256Digest::of(bytes)));
        let file = self.folder.path().join("digests");
        fs::write(&file, lines.collect::<String>()).unwrap();
        Sources {
            digests: Some(file),
            ..sources()
        }
    }

    /// Supplies a part and reads it.
    pub(crate) fn read(
        &self,
        artifacts: &[ArtifactRef],
        part: &Part,
        sources: &Sources,
    ) -> Result<Vec<u8>, SupplyError> {
        self.attended(artifacts, part, sources, &Ears::default())
    }

    pub(crate) fn attended(
        &self,
        artifacts: &[ArtifactRef],
        part: &Part,
        sources: &Sources,
        attendant: &dyn Attend,
    ) -> Result<Vec<u8>, SupplyError> {
        supply(&self.store, artifacts, part, sources, attendant).map(|path| fs::read(path).unwrap())
    }

    /// The names of the files of a part, whatever they are.
    pub(crate) fn files_of(&self, part: &Part) -> Vec<String> {
        let folder = self.store.folder().join(Item::Part(part.clone()).folder());
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// What a computer knows, whose state is in that folder.
pub(crate) fn custody(folder: &Path, is_named: bool) -> Custody {
    Custody {
        ledger: Ledger::new(folder.join("state")),
        is_named,
        owner: None,
        claims: Claims::default(),
    }
}

/// Hears everything, and calls off when told to.
#[derive(Default)]
pub(crate) struct Ears {
    pub(crate) heard: Mutex<Vec<News>>,
    pub(crate) off: AtomicBool,
    /// Calls off when so many bytes have come.
    pub(crate) off_after: Option<u64>,
}

impl Ears {
    pub(crate) fn amounts(&self) -> Vec<(u64, Option<u64>)> {
        let heard = self.heard.lock().unwrap();
        let amounts = heard.iter().filter_map(|news| match news {
            News::Amount {
                done,
                total,
                unit: Unit::Bytes,
            } => Some((*done, *total)),
            _ => None,
        });
        amounts.collect()
    }
}

impl Attend for Ears {
    fn hear(&self, news: News) {
        if let (News::Amount { done, .. }, Some(limit)) = (&news, self.off_after)
            && *done >= limit
        {
            self.off.store(true, Ordering::SeqCst);
        }
        self.heard.lock().unwrap().push(news);
    }
    fn is_called_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }
}

/// Short waits, and nothing else.
pub(crate) fn sources() -> Sources {
    Sources {
        patience: Patience {
            connect: Duration::from_secs(2),
            stall: Duration::from_millis(400),
            window: Duration::from_mins(1),
            least: 1,
            attempts: 3,
            pause: Duration::from_millis(10),
            most: 8 << 20,
        },
        ..Sources::default()
    }
}

/// A program that upstream has at an address.
pub(crate) fn program(name: &str, address: Option<String>) -> ArtifactRef {
    ArtifactRef {
        name: name.into(),
        kind: ArtifactKind::Program,
        os: Os::Linux,
        version: "1.0".into(),
        file: Some(name.into()),
        address,
        checksum: None,
        digest: Digest::Unknown,
        build: None,
        control_plane: false,
        source: "a test".into(),
    }
}

pub(crate) fn part(name: &str, kind: PartKind) -> Part {
    Part {
        name: name.into(),
        os: Os::Linux,
        kind,
        version: "1.0".into(),
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    Digest::Sha256(Sha256Digest::of(bytes).to_string())
}

/// Bytes that are not all alike.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

/// An error and its causes in one line.
pub(crate) fn told(error: &SupplyError) -> String {
    let step = error.to_step_error();
    let mut words = vec![step.words];
    words.extend(step.causes);
    words.join(" | ")
}

/// A message without what differs from run to run.
pub(crate) fn steady(text: &str, ports: &[u16], folder: &Path) -> String {
    let mut text = text.replace(&folder.display().to_string(), "FOLDER");
    for port in ports {
        text = text.replace(&format!("127.0.0.1:{port}"), "SERVER");
    }
    text
}
