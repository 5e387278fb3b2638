//! Patches for kubeadm, which it knows by their names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Checker;
use crate::finding::Finding;
use crate::rules::shape as rule;
use crate::source::Path;

/// What kubeadm patches here.
const TARGETS: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubeletconfiguration",
];
/// What kubeadm patches elsewhere: the DNS server is Mullion's own here.
const OUR_OWN: &str = "corednsdeployment";
/// How kubeadm patches.
const KINDS: [&str; 3] = ["json", "merge", "strategic"];

impl Checker<'_> {
    /// The patches, with names that kubeadm takes. The agent writes them into one folder of a machine.
    pub(super) fn patches(&mut self, at: &Path, raw: &[String]) -> Vec<PathBuf> {
        let mut seen: BTreeMap<String, Path> = BTreeMap::new();
        let mut patches = Vec::with_capacity(raw.len());
        for (index, text) in raw.iter().enumerate() {
            let at = at.index(index);
            let path = PathBuf::from(self.text(&at, text));
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.unwrap_or_default().to_owned();
            if let Some(why) = refused(&name) {
                let hint = if name.starts_with(OUR_OWN) {
                    "remove it"
                } else {
                    "name it like `kubeletconfiguration+merge.yaml`"
                };
                let finding = Finding::new(&rule::PATCH_NAME, at.clone())
                    .message(format!("`{at}`: {why}"))
                    .hint(hint);
                self.reject(finding, &at);
            } else if let Some(first) = seen.get(&name) {
                let finding = Finding::new(&rule::PATCH_NAME, at.clone())
                    .message(format!(
                        "two patches are named `{name}`, and one would replace the other"
                    ))
                    .also(first.clone(), "the first")
                    .hint("add a number behind the component: `kubeletconfiguration2+merge.yaml`");
                self.reject(finding, &at);
            }
            seen.entry(name).or_insert(at);
            patches.push(path);
        }
        patches
    }
}

/// Why kubeadm would not take a patch of that name, if so.
fn refused(name: &str) -> Option<String> {
    if name.starts_with(OUR_OWN) {
        return Some("Mullion installs CoreDNS itself, so kubeadm has none to patch".into());
    }
    let Some(target) = TARGETS.iter().find(|target| name.starts_with(**target)) else {
        return Some(format!(
            "kubeadm ignores `{name}`, which does not begin with one of {}",
            crate::shape::quoted(TARGETS)
        ));
    };
    if ![".json", ".yaml"].iter().any(|end| name.ends_with(end)) {
        return Some(format!(
            "kubeadm ignores `{name}`, which does not end with `.json` or `.yaml`"
        ));
    }
    let rest = name[target.len()..].trim_start_matches(|letter| !matches!(letter, '.' | '+'));
    let kind = rest.strip_prefix('+')?;
    let is_known = KINDS.iter().any(|known| kind.starts_with(known));
    (!is_known).then(|| {
        format!(
            "kubeadm knows no patch of the kind that `{name}` names, only {}",
            crate::shape::quoted(KINDS)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_kubeadm_takes_them() {
        for name in [
            "kubeletconfiguration.yaml",
            "kubeletconfiguration+merge.yaml",
            "kubeletconfiguration0-mine+strategic.json",
            "kube-apiserver+json.json",
            "etcd1.yaml",
        ] {
            assert_eq!(refused(name), None, "{name}");
        }
        for (name, word) in [
            ("kubelet.yaml", "begin"),
            ("kubelet-configuration.yaml", "begin"),
            ("", "begin"),
            ("kubeletconfiguration.yml", "end"),
            ("kubeletconfiguration+merge", "end"),
            ("kubeletconfiguration+patch.yaml", "kind"),
            ("corednsdeployment.yaml", "CoreDNS"),
        ] {
            let why = refused(name).unwrap_or_default();
            assert!(why.contains(word), "{name}: {why}");
        }
    }
}
