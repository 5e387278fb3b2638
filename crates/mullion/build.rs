//! Takes the agent into the program, where the build is given one.
//!
//! `MULLION_AGENT` names the agent's file, built for the machines' system. Without it the program looks for the agent
//! beside itself, which is where cargo puts it while one works on the code.

use std::path::PathBuf;
use std::{env, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=MULLION_AGENT");
    let folder = env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
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
