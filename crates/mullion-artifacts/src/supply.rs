//! One part, from the first source that has it: cache, bundle, mirror, upstream, build.

use std::path::PathBuf;

use mullion_catalog::{ArtifactKind, ArtifactRef, Build, Digest};
use mullion_plan::{Attend, Part, PartKind};
use mullion_spec::words::{BuildPolicy, Os};

use crate::error::{SupplyError, Tried};
use crate::fetch::{Expect, Fetch, FetchError, shown};
use crate::image::{self, Place};
use crate::item::Item;
use crate::job::Job;
use crate::record::{Draft, Origin, Record, Witness};
use crate::sources::Sources;
use crate::store::{Entry, Store};
use crate::{build, bundle, checksum, extract, go, hold, mirror};

const CHECKSUM_LIMIT: u64 = 1 << 20;

/// Gives the path of a part in the cache, from the first of these that has it: the cache, the bundle, the mirror,
/// upstream, a build from source.
///
/// `artifacts` are all of the model: an image is made of a program, a program comes out of an archive. May be called
/// from several threads, and by several processes with one cache.
pub fn supply(
    store: &Store,
    artifacts: &[ArtifactRef],
    part: &Part,
    sources: &Sources,
    attendant: &dyn Attend,
) -> Result<PathBuf, SupplyError> {
    let job = Job {
        store,
        sources,
        artifacts,
        attendant,
    };
    supply_part(&job, part)
}

/// The part that an artifact is, as planning names it.
pub fn part_of(artifact: &ArtifactRef) -> Option<Part> {
    let kind = match artifact.kind {
        ArtifactKind::Program => PartKind::Program,
        ArtifactKind::Image => PartKind::Image,
        ArtifactKind::Archive => PartKind::Archive,
        // Packages come with a root file system.
        ArtifactKind::Package => return None,
    };
    let name = artifact.name.as_str();
    Some(Part {
        name: name.strip_suffix("-image").unwrap_or(name).to_owned(),
        os: artifact.os,
        kind,
        version: artifact.version.clone(),
    })
}

/// The program of an image.
pub(crate) fn program(
    job: &Job<'_>,
    image: &ArtifactRef,
    name: &str,
) -> Result<PathBuf, SupplyError> {
    let part = Part {
        name: name.to_owned(),
        os: image.os,
        kind: PartKind::Program,
        version: image.version.clone(),
    };
    supply_part(job, &part)
}

fn supply_part(job: &Job<'_>, part: &Part) -> Result<PathBuf, SupplyError> {
    let item = Item::Part(part.clone());
    let mut artifacts = job.artifacts.iter();
    let artifact = artifacts.find(|artifact| part_of(artifact).as_ref() == Some(part));
    let wants_build = job.sources.build == BuildPolicy::Always
        && artifact.is_some_and(|artifact| {
            matches!(
                artifact.build,
                Some(Build::Go(_) | Build::C(_) | Build::Image(_))
            )
        });
    let fits = |record: &Record| match record.origin {
        Origin::Build | Origin::Made | Origin::Given => true,
        _ if wants_build => false,
        _ => match artifact.map(|artifact| &artifact.digest) {
            Some(Digest::Sha256(pinned)) => record.sha256.as_str() == pinned,
            _ => true,
        },
    };
    let found = |record: Record| job.store.place(&item).join(record.file);

    if let Some(record) = job.store.record(&item).filter(|record| fits(record)) {
        return Ok(found(record));
    }
    let entry = job.store.lock(&item, job.attendant)?;
    if let Some(record) = entry.current().filter(|record| fits(record)) {
        return Ok(found(record));
    }
    let wanted = |record: &Record| {
        !wants_build || matches!(record.origin, Origin::Build | Origin::Made | Origin::Given)
    };
    if let Some(path) = bundle::take_if(job, &entry, artifact, &wanted)? {
        return Ok(path);
    }
    let Some(artifact) = artifact else {
        return Err(SupplyError::Unknown {
            item: Box::new(item),
        });
    };
    let mut asking = Asking {
        job,
        entry: &entry,
        artifact,
        tried: Vec::new(),
    };
    if !job.sources.offline && !wants_build {
        if let Some(path) = asking.mirror()? {
            return Ok(path);
        }
        if let Some(path) = asking.upstream()? {
            return Ok(path);
        }
        if let Some(path) = asking.archive()? {
            return Ok(path);
        }
    }
    asking.build()
}

/// Asks one source after another.
struct Asking<'a> {
    job: &'a Job<'a>,
    entry: &'a Entry<'a>,
    artifact: &'a ArtifactRef,
    tried: Vec<Tried>,
}

/// Where a file is asked for.
struct Where<'a> {
    word: &'static str,
    address: &'a str,
    /// Places of the checksum file and what each is worth, the first that answers counts.
    checksums: Vec<(String, Witness)>,
}

impl Where<'_> {
    /// What nobody here knows a digest of: what upstream, or a mirror at its first use, says of it.
    fn expected(&self, fetch: &Fetch<'_>) -> Result<(Expect, Witness), FetchError> {
        let mut last = None;
        for (address, witness) in &self.checksums {
            let file = self.address.rsplit('/').next().unwrap_or_default();
            match fetch.text(address, CHECKSUM_LIMIT) {
                Ok(text) => match checksum::find(&text, file) {
                    Some(digest) => return Ok((Expect::Sha256(digest), *witness)),
                    None => {
                        last = Some(FetchError::Unexpected {
                            address: shown(address),
                            expected: "a checksum",
                        });
                    }
                },
                Err(error) if error.is_absence() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        match last {
            Some(error) => Err(error),
            None if self.word == "mirror" && !hold::may_vouch(self.address) => {
                Err(mirror::unheld(self.address))
            }
            None => Ok((Expect::Anything, Witness::Connection)),
        }
    }
}

impl Asking<'_> {
    /// What a source gave; none where the next one is to be asked.
    fn sift(
        &mut self,
        word: &'static str,
        result: Result<PathBuf, SupplyError>,
    ) -> Result<Option<PathBuf>, SupplyError> {
        match result {
            Ok(path) => Ok(Some(path)),
            Err(SupplyError::Fetch { source, .. }) if source.is_absence() => {
                self.tried.push(Tried::new(word, &source));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn mirror(&mut self) -> Result<Option<PathBuf>, SupplyError> {
        let Some(base) = self.job.sources.mirror.as_deref() else {
            return Ok(None);
        };
        if let Some(result) = mirror::ask(self.job, self.entry, Some(self.artifact))
            && let Some(path) = self.sift("mirror", result)?
        {
            return Ok(Some(path));
        }
        let Some(address) = &self.artifact.address else {
            return Ok(None);
        };
        let result = if self.artifact.kind == ArtifactKind::Image {
            self.mirrored_image(address, base)
        } else {
            let Some(mirrored) = mirror::address(base, address) else {
                return Ok(None);
            };
            // Upstream's word first: a mirror that changes a file changes the checksum beside it as well.
            let upstream = self.artifact.checksum.as_deref();
            let own = upstream
                .filter(|_| hold::may_vouch(base))
                .and_then(|address| mirror::address(base, address));
            let checksums = upstream
                .map(|address| (address.to_owned(), Witness::ChecksumFile))
                .into_iter()
                .chain(own.map(|address| (address, Witness::MirrorChecksum)))
                .collect();
            let place = Where {
                word: "mirror",
                address: &mirrored,
                checksums,
            };
            self.file(&place)
        };
        self.sift("mirror", result)
    }

    fn upstream(&mut self) -> Result<Option<PathBuf>, SupplyError> {
        let Some(address) = &self.artifact.address else {
            return Ok(None);
        };
        if self.artifact.kind == ArtifactKind::Image {
            let origin = Origin::Upstream {
                address: address.clone(),
                witness: Witness::Manifest,
            };
            let result = self.pull(Place::upstream(address), origin);
            return self.sift("registry", result);
        }
        let place = Where {
            word: "upstream",
            address,
            checksums: (self.artifact.checksum.iter())
                .map(|address| (address.clone(), Witness::ChecksumFile))
                .collect(),
        };
        let result = self.file(&place);
        self.sift("upstream", result)
    }

    /// An image of a mirror's registry: by the digest that upstream has, where upstream can be asked.
    fn mirrored_image(&self, address: &str, base: &str) -> Result<PathBuf, SupplyError> {
        let item = &self.entry.item;
        let upstream = Place::upstream(address)
            .map(|place| image::digest(self.job, &place))
            .transpose()
            .map_err(|source| SupplyError::fetch(item, source))?
            .flatten();
        let place = Place::mirrored(address, base);
        let known = hold::known(self.job, self.entry, Some(self.artifact))?;
        let (place, witness) = match upstream {
            Some(digest) => (place.map(|place| place.at(&digest)), Witness::Manifest),
            None if known.is_none() && !hold::may_vouch(base) => {
                return Err(SupplyError::fetch(item, mirror::unheld(base)));
            }
            None => (place, Witness::MirrorManifest),
        };
        let origin = Origin::Mirror {
            address: format!("{base}/v2/{address}"),
            witness,
        };
        self.pull(place, origin)
    }

    fn pull(&self, place: Option<Place>, origin: Origin) -> Result<PathBuf, SupplyError> {
        let item = &self.entry.item;
        let place = place.ok_or_else(|| {
            SupplyError::fetch(
                item,
                FetchError::Address {
                    address: self.artifact.address.clone().unwrap_or_default(),
                },
            )
        })?;
        let known = hold::known(self.job, self.entry, Some(self.artifact))?;
        let (from, witness) = match &origin {
            Origin::Upstream { address, witness } | Origin::Mirror { address, witness } => {
                (crate::fetch::shown(address), *witness)
            }
            _ => (String::new(), Witness::Manifest),
        };
        let shown = match &origin {
            Origin::Mirror { .. } => Origin::Mirror {
                address: from.clone(),
                witness,
            },
            _ => Origin::Upstream {
                address: from.clone(),
                witness,
            },
        };
        let image = image::pull(self.job, self.entry, &place, self.artifact.os, origin)
            .map_err(|error| error.into_supply(item))?;
        let sha256 = image.sha256().clone();
        match &known {
            Some(known) => known.hold(item, &from, &sha256)?,
            None if witness == Witness::MirrorManifest => {
                hold::tell_first_use(self.job, item, &from, &sha256);
            }
            None => {}
        }
        let path = image.keep(self.entry)?;
        hold::note(self.job, item, &sha256, &shown)?;
        Ok(path)
    }

    /// Downloads a file and holds it against the best digest that is known.
    fn file(&self, place: &Where<'_>) -> Result<PathBuf, SupplyError> {
        let item = &self.entry.item;
        let failed = |source| SupplyError::fetch(item, source);
        let fetch = Fetch::new(self.job.sources, self.job.attendant);
        let known = hold::known(self.job, self.entry, Some(self.artifact))?;
        let (expect, witness) = match &known {
            Some(known) => (Expect::Sha256(known.sha256.clone()), known.witness),
            None => place.expected(&fetch).map_err(failed)?,
        };
        self.job
            .say(format!("fetching {item} from {}", shown(place.address)));
        let name = self.artifact.file.clone();
        let name = crate::item::plain(&name.unwrap_or_else(|| item.default_file()));
        let partial = self.entry.partial(&name)?;
        let got = fetch
            .file(place.address, &partial, &expect)
            .map_err(|error| match (&known, error) {
                (Some(known), FetchError::Digest { address, found, .. })
                    if known.witness != Witness::Catalog =>
                {
                    known.refuse(item, address, found)
                }
                (_, error) => failed(error),
            })?;
        if witness == Witness::MirrorChecksum && known.is_none() {
            hold::tell_first_use(self.job, item, place.address, &got.sha256);
        }
        if expect == Expect::Anything && place.word == "mirror" {
            hold::tell_first_use(self.job, item, place.address, &got.sha256);
        } else if expect == Expect::Anything {
            self.job.say(format!(
                "nobody publishes a digest of {item}: sha256:{}, as it came now, is pinned",
                got.sha256
            ));
        }
        let address = shown(&got.address);
        let origin = match place.word {
            "mirror" => Origin::Mirror { address, witness },
            _ => Origin::Upstream { address, witness },
        };
        hold::note(self.job, item, &got.sha256, &origin)?;
        let draft = Draft::new(item.clone(), name, origin);
        Ok(self
            .entry
            .keep(&partial, draft.finish(got.sha256, got.size))?)
    }

    /// A program that upstream publishes inside an archive.
    fn archive(&mut self) -> Result<Option<PathBuf>, SupplyError> {
        let artifact = self.artifact;
        if artifact.kind != ArtifactKind::Program || artifact.address.is_some() {
            return Ok(None);
        }
        let holds = |candidate: &&ArtifactRef| {
            candidate.os == artifact.os
                && matches!(&candidate.build, Some(Build::Parts { programs }) if programs.contains(&artifact.name))
        };
        let Some(archive) = self.job.artifacts.iter().find(holds).and_then(part_of) else {
            return Ok(None);
        };
        let path = match supply_part(self.job, &archive) {
            Ok(path) => path,
            Err(SupplyError::Nowhere { tried, .. }) => {
                self.tried.extend(tried);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let item = &self.entry.item;
        let file = artifact.file.clone();
        let file = file.unwrap_or_else(|| item.default_file());
        let new = self.entry.temporary(&file)?;
        let go_on = || !self.job.attendant.is_called_off();
        let found = extract::member(&path, &file, &new, &go_on).map_err(|source| {
            let doing = format!("taking `{file}` out of {archive}");
            SupplyError::build(item, build::BuildError::io(doing, source))
        })?;
        let archive = Item::Part(archive);
        let record = self.job.store.record(&archive);
        let (true, Some(record)) = (found, record) else {
            return Err(SupplyError::NotInArchive {
                item: Box::new(item.clone()),
                archive: archive.to_string(),
                file,
            });
        };
        let origin = Origin::Archive {
            archive,
            sha256: record.sha256,
        };
        let draft = Draft::new(item.clone(), file, origin);
        let path = self.entry.hash_and_keep(&new, draft, self.job.attendant)?;
        Ok(Some(path))
    }

    /// Builds it, where that is known and allowed.
    fn build(self) -> Result<PathBuf, SupplyError> {
        let (job, entry, artifact) = (self.job, self.entry, self.artifact);
        let item = &entry.item;
        let may_compile = job.sources.build != BuildPolicy::Never && !job.sources.offline;
        let made = match &artifact.build {
            Some(Build::Go(how)) if may_compile => go::build(job, entry, artifact, how)
                .map_err(|source| SupplyError::build(item, source)),
            Some(Build::C(how)) if may_compile => build::c(job, entry, artifact, how)
                .map_err(|source| SupplyError::build(item, source)),
            // Putting an image together compiles nothing and asks nobody; its parts may.
            Some(Build::Image(how)) if artifact.os == Os::Linux => {
                image::make(job, entry, artifact, how)
            }
            _ if job.sources.offline => Err(SupplyError::Offline {
                item: Box::new(item.clone()),
            }),
            _ => {
                return Err(SupplyError::Nowhere {
                    item: Box::new(item.clone()),
                    tried: self.tried,
                });
            }
        };
        made.map_err(|mut error| {
            if let SupplyError::Build { tried, .. } | SupplyError::Nowhere { tried, .. } =
                &mut error
            {
                tried.splice(0..0, self.tried);
            }
            error
        })
    }
}
