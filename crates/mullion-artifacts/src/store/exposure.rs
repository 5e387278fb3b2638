//! Finds who else can change what root takes from a cache.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{GO_CACHES, LAYERS, PARTS, ROOTS, TOOLCHAINS, WORK};

/// Everybody may write there, and remove only what is theirs.
const STICKY: u32 = 0o1000;

/// The first folder that others than root and `owner` (user and group) can change: the cache's own, or one above it,
/// where they could put another cache in its place.
pub(super) fn find(cache: &Path, owner: Option<(u32, u32)>) -> io::Result<Option<PathBuf>> {
    for name in ["", PARTS, ROOTS, LAYERS, TOOLCHAINS, GO_CACHES, WORK] {
        let path = cache.join(name);
        let found = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if !is_safe(&found, owner) {
            return Ok(Some(path));
        }
    }
    let whole = fs::canonicalize(cache)?;
    for folder in whole.ancestors().skip(1) {
        let found = fs::metadata(folder)?;
        // In a folder like `/tmp` nobody but its owner can move the cache away.
        let is_sticky = found.mode() & STICKY != 0 && is_theirs(found.uid(), owner);
        if !is_sticky && !is_safe(&found, owner) {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}

fn is_theirs(user: u32, owner: Option<(u32, u32)>) -> bool {
    user == 0 || owner.is_some_and(|(owner, _)| user == owner)
}

fn is_safe(found: &std::fs::Metadata, owner: Option<(u32, u32)>) -> bool {
    // A user's own group has the user's number. Others may be in any other group, the user's first one too.
    let is_own_group = |group: u32| {
        group == 0 || owner.is_some_and(|(user, first)| group == first && group == user)
    };
    let mode = found.mode();
    mode & 0o002 == 0
        && is_theirs(found.uid(), owner)
        && (mode & 0o020 == 0 || is_own_group(found.gid()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn promise_10_a_cache_counts_only_where_nobody_else_can_change_it_or_swap_it() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().join("above");
        let cache = above.join("cache");
        fs::create_dir_all(cache.join(PARTS)).unwrap();
        let own = fs::metadata(&cache).unwrap();
        let (user, group) = (own.uid(), own.gid());
        let private = Some((user, group));
        let set = |path: &Path, mode| {
            fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in [&above, &cache, &cache.join(PARTS)] {
            set(path, 0o755);
        }
        assert_eq!(find(&cache, private).unwrap(), None);
        for path in [&above, &cache, &cache.join(PARTS)] {
            set(path, 0o777);
            assert_eq!(find(&cache, private).unwrap().as_ref(), Some(path));
            set(path, 0o775);
            let expected = (user != group && group != 0).then_some(path);
            assert_eq!(find(&cache, private).unwrap().as_ref(), expected);
            set(path, 0o755);
        }
        // Like `/tmp`.
        set(&above, 0o1777);
        assert_eq!(find(&cache, private).unwrap(), None);
        if user != 0 {
            assert_eq!(find(&cache, None).unwrap().as_ref(), Some(&cache));
        }
    }
}
