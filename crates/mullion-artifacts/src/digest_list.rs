//! Lists of digests that the user gives, as `sha256sum` writes them.

use std::io;
use std::path::Path;

use mullion_rights::Opened;
use mullion_wire::Sha256Digest;

use crate::item::Item;

/// A list of digests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestList {
    lines: Vec<(Sha256Digest, String)>,
}

/// More than any cluster has: a list is read into memory.
const LIMIT: u64 = 16 << 20;

impl DigestList {
    /// Reads a file of lines with a digest and a name.
    pub fn read(file: &Path) -> io::Result<Self> {
        let named = |error: io::Error| {
            let words = format!("`{}` cannot be read: {error}", file.display());
            io::Error::new(error.kind(), words)
        };
        let opened = Opened::by_invoker(file).map_err(named)?;
        Self::parse(&opened.text(LIMIT).map_err(named)?).map_err(|number| {
            let words = format!(
                "line {number} of {} is not a SHA-256 and a name, as `sha256sum` writes them",
                file.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, words)
        })
    }

    /// The lines of a text, or the number of the first that is none.
    pub(crate) fn parse(text: &str) -> Result<Self, usize> {
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = number + 1;
            let (digest, name) = line.trim().split_once(char::is_whitespace).ok_or(bad)?;
            let digest = digest.to_ascii_lowercase().parse().map_err(|_| bad)?;
            let name = name.trim_start().trim_start_matches('*');
            let name = name.trim_start_matches("./").trim_start_matches('/');
            lines.push((digest, name.to_owned()));
        }
        Ok(Self { lines })
    }

    /// The digests that an item may have.
    ///
    /// A name with a slash is a path of the cache (`parts/linux/program/kubeadm@1.36.4/kubeadm`) or upstream's address
    /// without its scheme; one without is the name of the file.
    pub(crate) fn find(
        &self,
        item: &Item,
        file: &str,
        upstream: Option<&str>,
    ) -> Vec<&Sha256Digest> {
        let folder = item.folder();
        let upstream = upstream.map(|address| {
            let rest = address.split_once("://");
            rest.map_or(address, |(_, rest)| rest)
        });
        let is_its = |name: &str| {
            if name.contains('/') {
                Path::new(name).parent() == Some(&folder) || Some(name) == upstream
            } else {
                name == file
            }
        };
        let lines = self.lines.iter().filter(|(_, name)| is_its(name));
        let mut found: Vec<_> = lines.map(|(digest, _)| digest).collect();
        found.sort();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Part, PartKind};
    use mullion_spec::words::Os;

    use super::*;

    #[test]
    fn a_line_is_found_by_path_by_address_and_by_name() {
        let digest = Sha256Digest::of(b"kubeadm");
        let item = |version: &str| {
            Item::Part(Part {
                name: "kubeadm".into(),
                os: Os::Linux,
                kind: PartKind::Program,
                version: version.into(),
            })
        };
        let upstream = Some("https://dl.example/v1/kubeadm");
        for name in [
            "kubeadm",
            "*kubeadm",
            "./parts/linux/program/kubeadm@1.0/kubeadm",
            "dl.example/v1/kubeadm",
        ] {
            let list = DigestList::parse(&format!("# mine\n\n{digest}  {name}\n")).unwrap();
            let found = list.find(&item("1.0"), "kubeadm", upstream);
            assert_eq!(found, [&digest], "{name}");
        }
        let list = format!("{digest}  parts/linux/program/kubeadm@1.0/kubeadm\n");
        let list = DigestList::parse(&list).unwrap();
        assert!(list.find(&item("2.0"), "kubeadm", None).is_empty());
        assert_eq!(DigestList::parse("abc kubeadm\n"), Err(1));
        assert_eq!(
            DigestList::parse(&format!("{digest} a\n{digest}\n")),
            Err(2)
        );
    }
}
