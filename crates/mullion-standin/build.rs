//! Makes the messages of the container runtime's interface from Kubernetes' own file. `protox` reads it, so that no
//! compiler of that language has to be installed.

use std::error::Error;

const INTERFACE: &str = "proto/cri-v1.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={INTERFACE}");
    let files = protox::compile([INTERFACE], ["proto"])?;
    prost_build::Config::new()
        // Their order is the same in every run.
        .btree_map(["."])
        // The comments are in the file itself, and are not written for rustdoc.
        .disable_comments(["."])
        .compile_fds(files)?;
    Ok(())
}
