//! Every generated file in the repository is what its generator gives today.

use xtask::generate::drifted;

#[test]
fn generated_files_are_up_to_date() {
    let changed = drifted(&xtask::tools::repository(), xtask::generated())
        .expect("the repository can be read");
    let paths: Vec<_> = changed.iter().map(|file| file.path).collect();
    assert!(
        paths.is_empty(),
        "not up to date: {}\nhint: run `cargo xtask gen`",
        paths.join(", ")
    );
}
