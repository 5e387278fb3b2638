//! Takes the agent into the program, where the build is given one.
//!
//! `MULLION_AGENT` names the agent's file, built for the machines' system. Without it the program looks for the agent
//! beside itself, which is where cargo puts it while one works on the code.
//!
//! `MULLION_WINDOWS` names a folder with what Windows machines are brought: the agent for them, the stand-in's program
//! and its libraries. Without it the program makes Linux machines alone.

use std::path::{Path, PathBuf};
use std::{env, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=MULLION_AGENT");
    let folder = env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    println!("cargo::rerun-if-env-changed=MULLION_WINDOWS");
    take_windows(&folder.join("windows.tar"))?;
    let target = folder.join("mullion-agent");
    match env::var_os("MULLION_AGENT").filter(|path| !path.is_empty()) {
        Some(path) => {
            let path = PathBuf::from(path);
            println!("cargo::rerun-if-changed={}", path.display());
            fs_err::copy(path, target).map(|_| ())
        }
        None => fs_err::write(target, ""),
    }
}

/// One file with every file of the folder.
fn take_windows(target: &Path) -> io::Result<()> {
    let Some(folder) = env::var_os("MULLION_WINDOWS").filter(|path| !path.is_empty()) else {
        return fs_err::write(target, "");
    };
    println!("cargo::rerun-if-changed={}", Path::new(&folder).display());
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        names.push(entry?.path());
    }
    // The same files give the same bytes.
    names.sort();
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    for path in names {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.file_name().unwrap_or_default().to_owned();
        archive.append_path_with_name(&path, name)?;
    }
    fs_err::write(target, archive.into_inner()?)
}
