//! The file's fields, as they are written.
//!
//! Serde types without any meaning: texts stay texts, and everything that may be left out has its
//! default here. The JSON Schema and the reference file are made from these types, so a doc comment
//! is what a user reads. The checker turns them into checked values; nothing else sees them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::networks::Purpose;
use crate::words::{Admission, Backend, BuildPolicy, Cni, Driver, MachineAccess, Os, Role};

/// A cluster of Linux and Windows machines.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "cluster.yaml")]
#[schemars(extend("required" = ["machines"]))]
pub struct RawCluster {
    /// The version of this format: `mullion.dev/v1alpha1`.
    #[schemars(schema_with = "api_version")]
    pub api_version: Option<String>,
    /// Always `Cluster`.
    #[schemars(schema_with = "kind")]
    pub kind: Option<String>,
    /// What the cluster is called.
    pub metadata: RawMetadata,
    /// The Kubernetes to install.
    pub kubernetes: RawKubernetes,
    /// Who runs the API server.
    pub control_plane: RawControlPlane,
    /// Networks of machines, pods and services.
    pub network: RawNetwork,
    /// The machines, by groups; or in short `{linux: 1, windows: 1}`: one control plane and that many workers.
    pub machines: Option<RawMachines>,
    /// Computers that carry machines, besides this one.
    pub hosts: Vec<RawHost>,
    /// How every Windows machine is set up; a group may override each field but `runtimeClasses` under the same name.
    pub windows: RawWindows,
    /// The way out through a proxy.
    pub proxy: RawProxy,
    /// Extra CA certificates for machines, containerd and Mullion itself.
    pub trust: Vec<RawFile>,
    /// Where programs and images come from.
    pub artifacts: RawArtifacts,
    /// Container images that nodes have from the start.
    pub images: Vec<RawImage>,
    /// How to log in to machines that are made.
    pub access: RawAccess,
    /// Add-ons by name.
    pub addons: Vec<String>,
    /// What happens to manifests that would not run on a mixed cluster.
    pub workloads: RawWorkloads,
    /// What is proven after `up`.
    pub verify: RawVerify,
}

fn api_version(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["string", "null"], "const": crate::API_VERSION})
}

fn kind(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["string", "null"], "const": crate::KIND})
}

/// What the cluster is called.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawMetadata {
    /// A DNS label; it labels everything that is made.
    pub name: String,
}

impl Default for RawMetadata {
    fn default() -> Self {
        Self {
            name: "mullion".into(),
        }
    }
}

/// The Kubernetes to install.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawKubernetes {
    /// `"1.36"`, `"1.36.4"` or `latest`.
    pub version: String,
    /// Feature gates for every component.
    pub feature_gates: BTreeMap<String, bool>,
    /// Files for kubeadm's `--patches`, by component.
    pub patches: Vec<String>,
    /// Turns errors about what upstream calls unsupported into warnings.
    pub allow_unsupported: bool,
}

impl Default for RawKubernetes {
    fn default() -> Self {
        Self {
            version: "1.36".into(),
            feature_gates: BTreeMap::new(),
            patches: Vec::new(),
            allow_unsupported: false,
        }
    }
}

/// Who runs the API server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawControlPlane {
    /// `host:port`; made (a machine `lb1` with `HAProxy`) when control planes are more than one.
    pub endpoint: Option<String>,
    /// A cluster that exists already and only gets workers, instead of machines with role control-plane.
    pub existing: Option<RawExisting>,
}

/// A cluster that exists already.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["kubeconfig"]))]
pub struct RawExisting {
    /// Its kubeconfig.
    pub kubeconfig: Option<String>,
    /// The context in it; the current one when null.
    pub context: Option<String>,
}

/// Networks of machines, pods and services.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawNetwork {
    /// flannel | calico | antrea | none.
    pub cni: Cni,
    /// flannel: vxlan | host-gw; calico: vxlan | bgp.
    pub backend: Backend,
    /// The VXLAN identifier; with Windows at least 4096.
    pub vni: u32,
    /// The VXLAN port; with Windows 4789.
    pub port: u16,
    /// The pods' MTU; found from the machines' network when null.
    pub mtu: Option<u32>,
    /// Addresses of pods; a new cluster moves to a free /16 when this is left out and the default is in use.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// The prefix length of one node's share of them.
    #[serde(rename = "podCIDRSize")]
    pub pod_cidr_size: u8,
    /// Addresses of services; a new cluster moves to a free /16 when this is left out and the default is in use.
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: String,
    /// Addresses of machines that are made; a new cluster moves to a free /24 when this is null or left out and the default is in use.
    #[serde(rename = "machineCIDR")]
    pub machine_cidr: Option<String>,
    /// From where machines that are made can be reached: host (this computer alone) | lan (other networks too, as machines beside them that exist already need).
    pub machine_access: MachineAccess,
    /// The cluster's DNS domain.
    pub domain: String,
    /// DNS servers for names outside; the computer's own when empty.
    #[serde(rename = "upstreamDNS")]
    pub upstream_dns: Vec<String>,
    /// Whether `NetworkPolicy` is enforced (with flannel: by kube-router's firewall).
    pub policy: bool,
}

impl Default for RawNetwork {
    fn default() -> Self {
        Self {
            cni: Cni::Flannel,
            backend: Backend::Vxlan,
            vni: 4096,
            port: 4789,
            mtu: None,
            pod_cidr: Purpose::Pods.usual().to_string(),
            pod_cidr_size: 24,
            service_cidr: Purpose::Services.usual().to_string(),
            machine_cidr: Some(Purpose::Machines.usual().to_string()),
            machine_access: MachineAccess::Host,
            domain: "cluster.local".into(),
            upstream_dns: Vec::new(),
            policy: true,
        }
    }
}

/// The machines: groups, or the short form.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RawMachines {
    /// Groups of machines.
    Groups(Vec<RawGroup>),
    /// One control plane, and that many workers of each system.
    Short(RawShort),
}

/// The short form: one control plane, and that many workers of each system.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawShort {
    /// How many Linux workers: `lin1`…
    #[schemars(range(max = 20000))]
    pub linux: u32,
    /// How many Windows workers: `win1`…
    #[schemars(range(max = 20000))]
    pub windows: u32,
}

/// Machines that are alike: named by group and number from 1, such as `win1`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["name"]))]
pub struct RawGroup {
    /// The first part of its machines' names.
    pub name: Option<String>,
    /// control-plane | worker (the default).
    pub role: Option<Role>,
    /// linux (the default) | windows.
    pub os: Option<Os>,
    /// Linux: a Debian or Ubuntu release, "12" by default; Windows: "2019" | "2022" (the default) | "2025".
    pub version: Option<String>,
    /// Windows: standard | datacenter (the default).
    pub edition: Option<String>,
    /// Windows: with the desktop, instead of Server Core.
    pub desktop: Option<bool>,
    /// How many machines; 1 by default, or as many as there are addresses.
    #[schemars(range(max = 20000))]
    pub count: Option<u32>,
    /// Numbers left out, written by `node remove`.
    pub skip: Vec<u32>,
    /// nspawn | wine | qemu | ssh | libvirt | hyperv | kubevirt. By default nspawn for Linux; for Windows qemu where media or a template is given, else wine; ssh where addresses are given.
    pub driver: Option<Driver>,
    /// A name out of `hosts`; this computer when null.
    pub host: Option<String>,
    /// Virtual processors; 2 by default, 4 for Windows.
    pub cpus: Option<u32>,
    /// Memory; 2GiB by default, 6GiB for Windows.
    pub memory: Option<String>,
    /// Disk; 20GiB by default, 60GiB for Windows.
    pub disk: Option<String>,
    /// Whether the machines start when this computer starts, where systemd is its first process; true by default.
    pub autostart: Option<bool>,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
    /// Node taints, written as kubectl does: `key=value:NoSchedule`.
    pub taints: Vec<String>,
    /// Control planes: whether ordinary pods may run there; true when there is no Linux worker.
    pub schedulable: Option<bool>,
    /// Installation media, for Windows.
    pub media: Option<RawMedia>,
    /// A golden disk by name, instead of media.
    pub template: Option<String>,
    /// Commands on the machine before Kubernetes is laid down; plans show them, so they hold no secrets.
    pub before: Vec<RawCommand>,
    /// Commands on the machine after the node is ready; plans show them, so they hold no secrets.
    pub after: Vec<RawCommand>,
    /// Files for the machine.
    pub files: Vec<RawFileCopy>,
    /// Existing machines: their addresses; `count` follows from them.
    pub addresses: Vec<String>,
    /// Existing machines: how to log in.
    pub ssh: Option<RawSsh>,
    /// An address, a network or an adapter's name where a machine has several.
    #[serde(rename = "nodeIP")]
    pub node_ip: Option<String>,
    /// Overrides `windows.timezone`.
    pub timezone: Option<String>,
    /// Overrides `windows.locale`.
    pub locale: Option<String>,
    /// Overrides `windows.licence`.
    pub licence: Option<RawLicence>,
    /// Overrides `windows.administratorPassword`.
    pub administrator_password: Option<RawSecret>,
    /// Overrides `windows.updates`.
    pub updates: Option<Vec<String>>,
    /// Overrides `windows.pageFile`.
    pub page_file: Option<String>,
    /// Overrides `windows.defenderExclusions`.
    pub defender_exclusions: Option<bool>,
    /// Overrides `windows.hyperv`.
    pub hyperv: Option<bool>,
    /// Overrides `windows.rdp`.
    pub rdp: Option<bool>,
    /// Overrides `windows.taint`; `none` for no taint.
    pub taint: Option<String>,
}

/// Installation media: one of `iso`, `url`, `vhdx` and `qcow2`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawMedia {
    /// An ISO file.
    pub iso: Option<String>,
    /// An address to fetch an ISO from; needs `sha256`.
    pub url: Option<String>,
    /// A VHDX disk.
    pub vhdx: Option<String>,
    /// A qcow2 disk.
    pub qcow2: Option<String>,
    /// The file's digest.
    pub sha256: Option<String>,
}

/// A command on a machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["run"]))]
pub struct RawCommand {
    /// The command line.
    pub run: Option<String>,
    /// Only on machines of this system.
    pub os: Option<Os>,
}

/// A file for a machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["from", "to"]))]
pub struct RawFileCopy {
    /// On this computer.
    pub from: Option<String>,
    /// On the machine.
    pub to: Option<String>,
    /// Permissions in octal, on Linux: "0644".
    pub mode: Option<String>,
}

/// How to log in to a computer that exists already.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawSsh {
    /// The user; root by default, Administrator on Windows.
    pub user: Option<String>,
    /// The private key: `{file: …}` or `{env: …}`; the SSH agent's when null.
    pub key: Option<RawSecret>,
    /// The port; 22 by default.
    pub port: Option<u16>,
    /// A computer to go through: `user@host:port`.
    pub jump: Option<String>,
    /// The host key to expect of every machine of the group: `ssh-ed25519 AAAA…`.
    pub host_key: Option<String>,
    /// The host keys to expect, by address, where they differ: of machines, and of the computer to go through.
    pub host_keys: BTreeMap<String, String>,
}

/// A secret, by where it is kept: `{env: NAME}`, `{file: PATH}`, or `generated`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RawSecret {
    /// By reference.
    Reference(RawReference),
    /// A word; only `generated` is one.
    Word(String),
}

/// Where a secret is kept: one of `env` and `file`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawReference {
    /// The name of an environment variable.
    pub env: Option<String>,
    /// A file.
    pub file: Option<String>,
}

/// The Windows licence: `evaluation`, or `{key: {env: NAME}}`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RawLicence {
    /// A product key, by reference.
    Key(RawLicenceKey),
    /// A word; only `evaluation` is one.
    Word(String),
}

/// A product key, by reference.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["key"]))]
pub struct RawLicenceKey {
    /// Where the key is kept.
    pub key: Option<RawSecret>,
}

/// A computer that carries machines.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["name", "address"]))]
pub struct RawHost {
    /// Its name in this file.
    pub name: Option<String>,
    /// Where it is.
    pub address: Option<String>,
    /// How to log in.
    pub ssh: Option<RawSsh>,
}

/// How Windows machines are set up.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawWindows {
    /// The time zone, by its IANA or Windows name; null for `UTC`, or for its own on an existing machine.
    pub timezone: Option<String>,
    /// The locale; null for `en-US`. An existing machine keeps its own.
    pub locale: Option<String>,
    /// `evaluation`, or a key by reference: `{key: {env: WINDOWS_KEY}}`; null for `evaluation`. An existing machine keeps
    /// its own.
    pub licence: Option<RawLicence>,
    /// `generated`, or `{env: …}`, or `{file: …}`; never a literal; null for `generated`. An existing machine keeps its
    /// own.
    pub administrator_password: Option<RawSecret>,
    /// Updates to install, by KB number.
    pub updates: Vec<String>,
    /// The page file's size; null for `4GiB`, or for its own page files on an existing machine.
    pub page_file: Option<String>,
    /// Whether Defender leaves containerd, kubelet and the network plugin alone.
    pub defender_exclusions: bool,
    /// Whether the feature Hyper-V is enabled; the machine's processor has to carry virtual machines. Once it is installed
    /// it stays, also with `false`.
    pub hyperv: bool,
    /// Whether remote desktop is switched on; null for `false`, or for what it has on an existing machine.
    pub rdp: Option<bool>,
    /// One `RuntimeClass` for each Windows build present; for the whole cluster, so no group overrides it.
    pub runtime_classes: bool,
    /// A taint that keeps Linux pods away; null or `none` for none.
    pub taint: Option<String>,
}

impl Default for RawWindows {
    fn default() -> Self {
        Self {
            timezone: None,
            locale: None,
            licence: None,
            administrator_password: None,
            updates: Vec::new(),
            page_file: None,
            defender_exclusions: true,
            hyperv: false,
            rdp: None,
            runtime_classes: true,
            taint: Some("os=windows:NoSchedule".into()),
        }
    }
}

/// The way out through a proxy.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawProxy {
    /// For plain HTTP.
    pub http: Option<String>,
    /// For HTTPS.
    pub https: Option<String>,
    /// What else goes without it, besides the cluster's own networks and names: addresses, networks, names.
    pub no: Vec<String>,
}

/// A file by its path.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["file"]))]
pub struct RawFile {
    /// The file.
    pub file: Option<String>,
}

/// Where programs and images come from.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawArtifacts {
    /// The cache folder; the user's own when null.
    pub cache: Option<String>,
    /// A file written by `artifacts bundle`.
    pub bundle: Option<String>,
    /// An address that is asked before upstream.
    pub mirror: Option<String>,
    /// A file of digests, as `sha256sum` writes them, that the mirror is held to; a mirror over `http://` needs one.
    pub digests: Option<String>,
    /// Whether nothing outside may be asked.
    pub offline: bool,
    /// auto (only what cannot be had otherwise) | always | never.
    pub build: BuildPolicy,
}

impl Default for RawArtifacts {
    fn default() -> Self {
        Self {
            cache: None,
            bundle: None,
            mirror: None,
            digests: None,
            offline: false,
            build: BuildPolicy::Auto,
        }
    }
}

/// A container image that nodes have from the start.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["ref"]))]
pub struct RawImage {
    /// Its name, with registry and tag.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// An archive to take it from, instead of a registry.
    pub archive: Option<String>,
    /// For nodes of which system; linux by default.
    pub os: Option<Os>,
}

/// How to log in to machines that are made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawAccess {
    /// `generated`, or `{file: …}`, or `{env: …}`.
    pub ssh_key: RawSecret,
}

impl Default for RawAccess {
    fn default() -> Self {
        Self {
            ssh_key: RawSecret::Word("generated".into()),
        }
    }
}

/// What happens to manifests that would not run on a mixed cluster.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawWorkloads {
    /// off | audit | warn | enforce | mutate.
    pub policies: Admission,
}

impl Default for RawWorkloads {
    fn default() -> Self {
        Self {
            policies: Admission::Off,
        }
    }
}

/// What is proven after `up`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RawVerify {
    /// Suites that `up` ends with.
    pub after: Vec<String>,
}

impl Default for RawVerify {
    fn default() -> Self {
        Self {
            after: vec!["smoke".into()],
        }
    }
}
