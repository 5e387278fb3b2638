//! The targets: everything that reads what others wrote.

mod documents;
mod files;
mod terminal;

use crate::Target;

/// Words of JSON documents of ours.
const JSON: &[&str] = &[
    "\"version\":",
    "\"name\":",
    "\"machine\":",
    "null",
    "true",
    "[]",
    "{}",
    ":",
    ",",
    "\"",
    "\\u0000",
    "\\ud800",
    "1e400",
    "-1",
    "18446744073709551615",
];

/// Words of cluster files.
const CLUSTER: &[&str] = &[
    "machines:\n",
    "  - {name: a, count: 3}\n",
    "role: control-plane",
    "os: windows",
    "metadata: {name: x}\n",
    "network: {",
    "cni: flannel",
    "pods: 10.0.0.0/8",
    "kubernetes: ",
    "address: 192.0.2.1",
    "before: [{run: x}]",
    "count: 99999",
    "files: [{from: /etc/shadow, to: /x}]",
    "{env: X}",
    "artifacts: {cache: ../../etc}",
    "labels: {a: b}",
    "taints: [{key: a, effect: NoSchedule}]",
    "nodeIP: ",
    "driver: ssh",
    "&a ",
    "*a",
    "!!str ",
    "|\n",
    ">-\n",
    "\t",
    "# ",
];

/// Words of what kubectl and kubeadm write.
const KUBE: &[&str] = &[
    "clusters:",
    "contexts:",
    "users:",
    "current-context: ",
    "certificate-authority-data: ",
    "server: https://",
    "exec: {}",
    "tokenFile: /etc/shadow",
    "extraArgs:",
    "- name: feature-gates\n  value: A=true",
    "&a [",
    "*a",
    "<<: ",
    "kind: Config\n",
];

/// Words of terminals.
const TERMINAL: &[&str] = &[
    "\u{1b}",
    "\u{1b}[",
    "\u{1b}]",
    "\u{1b}P",
    "\u{1b}\\",
    "\u{7}",
    "\u{9b}",
    "\u{9c}",
    "\u{9d}",
    "\r",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\u{2066}",
    "\u{e0041}",
    "\nerror: ",
    "\nhint: ",
    "38;5;1m",
    "m",
    "2J",
    "$'",
];

/// Words of Windows paths.
const PATHS: &[&str] = &[
    "C:", "c:/", "\\", "/", "..", ".", "\\\\?\\", "\\\\.\\", "CON", "aux.txt", "a:b", "::$DATA",
    " ", "...", "\u{ff0e}", "~1",
];

/// Words of PEM and DER.
const PEM: &[&str] = &[
    "-----BEGIN CERTIFICATE REQUEST-----\n",
    "-----END CERTIFICATE REQUEST-----\n",
    "-----BEGIN CERTIFICATE-----\n",
    "-----END CERTIFICATE-----\n",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n",
    "=",
    "MII",
    "ssh-ed25519 ",
    "SHA256:",
    "\u{30}",
];

macro_rules! targets {
    ($($name:literal, $inputs:literal, $words:expr, $read:path, $about:literal;)+) => {
        /// All of them.
        pub const TARGETS: [Target; [$($name),+].len()] = [$(Target {
            name: $name,
            about: $about,
            inputs: $inputs,
            words: $words,
            read: $read,
        }),+];
    };
}

targets! {
    "cluster-file", 1500, CLUSTER, documents::cluster_file, "a cluster file, judged, planned and shown";
    "cluster-file-edit", 1500, CLUSTER, documents::cluster_file_edit, "a cluster file that `node add` and `node remove` change";
    "facts", 1500, JSON, documents::facts, "facts of `plan --facts`, and the plan that follows from them";
    "saved-plan", 2000, JSON, documents::saved_plan, "a saved plan that `up --plan` is given";
    "timings", 2000, JSON, documents::timings, "durations of earlier runs in the state folder";
    "blueprint", 3000, JSON, documents::blueprint, "a blueprint, as an agent gets it";
    "agent-request", 3000, JSON, documents::agent_request, "a request line of the agent's protocol";
    "agent-event", 3000, JSON, documents::agent_event, "an event line of the agent's protocol";
    "agent-answer", 2000, JSON, mullion_live::fuzz::agent_answer, "all that an agent writes for one request";
    "agent-state", 3000, JSON, mullion_agent::fuzz::state, "the agent's state file";
    "agent-attended", 3000, JSON, mullion_agent::fuzz::attended, "the file of a program that the agent attends to";
    "agent-certificates", 2000, PEM, mullion_agent::fuzz::certificate, "certificates and kubeconfigs on a machine";
    "agent-lines", 2000, TERMINAL, mullion_agent::fuzz::line, "lines of programs, from which secrets are masked";
    "agent-linux", 2000, &[], mullion_agent::fuzz::linux_programs, "what Linux' programs and kernel tell the agent";
    "journal", 1500, JSON, documents::journal, "the journal of a run, and the page that is made of it";
    "machine-label", 3000, JSON, mullion_machines::fuzz::label, "the label of a machine, `machine.json`";
    "taken-machines", 3000, JSON, documents::taken_machines, "the state folder's list of machines that were taken";
    "ip-links", 3000, JSON, mullion_machines::fuzz::links, "what `ip -json` says of links";
    "proc", 3000, &[], mullion_machines::fuzz::process, "what `/proc` says of processes and mounts";
    "console", 3000, TERMINAL, mullion_machines::fuzz::console, "what a machine wrote to its console";
    "inspection", 3000, &[], mullion_live::fuzz::inspection, "what a machine of the user's says of itself";
    "ssh-lines", 3000, TERMINAL, mullion_ssh::fuzz::lines, "what a machine writes over SSH";
    "ssh-keys", 500, PEM, mullion_ssh::fuzz::keys, "host keys and private keys";
    "kubeconfig", 1000, KUBE, mullion_kube::fuzz::kubeconfig, "a user's kubeconfig, read and merged";
    "kubeadm-settings", 2000, KUBE, mullion_kube::fuzz::kubeadm_settings, "kubeadm's settings in the cluster";
    "certificate-request", 3000, PEM, mullion_kube::fuzz::certificate_request, "a node's certificate request";
    "api-server", 2000, JSON, mullion_kube::fuzz::api_server, "answers of the API server";
    "etcd-members", 3000, JSON, mullion_kube::fuzz::etcd_members, "the members that etcd lists";
    "etcd-snapshot", 2000, JSON, mullion_kube::fuzz::etcd_snapshot, "the lines in which etcd sends a snapshot";
    "windows-path", 3000, PATHS, mullion_standin::fuzz::windows_path, "Windows paths and names of SFTP";
    "runtime-messages", 3000, PATHS, mullion_standin::fuzz::runtime_messages, "messages of the container runtime's interface";
    "stand-in-tables", 2000, &[], mullion_standin::fuzz::tables, "a stand-in's settings and table of images";
    "bundle", 600, JSON, files::bundle, "a bundle that somebody brought";
    "root-file-system", 400, &[], files::root_file_system, "the tar file of a root file system, unpacked";
    "image-layer", 400, &[], files::image_layer, "the tar file that a layer is made of";
    "archive-names", 2000, JSON, files::archive_names, "the names in an archive of images";
    "archive-tar", 400, &[], files::archive_tar, "a compressed tar file that a program is taken from";
    "archive-zip", 400, &[], files::archive_zip, "a zip file that a program is taken from";
    "module-zip", 400, &[], files::module_zip, "the zip file of a Go module";
    "cache-record", 2000, JSON, mullion_artifacts::fuzz::record, "a record of the cache or of a mirror";
    "checksums", 3000, &[], mullion_artifacts::fuzz::checksums, "checksum files";
    "registry", 3000, JSON, mullion_artifacts::fuzz::registry, "what a registry answers";
    "go-modules", 3000, &[], mullion_artifacts::fuzz::go_modules, "what `go version -m` says of a program";
    "terminal-text", 3000, TERMINAL, terminal::terminal_text, "text of others on its way to a terminal";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::corpus;
    use crate::mutate::LONGEST;

    #[test]
    fn every_target_has_a_corpus_and_every_corpus_a_target() {
        let names: BTreeSet<_> = TARGETS
            .iter()
            .map(|target| target.name.to_owned())
            .collect();
        assert_eq!(names.len(), TARGETS.len());
        let above = corpus::folder("");
        let folders: BTreeSet<_> = fs_err::read_dir(above)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        assert_eq!(folders, names);
        let mut bytes = 0;
        for name in &names {
            let inputs = corpus::read(name).unwrap();
            assert!(inputs.len() > 1, "{name}");
            assert!(inputs.iter().all(|input| input.len() <= LONGEST), "{name}");
            bytes += inputs.iter().map(Vec::len).sum::<usize>();
        }
        assert!(bytes < 500_000, "the corpus has {bytes} bytes");
    }
}
