//! What this computer knows of artifacts. It lies in the state folder, which the removal of a cache does not reach.
//!
//! ```text
//! digests/<item>.json   the digest of what was fetched once: what comes later must be the same
//! digests/<scope>/<item>.json   the same, where only sources that a cluster file names vouched for it
//! caches/<id>           a cache that was made here, or that the user took over
//! bundle-key            the private key that bundles are signed with here
//! bundle-keys           public keys of other computers whose bundles the user trusts, one a line
//! ```
//!
//! A file that cannot be read is an error and never the same as none: otherwise damage would lower the guard.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_rights::{private_draft, private_folder, replace_private};
use mullion_wire::Sha256Digest;
use serde::{Deserialize, Serialize};

use crate::item::{Item, plain};
use crate::key::{PublicKey, SigningKey};
use crate::record::Witness;

/// The version of a digest's file.
const VERSION: u32 = 1;

const DIGESTS: &str = "digests";
const CACHES: &str = "caches";
const OWN_KEY: &str = "bundle-key";
const TRUSTED_KEYS: &str = "bundle-keys";

/// What this computer knows of artifacts.
#[derive(Debug, Clone)]
pub struct Ledger {
    folder: PathBuf,
}

/// The digest of something that was fetched once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    version: u32,
    item: Item,
    pub(crate) sha256: Sha256Digest,
    /// Where it came from.
    pub(crate) from: String,
    /// What vouched for it then.
    pub(crate) witness: Witness,
    /// The sources of a cluster file that it depends on; none where it counts for every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
}

impl Ledger {
    /// The ledger in a folder, which need not be there yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The file that holds an item's digest, for every file or for those with the same sources.
    pub(crate) fn pin_path(&self, item: &Item, scope: Option<&str>) -> PathBuf {
        let name = format!("{}.json", plain(&item.lock_name()));
        let mut folder = self.folder.join(DIGESTS);
        if let Some(scope) = scope {
            folder.push(&Sha256Digest::of(scope.as_bytes()).as_str()[..16]);
        }
        folder.join(name)
    }

    /// The digest that an item had when it was fetched, for every file or for those with the same sources.
    pub(crate) fn pin(&self, item: &Item, scope: Option<&str>) -> io::Result<Option<Pin>> {
        let path = self.pin_path(item, scope);
        let Some(bytes) = read(&path)? else {
            return Ok(None);
        };
        let unreadable = |words: &str| {
            let words = format!("{}: {words}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, words)
        };
        let pin: Pin = serde_json::from_slice(&bytes)
            .map_err(|_| unreadable("not a digest that this version of mullion can read"))?;
        if pin.version > VERSION {
            return Err(unreadable("a newer mullion wrote it"));
        }
        if pin.item != *item || pin.scope.as_deref() != scope {
            return Err(unreadable("the digest of something else"));
        }
        Ok(Some(pin))
    }

    /// Notes the digest of something that was fetched; one that is known already stays.
    pub(crate) fn note(
        &self,
        item: &Item,
        sha256: &Sha256Digest,
        from: String,
        witness: Witness,
        scope: Option<String>,
    ) -> io::Result<()> {
        let is_noted = |scope: Option<&str>| Ok::<_, io::Error>(self.pin(item, scope)?.is_some());
        if is_noted(None)? || (scope.is_some() && is_noted(scope.as_deref())?) {
            return Ok(());
        }
        let path = self.pin_path(item, scope.as_deref());
        let pin = Pin {
            version: VERSION,
            item: item.clone(),
            sha256: sha256.clone(),
            from,
            witness,
            scope,
        };
        let text = serde_json::to_vec_pretty(&pin).map_err(io::Error::other)?;
        write(&path, &text)
    }

    /// Whether the cache in that folder was made here, or taken over by the user. A mark that was copied to another
    /// folder does not count there.
    pub(crate) fn knows_cache(&self, id: &str, folder: &Path) -> bool {
        let path = self.folder.join(CACHES).join(plain(id));
        let noted = read(&path).ok().flatten().unwrap_or_default();
        !id.is_empty() && noted == noted_at(folder).as_bytes()
    }

    /// Notes a cache.
    pub(crate) fn note_cache(&self, id: &str, folder: &Path) -> io::Result<()> {
        let text = noted_at(folder);
        write(&self.folder.join(CACHES).join(plain(id)), text.as_bytes())
    }

    /// Forgets the id of a cache that another run marked first.
    pub(crate) fn forget_cache(&self, id: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(CACHES).join(plain(id))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The key that bundles are signed with here, made where there is none.
    pub(crate) fn signing_key(&self) -> io::Result<SigningKey> {
        let path = self.folder.join(OWN_KEY);
        if let Some(bytes) = read(&path)? {
            return SigningKey::read(&bytes);
        }
        let (key, bytes) = SigningKey::generate()?;
        private_folder(&self.folder)?;
        let new = private_draft(&path, |file| file.write_all(&bytes))?;
        // Of two processes that make one, both use the first.
        let linked = fs::hard_link(&new, &path);
        fs::remove_file(&new)?;
        match linked {
            Ok(()) => Ok(key),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                SigningKey::read(&fs::read(&path)?)
            }
            Err(error) => Err(error),
        }
    }

    /// The public key of this computer, where it signed something already.
    pub fn own_key(&self) -> io::Result<Option<PublicKey>> {
        let bytes = read(&self.folder.join(OWN_KEY))?;
        let key = bytes.map(|bytes| SigningKey::read(&bytes)).transpose()?;
        Ok(key.map(|key| key.public()))
    }

    /// Whether the user trusts bundles of another computer.
    pub(crate) fn trusts(&self, key: &PublicKey) -> io::Result<bool> {
        Ok(self
            .trusted()?
            .lines()
            .any(|line| line.parse().as_ref() == Ok(key)))
    }

    /// Notes that the user does.
    pub(crate) fn trust(&self, key: &PublicKey) -> io::Result<()> {
        if self.trusts(key)? {
            return Ok(());
        }
        let text = format!("{}{key}\n", self.trusted()?);
        write(&self.folder.join(TRUSTED_KEYS), text.as_bytes())
    }

    fn trusted(&self) -> io::Result<String> {
        let bytes = read(&self.folder.join(TRUSTED_KEYS))?.unwrap_or_default();
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

/// Reads a file of the ledger; none where nothing has its name. A folder, a pipe and a link that leads nowhere are
/// something that has its name.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    if fs::metadata(path)?.is_file() {
        return fs::read(path).map(Some);
    }
    let words = format!("{} is not a file", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, words))
}

/// Writes a file that its owner alone can read, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_private(path, |file| file.write_all(bytes))
}

/// How the ledger writes down where a cache is.
fn noted_at(folder: &Path) -> String {
    format!("{}\n", folder.display())
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Part, PartKind};
    use mullion_spec::words::Os;

    use super::*;

    #[test]
    fn promise_10_a_digest_that_cannot_be_read_is_an_error_and_not_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(folder.path().join("artifacts"));
        let item = Item::Part(Part {
            name: "kubectl".into(),
            os: Os::Linux,
            kind: PartKind::Program,
            version: "1.0".into(),
        });
        assert_eq!(ledger.pin(&item, None).unwrap(), None);
        let (one, two) = (Sha256Digest::of(b"1"), Sha256Digest::of(b"2"));
        let note = |digest| ledger.note(&item, digest, "https://a".into(), Witness::Catalog, None);
        note(&one).unwrap();
        note(&two).unwrap();
        assert_eq!(ledger.pin(&item, None).unwrap().unwrap().sha256, one);
        for text in ["", "{}", "[1]"] {
            fs::write(ledger.pin_path(&item, None), text).unwrap();
            assert!(ledger.pin(&item, None).is_err(), "{text}");
        }
        // By whoever copied a file over another.
        note(&one).unwrap_err();
    }

    #[test]
    fn promise_10_what_is_no_file_in_the_ledger_is_an_error_and_not_missing() {
        let item = Item::Root {
            suite: "s".into(),
            fingerprint: "f".into(),
        };
        let key = SigningKey::generate().unwrap().0.public();
        let pipe = |path: &Path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        };
        let link = |path: &Path| std::os::unix::fs::symlink("nowhere", path).unwrap();
        let own = |path: &Path| fs::create_dir(path).unwrap();
        for make in [&pipe as &dyn Fn(&Path), &link, &own] {
            let folder = tempfile::tempdir().unwrap();
            let ledger = Ledger::new(folder.path());
            let pin = ledger.pin_path(&item, None);
            fs::create_dir_all(pin.parent().unwrap()).unwrap();
            for name in [OWN_KEY, TRUSTED_KEYS] {
                make(&folder.path().join(name));
            }
            make(&pin);
            ledger.own_key().unwrap_err();
            assert!(ledger.signing_key().is_err());
            ledger.trusts(&key).unwrap_err();
            ledger.trust(&key).unwrap_err();
            ledger.pin(&item, None).unwrap_err();
            let sha256 = Sha256Digest::of(b"1");
            let noted = ledger.note(&item, &sha256, String::new(), Witness::Catalog, None);
            noted.unwrap_err();
        }
    }

    #[test]
    fn a_computer_has_one_key_which_nobody_else_reads() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(folder.path());
        assert_eq!(ledger.own_key().unwrap(), None);
        let key = ledger.signing_key().unwrap().public();
        assert_eq!(ledger.signing_key().unwrap().public(), key);
        assert_eq!(ledger.own_key().unwrap(), Some(key.clone()));
        let mode = fs::metadata(folder.path().join(OWN_KEY)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        assert!(!ledger.trusts(&key).unwrap());
        ledger.trust(&key).unwrap();
        ledger.trust(&key).unwrap();
        assert!(ledger.trusts(&key).unwrap());
        assert_eq!(ledger.trusted().unwrap().lines().count(), 1);
    }
}
