//! Programs, images and archives as the data files describe them; [`crate::needs`] fills in versions.

use std::collections::BTreeMap;

use mullion_spec::words::{Cni, Os};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::patches::Patch;

/// `artifacts.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArtifactsFile {
    pub(crate) artifact: Vec<ArtifactRow>,
}

/// `recipes.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipesFile {
    pub(crate) recipe: BTreeMap<String, RecipeRow>,
}

/// One artifact, its version still open.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArtifactRow {
    pub(crate) name: String,
    pub(crate) kind: ArtifactKind,
    pub(crate) os: Os,
    pub(crate) version: VersionSource,
    /// The name of its file, where that is not its own.
    pub(crate) file: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) checksum: Option<String>,
    #[serde(default)]
    pub(crate) digest: Digest,
    #[serde(default)]
    pub(crate) when: When,
    /// Whether control planes alone run it.
    #[serde(default)]
    pub(crate) control_plane: bool,
    pub(crate) build: Option<BuildRow>,
    pub(crate) source: String,
}

/// What an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactKind {
    /// A program, one file.
    Program,
    /// A container image.
    Image,
    /// A file with several programs in it, or a disc.
    Archive,
    /// A package of the Linux distribution.
    Package,
}

/// Which subject of the catalog gives an artifact's version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionSource {
    /// The Kubernetes release.
    Kubernetes,
    /// The etcd that the Kubernetes release wants.
    Etcd,
    /// The `CoreDNS` that the Kubernetes release wants.
    Coredns,
    /// The pause image that the Kubernetes release wants.
    Pause,
    /// The pause image that the cluster's Windows releases can start.
    WindowsPause,
    /// The agnhost that the Kubernetes release's tests want.
    Agnhost,
    /// The containerd that the Kubernetes minor takes.
    Containerd,
    /// The hcsshim that this containerd asks for.
    Hcsshim,
    /// The reference network plugins.
    CniPlugins,
    /// Flannel.
    Flannel,
    /// kube-router.
    KubeRouter,
    /// Whatever the Linux distribution has.
    Distribution,
    /// This version and no other.
    Fixed(String),
}

/// When a cluster needs an artifact. What is left out holds for every cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct When {
    #[serde(default)]
    pub(crate) cni: Vec<Cni>,
    #[serde(default)]
    pub(crate) policy: bool,
    /// Only where machines stand in for Windows, or only where machines run it; left out, for both.
    pub(crate) stand_in: Option<bool>,
    #[serde(default)]
    pub(crate) purpose: Purpose,
}

/// What artifacts are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To run the cluster.
    #[default]
    Cluster,
    /// To prove that it works.
    Verify,
    /// To run upstream's own tests.
    E2e,
    /// To install an operating system on a machine.
    Install,
}

/// How an artifact is made, the recipe still a name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BuildRow {
    Go(GoRow),
    C(CRow),
    Image(ImageBuild),
    Parts(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoRow {
    pub(crate) recipe: String,
    pub(crate) package: String,
    pub(crate) tried: bool,
    #[serde(default)]
    pub(crate) cgo: bool,
    /// In place of the recipe's.
    pub(crate) ldflags: Option<String>,
    #[serde(default)]
    pub(crate) test_binary: bool,
    #[serde(default)]
    pub(crate) patches: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CRow {
    pub(crate) recipe: String,
    pub(crate) file: String,
    pub(crate) flags: Vec<String>,
    pub(crate) tried: bool,
}

/// How a module is built, its version still open.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipeRow {
    pub(crate) module: String,
    pub(crate) version: VersionSource,
    pub(crate) module_version: String,
    pub(crate) replace: Replace,
    pub(crate) staging_version: Option<String>,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    pub(crate) ldflags: String,
    pub(crate) tried_versions: Vec<String>,
    pub(crate) source: String,
}

/// What becomes of the `replace` lines of a module's own go.mod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replace {
    /// Those that lead to a folder of the module are dropped; the others stay.
    DropLocal,
    /// Those that lead to `./staging` become the staging module's published version.
    Staging,
}

/// An artifact that a cluster needs, with everything filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactRef {
    /// Its name, unique for its system and kind.
    pub name: String,
    /// What it is.
    pub kind: ArtifactKind,
    /// The system it is for.
    pub os: Os,
    /// Its version, without a leading `v`; `distribution` where the distribution decides. What is built with patches
    /// has their fingerprint after a `+`, so that other patches make another version.
    pub version: String,
    /// The name of its file: of a program on the machine, of an archive in the cache.
    pub file: Option<String>,
    /// Where upstream publishes it: an address, or the reference of an image.
    pub address: Option<String>,
    /// Where upstream publishes its checksum.
    pub checksum: Option<String>,
    /// What a download is checked against.
    pub digest: Digest,
    /// How it is made from source, where that is known.
    pub build: Option<Build>,
    /// Whether control planes alone run it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub control_plane: bool,
    /// Where this was read.
    pub source: String,
}

/// How an artifact is made from source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Build {
    /// By the Go tool.
    Go(GoBuild),
    /// By a C compiler.
    C(CBuild),
    /// An image archive of one layer, out of a program.
    Image(ImageBuild),
    /// Not as a whole: these programs stand in its place, each with a build of its own.
    Parts {
        /// Their names, for the same system.
        programs: Vec<String>,
    },
}

/// A Go module of one version, as a build needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GoModule {
    /// The module's path.
    pub path: String,
    /// Its version, with the `v`.
    pub version: String,
    /// Its pinned sum.
    pub sum: Digest,
    /// Whether the public checksum database knows it; where not, GONOSUMDB names this module alone.
    pub in_checksum_database: bool,
    /// What becomes of its own `replace` lines.
    pub replace: Replace,
    /// The version of its staging modules.
    pub staging_version: Option<String>,
}

/// How the Go tool makes a program. `-trimpath` and `-mod=mod` always go with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GoBuild {
    /// The module.
    pub module: GoModule,
    /// The package to build.
    pub package: String,
    /// The value of GOOS.
    pub goos: Os,
    /// Whether C is linked in.
    pub cgo: bool,
    /// Build tags.
    pub tags: Vec<String>,
    /// Linker flags.
    pub ldflags: String,
    /// Whether it is a test program, made by `go test -c`.
    pub test_binary: bool,
    /// What is changed in the source beforehand, in this order.
    pub patches: Vec<Patch>,
    /// Whether this version was built so here.
    pub tried: bool,
}

/// How a C compiler makes a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CBuild {
    /// The module with the source.
    pub module: GoModule,
    /// The source file inside the module.
    pub file: String,
    /// Compiler flags.
    pub flags: Vec<String>,
    /// Whether this version was built so here.
    pub tried: bool,
}

/// An image archive of one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageBuild {
    /// The program inside.
    pub program: String,
    /// Where it lies.
    pub path: String,
    /// The entry point.
    pub entrypoint: Vec<String>,
    /// Programs of the distribution that must lie beside it; with none of them the image holds the program alone.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether an image of this shape was made here.
    pub tried: bool,
}
