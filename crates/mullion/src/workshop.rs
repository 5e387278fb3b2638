//! What commands that touch the world share: everything that was read, put together for the adapter.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use mullion_artifacts::{Claims, Custody, GoCaches, GoSource, Ledger, Sources};
use mullion_catalog::Model;
use mullion_live::{
    Adapter, Agent, ClusterState, GivenKey, LoginKey, Outfit, UserArchive, UserFile, key_name,
    place_name,
};
use mullion_rights::Opened;
use mullion_spec::cluster::{Carrier, Cluster, ControlPlane, Login};
use mullion_spec::value::SecretRef;
use mullion_spec::words::Os;
use mullion_ssh::Key;
use mullion_wire::{Content, Secret, Sha256Digest};

use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::views::reads::secrets;
use crate::{agent_program, windows_parts};

/// A file of the user's that is larger is not taken along in the document, but brought by itself.
const INLINE: u64 = 64 * 1024;

/// A key or a kubeconfig of the user's is not larger.
const MOST_TEXT: u64 = 16 << 20;

/// A file that is copied to machines is not larger: the whole of it is read for each plan.
const MOST_COPIED: u64 = 4 << 30;

/// An archive of images is not larger: the whole of it is read for each plan.
const MOST_IMPORTED: u64 = 16 << 30;

/// A patch for kubeadm, or a file of certificates, is not larger.
const MOST_SETTINGS: u64 = 16 << 20;

/// This program, also where its file was replaced or removed since it started.
const OWN: &str = "/proc/self/exe";

/// Adapter for a model's cluster.
pub fn open<'a>(model: &'a Model, environment: &Environment) -> Result<Adapter<'a>, Failure> {
    let words = mullion_catalog::Catalog::builtin().drivers();
    let drivers = words.filter_map(|(word, _)| {
        let driver = mullion_machines::maker(word, &environment.place, Path::new(OWN))?;
        Some((word, driver))
    });
    Adapter::new(model, outfit(model, environment)?, drivers.collect()).map_err(|error| {
        Failure::new(Class::ThisComputer, "the cluster cannot be worked on").because(&error)
    })
}

fn outfit(model: &Model, environment: &Environment) -> Result<Outfit, Failure> {
    let cluster = model.cluster();
    let existing = match &cluster.control_plane {
        ControlPlane::Existing { kubeconfig, .. } => {
            let path = environment.path_of(kubeconfig);
            let text = Opened::by_invoker(&path)
                .and_then(|file| file.text(MOST_TEXT))
                .map_err(|error| unread(&path, "the kubeconfig of the existing cluster", &error))?;
            Some(Secret::new(text))
        }
        ControlPlane::Made { .. } => None,
    };
    let agent = agent_program::find(std::env::current_exe().ok().as_deref())?;
    Ok(Outfit {
        state: environment.state.clone(),
        cache: environment.cache_of(cluster)?,
        custody: custody(cluster, environment),
        place: environment.place.clone(),
        agent: Agent::new(agent, env!("CARGO_PKG_VERSION")),
        windows: windows_parts::find()?,
        sources: sources(model, environment),
        contents: contents(model, environment)?,
        images: archives(cluster, environment),
        keys: keys(model, environment)?,
        given_key: given_key(&cluster.ssh_key, environment),
        existing,
        owner: mullion_rights::invoker().map_or_else(
            || rustix::process::getuid().as_raw(),
            |invoker| invoker.user,
        ),
    })
}

/// The archives that the user gave of images for Linux nodes.
pub fn archives(cluster: &Cluster, environment: &Environment) -> Vec<UserArchive> {
    let images = cluster.images.iter();
    let images = images.filter(|image| image.os == Os::Linux);
    images
        .filter_map(|image| Some((&image.reference, image.archive.as_deref()?)))
        .map(|(reference, archive)| {
            let path = environment.path_of(archive);
            let opened = Opened::by_invoker(&path);
            let opened = opened.and_then(|file| file.at_most(MOST_IMPORTED).map(|()| file));
            UserArchive::new(path, reference, opened)
        })
        .collect()
}

/// Who answers for what is in the cache of a cluster.
pub fn custody(cluster: &Cluster, environment: &Environment) -> Custody {
    let path_of = |path: &PathBuf| environment.path_of(path);
    Custody {
        ledger: Ledger::new(environment.state.join("artifacts")),
        is_named: cluster.artifacts.cache.is_some(),
        owner: mullion_rights::invoker().map(|invoker| (invoker.user, invoker.group)),
        claims: Claims::new(
            cluster.artifacts.mirror.clone(),
            cluster.artifacts.digests.as_ref().map(path_of),
            cluster.trust.iter().map(path_of).collect(),
        ),
    }
}

/// Where parts may come from: what the file says, and this computer's own way out for what it does not.
pub fn sources(model: &Model, environment: &Environment) -> Sources {
    let cluster = model.cluster();
    let given = |name: &str| {
        let value = environment.values.get(name)?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let either = |lower: &str, upper: &str| given(lower).or_else(|| given(upper));
    let mut proxy = cluster.proxy.clone();
    proxy.http = proxy.http.or_else(|| either("http_proxy", "HTTP_PROXY"));
    proxy.https = proxy
        .https
        .or_else(|| either("https_proxy", "HTTPS_PROXY"))
        .or_else(|| either("all_proxy", "ALL_PROXY"));
    if proxy.no.is_empty()
        && let Some(no) = either("no_proxy", "NO_PROXY")
    {
        proxy.no = no.split(',').map(|host| host.trim().to_owned()).collect();
    }
    let trust = cluster.trust.iter().map(|path| environment.path_of(path));
    let mut sources = Sources::of(&cluster.artifacts, &proxy, trust.collect());
    sources.bundle = sources.bundle.map(|path| environment.path_of(&path));
    sources.digests = sources.digests.map(|path| environment.path_of(&path));
    sources.go = GoSource {
        program: find_program("go", environment),
        module_proxy: None,
        caches: match mullion_rights::invoker() {
            Some(_) => GoCaches::Ours,
            None => GoCaches::Users,
        },
    };
    sources.environment = environment
        .values
        .iter()
        .filter_map(|(name, value)| Some(((*name).to_owned(), value.to_str()?.to_owned())))
        .collect();
    sources
}

/// Every variable that the file says holds a secret.
pub fn secret_variables(cluster: &Cluster) -> BTreeSet<&str> {
    let places = secrets(cluster).into_iter();
    let names = places.filter_map(|(place, _)| match place {
        SecretRef::Env(name) => Some(name.as_str()),
        SecretRef::File(_) => None,
    });
    names.collect()
}

fn find_program(name: &str, environment: &Environment) -> Option<PathBuf> {
    let path = environment.values.get("PATH")?;
    let mut files = std::env::split_paths(path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

fn unread(path: &Path, what: &str, error: &dyn std::error::Error) -> Failure {
    Failure::new(
        Class::File,
        format!("{what} cannot be read: `{}`", path.display()),
    )
    .because(error)
}

/// What is in every file that the cluster file names, as planning takes it.
pub fn texts(
    model: &Model,
    environment: &Environment,
) -> Result<BTreeMap<PathBuf, Content>, Failure> {
    let contents = contents(model, environment)?.into_iter();
    Ok(contents.map(|(path, file)| (path, file.content)).collect())
}

/// Contents of every file that the cluster file names.
fn contents(
    model: &Model,
    environment: &Environment,
) -> Result<BTreeMap<PathBuf, UserFile>, Failure> {
    let cluster = model.cluster();
    let copies = cluster.groups.iter().flat_map(|group| &group.files);
    // The stricter limit first: it counts for a file that is named twice.
    let settings = cluster.kubernetes.patches.iter().chain(&cluster.trust);
    let named = settings
        .map(|path| (path, MOST_SETTINGS))
        .chain(copies.map(|copy| (&copy.from, MOST_COPIED)));
    let mut contents = BTreeMap::new();
    for (name, limit) in named {
        if contents.contains_key(name) {
            continue;
        }
        let path = environment.path_of(name);
        let file = Opened::by_invoker(&path)
            .and_then(|opened| read_content(opened, limit))
            .map_err(|error| unread(&path, "a file of yours", &error))?;
        contents.insert(name.clone(), file);
    }
    Ok(contents)
}

fn read_content(opened: Opened, limit: u64) -> std::io::Result<UserFile> {
    opened.at_most(limit)?;
    let text = (opened.size() <= INLINE).then(|| opened.text(INLINE));
    let content = if let Some(Ok(text)) = text {
        Content::Text(text)
    } else {
        // One that grows meanwhile is cut, and is not what a machine then gets: the digest says so.
        let (sha256, size) = Sha256Digest::of_reader(opened.reader().take(limit))?;
        Content::Stored { sha256, size }
    };
    Ok(UserFile { content, opened })
}

/// The keys of machines and hosts that exist already.
pub fn keys(model: &Model, environment: &Environment) -> Result<BTreeMap<String, Key>, Failure> {
    let cluster = model.cluster();
    let of_groups = cluster
        .groups
        .iter()
        .filter_map(|group| match &group.carrier {
            Carrier::Existing { login, .. } => Some(login),
            Carrier::Made { .. } => None,
        });
    // Machines that the file no longer has may still be ours to give back.
    let state = ClusterState::find(&environment.state, &cluster.name);
    let left = state.map(|state| state.left(cluster)).transpose();
    let left = left.map_err(|error| {
        Failure::new(Class::ThisComputer, "the cluster's state cannot be read").because(&error)
    })?;
    let left = left.unwrap_or_default();
    let logins = of_groups
        .chain(cluster.hosts.iter().map(|host| &host.login))
        .chain(left.values().map(|taken| &taken.login));
    let mut keys = BTreeMap::new();
    for login in logins {
        if let Some(key) = key(login, environment)? {
            keys.insert(key_name(login), key);
        }
    }
    Ok(keys)
}

fn key(login: &Login, environment: &Environment) -> Result<Option<Key>, Failure> {
    Ok(match &login.key {
        Some(SecretRef::File(path)) => {
            let path = environment.path_of(path);
            let read = |error: &std::io::Error| unread(&path, "a login key", error);
            match Opened::by_invoker(&path) {
                // One that is not there is told by whoever wants to log in: planning can do without.
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(read(&error)),
                // It is read again later, and then by root.
                Ok(file) if mullion_rights::is_root_by_default() => {
                    let text = file.text(MOST_TEXT).map_err(|error| read(&error))?;
                    Some(Key::Pem(Secret::new(text)))
                }
                Ok(file) => {
                    file.at_most(MOST_TEXT).map_err(|error| read(&error))?;
                    Some(Key::File(path))
                }
            }
        }
        Some(SecretRef::Env(name)) => {
            let text = std::env::var(name).map_err(|error| {
                Failure::new(
                    Class::File,
                    format!("the variable `{name}`, which should hold a login key, cannot be read"),
                )
                .because(&error)
            })?;
            Some(Key::Pem(Secret::new(text)))
        }
        None => environment.ssh_agent().map(|socket| Key::Agent {
            socket: socket.into(),
        }),
    })
}

/// The user's own key for machines that are made; none where one is generated.
pub fn given_key(
    wish: &mullion_spec::value::Secret,
    environment: &Environment,
) -> Option<GivenKey> {
    let mullion_spec::value::Secret::Given(place) = wish else {
        return None;
    };
    let read = || {
        let (text, path) = match place {
            SecretRef::File(path) => {
                let path = environment.path_of(path);
                let file = Opened::by_invoker(&path).map_err(|error| error.to_string())?;
                let text = file.text(MOST_TEXT).map_err(|error| error.to_string())?;
                (text, Some(path))
            }
            SecretRef::Env(name) => {
                let text = std::env::var(name).map_err(|error| error.to_string())?;
                (text, None)
            }
        };
        let text = Secret::new(text);
        let public = mullion_ssh::public_key(&text).map_err(|error| error.to_string())?;
        let private = match path {
            // What is read again later is read by root, and must be what the user may read.
            Some(path) if !mullion_rights::is_root_by_default() => Key::File(path),
            _ => Key::Pem(text),
        };
        Ok(LoginKey { private, public })
    };
    Some(GivenKey {
        place: place_name(place),
        key: read(),
    })
}

/// What of a cluster's making needs root on this computer, in words; nothing where nothing does.
pub fn needs_root(model: &Model) -> Vec<String> {
    let catalog = mullion_catalog::Catalog::builtin();
    let mut groups = model.cluster().groups.iter();
    let is_made = groups.any(|group| match &group.carrier {
        Carrier::Made { driver, host, .. } => {
            host.is_none() && catalog.driver(*driver).needs_root && !group.numbers.is_empty()
        }
        Carrier::Existing { .. } => false,
    });
    if !is_made {
        return Vec::new();
    }
    [
        "build templates",
        "make the machines' network",
        "make, start and remove machines on this computer",
    ]
    .map(str::to_owned)
    .into()
}

/// What of a cluster's making or end needs root on this computer: machines that an earlier file had must be removed, too.
pub fn reasons_for_root(model: &Model, environment: &Environment) -> Vec<String> {
    let mut reasons = needs_root(model);
    if reasons.is_empty() && has_machines_here(model, environment) {
        reasons.push("remove machines on this computer".into());
    }
    reasons
}

/// Whether anything of the cluster was made on this computer.
fn has_machines_here(model: &Model, environment: &Environment) -> bool {
    mullion_machines::has_machines(&environment.place, &model.cluster().name)
}

#[cfg(test)]
mod tests {
    use mullion_catalog::MachineOrigin;
    use mullion_spec::draft::{Draft, Surroundings};
    use mullion_spec::source::Source;

    use super::*;

    #[test]
    fn every_variable_that_holds_a_secret_is_known() {
        let text = "\
            access: {sshKey: {env: MADE}}\n\
            machines:\n\
            - {name: cp, role: control-plane, addresses: [192.0.2.1], ssh: {key: {env: LOGIN}}}\n\
            - {name: lin, addresses: [192.0.2.2], ssh: {key: {file: id}}}\n\
            - {name: far, driver: libvirt, host: big}\n\
            hosts:\n\
            - {name: big, address: 192.0.2.3, ssh: {key: {env: HOST}}}\n";
        let draft = Draft::read(Source::new("f", text), &Surroundings::default());
        let judgement = mullion_catalog::Catalog::with_later_drivers().judge(draft);
        let model = judgement
            .model
            .unwrap_or_else(|| panic!("{:?}", judgement.verdict));
        assert_eq!(
            Vec::from_iter(secret_variables(model.cluster())),
            ["HOST", "LOGIN", "MADE"]
        );
    }

    #[test]
    fn the_user_s_own_key_is_the_login_key_of_machines_that_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path().to_owned(), |_| None);
        let given = |wish: &str| {
            let text = format!("machines: {{linux: 1}}\naccess: {{sshKey: {wish}}}\n");
            let judgement = crate::file::judge(Source::new("f", &text), &Surroundings::default());
            let model = judgement.model.unwrap();
            given_key(&model.cluster().ssh_key, &environment)
        };
        assert!(given("generated").is_none());
        let pair = mullion_ssh::generate_key().unwrap();
        fs_err::write(folder.path().join("id"), pair.private.reveal()).unwrap();
        let key = given("{file: id}").unwrap();
        assert_eq!(key.place, "file id");
        assert_eq!(key.key.unwrap().public, pair.public);
        // What cannot be used is told where a login needs it, and not before.
        let missing = given("{file: none}").unwrap().key.unwrap_err();
        assert!(missing.contains("No such file"), "{missing}");
        fs_err::write(folder.path().join("id"), "no key").unwrap();
        assert!(given("{file: id}").unwrap().key.is_err());
        let unset = given("{env: MULLION_TEST_NO_SUCH_KEY}").unwrap();
        assert!(unset.key.is_err());
    }

    #[test]
    fn the_catalog_offers_the_drivers_whose_code_is_compiled_in_and_no_other() {
        let place = Path::new("/nowhere");
        for (driver, facts) in mullion_catalog::Catalog::builtin().drivers() {
            // The engine itself has the driver of machines that exist already.
            let is_compiled_in = match facts.machines {
                MachineOrigin::Existing => true,
                MachineOrigin::Made => mullion_machines::maker(driver, place, place).is_some(),
            };
            assert_eq!(
                facts.available, is_compiled_in,
                "`available` of driver `{driver}` in drivers.toml"
            );
        }
    }

    #[test]
    fn promise_10_the_sources_that_a_file_names_are_what_its_cache_is_held_to() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("SHA256SUMS"), "").unwrap();
        fs_err::write(folder.path().join("ca.pem"), "").unwrap();
        let environment = Environment::new(folder.path().to_owned(), |_| None);
        let whole = |text: &str| {
            let judgement = crate::file::judge(Source::new("f", text), &Surroundings::default());
            let model = judgement
                .model
                .unwrap_or_else(|| panic!("{:?}", judgement.verdict));
            custody(model.cluster(), &environment).claims.whole()
        };
        let machines = "machines: {linux: 1}\nmetadata: {name: demo}\n";
        assert_eq!(whole(machines), None);
        let sources = "artifacts: {mirror: 'http://m.example', digests: SHA256SUMS}\ntrust: [{file: ca.pem}]\n";
        let scope = whole(&format!("{machines}{sources}")).unwrap();
        for word in ["mirror http://m.example", "trust ", "digests "] {
            assert!(scope.contains(word), "{scope}");
        }
        assert!(!scope.contains("unreadable"), "{scope}");
    }
}
