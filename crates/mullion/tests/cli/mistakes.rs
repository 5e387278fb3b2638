//! A file with twenty different mistakes gives twenty messages, each at the right line.

use crate::Bench;

/// One mistake a marked line: the comment names the code that the line must get.
const TWENTY: &str = r#"apiVersion: mullion.dev/v9            # E0205
metadata:
  name: My_Cluster                     # E0301
  colour: blue                         # E0201
kubernetes:
  version: "1.36"
  featureGates: [a]                    # E0202
controlPlane:
  endpoint: somewhere                  # E0208
network:
  cni: flanel                          # E0203
  mtu: 100                             # E0209
  podCIDR: 10.244.3.0/16               # E0411
  serviceCIDR: 10.0.0.0/30             # E0404
  machineCIDR: fd00::/64               # E0410
machines:
  - name: cp
    role: control-plane
    edition: standard                  # E0316
    memory: 100MiB                     # E0607
    labels:
      kubernetes.io/os: linux          # E0318
  - name: windows-servers              # E0302
    os: windows
    version: "2019"                    # E0502
    driver: nspawn                     # E0601
  - name: old
    driver: ssh
    count: 2                           # E0310
    addresses: [192.0.2.10]
  - role: worker                       # E0204
windows:
  administratorPassword: Passw0rd!     # E0206
workloads: {policies: "yes"}           # E0203
hosts:
  - {name: h1, address: 192.0.2.300}   # E0208
artifacts: {mirror: "http://${HOST}/"} # E0207
"#;

#[test]
fn twenty_mistakes_give_twenty_messages_each_at_its_line() {
    let expected: Vec<(usize, &str)> = TWENTY
        .lines()
        .enumerate()
        .filter_map(|(line, text)| {
            text.split_once("# E")
                .map(|_| line + 1)
                .zip(text.rsplit_once("# "))
        })
        .map(|(line, (_, code))| (line, code.trim()))
        .collect();
    assert!(expected.len() >= 20, "{}", expected.len());
    let bench = Bench::new();
    bench.write("cluster.yaml", TWENTY);
    let ran = bench.run(&["validate", "--json"]);
    assert_eq!(ran.code, 3);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let found: Vec<(usize, &str)> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let line = row["place"]["line"].as_u64().unwrap();
            (
                usize::try_from(line).unwrap(),
                row["code"].as_str().unwrap(),
            )
        })
        .collect();
    let mut sorted = found.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);

    let human = bench.run(&["validate"]);
    assert_eq!(human.code, 3);
    for (line, code) in &expected {
        assert!(human.err.contains(&format!("[{code}]")), "{code}");
        assert!(
            human.err.contains(&format!("--> cluster.yaml:{line}:")),
            "{code} at {line}\n{}",
            human.err
        );
    }
    assert!(human.out.is_empty(), "messages are not data");
    assert!(
        !human.err.contains("Passw0rd!"),
        "a secret is never repeated"
    );
    assert!(!ran.out.contains("Passw0rd!"), "nor in JSON");
}

#[test]
fn a_field_that_stands_too_far_up_is_told_where_it_belongs() {
    let bench = Bench::new();
    bench.write("cluster.yaml", "name: dev\nmachines: {linux: 1}\n");
    let ran = bench.run(&["validate"]);
    assert_eq!(ran.code, 3);
    let hint = "`name` belongs below `metadata`";
    assert!(ran.err.contains(hint), "{}", ran.err);
}
