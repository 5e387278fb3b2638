//! Tests: a Go that is too old, and what takes its place.

use std::process::Command;

use fs_err as fs;
use mullion_catalog::{Digest, GoModule, Replace};
use mullion_plan::Unattended;

use super::{Go, NEWEST, modules, toolchain};
use crate::build::BuildError;
use crate::job::Job;
use crate::sources::{GoSource, Sources};
use crate::store::{Store, TOOLCHAINS};

/// A computer with a Go of its own, where nothing outside may be asked.
struct Ground {
    folder: tempfile::TempDir,
    store: Store,
    sources: Sources,
}

impl Ground {
    /// Its Go says that it is of that version, and gets a module that needs another one.
    fn new(version: &str, needs: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let module = folder.path().join("module");
        fs::create_dir(&module).unwrap();
        fs::write(
            module.join("go.mod"),
            format!("module example.org/x\n\ngo {needs}\n"),
        )
        .unwrap();
        let script = format!(
            "#!/bin/sh\ncase $1 in\nversion) echo go version go{version} linux/amd64;;\n\
             mod) echo '{{\"Dir\": \"{}\", \"Sum\": \"h1:sum\"}}';;\nesac\n",
            module.display()
        );
        let program = folder.path().join("go");
        // By a process that ends: a child of another test could hold open for a moment what this one writes, and
        // what is open for writing cannot be run.
        let wrote = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
            .arg(&program)
            .arg(script)
            .status();
        assert!(wrote.unwrap().success());
        let store = Store::open(&folder.path().join("cache")).unwrap();
        // It is a cache before a toolchain is put into it.
        store.work("home").unwrap();
        let sources = Sources {
            go: GoSource {
                program: Some(program),
                ..GoSource::default()
            },
            offline: true,
            ..Sources::default()
        };
        Self {
            folder,
            store,
            sources,
        }
    }

    /// Puts a Go into the cache, as if it had been fetched.
    fn fetch(&self) {
        let home = format!("{TOOLCHAINS}/go{NEWEST}/bin");
        let bin = self.store.folder().join(home);
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("go"), "").unwrap();
    }

    fn job(&self) -> Job<'_> {
        Job {
            store: &self.store,
            sources: &self.sources,
            artifacts: &[],
            attendant: &Unattended,
        }
    }

    /// Gets the module; gives the Go that is to build it.
    fn module(&self) -> Result<Go, BuildError> {
        let wanted = GoModule {
            path: "example.org/x".into(),
            version: "v1.0.0".into(),
            sum: Digest::Unknown,
            in_checksum_database: true,
            replace: Replace::DropLocal,
            staging_version: None,
        };
        modules::module(&self.job(), &wanted, self.folder.path()).map(|fetched| fetched.go)
    }

    /// Whether it is the computer's own that is taken, and not the cache's.
    fn is_own(&self, go: &Go) -> bool {
        let is_own = self.sources.go.program.as_ref() == Some(&go.program);
        assert!(is_own || (go.version == NEWEST && go.program.starts_with(self.store.folder())));
        is_own
    }
}

#[test]
fn a_go_that_cannot_read_a_go_mod_of_today_is_passed_over() {
    for version in ["1.19", "1.20.14"] {
        let ground = Ground::new(version, "1.21");
        let none = toolchain::find(&ground.job()).unwrap_err();
        assert!(matches!(none, BuildError::NoGoOffline { .. }), "{none:?}");
        ground.fetch();
        let go = toolchain::find(&ground.job()).unwrap();
        assert!(!ground.is_own(&go), "{version}");
    }
    let ground = Ground::new("1.21.0", "1.21");
    assert!(ground.is_own(&toolchain::find(&ground.job()).unwrap()));
    assert!(ground.is_own(&ground.module().unwrap()));
}

#[test]
fn a_go_of_an_older_line_than_the_newest_is_not_enough_for_all() {
    let ask = |ground: &Ground| super::toolchain(&ground.store, &ground.sources, &Unattended);
    for version in ["1.19", "1.25.9"] {
        let ground = Ground::new(version, "1.21");
        let none = ask(&ground).unwrap_err();
        assert!(matches!(none, BuildError::NoGoOffline { .. }), "{none:?}");
        ground.fetch();
        assert!(!ground.is_own(&ask(&ground).unwrap()), "{version}");
    }
    for version in ["1.26.0", "1.27.1"] {
        let ground = Ground::new(version, "1.21");
        assert!(ground.is_own(&ask(&ground).unwrap()), "{version}");
    }
}

#[test]
fn a_module_that_needs_a_newer_go_is_built_with_the_fetched_one() {
    let ground = Ground::new("1.21.0", "1.25.0");
    let none = ground.module().unwrap_err();
    assert!(matches!(none, BuildError::NoGoOffline { .. }), "{none:?}");
    ground.fetch();
    assert!(!ground.is_own(&ground.module().unwrap()));
}

#[test]
fn a_module_that_needs_a_go_that_is_not_known_is_refused() {
    for (version, newest) in [("1.21.0", NEWEST.to_string()), ("1.98.0", "1.98.0".into())] {
        let ground = Ground::new(version, "1.99.1");
        ground.fetch();
        let error = ground.module().unwrap_err();
        assert!(matches!(error, BuildError::GoTooOld { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!(
                "module example.org/x@v1.0.0 needs Go 1.99.1, and the newest to be had is {newest}"
            )
        );
        assert_eq!(error.hints(), ["name a newer Go"]);
    }
}
