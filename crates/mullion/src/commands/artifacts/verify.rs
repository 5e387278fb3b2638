//! `artifacts verify`: the cache or a bundle, read again and held against what was recorded.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mullion_artifacts::Soundness;
use mullion_artifacts::bundle::{self, BundleError};

use super::stock::Stock;
use super::{INTERRUPTED, Quiet, listen};
use crate::console::{BAD, Console, Format, GOOD};
use crate::failure::{Class, Failure};
use crate::views::artifacts::{
    ArtifactsVerifyDocument, BundleVerifyDocument, VerifyRow, held_to, length, standing,
};
use crate::views::findings::plural;

/// Reads the whole cache again.
pub(super) fn cache(console: &mut Console<'_>, stock: &Stock<'_>) -> Result<u8, Failure> {
    let off = listen()?;
    let verdicts = match stock.store.verify(&Quiet(Arc::clone(&off))) {
        Err(_) if off.load(Ordering::Relaxed) => return Ok(INTERRUPTED),
        verdicts => verdicts.map_err(|error| {
            Failure::new(Class::ThisComputer, "the cache could not be looked at").because(&error)
        })?,
    };
    let wrong = verdicts
        .iter()
        .filter(|verdict| verdict.state != Soundness::Sound)
        .count();
    let records = stock.store.list();
    let rows = verdicts.iter().map(|verdict| VerifyRow {
        artifact: verdict.item.to_string(),
        state: standing(verdict.state),
        folder: stock
            .store
            .folder()
            .join(verdict.item.folder())
            .display()
            .to_string(),
        held_to: records
            .iter()
            .find(|record| record.item == verdict.item)
            .map(held_to)
            .unwrap_or_default(),
    });
    let document = ArtifactsVerifyDocument {
        cache: stock.folder(),
        sound: wrong == 0,
        artifacts: rows.collect(),
    };
    let code = if wrong == 0 {
        0
    } else {
        Class::Check.exit_code()
    };
    if console.format == Format::Json {
        console.json("ArtifactsVerify", &document)?;
        return Ok(code);
    }
    let count = plural(document.artifacts.len(), "artifact");
    if wrong == 0 {
        let good = console.styled(GOOD, "sound");
        writeln!(console.out, "{good}: {count} in {}", document.cache)?;
        for row in &document.artifacts {
            writeln!(console.out, "  {}: held to {}", row.artifact, row.held_to)?;
        }
        return Ok(code);
    }
    let bad = console.styled(BAD, "error");
    for row in document.artifacts.iter().filter(|row| row.state != "sound") {
        writeln!(
            console.out,
            "{bad}: {} is {}\n  in {}",
            row.artifact, row.state, row.folder
        )?;
    }
    writeln!(
        console.err,
        "\n{wrong} of {count} in {} are not as recorded\n\nhint: remove the folders named above, then get them again with `mullion artifacts fetch`",
        document.cache
    )?;
    Ok(code)
}

/// Reads a whole bundle, and says what of the cluster's needs it lacks.
pub(super) fn bundle(
    console: &mut Console<'_>,
    stock: &Stock<'_>,
    file: &Path,
    folder: &Path,
) -> Result<u8, Failure> {
    let index = match bundle::verify(&folder.join(file), &Quiet(listen()?)) {
        Ok(index) => index,
        Err(BundleError::CalledOff) => return Ok(INTERRUPTED),
        Err(error) => return Err(unsound(&error, file)),
    };
    let signer = bundle::signer_of(&folder.join(file), stock.store.ledger());
    let signer = signer.map_err(|error| unsound(&error, file))?;
    let lacks = stock
        .items
        .iter()
        .filter(|item| !index.items.iter().any(|record| record.item == **item));
    let document = BundleVerifyDocument {
        cluster: stock.cluster(),
        file: file.display().to_string(),
        signature: signer.to_string(),
        artifacts: index
            .items
            .iter()
            .map(|record| record.item.to_string())
            .collect(),
        size: index
            .items
            .iter()
            .fold(0_u64, |sum, record| sum.saturating_add(record.size)),
        lacks: lacks.map(ToString::to_string).collect(),
    };
    let code = if document.lacks.is_empty() {
        0
    } else {
        Class::Check.exit_code()
    };
    if console.format == Format::Json {
        console.json("BundleVerify", &document)?;
        return Ok(code);
    }
    let good = console.styled(GOOD, "sound");
    let count = plural(document.artifacts.len(), "artifact");
    let (file, size) = (&document.file, length(document.size));
    writeln!(
        console.out,
        "{good}: {count} in {file}, {size}, {}",
        document.signature
    )?;
    if document.lacks.is_empty() {
        return Ok(code);
    }
    let bad = console.styled(BAD, "error");
    for item in &document.lacks {
        writeln!(console.out, "{bad}: {item} is not in it")?;
    }
    writeln!(
        console.err,
        "\n{} that cluster {} needs {} missing\n\nhint: write the bundle anew, with this file, by `mullion artifacts bundle`",
        plural(document.lacks.len(), "artifact"),
        document.cluster,
        if document.lacks.len() == 1 {
            "is"
        } else {
            "are"
        }
    )?;
    Ok(code)
}

fn unsound(error: &BundleError, file: &Path) -> Failure {
    let shown = file.display();
    let (class, hint) = match error {
        BundleError::Io { .. } => (Class::ThisComputer, None),
        BundleError::Newer { .. } => (Class::Check, Some("use the mullion that wrote it")),
        _ => (
            Class::Check,
            Some("copy it again, or write it anew with `mullion artifacts bundle`"),
        ),
    };
    let failure = Failure::new(class, format!("the bundle `{shown}` is not sound")).because(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
