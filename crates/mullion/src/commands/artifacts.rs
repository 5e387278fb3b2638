//! `mullion artifacts`: programs, images and root file systems, got, built, listed, bundled and looked at again.

mod getting;
mod sharing;
mod stock;
mod verify;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mullion_artifacts::bundle::{self, BundleError};
use mullion_artifacts::{Item, Sources};
use mullion_catalog::Judgement;
use mullion_plan::{Attend, MAKE_ROOM, News, StepError, is_disk_full};
use mullion_spec::words::BuildPolicy;
use mullion_wire::duration;

use self::getting::{Heard, get_all};
use self::stock::Stock;
use super::kubectl::unusable;
use super::validate::refuse;
use crate::arguments::{ArtifactsArguments, ArtifactsVerb};
use crate::console::{BAD, Console, FAINT, Format, GOOD, WARN};
use crate::elevation::elevate;
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::invocation::Invocation;
use crate::views::artifacts::{
    ArtifactsDocument, BundleDocument, SupplyDocument, SupplyRow, SupplyTrouble, got, length,
    list as list_text, trouble,
};
use crate::views::findings::plural;
use crate::workshop;

/// The exit code of work that was called off.
const INTERRUPTED: u8 = 130;

/// Does what is asked with artifacts.
pub fn artifacts(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &ArtifactsArguments,
    environment: &Environment,
    invocation: Invocation<'_>,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let stock = Stock::new(model, environment)?;
    if matches!(wishes.verb, ArtifactsVerb::List) {
        return list(console, &stock);
    }
    match &wishes.verb {
        ArtifactsVerb::Key => return sharing::key(console, &stock),
        ArtifactsVerb::Adopt => return sharing::adopt(console, &stock),
        ArtifactsVerb::Import {
            bundle,
            bundle_key,
            digests,
        } => {
            let folder = &environment.folder;
            let digests = digests.as_ref().map(|file| folder.join(file));
            let vouch = sharing::vouch(bundle_key.as_ref(), digests.as_deref())?;
            return sharing::import(console, &stock, &folder.join(bundle), &vouch);
        }
        _ => {}
    }
    if let ArtifactsVerb::Verify { bundle } = &wishes.verb {
        return match bundle {
            None => verify::cache(console, &stock),
            Some(file) => verify::bundle(console, &stock, file, &environment.folder),
        };
    }
    stock
        .store
        .check_use()
        .map_err(|error| unusable(stock.store.folder(), &error))?;
    let reasons: Vec<_> = stock.needs_root().into_iter().collect();
    elevate(console, environment, model, invocation.arguments, &reasons)?;
    let mut sources = workshop::sources(model, environment);
    if matches!(wishes.verb, ArtifactsVerb::Build) {
        sources.build = BuildPolicy::Always;
    }
    let errand = Errand {
        sources,
        is_verbose: invocation.is_verbose,
    };
    match &wishes.verb {
        ArtifactsVerb::Bundle { file } => write_bundle(console, &stock, &errand, file, environment),
        _ => fetch(console, &stock, &errand),
    }
}

struct Errand {
    sources: Sources,
    is_verbose: bool,
}

fn list(console: &mut Console<'_>, stock: &Stock<'_>) -> Result<u8, Failure> {
    let document = ArtifactsDocument {
        cluster: stock.cluster(),
        cache: stock.folder(),
        artifacts: stock.items.iter().map(|item| stock.row(item)).collect(),
    };
    match console.format {
        Format::Json => console.json("Artifacts", &document)?,
        Format::Text => console.out.write_all(list_text(&document).as_bytes())?,
    }
    Ok(0)
}

fn fetch(console: &mut Console<'_>, stock: &Stock<'_>, errand: &Errand) -> Result<u8, Failure> {
    let supplied = get_everything(console, stock, errand)?;
    let code = supplied.code();
    let document = supplied.document;
    if console.format == Format::Json {
        console.json("Supply", &document)?;
        return Ok(code);
    }
    if document.complete {
        let done = console.styled_err(GOOD, "done");
        let size: u64 = document
            .artifacts
            .iter()
            .filter_map(|row| row.artifact.size)
            .sum();
        let took = duration::shown(std::time::Duration::from_millis(document.took_ms));
        writeln!(
            console.err,
            "{done}: {}, {} in {} after {took}",
            plural(document.artifacts.len(), "artifact"),
            length(size),
            document.cache
        )?;
    }
    Ok(code)
}

/// What came of getting everything.
struct Supplied {
    document: SupplyDocument,
    is_called_off: bool,
}

impl Supplied {
    fn code(&self) -> u8 {
        match (self.document.complete, self.is_called_off) {
            (true, _) => 0,
            (false, true) => INTERRUPTED,
            (false, false) => Class::ThisComputer.exit_code(),
        }
    }
}

/// Gets everything, telling of each; failures are told at the end.
fn get_everything(
    console: &mut Console<'_>,
    stock: &Stock<'_>,
    errand: &Errand,
) -> Result<Supplied, Failure> {
    let begun = Instant::now();
    let off = listen()?;
    let wants_builds = errand.sources.build == BuildPolicy::Always;
    let items: Vec<_> = stock
        .items
        .iter()
        // What is there already may still have to be built.
        .filter(|item| wants_builds || stock.store.record(item).is_none())
        .cloned()
        .collect();
    let is_text = console.format == Format::Text;
    if is_text {
        let there = stock.items.len() - items.len();
        writeln!(
            console.err,
            "{} to get, {there} in the cache already",
            plural(items.len(), "artifact")
        )?;
    }
    let mut ended: BTreeMap<Item, (u64, Option<SupplyTrouble>)> = BTreeMap::new();
    get_all(
        &items,
        &off,
        &|item, attendant| stock.get(item, &errand.sources, attendant),
        &mut |heard| {
            let line = match heard {
                Heard::Line(item, line) => errand.is_verbose.then(|| format!("{item}: {line}")),
                Heard::Amount(item, amount, after) => Some(format!(
                    "{:>10}  {item}: {amount} so far",
                    duration::shown(after)
                )),
                Heard::Ended(item, took, error) => {
                    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                    let error = error.map(|error| troubled(&error.to_step_error()));
                    let row = SupplyRow {
                        artifact: stock.row(&item),
                        took_ms: Some(took_ms),
                        error: error.clone(),
                    };
                    ended.insert(item, (took_ms, error));
                    Some(got(&row))
                }
            };
            if let Some(line) = line.filter(|_| is_text) {
                // The work goes on also where nobody can be told.
                let _ = writeln!(console.err, "{line}");
                let _ = console.err.flush();
            }
            // At once: the ledger has the digest already, so a run that is killed later never warns again.
            let _ = tell_notices(console, &errand.sources);
        },
    );
    let rows: Vec<_> = stock
        .items
        .iter()
        .map(|item| {
            let (took_ms, error) = ended
                .remove(item)
                .map_or((None, None), |(took, error)| (Some(took), error));
            SupplyRow {
                artifact: stock.row(item),
                took_ms,
                error,
            }
        })
        .collect();
    let is_called_off = off.load(Ordering::Relaxed);
    let complete = !is_called_off
        && rows
            .iter()
            .all(|row| row.artifact.cached && row.error.is_none());
    let document = SupplyDocument {
        cluster: stock.cluster(),
        cache: stock.folder(),
        complete,
        artifacts: rows,
        took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    if is_text {
        tell_troubles(console, &document, is_called_off)?;
    }
    Ok(Supplied {
        document,
        is_called_off,
    })
}

/// Shows what the user must see, however quiet they want it.
pub(crate) fn tell_notices(console: &mut Console<'_>, sources: &Sources) -> Result<(), Failure> {
    for line in sources.notices.take() {
        let warning = console.styled_err(WARN, "warning");
        writeln!(console.err, "{warning}: {line}")?;
    }
    Ok(())
}

fn tell_troubles(
    console: &mut Console<'_>,
    document: &SupplyDocument,
    is_called_off: bool,
) -> Result<(), Failure> {
    if is_called_off {
        writeln!(
            console.err,
            "\ncalled off; what was got is kept, and what was half got goes on the next time"
        )?;
        return Ok(());
    }
    let bad = console.styled_err(BAD, "error");
    let troubled = document.artifacts.iter().filter(|row| row.error.is_some());
    let mut count = 0;
    for row in troubled {
        count += 1;
        console.err.write_all(trouble(row, &bad).as_bytes())?;
    }
    if count > 0 {
        writeln!(
            console.err,
            "\n{} could not be had; the others are kept: give the command again to go on",
            plural(count, "artifact")
        )?;
    }
    Ok(())
}

fn troubled(error: &StepError) -> SupplyTrouble {
    SupplyTrouble {
        words: error.words.clone(),
        causes: error.causes.clone(),
        tail: error.tail.clone(),
        hints: error.hints.clone(),
    }
}

/// Set by Ctrl-C or a signal to end; the second time the process ends at once.
fn listen() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag;
    let off = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&off))
            .and_then(|_| flag::register(signal, Arc::clone(&off)))
            .map_err(|error| {
                Failure::new(Class::ThisComputer, "signals cannot be heard").because(&error)
            })?;
    }
    Ok(off)
}

/// Called off by a flag; nothing is told.
struct Quiet(Arc<AtomicBool>);

impl Attend for Quiet {
    fn hear(&self, _: News) {}

    fn is_called_off(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn write_bundle(
    console: &mut Console<'_>,
    stock: &Stock<'_>,
    errand: &Errand,
    file: &Path,
    environment: &Environment,
) -> Result<u8, Failure> {
    let target = environment.folder.join(file);
    let shown = file.display();
    if target.is_dir() {
        return Err(
            Failure::new(Class::Usage, format!("`{shown}` is a folder")).hint(format!(
                "name a file in it: `{}`",
                file.join("mullion.bundle").display()
            )),
        );
    }
    let supplied = get_everything(console, stock, errand)?;
    if !supplied.document.complete {
        if console.format == Format::Json {
            console.json("Supply", &supplied.document)?;
        }
        return Ok(supplied.code());
    }
    let written = bundle::write(&stock.store, &stock.items, &target, &Quiet(listen()?));
    if let Err(error) = written {
        return not_written(&error, file);
    }
    let document = BundleDocument {
        cluster: stock.cluster(),
        file: shown.to_string(),
        size: fs_err::metadata(&target)?.len(),
        artifacts: stock.items.iter().map(|item| stock.row(item)).collect(),
        key: sharing::public_key(stock)?.map(|key| key.to_string()),
    };
    if console.format == Format::Json {
        console.json("Bundle", &document)?;
        return Ok(0);
    }
    let wrote = console.styled(GOOD, "wrote");
    let count = plural(document.artifacts.len(), "artifact");
    writeln!(
        console.out,
        "{wrote} {shown}: {count}, {}",
        length(document.size)
    )?;
    let key = document.key.as_deref().unwrap_or("KEY");
    let next = format!(
        "next: carry it to the other computer, and by another way the public key; there run\n  \
         mullion artifacts import {shown} --bundle-key {key}\n\
         and write `artifacts: {{offline: true}}`"
    );
    writeln!(console.out, "{}", console.styled(FAINT, &next))?;
    Ok(0)
}

/// How a bundle that is not there ends: called off, or with a failure.
fn not_written(error: &BundleError, file: &Path) -> Result<u8, Failure> {
    if matches!(error, BundleError::CalledOff) {
        return Ok(INTERRUPTED);
    }
    let what = format!("the bundle `{}` could not be written", file.display());
    let failure = Failure::new(Class::ThisComputer, what).because(error);
    Err(if is_disk_full(error, None) {
        failure.hint(MAKE_ROOM)
    } else {
        failure
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_that_was_called_off_is_no_failure_and_a_full_disk_has_a_hint() {
        let file = Path::new("all.bundle");
        let off = not_written(&BundleError::CalledOff, file);
        assert_eq!(off.unwrap(), INTERRUPTED);
        let full = BundleError::Io {
            file: file.into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        let failure = not_written(&full, file).unwrap_err();
        assert_eq!(failure.class, Class::ThisComputer);
        assert_eq!(failure.hints, [MAKE_ROOM]);
    }
}
