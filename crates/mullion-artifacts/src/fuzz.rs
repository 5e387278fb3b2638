//! What fuzzing calls: readers of what others wrote, each with what must hold of its answer. A refusal says why.

use std::io::Cursor;
use std::path::Path;

use mullion_plan::Unattended;
use mullion_tar::TarReader;
use serde_json::Value;
use zip::ZipArchive;

use crate::fetch::content_range;
use crate::image::{Challenge, Place, trim};
use crate::item::Item;
use crate::record::Record;
use crate::{Claims, Custody, DigestList, Ledger, Store, bundle, checksum, extract, go};

/// A bundle that somebody brought, read and imported into a folder with a list that vouches for all of it.
pub fn bundle(file: &Path, into: &Path) -> Result<(), String> {
    use std::fmt::Write as _;
    let words = |error: bundle::BundleError| error.to_string();
    let _ = bundle::signer_of(file, None);
    let whole = bundle::verify(file, &Unattended).map_err(words);
    let index = bundle::read_index(file).map_err(words)?;
    let mut list = String::new();
    for record in &index.items {
        stays_inside(&record.item);
        let place = record.item.folder().join("file");
        let _ = writeln!(list, "{}  {}", record.sha256, place.display());
    }
    let custody = Custody {
        ledger: Ledger::new(into.join("state")),
        is_named: false,
        owner: None,
        claims: Claims::default(),
    };
    let store =
        Store::open_with(&into.join("cache"), custody).map_err(|error| error.to_string())?;
    let list = DigestList::parse(&list).map_err(|line| format!("line {line} of the list"))?;
    let vouch = bundle::Vouch::Digests(list);
    let imported = bundle::import(&store, file, &vouch, &Unattended).map_err(words)?;
    for record in &imported.items {
        let path = store.item_path(&record.item);
        assert!(
            path.is_some(),
            "{} is not there after it was imported",
            record.item
        );
    }
    whole.map(|_| ())
}

/// A record of the cache, or of a mirror.
pub fn record(bytes: &[u8]) -> Result<(), String> {
    let record: Record = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    stays_inside(&record.item);
    let text = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
    let again: Record = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, record, "a record reads back as it was written");
    Ok(())
}

fn stays_inside(item: &Item) {
    let is_inside = |path: &Path| {
        let mut parts = path.components();
        parts.all(|part| matches!(part, std::path::Component::Normal(_)))
    };
    assert!(
        is_inside(&item.folder()),
        "{item:?} lies outside of the cache"
    );
    let file = item.default_file();
    assert!(
        is_inside(Path::new(&file)),
        "{file:?} lies outside of its folder"
    );
}

/// A checksum file of upstream, or of a mirror.
pub fn checksums(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let _ = DigestList::parse(&text);
    checksum::find(&text, "kubeadm").ok_or("no digest")?;
    Ok(())
}

/// What a registry says: its challenge, the range of a download, a manifest, and what a reference names.
pub fn registry(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let _ = content_range(Some(&text));
    let challenge = Challenge::parse(&text);
    if let Some(challenge) = &challenge {
        let _ = challenge.address("library/x");
    }
    let reference = Place::upstream(&text).is_some();
    let manifest = serde_json::from_slice::<Value>(bytes);
    if challenge.is_some() || reference {
        return Ok(());
    }
    manifest.map(|_| ()).map_err(|error| error.to_string())
}

/// What `go version -m` says of a program.
pub fn go_modules(bytes: &[u8]) -> Result<(), String> {
    let modules = go::parse_modules(&String::from_utf8_lossy(bytes));
    (!modules.is_empty())
        .then_some(())
        .ok_or_else(|| "none".into())
}

/// A program out of an archive that was downloaded: it is written to `to`, and nothing else is.
pub fn archive_member(archive: &Path, to: &Path) -> Result<(), String> {
    match extract::member(archive, "kubelet", to, &|| true) {
        Ok(true) => Ok(()),
        Ok(false) => Err("not in it".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// A layer made of a distribution's files.
pub fn layer(from: &Path, to: &Path) -> Result<(), String> {
    trim(from, to).map_err(|error| error.to_string())?;
    let file = fs_err::File::open(to).map_err(|error| error.to_string())?;
    let mut archive = TarReader::new(file);
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path().map_err(|error| error.to_string())?;
        let mut parts = path.components();
        let is_inside = parts.all(|part| matches!(part, std::path::Component::Normal(_)));
        assert!(is_inside, "{} leads out of the layer", path.display());
    }
    Ok(())
}

/// The zip of a Go module: its sum, which is compared before anything of it is unpacked.
pub fn module_zip(bytes: &[u8]) -> Result<(), String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let sum = go::of_zip(&mut archive, &mut |_| true).map_err(|error| error.to_string())?;
    assert!(sum.is_some_and(|sum| sum.len() == 44), "a sum in base64");
    Ok(())
}
