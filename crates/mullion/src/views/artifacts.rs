//! Artifacts: which a cluster needs, where each came from, and whether it is sound.

use std::fmt::Write as _;
use std::time::Duration;

use mullion_artifacts::{Item, Origin, Record, Soundness, Witness};
use mullion_wire::duration;
use schemars::JsonSchema;
use serde::Serialize;

use super::findings::plural;
use super::runs::table;

/// What a cluster needs, and what of it is in the cache.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactsDocument {
    /// The cluster.
    pub cluster: String,
    /// The cache folder.
    pub cache: String,
    /// Everything that is needed.
    pub artifacts: Vec<ArtifactRow>,
}

/// One thing that a cluster needs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactRow {
    /// `program`, `image`, `archive`, `root` or `layer`.
    pub kind: &'static str,
    /// Its name; of a root file system, the suite.
    pub name: String,
    /// Its version; of a root file system, what it is known by.
    pub version: String,
    /// The system it is for.
    pub os: String,
    /// Whether it is in the cache, and as it was recorded.
    pub cached: bool,
    /// Its length in bytes.
    pub size: Option<u64>,
    /// Where it came from.
    pub source: Option<String>,
    /// Its SHA-256.
    pub sha256: Option<String>,
}

/// What came of getting everything that a cluster needs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupplyDocument {
    /// The cluster.
    pub cluster: String,
    /// The cache folder.
    pub cache: String,
    /// Whether everything is there.
    pub complete: bool,
    /// Everything that is needed.
    pub artifacts: Vec<SupplyRow>,
    /// How long it took.
    pub took_ms: u64,
}

/// What came of getting one thing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupplyRow {
    /// The thing.
    #[serde(flatten)]
    pub artifact: ArtifactRow,
    /// How long it took; nothing where it was not begun.
    pub took_ms: Option<u64>,
    /// Why it could not be had.
    pub error: Option<SupplyTrouble>,
}

/// Why something could not be had.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupplyTrouble {
    /// What failed.
    pub words: String,
    /// The causes behind it, outermost first.
    pub causes: Vec<String>,
    /// The last lines of the tool that failed.
    pub tail: Vec<String>,
    /// What a person can do about it.
    pub hints: Vec<String>,
}

/// What a second look at the cache gave.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactsVerifyDocument {
    /// The cache folder.
    pub cache: String,
    /// Whether everything is as it was recorded.
    pub sound: bool,
    /// Everything in the cache.
    pub artifacts: Vec<VerifyRow>,
}

/// How one thing in the cache stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyRow {
    /// What it is.
    pub artifact: String,
    /// `sound`, `changed` or `missing`.
    pub state: &'static str,
    /// Its folder in the cache.
    pub folder: String,
    /// What it was held to when it came.
    pub held_to: String,
}

/// What reading a bundle again gave; one that is damaged is an error.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleVerifyDocument {
    /// The cluster whose needs were compared.
    pub cluster: String,
    /// The bundle.
    pub file: String,
    /// Who signed it.
    pub signature: String,
    /// Everything in it, each as its digest says.
    pub artifacts: Vec<String>,
    /// The length of all of them in bytes.
    pub size: u64,
    /// What the cluster needs and is not in it.
    pub lacks: Vec<String>,
}

/// A bundle that was written.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleDocument {
    /// The cluster.
    pub cluster: String,
    /// The file.
    pub file: String,
    /// Its length in bytes.
    pub size: u64,
    /// Everything in it.
    pub artifacts: Vec<ArtifactRow>,
    /// The public key that it is signed with.
    pub key: Option<String>,
}

/// The public key that bundles are signed with on this computer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyDocument {
    /// The key.
    pub key: String,
}

/// What was put into the cache out of a bundle.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportDocument {
    /// The cache folder.
    pub cache: String,
    /// The bundle.
    pub file: String,
    /// Everything that was in it.
    pub artifacts: Vec<String>,
}

/// A cache that counts from now on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptDocument {
    /// The cache folder.
    pub cache: String,
    /// How many artifacts are in it.
    pub artifacts: usize,
}

impl ArtifactRow {
    /// The row of an item, and of its record where it is in the cache.
    pub fn new(item: &Item, record: Option<&Record>) -> Self {
        let (kind, name, version, os) = match item {
            Item::Part(part) => (
                kind_word(part.kind),
                part.name.clone(),
                part.version.clone(),
                part.os.to_string(),
            ),
            Item::Root { suite, fingerprint } => {
                ("root", suite.clone(), fingerprint.clone(), "linux".into())
            }
            Item::Layer { suite, fingerprint } => {
                ("layer", suite.clone(), fingerprint.clone(), "linux".into())
            }
            other => ("other", other.to_string(), String::new(), String::new()),
        };
        Self {
            kind,
            name,
            version,
            os,
            cached: record.is_some(),
            size: record.map(|record| record.size),
            source: record.map(source),
            sha256: record.map(|record| record.sha256.to_string()),
        }
    }
}

const fn kind_word(kind: mullion_plan::PartKind) -> &'static str {
    match kind {
        mullion_plan::PartKind::Program => "program",
        mullion_plan::PartKind::Image => "image",
        mullion_plan::PartKind::Archive => "archive",
    }
}

/// Where something came from, in few words.
pub fn source(record: &Record) -> String {
    let origin = match &record.origin {
        Origin::Upstream { address, witness } => {
            format!("upstream {}{}", host(address), doubt(*witness))
        }
        Origin::Mirror { address, witness } => {
            format!("mirror {}{}", host(address), doubt(*witness))
        }
        Origin::Archive { archive, .. } => format!("out of {archive}"),
        Origin::Build => "built here".into(),
        Origin::Made => "put together here".into(),
        Origin::Given => "given".into(),
        _ => "unknown".into(),
    };
    match &record.carried_by {
        Some(bundle) => format!("{origin}, by bundle {bundle}"),
        None => origin,
    }
}

/// What something was held to when it came, in few words.
pub fn held_to(record: &Record) -> String {
    let held = match &record.origin {
        Origin::Upstream { witness, .. } | Origin::Mirror { witness, .. } => match witness {
            Witness::Catalog => "the catalog's digest",
            Witness::ChecksumFile => "upstream's checksum file",
            Witness::DigestList => "the list of digests",
            Witness::MirrorRecord => "the mirror's own record, at its first use",
            Witness::MirrorChecksum => "the mirror's own checksum file, at its first use",
            Witness::MirrorManifest => "the mirror's own manifest, at its first use",
            Witness::Manifest => "the registry's manifest",
            Witness::Connection => "nothing but the connection",
            _ => "something that this version does not know",
        }
        .to_owned(),
        Origin::Archive { archive, .. } => format!("{archive}, which it was taken out of"),
        Origin::Build => "the sums of its modules".into(),
        Origin::Made => "the parts that it was put together from".into(),
        _ => "nothing: it was given".into(),
    };
    let held = match &record.carried_by {
        Some(bundle) => format!("{held}, and the bundle {bundle}"),
        None => held,
    };
    match &record.scope {
        Some(scope) => format!("{held}; counts only for files with {scope}"),
        None => held,
    }
}

/// What is to be said where nothing but who sent it vouches for a download.
const fn doubt(witness: Witness) -> &'static str {
    match witness {
        Witness::MirrorRecord | Witness::MirrorChecksum | Witness::MirrorManifest => {
            ", which alone vouched for it: pinned as it first came"
        }
        Witness::Connection => ", no digest is published: pinned as it first came",
        _ => "",
    }
}

/// The host of an address; of a registry's name, what stands before its first slash.
fn host(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = address.split('/').next().unwrap_or(address);
    host.rsplit('@').next().unwrap_or(host)
}

/// A length as people say it.
pub fn length(bytes: u64) -> String {
    let tenths = |unit: u64| {
        let number = bytes.saturating_mul(10) / unit;
        format!("{}.{}", number / 10, number % 10)
    };
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", tenths(1 << 10)),
        1_048_576..1_073_741_824 => format!("{} MiB", tenths(1 << 20)),
        _ => format!("{} GiB", tenths(1 << 30)),
    }
}

/// The list as a table, with a sum below.
pub fn list(document: &ArtifactsDocument) -> String {
    let head = [
        "KIND", "NAME", "VERSION", "OS", "CACHED", "SIZE", "SHA-256", "SOURCE",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let dash = || "-".to_owned();
    for row in &document.artifacts {
        rows.push([
            row.kind.to_owned(),
            row.name.clone(),
            shortened(&row.version),
            row.os.clone(),
            if row.cached { "yes" } else { "no" }.to_owned(),
            row.size.map_or_else(dash, length),
            row.sha256.as_deref().map_or_else(dash, shortened),
            row.source.clone().unwrap_or_else(dash),
        ]);
    }
    let mut out = table(&rows);
    let missing = document.artifacts.iter().filter(|row| !row.cached).count();
    let size: u64 = document.artifacts.iter().filter_map(|row| row.size).sum();
    let _ = writeln!(
        out,
        "\n{}, {missing} missing; {} in {}",
        plural(document.artifacts.len(), "artifact"),
        length(size),
        document.cache
    );
    out
}

/// A digest or a fingerprint by its first signs; anything else as it is.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 12;
    let is_digest = text.len() > 2 * SHOWN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest {
        text[..SHOWN].to_owned()
    } else {
        text.to_owned()
    }
}

/// The line of one thing that was got.
pub fn got(row: &SupplyRow) -> String {
    let ArtifactRow {
        kind,
        name,
        version,
        os,
        ..
    } = &row.artifact;
    let version = shortened(version);
    let took = row
        .took_ms
        .map(|took| duration::shown(Duration::from_millis(took)));
    let took = took.unwrap_or_default();
    match (&row.error, &row.artifact.source) {
        (Some(_), _) => format!("{took:>10}  {kind} {name} {version} for {os}: FAILED"),
        (None, source) => {
            let size = row.artifact.size.map(length).unwrap_or_default();
            let source = source.as_deref().unwrap_or("it is not known from where");
            format!("{took:>10}  {kind} {name} {version} for {os}: {size}, {source}")
        }
    }
}

/// Why something could not be had, with the last lines of what failed.
pub fn trouble(row: &SupplyRow, error: &str) -> String {
    let mut out = String::new();
    let Some(trouble) = &row.error else {
        return out;
    };
    let _ = writeln!(out, "\n{error}: {}", trouble.words);
    for cause in &trouble.causes {
        let _ = writeln!(out, "  because: {cause}");
    }
    if !trouble.tail.is_empty() {
        let _ = writeln!(out, "  last lines:");
        for line in &trouble.tail {
            let _ = writeln!(out, "    {line}");
        }
    }
    for hint in &trouble.hints {
        let _ = writeln!(out, "hint: {hint}");
    }
    out
}

/// How something in the cache stands, as a word.
pub const fn standing(state: Soundness) -> &'static str {
    match state {
        Soundness::Sound => "sound",
        Soundness::Changed => "changed",
        Soundness::Missing => "missing",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Part, PartKind};
    use mullion_spec::words::Os;

    use super::*;

    fn row(name: &str, cached: bool) -> ArtifactRow {
        let part = Part {
            name: name.into(),
            os: Os::Linux,
            kind: PartKind::Program,
            version: "1.36.4".into(),
        };
        ArtifactRow {
            cached,
            size: cached.then_some(5_400_000),
            source: cached.then(|| "built here".into()),
            sha256: cached.then(|| "0123456789abcdef".repeat(4)),
            ..ArtifactRow::new(&Item::Part(part), None)
        }
    }

    #[test]
    fn the_list_says_what_is_there_and_what_is_missing() {
        let document = ArtifactsDocument {
            cluster: "demo".into(),
            cache: "/cache".into(),
            artifacts: vec![row("kubeadm", true), row("kubelet", false)],
        };
        insta::assert_snapshot!(list(&document), @r"
        KIND     NAME     VERSION  OS     CACHED  SIZE     SHA-256       SOURCE
        program  kubeadm  1.36.4   linux  yes     5.1 MiB  0123456789ab  built here
        program  kubelet  1.36.4   linux  no      -        -             -

        2 artifacts, 1 missing; 5.1 MiB in /cache
        ");
    }

    #[test]
    fn addresses_are_told_by_their_host_and_without_a_password() {
        assert_eq!(
            host("https://user:secret@dl.example.org/a/b"),
            "dl.example.org"
        );
        assert_eq!(host("registry.example.org/a/b:1"), "registry.example.org");
    }

    #[test]
    fn what_nobody_vouches_for_is_told() {
        let told = |witness: &str| {
            let record = serde_json::json!({
                "version": 1,
                "item": {
                    "is": "part",
                    "name": "flannel-archive",
                    "os": "windows",
                    "kind": "archive",
                    "version": "0.28.0",
                },
                "file": "flannel.tar.gz",
                "sha256": "0123456789abcdef".repeat(4),
                "size": 9,
                "origin": {"from": "upstream", "address": "https://dl.example.org/a", "witness": witness},
            });
            source(&serde_json::from_value(record).unwrap())
        };
        assert_eq!(told("checksum-file"), "upstream dl.example.org");
        assert_eq!(
            told("connection"),
            "upstream dl.example.org, no digest is published: pinned as it first came"
        );
    }

    #[test]
    fn a_failure_shows_the_last_lines_of_the_tool() {
        let row = SupplyRow {
            artifact: row("kubelet", false),
            took_ms: Some(61_000),
            error: Some(SupplyTrouble {
                words: "program kubelet could not be built".into(),
                causes: vec!["go ended with status 1".into()],
                tail: vec!["undefined: x".into()],
                hints: vec!["look at it".into()],
            }),
        };
        assert_eq!(
            got(&row),
            " 1 min 1 s  program kubelet 1.36.4 for linux: FAILED"
        );
        assert_eq!(
            trouble(&row, "error"),
            "\nerror: program kubelet could not be built\n  because: go ended with status 1\n  last lines:\n    \
             undefined: x\nhint: look at it\n"
        );
    }

    #[test]
    fn lengths_are_told_in_the_fitting_unit() {
        let all = [12, 2048, 5 << 20, 3 << 30].map(length);
        assert_eq!(all, ["12 B", "2.0 KiB", "5.0 MiB", "3.0 GiB"]);
    }
}
