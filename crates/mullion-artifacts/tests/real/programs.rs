//! Programs and images.

use mullion_artifacts::{BuildError, SupplyError, toolchain};
use mullion_plan::{Unattended, Unit};
use mullion_spec::words::BuildPolicy;

use super::*;

const REASON: &str = "built here";

#[test]
#[ignore = "needs the package registries and builds for minutes; cargo xtask test --slow runs it"]
fn every_part_of_a_linux_cluster_can_be_had() {
    let store = store();
    for artifact in &artifacts() {
        let Some(part) = part_of(artifact) else {
            continue;
        };
        if matches!(artifact.build, Some(Build::Parts { .. })) {
            continue;
        }
        let path = timed(&store, &part);
        assert!(store.has(&part), "{part}");
        let record = store.record(&Item::Part(part.clone())).unwrap();
        assert_eq!(hash(&path), record.sha256.as_str(), "{part}");
        if record.origin == Origin::Build {
            assert!(!record.modules.is_empty(), "{part}: {REASON}");
        }
    }
}

/// A cache of its own, in a folder of its own.
fn elsewhere() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(&folder.path().join("cache")).unwrap();
    (folder, store)
}

#[test]
#[ignore = "needs the package registries and builds for minutes; cargo xtask test --slow runs it"]
fn a_program_is_the_same_wherever_it_is_built() {
    // One plain, one with C in it, one of C alone.
    for name in ["portmap", "flanneld", "pause"] {
        let part = part(name, PartKind::Program);
        let hashes = [elsewhere(), elsewhere()].map(|(_, store)| hash(&timed(&store, &part)));
        assert_eq!(hashes[0], hashes[1], "{name}");
    }
}

#[test]
#[ignore = "needs root and the package registries; cargo xtask test --slow runs it"]
fn an_image_on_the_distributions_layer_is_the_same_whenever_it_is_made() {
    let program = part("flanneld", PartKind::Program);
    let built = timed(&store(), &program);
    let hashes = [elsewhere(), elsewhere()].map(|(_, store)| {
        let item = Item::Part(program.clone());
        store.put(&item, &built, &Unattended).unwrap();
        hash(&timed(&store, &part("flanneld", PartKind::Image)))
    });
    assert_eq!(hashes[0], hashes[1]);
}

/// Hears how many packages are done, of how many, and may call the build off on the way.
#[derive(Default)]
struct Watch {
    heard: Mutex<Vec<(u64, Option<u64>)>>,
    /// Calls off when the turn of more than so many has come.
    off_after: Option<u64>,
}

impl Attend for Watch {
    fn hear(&self, news: News) {
        if let News::Amount {
            done,
            total,
            unit: Unit::Packages,
        } = news
        {
            self.heard.lock().unwrap().push((done, total));
        }
    }
    fn is_called_off(&self) -> bool {
        let heard = self.heard.lock().unwrap();
        let done = heard.last().map_or(0, |(done, _)| *done);
        self.off_after.is_some_and(|limit| done > limit)
    }
}

impl Watch {
    /// How many are done in the end, of how many: more and more of what stays as many.
    #[track_caller]
    fn end(&self) -> (u64, u64) {
        let heard = self.heard.lock().unwrap();
        let (first, last) = (heard.first().unwrap(), heard.last().unwrap());
        assert_eq!(first.0, 0);
        for pair in heard.windows(2) {
            assert!(pair[0].0 <= pair[1].0 && pair[0].1 == pair[1].1, "{pair:?}");
        }
        (last.0, last.1.unwrap())
    }
}

#[test]
#[ignore = "needs the package registries; cargo xtask test --slow runs it"]
fn a_build_that_is_called_off_leaves_nothing_and_goes_on_with_what_is_built() {
    const ENOUGH: u64 = 60;
    let (folder, store) = elsewhere();
    let mut sources = sources();
    // A Go that is fetched on the way counts its files.
    let go = toolchain(&store, &sources, &Unattended).unwrap();
    sources.go.program = Some(go.program);
    sources.build = BuildPolicy::Always;
    // Nothing is compiled yet.
    let cache = folder.path().join("go-build").display().to_string();
    sources.environment.insert("GOCACHE".into(), cache);
    let part = part("loopback", PartKind::Program);

    let impatient = Watch {
        off_after: Some(ENOUGH),
        ..Watch::default()
    };
    let error = supply(&store, &artifacts(), &part, &sources, &impatient).unwrap_err();
    assert!(matches!(error, SupplyError::CalledOff), "{error:?}");
    assert!(!store.has(&part));
    let (done, all) = impatient.end();
    assert!(ENOUGH < done && done < all, "{done} of {all}");

    let patient = Watch::default();
    supply(&store, &artifacts(), &part, &sources, &patient).unwrap();
    assert!(store.has(&part));
    let (done, left) = patient.end();
    eprintln!("{all} packages, {left} after it was called off");
    assert!(left < all, "{left} of {all} are left");
    assert_eq!(done, left);
}

#[test]
#[ignore = "needs the package registries; cargo xtask test --slow runs it"]
fn a_module_that_is_not_the_pinned_one_is_refused() {
    let (_folder, store) = elsewhere();
    let mut all = artifacts();
    for artifact in &mut all {
        if let Some(Build::Go(build)) = &mut artifact.build {
            build.module.sum = "h1:08GT0ZOMtyCcRnslyvnpWurf1wm20KHbC/aRS+0LxSp="
                .parse()
                .unwrap();
        }
    }
    let part = part("portmap", PartKind::Program);
    let error = supply(&store, &all, &part, &sources(), &Unattended).unwrap_err();
    let SupplyError::Build { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(**source, BuildError::Sum { .. }), "{error:?}");
    assert!(error.hints()[0].contains("pinned"));
}

#[test]
#[ignore = "needs the package registries; cargo xtask test --slow runs it"]
fn a_build_that_fails_shows_the_compilers_last_lines() {
    let (_folder, store) = elsewhere();
    let mut all = artifacts();
    for artifact in &mut all {
        if let Some(Build::Go(build)) = &mut artifact.build {
            build.cgo = true;
            build.ldflags = "-linkmode external -extld /no/such/linker".into();
        }
    }
    let part = part("loopback", PartKind::Program);
    let error = supply(&store, &all, &part, &sources(), &Unattended).unwrap_err();
    let step = error.to_step_error();
    assert!(
        step.tail.join("\n").contains("/no/such/linker"),
        "{step:#?}"
    );
    assert!(step.tail.len() <= 20);
    assert!(!store.has(&part));
}

#[test]
#[ignore = "needs the package registries; cargo xtask test --slow runs it"]
fn a_go_is_fetched_where_there_is_none_and_builds() {
    let (_folder, store) = elsewhere();
    let mut without = sources();
    without.go.program = None;
    let begun = Instant::now();
    let go = toolchain(&store, &without, &Loud::new()).unwrap();
    eprintln!("Go {}: {:.1} s", go.version, begun.elapsed().as_secs_f64());
    assert!(go.program.starts_with(store.folder()));
    assert_eq!(go.version, mullion_artifacts::NEWEST_GO);
    // The second time it is there.
    assert_eq!(toolchain(&store, &without, &Unattended).unwrap(), go);
    let part = part("loopback", PartKind::Program);
    supply(&store, &artifacts(), &part, &without, &Loud::new()).unwrap();
    let record = store.record(&Item::Part(part)).unwrap();
    assert_eq!(record.tools["go"], go.version.to_string());
    // What is given as Go and is none is passed over.
    without.go.program = Some("/bin/true".into());
    assert_eq!(toolchain(&store, &without, &Unattended).unwrap(), go);
}

#[test]
#[ignore = "needs the package registries; cargo xtask test --slow runs it"]
fn a_program_for_windows_is_built_too() {
    let artifacts = artifacts_for(Os::Windows);
    let mut parts = artifacts.iter().filter_map(part_of);
    let wanted = parts.find(|part| part.name == "win-overlay").unwrap();
    let path = supply(&store(), &artifacts, &wanted, &sources(), &Loud::new())
        .unwrap_or_else(|error| panic!("{:#?}", error.to_step_error()));
    assert!(path.ends_with("win-overlay.exe"), "{}", path.display());
    assert_eq!(&fs::read(path).unwrap()[..2], b"MZ");
}

#[test]
#[ignore = "needs the package registries and builds for minutes; cargo xtask test --slow runs it"]
fn the_stand_ins_kubelet_is_built_with_its_patches() {
    let artifacts = artifacts_for(Os::Windows);
    let mut parts = artifacts.iter().filter_map(part_of);
    let wanted = parts.find(|part| part.name == "kubelet-stand-in").unwrap();
    let store = store();
    let path = supply(&store, &artifacts, &wanted, &sources(), &Loud::new())
        .unwrap_or_else(|error| panic!("{:#?}", error.to_step_error()));
    assert!(path.ends_with("kubelet.exe"), "{}", path.display());
    let program = fs::read(&path).unwrap();
    assert_eq!(&program[..2], b"MZ");
    let has = |name: &str| {
        program
            .windows(name.len())
            .any(|bytes| bytes == name.as_bytes())
    };
    // Functions that only the patches have.
    for function in ["net.loopbackListen", "AtomicWriter).writeInPlace"] {
        assert!(has(function), "{function}");
    }
    let record = store.record(&Item::Part(wanted)).unwrap();
    assert_eq!(
        record.patches.len(),
        Catalog::builtin().patches().count(),
        "{:?}",
        record.patches
    );
    // What was copied is told by what it is a copy of.
    for module in ["k8s.io/kubernetes", "k8s.io/client-go"] {
        let mut modules = record.modules.iter();
        let told = modules.find(|one| one.path == module).unwrap();
        assert!(told.sum.starts_with("h1:"), "{told:?}");
    }
}

/// Fails when upstream moved: every patch against the files that each release the catalog takes is built from.
#[test]
#[ignore = "needs the package registries; cargo xtask test --slow runs it"]
fn every_patch_fits_the_source_that_is_built() {
    let mut misfits = Vec::new();
    for minor in Catalog::builtin().kubernetes_minors() {
        let mut patched = 0;
        for artifact in artifacts_of(&minor.take.to_string(), Os::Windows) {
            let Some(Build::Go(build)) = &artifact.build else {
                continue;
            };
            for patch in &build.patches {
                let text = fs::read_to_string(source_of(patch, build)).unwrap();
                for edit in &patch.edits {
                    let found = text.matches(&edit.find).count();
                    if found != edit.times {
                        misfits.push(format!("{}: {}: {}", minor.take, patch.name, edit.find));
                    }
                }
                patched += 1;
            }
        }
        assert_eq!(patched, Catalog::builtin().patches().count());
    }
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
}

/// Where Go has a file that a patch changes, downloaded if need be.
fn source_of(patch: &Patch, build: &GoBuild) -> PathBuf {
    let go = |arguments: &[&str]| {
        let ran = std::process::Command::new("go")
            .args(arguments)
            // Only read: what is built is held to the catalog's sums.
            .env("GONOSUMDB", "k8s.io/*")
            .current_dir(env!("CARGO_TARGET_TMPDIR"))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let folder = match &patch.subject {
        PatchSubject::Go => PathBuf::from(go(&["env", "GOROOT"]).trim()).join("src"),
        PatchSubject::Module(module) => {
            let version = if *module == build.module.path {
                build.module.version.as_str()
            } else {
                build.module.staging_version.as_deref().unwrap()
            };
            let told = go(&["mod", "download", "-json", &format!("{module}@{version}")]);
            let told: serde_json::Value = serde_json::from_str(&told).unwrap();
            PathBuf::from(told["Dir"].as_str().unwrap())
        }
    };
    folder.join(&patch.file)
}
