//! Building one program.

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use mullion_catalog::{ArtifactRef, GoBuild, GoModule};
use mullion_plan::{News, Unit};

use super::modules::{self, Fetched, read};
use super::patch::{self, Patched};
use super::wrapper;
use crate::build::BuildError;
use crate::job::Job;
use crate::process::{self, Worth};
use crate::record::{Draft, Module, Origin};
use crate::store::Entry;

/// Builds a program into its place in the cache.
pub(crate) fn build(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: &ArtifactRef,
    build: &GoBuild,
) -> Result<PathBuf, BuildError> {
    let module = &build.module;
    let mut name = format!("go-{}@{}", module.path, module.version);
    // Two builds of one module would compile the same packages twice, and write one go.sum.
    let mut what = format!("module {} {}", module.path, module.version);
    if !build.patches.is_empty() {
        // Patched source has little in common with the rest.
        name = format!("{name}-{}", artifact.name);
        what = format!("{what} for {}", artifact.name);
    }
    let _turn = job.store.lock_named(&name, &what, job.attendant)?;
    let place = job.store.work(&name)?;
    let fetched = modules::module(job, module, &place)?;
    let patched = patch::prepare(job, build, &fetched, &place)?;
    write_wrapper(&place, module, &fetched, &patched)?;

    let file = (artifact.file.clone()).unwrap_or_else(|| entry.item.default_file());
    let new = entry.temporary(&file)?;
    let maker = Maker {
        job,
        build,
        fetched: &fetched,
        patched: &patched,
        place: &place,
    };
    let total = maker.count_stale()?;
    maker.make(&new, total)?;
    let modules = maker.modules_in(&new)?;
    patch::clear(&place)?;

    let mut draft = Draft::new(entry.item.clone(), file, Origin::Build);
    draft.modules = modules;
    draft
        .tools
        .insert("go".into(), fetched.go.version.to_string());
    draft.patches = (build.patches.iter())
        .map(|patch| patch.name.clone())
        .collect();
    Ok(entry.hash_and_keep(&new, draft, job.attendant)?)
}

fn write_wrapper(
    place: &Path,
    module: &GoModule,
    fetched: &Fetched,
    patched: &Patched,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::io("writing the wrapper module", source);
    let upstream = read(&fetched.folder.join("go.mod"))?;
    let text = wrapper::go_mod(module, &upstream, &patched.folders);
    fs::write(place.join("go.mod"), text).map_err(failed)?;
    // Sums that the Go tool added for an earlier program are as good as new: the checksum database vouched for them.
    let sums = place.join("go.sum");
    let known = fetched.folder.join("go.sum");
    if !sums.exists() && known.exists() {
        let text = read(&known)?;
        let new = place.join("go.sum.new");
        fs::write(&new, text).map_err(failed)?;
        fs::rename(&new, &sums).map_err(failed)?;
    }
    Ok(())
}

struct Maker<'a> {
    job: &'a Job<'a>,
    build: &'a GoBuild,
    fetched: &'a Fetched,
    patched: &'a Patched,
    place: &'a Path,
}

impl Maker<'_> {
    fn command(&self) -> Result<Command, BuildError> {
        let build = self.build;
        let go = &self.fetched.go;
        let mut command = go.command(self.job, self.place, Some(&build.module))?;
        command
            .env("GOOS", build.goos.to_string())
            .env("CGO_ENABLED", if build.cgo { "1" } else { "0" });
        Ok(command)
    }

    fn flags(&self, command: &mut Command) {
        let build = self.build;
        command.args(["-trimpath", "-buildvcs=false"]);
        if let Some(overlay) = &self.patched.overlay {
            command.arg("-overlay").arg(overlay);
        }
        if !build.tags.is_empty() {
            command.args(["-tags", &build.tags.join(",")]);
        }
        if !build.ldflags.is_empty() {
            command.args(["-ldflags", &build.ldflags]);
        }
    }

    /// How many packages are not in Go's cache yet. Resolves and downloads every module on the way.
    fn count_stale(&self) -> Result<u64, BuildError> {
        let build = self.build;
        let mut command = self.command()?;
        command.args(["list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"]);
        if build.test_binary {
            command.arg("-test");
        }
        self.flags(&mut command);
        command.arg(&build.package);
        let ran = self.run(
            "go list",
            "finding the packages",
            &mut command,
            &mut |line| self.job.pass_on(line),
        )?;
        let packages = ran.stdout.split(|byte| *byte == b'\n');
        Ok(packages.filter(|line| !line.is_empty()).count() as u64)
    }

    fn make(&self, new: &Path, total: u64) -> Result<(), BuildError> {
        let build = self.build;
        let mut command = self.command()?;
        command.args(if build.test_binary {
            &["test", "-c"][..]
        } else {
            &["build"][..]
        });
        command.arg("-v");
        self.flags(&mut command);
        command.arg("-o").arg(new).arg(&build.package);
        let mut done = 0;
        self.job.attendant.hear(News::Amount {
            done,
            total: Some(total),
            unit: Unit::Packages,
        });
        let ran = self.run("go build", "building", &mut command, &mut |line| {
            self.job.say(line);
            // A line that is one word is a package whose turn has come.
            if !line.is_empty() && !line.starts_with('#') && !line.contains([' ', '\t']) {
                done += 1;
                self.job.attendant.hear(News::Amount {
                    done: done.min(total),
                    total: Some(total),
                    unit: Unit::Packages,
                });
                return Worth::Progress;
            }
            Worth::Telling
        });
        ran.map(drop)
    }

    /// The modules that are in a program, by its own word.
    fn modules_in(&self, program: &Path) -> Result<Vec<Module>, BuildError> {
        let mut command = self.command()?;
        command.args(["version", "-m"]).arg(program);
        let ran = self.run("go version", "reading", &mut command, &mut |_| {
            Worth::Telling
        })?;
        let mut modules = parse_modules(&String::from_utf8_lossy(&ran.stdout));
        // A module that a folder replaces goes by the folder's name, and has no sum.
        let copied = self.patched.modules.iter();
        for module in copied.chain([&self.fetched.module]) {
            if !modules.iter().any(|one| one.path == module.path) {
                modules.push(module.clone());
            }
        }
        modules.sort();
        Ok(modules)
    }

    fn run(
        &self,
        tool: &str,
        doing: &str,
        command: &mut Command,
        on_line: &mut dyn FnMut(&str) -> Worth,
    ) -> Result<process::Ran, BuildError> {
        process::run(tool, command, self.job.attendant, on_line)
            .map_err(|source| BuildError::tool(format!("{doing} {}", self.build.package), source))
    }
}

/// The `mod`, `dep` and `=>` lines of `go version -m`. A replaced module counts as what replaces it.
pub(crate) fn parse_modules(text: &str) -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    for line in text.lines() {
        let mut words = line.trim().split('\t');
        let verb = words.next().unwrap_or_default();
        if !matches!(verb, "mod" | "dep" | "=>") {
            continue;
        }
        let mut word = || words.next().unwrap_or_default().to_owned();
        let module = Module {
            path: word(),
            version: word(),
            sum: word(),
        };
        if verb == "=>" {
            modules.pop();
        }
        modules.push(module);
    }
    // The wrapper itself is a module of no version, and so is a folder.
    modules.retain(|module| !module.version.is_empty() && module.version != "(devel)");
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_tells_its_modules() {
        let text = "a: go1.26.8\n\tpath\tk8s.io/x\n\tmod\tk8s.io/x\tv1\th1:a=\n\tdep\tb\tv2\th1:b=\n\tdep\tc\tv0.0.0\n\t=>\tc\tv3\th1:c=\n\tbuild\t-compiler=gc\n";
        let told: Vec<_> = parse_modules(text)
            .into_iter()
            .map(|module| format!("{} {} {}", module.path, module.version, module.sum))
            .collect();
        assert_eq!(told, ["k8s.io/x v1 h1:a=", "b v2 h1:b=", "c v3 h1:c="]);
        // As Go 1.26 tells of a module that a folder replaces.
        let text = "a: go1.26.8\n\tdep\tb\tv2\th1:b=\n\tdep\tc\tv1\n\t=>\t./patched/c\t(devel)\t\n";
        let told = parse_modules(text);
        assert_eq!((told.len(), told[0].path.as_str()), (1, "b"));
    }
}
