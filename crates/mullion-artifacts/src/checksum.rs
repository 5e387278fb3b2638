//! Upstream's checksum files.

use mullion_wire::Sha256Digest;

/// The digest that a checksum file has for a file: the only word in it, or the word before the file's name.
pub(crate) fn find(text: &str, file: &str) -> Option<Sha256Digest> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let digest = |word: &str| word.to_ascii_lowercase().parse().ok();
    if let (Some(line), None) = (lines.next(), lines.next()) {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next()?, words.next());
        return match second {
            Some(name) if base(name) != file => None,
            _ => digest(first),
        };
    }
    text.lines().find_map(|line| {
        let (first, name) = line.trim().split_once(char::is_whitespace)?;
        (base(name.trim()) == file).then(|| digest(first))?
    })
}

/// The name alone: `sha256sum` marks binary files with a star, and some write a path.
fn base(name: &str) -> &str {
    let name = name.trim_start_matches('*');
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_checksum_file_is_read() {
        let one = "a".repeat(64);
        let two = "b".repeat(64);
        let list = format!("{two}  other\n{one} *bin/kubeadm\n");
        for text in [
            one.clone(),
            format!("{one}\n"),
            format!("{one}  kubeadm\n"),
            list,
        ] {
            assert_eq!(find(&text, "kubeadm").unwrap().as_str(), one, "{text}");
        }
    }

    #[test]
    fn another_files_checksum_is_none() {
        let one = "a".repeat(64);
        assert_eq!(find(&format!("{one}  kubelet\n"), "kubeadm"), None);
        assert_eq!(find("<html>not found</html>", "kubeadm"), None);
        assert_eq!(find("", "kubeadm"), None);
    }
}
