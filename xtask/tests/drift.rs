//! Every generated file in the repository is what its generator gives today.

use xtask::generate::{drifted, generated};

#[test]
fn generated_files_are_up_to_date() {
    let files = generated();
    let changed = drifted(&xtask::tools::repository(), &files).expect("the repository can be read");
    let paths: Vec<_> = changed.iter().map(|file| file.path.as_str()).collect();
    assert!(
        paths.is_empty(),
        "not up to date: {}\nhint: run `cargo xtask gen`",
        paths.join(", ")
    );
}
