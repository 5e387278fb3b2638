//! `down`, as far as no machine is needed.

use crate::Bench;
use crate::json::otherwise;

#[test]
#[ignore = "needs root, to remove templates"]
fn promise_05_a_purge_leaves_what_other_clusters_and_the_user_need() {
    let bench = Bench::new();
    // Its machine lies over the template `old`.
    otherwise(&bench);
    for (name, fingerprint) in [("old", "0000000000000000"), ("unused", "1111111111111111")] {
        let template = bench.path().join("place/templates").join(name);
        fs_err::create_dir_all(&template).unwrap();
        let record = serde_json::json!({
            "version": "mullion.dev/template/v1",
            "id": {"name": name, "fingerprint": fingerprint},
            "made": 1,
            "programs": [],
            "images": [],
        });
        fs_err::write(template.join("template.json"), record.to_string()).unwrap();
    }
    bench.write(
        "gone.yaml",
        "metadata: {name: gone}\nartifacts: {cache: mine}\nmachines: {linux: 1}\n",
    );
    fs_err::create_dir(bench.path().join("mine")).unwrap();
    let names = |folder: &str| {
        let entries = fs_err::read_dir(bench.path().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };

    // A folder of the user's, whose folders are called as a cache's are.
    for file in [
        "mine/thesis.tex",
        "mine/work/a",
        "mine/parts/b",
        "mine/layers/c",
    ] {
        let path = bench.path().join(file);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        bench.write(file, "years of work");
    }
    let ran = bench.run(&["-f", "gone.yaml", "down", "--purge", "--yes"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("is not a cache"), "{}", ran.err);
    assert!(ran.err.contains("artifacts.cache"), "{}", ran.err);
    assert_eq!(names("mine"), ["layers", "parts", "thesis.tex", "work"]);
    assert_eq!(names("place/templates"), ["old", "unused"]);

    for folder in ["mine/work", "mine/parts", "mine/layers"] {
        fs_err::remove_dir_all(bench.path().join(folder)).unwrap();
    }
    fs_err::remove_file(bench.path().join("mine/thesis.tex")).unwrap();
    let ran = bench.run(&["-f", "gone.yaml", "artifacts", "adopt"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    bench.write("mine/thesis.tex", "years of work");

    let ran = bench.run(&["-f", "gone.yaml", "down", "--purge"]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    let cache = bench.path().join("mine").display().to_string();
    assert!(ran.err.contains(&cache), "{}", ran.err);
    assert!(bench.path().join("mine/parts").exists());

    let ran = bench.run(&["-f", "gone.yaml", "down", "--purge", "--yes"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let told = "template old stays: machines of `bench-json` lie over it";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert_eq!(names("place/templates"), ["old"]);
    assert_eq!(names("mine"), ["mullion-cache.json", "thesis.tex"]);
    assert!(
        ran.err
            .contains("mine/thesis.tex`: Mullion did not make it"),
        "{}",
        ran.err
    );
}
