//! A Go that is new enough: the caller's, or one from the module proxy.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fs_err as fs;
use mullion_plan::{Attend, News, Unit};
use mullion_rights::sync_folder;
use zip::ZipArchive;

use super::{Go, GoVersion, dirhash};
use crate::build::BuildError;
use crate::digest::Asking;
use crate::fetch::{Expect, Fetch};
use crate::job::Job;
use crate::process::{self, Worth};
use crate::sources::Sources;
use crate::store::{Store, TOOLCHAINS, make_folder};

/// The Go that is fetched where the caller has none that is new enough.
pub const NEWEST: GoVersion = GoVersion {
    major: 1,
    minor: 26,
    patch: 11,
};

/// The sum of its module, `golang.org/toolchain v0.0.1-go1.26.11.linux-amd64`, from the Go checksum database.
const NEWEST_SUM: &str = "KyINmJ/FQdKRmDYGuTAAXkumyeR2DyUlSNHZj7XaLFg=";

/// What older ones cannot do: read a go.mod that names a patch of Go, and leave toolchains alone when told so.
const OLDEST_OF_USE: GoVersion = GoVersion {
    major: 1,
    minor: 21,
    patch: 0,
};

const MODULE_PROXY: &str = "https://proxy.golang.org";

/// A Go that can build what the catalog has: the caller's where it is as new as [`NEWEST`]'s line, else the one in
/// the cache, else one that is fetched into it.
pub fn toolchain(
    store: &Store,
    sources: &Sources,
    attendant: &dyn Attend,
) -> Result<Go, BuildError> {
    let job = Job {
        store,
        sources,
        artifacts: &[],
        attendant,
    };
    let is_new = |go: &Go| (go.version.major, go.version.minor) >= (NEWEST.major, NEWEST.minor);
    match given(&job)?.filter(is_new) {
        Some(go) => Ok(go),
        None => fetch(&job),
    }
}

/// The caller's Go where it is of any use, else a fetched one.
pub(super) fn find(job: &Job<'_>) -> Result<Go, BuildError> {
    match given(job)? {
        Some(go) if go.version >= OLDEST_OF_USE => Ok(go),
        _ => fetch(job),
    }
}

fn given(job: &Job<'_>) -> Result<Option<Go>, BuildError> {
    let Some(program) = &job.sources.go.program else {
        return Ok(None);
    };
    match version_of(job, program) {
        Ok(version) => Ok(Some(Go {
            program: program.clone(),
            version,
        })),
        Err(error) if error.is_called_off() => Err(error),
        Err(error) => {
            job.say(format!("{}: {error}", program.display()));
            Ok(None)
        }
    }
}

fn version_of(job: &Job<'_>, program: &Path) -> Result<GoVersion, BuildError> {
    let mut command = job.sources.tool(program);
    command.env("GOTOOLCHAIN", "local").arg("version");
    // It counts its own calls in a file; a question about its version needs none, and no settings either.
    command
        .env("XDG_CONFIG_HOME", "/dev/null")
        .env("GOENV", "off");
    let doing = || format!("asking {} for its version", program.display());
    let ran = process::run("go version", &mut command, job.attendant, &mut |_| {
        Worth::Telling
    })
    .map_err(|source| BuildError::tool(doing(), source))?;
    let text = String::from_utf8_lossy(&ran.stdout);
    // go version go1.26.8 linux/amd64
    let word = text.split_whitespace().nth(2).unwrap_or_default();
    word.parse().map_err(|_| BuildError::NotGo {
        program: program.to_owned(),
        said: text.trim().to_owned(),
    })
}

/// The Go in the cache, fetched where it is not there.
pub(super) fn fetch(job: &Job<'_>) -> Result<Go, BuildError> {
    let store = job.store;
    let home = store.folder().join(TOOLCHAINS).join(format!("go{NEWEST}"));
    let go = Go {
        program: home.join("bin/go"),
        version: NEWEST,
    };
    // What lies in somebody else's folder is not run.
    store.check_use()?;
    if go.program.exists() {
        check_again(job, &home)?;
        return Ok(go);
    }
    if job.sources.offline {
        return Err(BuildError::NoGoOffline { newest: NEWEST });
    }
    let name = format!("go{NEWEST}");
    let _turn = store.lock_named(&name, &format!("Go {NEWEST}"), job.attendant)?;
    if go.program.exists() {
        check_again(job, &home)?;
        return Ok(go);
    }
    let place = store.work(&name)?;
    let zip = place.join("toolchain.zip");
    let address = address(job.sources);
    job.say(format!("getting Go {NEWEST}"));
    Fetch::new(job.sources, job.attendant)
        // What is in the zip is held against its sum below.
        .file(&address, &zip, &Expect::Anything)
        .map_err(|source| BuildError::Toolchain {
            newest: NEWEST,
            source: Box::new(source),
        })?;
    let unpacked = place.join("unpacked");
    let result = unpack_checked(job, &zip, &unpacked);
    let failed = |source| BuildError::io("keeping the Go toolchain", source);
    if let Err(error) = result {
        if !error.is_called_off() {
            // Whatever is wrong with it, going on with it would be wrong again.
            let _ = fs::remove_file(&zip);
        }
        let _ = fs::remove_dir_all(&unpacked);
        return Err(error);
    }
    let toolchains = store.folder().join(TOOLCHAINS);
    make_folder(&toolchains).map_err(failed)?;
    fs::rename(&unpacked, &home).map_err(failed)?;
    sync_folder(&toolchains).map_err(failed)?;
    let _ = fs::remove_dir_all(&place);
    Ok(go)
}

/// Toolchains that this process has hashed.
static CHECKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Hashes the toolchain again where this process is root and another user can write to it.
fn check_again(job: &Job<'_>, home: &Path) -> Result<(), BuildError> {
    if !job.store.is_written_by_others() {
        return Ok(());
    }
    let mut checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if checked.contains(home) {
        return Ok(());
    }
    job.say(format!(
        "hashing Go {NEWEST}, which another user can write to"
    ));
    let prefix = format!("golang.org/toolchain@v0.0.1-go{NEWEST}.linux-amd64/");
    let sum = dirhash::of_folder(home, &prefix, &hidden)
        .map_err(|source| BuildError::io("hashing the Go toolchain", source))?;
    if sum != NEWEST_SUM {
        return Err(BuildError::ToolchainChanged {
            folder: home.to_owned(),
        });
    }
    checked.insert(home.to_owned());
    Ok(())
}

/// The first proxy of the list that is an address; the public one where there is none.
fn address(sources: &Sources) -> String {
    let given = sources.go.module_proxy.as_ref();
    let given = given.or_else(|| sources.environment.get("GOPROXY"));
    let list = given.map_or("", String::as_str);
    let proxy = list
        .split([',', '|'])
        .find(|one| one.starts_with("http://") || one.starts_with("https://"))
        .unwrap_or(MODULE_PROXY);
    format!(
        "{}/golang.org/toolchain/@v/v0.0.1-go{NEWEST}.linux-amd64.zip",
        proxy.trim_end_matches('/')
    )
}

fn unpack_checked(job: &Job<'_>, zip: &Path, to: &Path) -> Result<(), BuildError> {
    let failed = |source| BuildError::io("unpacking the Go toolchain", source);
    let file = fs::File::open(zip).map_err(failed)?;
    let mut archive =
        ZipArchive::new(file).map_err(|error| failed(std::io::Error::other(error)))?;
    let sum = dirhash::of_zip(&mut archive, &mut |_| !job.attendant.is_called_off())
        .map_err(failed)?
        .ok_or(BuildError::CalledOff)?;
    if sum != NEWEST_SUM {
        return Err(BuildError::Sum {
            module: format!("golang.org/toolchain@v0.0.1-go{NEWEST}.linux-amd64"),
            pinned: format!("h1:{NEWEST_SUM}"),
            found: format!("h1:{sum}"),
        });
    }
    unpack(job, &mut archive, to)
}

fn unpack(job: &Job<'_>, archive: &mut ZipArchive<fs::File>, to: &Path) -> Result<(), BuildError> {
    let failed = |source| BuildError::io("unpacking the Go toolchain", source);
    let zipped = |error| failed(std::io::Error::other(error));
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let total = archive.len() as u64;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(zipped)?;
        let Some(path) = entry.enclosed_name() else {
            return Err(failed(std::io::Error::other("a name that leads outside")));
        };
        // Everything lies below `golang.org/toolchain@<version>`.
        let inner: PathBuf = path.components().skip(2).collect();
        if entry.is_dir() || inner.as_os_str().is_empty() {
            continue;
        }
        let path = to.join(unhidden(&inner));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = fs::File::create(&path).map_err(failed)?;
        let mut go_on = |_| !job.attendant.is_called_off();
        let mut reader = Asking {
            inner: entry.by_ref(),
            go_on: &mut go_on,
            done: 0,
            next: 0,
        };
        std::io::copy(&mut reader, &mut file).map_err(|error| {
            if crate::digest::is_stop(&error) {
                BuildError::CalledOff
            } else {
                failed(error)
            }
        })?;
        if is_program(&inner) {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        if index % 256 == 0 {
            job.attendant.hear(News::Amount {
                done: index as u64,
                total: Some(total),
                unit: Unit::Packages,
            });
        }
    }
    Ok(())
}

/// A module's zip cannot hold the go.mod of another module: the two of Go's own library are hidden by a name.
fn unhidden(inner: &Path) -> PathBuf {
    if inner.file_name().is_some_and(|name| name == "_go.mod") {
        inner.with_file_name("go.mod")
    } else {
        inner.to_owned()
    }
}

/// The name that a file of the toolchain has in the zip.
fn hidden(inner: &Path) -> PathBuf {
    if inner.file_name().is_some_and(|name| name == "go.mod") {
        inner.with_file_name("_go.mod")
    } else {
        inner.to_owned()
    }
}

/// A module's zip does not say what is a program: these folders hold nothing else.
fn is_program(inner: &Path) -> bool {
    inner.starts_with("bin") || inner.starts_with("pkg/tool")
}
