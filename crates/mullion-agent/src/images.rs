//! Images that containerd is given from archives.
//!
//! Machines that we make have theirs from their template. One that exists already is brought them before kubeadm asks for
//! them: it may have no way to a registry, and images that were made from programs are in none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mullion_wire::{ImageArchive, Sha256Digest};

use crate::apply::content;
use crate::failure::AgentError;
use crate::state::{self, Imported};
use crate::system::{Program, run_well};
use crate::work::Work;

/// The name space of containerd that Kubernetes looks into.
const NAMESPACE: &str = "k8s.io";
/// What containerd's Kubernetes part puts on images that it knows.
const MANAGED: &str = "io.cri-containerd.image=managed";
/// What keeps kubelet from removing an image when the disk is full: nobody would bring it again.
const PINNED: &str = "io.cri-containerd.pinned=pinned";

/// How long containerd may take to unpack one archive.
const UNPACKED_WITHIN: Duration = Duration::from_mins(10);

/// The archives that containerd needs and the store does not have.
pub(crate) fn missing(
    work: &mut Work<'_, '_>,
    archives: &[ImageArchive],
) -> Result<BTreeSet<Sha256Digest>, AgentError> {
    let mut missing = BTreeSet::new();
    for archive in lacking(work, archives)? {
        if content::find(work, &archive.sha256, archive.size)?.is_none() {
            missing.insert(archive.sha256.clone());
        }
    }
    Ok(missing)
}

/// Imports what containerd lacks, and removes each archive once its images are there.
pub(crate) fn import(work: &mut Work<'_, '_>, archives: &[ImageArchive]) -> Result<(), AgentError> {
    check_interrupted(work, archives)?;
    let lacking = lacking(work, archives)?;
    // Several images may be asked for from one archive.
    let mut imported = BTreeSet::new();
    for (index, archive) in archives.iter().enumerate() {
        let sha256 = &archive.sha256;
        if lacking.contains(&archive) && imported.insert(sha256) {
            import_one(work, archive, &named_with(archives, sha256))?;
            forget_others(work, archives, sha256)?;
        }
        // Also where an import was cut off just before this.
        let is_last = archives[index + 1..]
            .iter()
            .all(|one| one.sha256 != *sha256);
        if is_last {
            let store = state::store(work.system);
            work.system.remove(&format!("{store}/{sha256}"))?;
        }
    }
    Ok(())
}

/// The images that the file names with an archive: it may name several with one.
fn named_with<'a>(archives: &'a [ImageArchive], sha256: &Sha256Digest) -> BTreeSet<&'a str> {
    let same = archives.iter().filter(|one| one.sha256 == *sha256);
    same.filter_map(|one| one.reference.as_deref()).collect()
}

/// Forgets the archives that are not asked for any more: an image of the one that was just imported may have replaced
/// theirs. Should one be asked for again, it is imported again. What came with them goes when everything goes.
fn forget_others(
    work: &mut Work<'_, '_>,
    archives: &[ImageArchive],
    imported: &Sha256Digest,
) -> Result<(), AgentError> {
    let is_asked_for = |sha256: &Sha256Digest| archives.iter().any(|one| one.sha256 == *sha256);
    let mut references = BTreeSet::new();
    work.state.images.retain(|sha256, one| {
        // What came with one that was cut off is not known yet.
        let stays = one.before.is_some() || is_asked_for(sha256);
        if !stays {
            references.append(&mut one.references);
            references.append(&mut one.former);
        }
        stays
    });
    if let Some(one) = work.state.images.get_mut(imported) {
        one.former.append(&mut references);
    }
    work.save()
}

/// Imports an archive. One of the user's may replace only the images that the cluster file names with it.
fn import_one(
    work: &mut Work<'_, '_>,
    archive: &ImageArchive,
    named: &BTreeSet<&str>,
) -> Result<(), AgentError> {
    let ImageArchive {
        reference,
        sha256,
        size,
        exact,
    } = archive;
    let Some(path) = content::find(work, sha256, *size)? else {
        let name = reference.as_deref().unwrap_or("an archive of images");
        return Err(AgentError::NoContent {
            path: name.to_owned(),
            sha256: sha256.clone(),
        });
    };
    let before = listed(work)?;
    let mut protected = if *exact {
        digests(work)?
    } else {
        BTreeMap::new()
    };
    protected.retain(|image, _| !named.contains(image.as_str()));
    let former = work.state.images.get(sha256).cloned();
    let imported = work.state.images.entry(sha256.clone()).or_default();
    // One that was cut off may have brought them already.
    let before = imported.before.get_or_insert(before).clone();
    // An earlier import may have replaced some, which were removed. One that is there again came from somewhere else, and
    // has the digest of that. The file may name some with the archive since.
    for (image, digest) in std::mem::take(&mut imported.protected) {
        protected.entry(image).or_insert(digest);
    }
    protected.retain(|image, _| !named.contains(image.as_str()));
    imported.protected = protected;
    work.save()?;
    let name = reference.as_deref().unwrap_or(sha256.as_str());
    work.report.doing(format!("importing {name}"));
    let args = [
        "images", "import", "--label", MANAGED, "--label", PINNED, &path,
    ];
    let program = ctr(args).within(UNPACKED_WITHIN);
    let ran = run_well(work.system, &program, &mut |_| {});
    // containerd may have replaced some images before it failed.
    let now = check_replaced(work, sha256, name)?;
    // An import that was cut off is tried again later: this one may replace images that the file names with it.
    for one in work.state.images.values_mut() {
        for (image, digest) in &mut one.protected {
            if let Some(now) = now.get(image) {
                digest.clone_from(now);
            }
        }
    }
    if let Err(error) = ran {
        // Until it is tried again others may bring theirs. The images from an earlier import are still ours.
        let is_kept = |one: &Imported| {
            let is_refused = one.before.is_none() && !one.protected.is_empty();
            is_refused || !one.references.is_empty() || !one.former.is_empty()
        };
        match former.filter(is_kept) {
            Some(mut former) => {
                if former.before.take().is_some() {
                    former.protected.clear();
                }
                work.state.images.insert(sha256.clone(), former);
            }
            None => drop(work.state.images.remove(sha256)),
        }
        work.save()?;
        return Err(error.into());
    }
    let listed = listed(work)?;
    let imported = work.state.images.entry(sha256.clone()).or_default();
    imported
        .references
        .extend(listed.difference(&before).cloned());
    imported.before = None;
    imported.protected.clear();
    work.save()?;
    work.report.changed(format!("image {name}"));
    Ok(())
}

/// Checks what the imports replaced that were cut off before their check. What the file names with an archive by now, the
/// archive may have replaced.
fn check_interrupted(work: &mut Work<'_, '_>, archives: &[ImageArchive]) -> Result<(), AgentError> {
    let images = work.state.images.iter();
    let interrupted = images.filter(|(_, one)| one.before.is_some() && !one.protected.is_empty());
    let interrupted: Vec<_> = interrupted.map(|(sha256, _)| sha256.clone()).collect();
    for sha256 in interrupted {
        let named = named_with(archives, &sha256);
        if let Some(one) = work.state.images.get_mut(&sha256) {
            one.protected
                .retain(|image, _| !named.contains(image.as_str()));
        }
        check_replaced(work, &sha256, sha256.as_str())?;
        // Later changes are not the archive's.
        if let Some(one) = work.state.images.get_mut(&sha256) {
            one.protected.clear();
        }
        work.save()?;
    }
    Ok(())
}

/// Removes the images that an archive replaced although it may not, and fails where there are any: nothing may start from
/// them. Gives the digests of all images, if any was to be checked.
///
/// The engine checks the names in an archive before, by another reader than containerd's: this check does not depend on it.
fn check_replaced(
    work: &mut Work<'_, '_>,
    sha256: &Sha256Digest,
    name: &str,
) -> Result<BTreeMap<String, String>, AgentError> {
    let imported = work.state.images.get(sha256);
    let Some(imported) = imported.filter(|one| !one.protected.is_empty()) else {
        return Ok(BTreeMap::new());
    };
    let now = digests(work)?;
    let mut replaced = imported.protected.clone();
    replaced.retain(|image, digest| now.get(image).is_some_and(|now| now != digest));
    if replaced.is_empty() {
        return Ok(now);
    }
    let images: Vec<_> = replaced.keys().cloned().collect();
    let args = ["images", "remove", "--sync"].into_iter();
    let program = ctr(args.chain(images.iter().map(String::as_str)));
    run_well(work.system, &program, &mut |_| {})?;
    let listed = listed(work)?;
    let imported = work.state.images.entry(sha256.clone()).or_default();
    if let Some(before) = imported.before.take() {
        let came = listed.difference(&before).cloned();
        imported.references.extend(came);
    }
    imported.protected = replaced;
    work.save()?;
    Err(AgentError::Replaced {
        archive: name.to_owned(),
        images,
    })
}

/// Removes the images that were imported. Where containerd does not say that they are gone, they stay: nothing else depends
/// on that.
pub(crate) fn remove(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    if work.state.images.is_empty() {
        return Ok(());
    }
    match remove_all(work) {
        Ok(count) => work.report.changed(format!("{count} images removed")),
        Err(error) => work.report.doing(format!("images stay: {error}")),
    }
    work.state.images.clear();
    work.save()
}

fn remove_all(work: &Work<'_, '_>) -> Result<usize, AgentError> {
    let mut table = Vec::new();
    let list = ctr(["images", "list"]);
    run_well(work.system, &list, &mut |line| table.push(line.to_owned()))?;
    let rows = rows(&table);
    let mut ours = BTreeSet::new();
    for imported in work.state.images.values() {
        let references = imported.references.iter().chain(&imported.former);
        ours.extend(references.map(String::as_str));
        // One that was cut off, and never tried again.
        if let Some(before) = &imported.before {
            let names = rows.iter().map(|(name, _)| *name);
            ours.extend(names.filter(|name| !before.contains(*name)));
        }
    }
    let doomed = doomed(&rows, &ours);
    if doomed.is_empty() {
        return Ok(0);
    }
    // The last one is waited for, until what all consist of is gone.
    let args = ["images", "remove", "--sync"].into_iter();
    let program = ctr(args.chain(doomed.iter().copied()));
    run_well(work.system, &program, &mut |_| {})?;
    Ok(doomed.len())
}

/// Name and digest of every image, by containerd's table.
fn rows(table: &[String]) -> Vec<(&str, &str)> {
    table
        .iter()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.nth(1)?))
        })
        .collect()
}

/// What goes with our images: containerd's Kubernetes part gives each a second name, its digest, which would hold it. An
/// image that somebody has under a name of their own keeps that. Second names come first: they may go by themselves as soon
/// as the others do, and nothing is waited for where the last is not there.
fn doomed<'a>(rows: &[(&'a str, &'a str)], ours: &BTreeSet<&str>) -> Vec<&'a str> {
    let is_held = |digest: &str| {
        let mut others = rows.iter().filter(|(name, _)| !is_digest(name));
        others.any(|(name, of)| *of == digest && !ours.contains(name))
    };
    let is_ours = |digest: &str| {
        let mut rows = rows.iter();
        rows.any(|(name, of)| *of == digest && ours.contains(name))
    };
    let (seconds, names): (Vec<_>, Vec<_>) = rows.iter().partition(|(name, _)| is_digest(name));
    let seconds = seconds.into_iter();
    let seconds = seconds.filter(|(_, digest)| is_ours(digest) && !is_held(digest));
    let names = names.into_iter().filter(|(name, _)| ours.contains(name));
    seconds.chain(names).map(|(name, _)| name).collect()
}

fn is_digest(name: &str) -> bool {
    name.starts_with("sha256:")
}

/// The archives with images that containerd does not have.
fn lacking<'a>(
    work: &Work<'_, '_>,
    archives: &'a [ImageArchive],
) -> Result<Vec<&'a ImageArchive>, AgentError> {
    let listed = listed(work)?;
    let is_there = |archive: &ImageArchive| {
        let imported = work.state.images.get(&archive.sha256);
        // What came with one that was cut off is not known yet.
        let is_known = imported.is_none_or(|one| one.before.is_none() && one.protected.is_empty());
        is_known
            && archive
                .reference
                .as_ref()
                .is_none_or(|reference| listed.contains(reference))
            && (archive.reference.is_some() && !archive.exact
                || imported.is_some_and(|one| one.references.is_subset(&listed)))
    };
    Ok(archives
        .iter()
        .filter(|archive| !is_there(archive))
        .collect())
}

/// The digest of every image, by containerd's table. A name that several rows have has all their digests.
fn digests(work: &Work<'_, '_>) -> Result<BTreeMap<String, String>, AgentError> {
    let mut table = Vec::new();
    let list = ctr(["images", "list"]);
    run_well(work.system, &list, &mut |line| table.push(line.to_owned()))?;
    let mut digests = BTreeMap::<String, String>::new();
    for (name, digest) in rows(&table) {
        let of_name = digests.entry(name.to_owned()).or_default();
        of_name.push_str(digest);
        of_name.push(' ');
    }
    Ok(digests)
}

/// The references of the images that containerd has.
fn listed(work: &Work<'_, '_>) -> Result<BTreeSet<String>, AgentError> {
    let mut references = BTreeSet::new();
    run_well(
        work.system,
        &ctr(["images", "list", "--quiet"]),
        &mut |line| {
            let line = line.trim();
            if !line.is_empty() {
                references.insert(line.to_owned());
            }
        },
    )?;
    Ok(references)
}

fn ctr<'a>(args: impl IntoIterator<Item = &'a str>) -> Program {
    Program::new("ctr", ["--namespace", NAMESPACE].into_iter().chain(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_names_of_our_images_go_with_them() {
        let table = "\
REF                             TYPE                                       DIGEST      SIZE     PLATFORMS   LABELS
registry.k8s.io/pause:3.10      application/vnd.oci.image.manifest.v1+json sha256:aaaa 1.0 MiB  linux/amd64 io.cri-containerd.image=managed
sha256:1111                     application/vnd.oci.image.manifest.v1+json sha256:aaaa 1.0 MiB  linux/amd64 io.cri-containerd.image=managed
registry.k8s.io/proxy:1         application/vnd.oci.image.manifest.v1+json sha256:bbbb 1.0 MiB  linux/amd64 -
registry.lan/proxy:1            application/vnd.oci.image.manifest.v1+json sha256:bbbb 1.0 MiB  linux/amd64 -
sha256:2222                     application/vnd.oci.image.manifest.v1+json sha256:bbbb 1.0 MiB  linux/amd64 -
sha256:3333                     application/vnd.oci.image.manifest.v1+json sha256:cccc 1.0 MiB  linux/amd64 -
";
        let table: Vec<_> = table.lines().map(str::to_owned).collect();
        let ours = [
            "registry.k8s.io/pause:3.10",
            "registry.k8s.io/proxy:1",
            "sha256:gone",
        ];
        let gone = doomed(&rows(&table), &ours.into());
        assert_eq!(
            gone,
            [
                "sha256:1111",
                "registry.k8s.io/pause:3.10",
                "registry.k8s.io/proxy:1"
            ]
        );
    }
}
