//! `up`, as far as no machine is needed.

use crate::Bench;

#[test]
fn a_name_that_nobody_has_is_refused_with_those_that_there_are() {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        "metadata: {name: demo}\nmachines: {linux: 2}\n",
    );
    for names in [&["lin7"][..], &["lin1", "lin7"], &["cp", "lin7"]] {
        let only = names.iter().flat_map(|name| ["--only", *name]);
        let arguments: Vec<_> = ["up"].into_iter().chain(only).collect();
        let ran = bench.run(&arguments);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        let words = "the cluster has no machine and no group `lin7`";
        assert!(ran.err.contains(words), "{}", ran.err);
        let known = "there are cp, lin, cp1, lin1, lin2";
        assert!(ran.err.contains(known), "{}", ran.err);
    }
    assert!(!bench.path().join("place").exists(), "nothing was begun");
}
