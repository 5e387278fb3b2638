//! Files in memory.

use std::io;

use mullion_wire::Sha256Digest;

use super::super::{Family, Files, Kind, Look, Owner, Removed, SystemError, parent};
use super::{Memory, Node};

impl Memory {
    pub(super) fn node(&self, path: &str) -> Option<Node> {
        let path = self.spelled(path);
        self.inner.borrow().nodes.get(&path).cloned()
    }

    /// A path with the letters that what is there has: names on Windows have no case.
    pub(super) fn spelled(&self, path: &str) -> String {
        if self.family == Family::Linux {
            return path.to_owned();
        }
        let inner = self.inner.borrow();
        if inner.nodes.contains_key(path) {
            return path.to_owned();
        }
        let is_same = |found: &&String| found.eq_ignore_ascii_case(path);
        let found = inner.nodes.keys().find(is_same);
        found.cloned().unwrap_or_else(|| self.newly_spelled(path))
    }

    /// A path whose last name has its own letters, below a folder that keeps those that it has.
    fn newly_spelled(&self, path: &str) -> String {
        match (parent(path), path.rsplit_once('/')) {
            (Some(folder), Some((_, name))) if self.family == Family::Windows => {
                let folder = self.spelled(folder);
                format!("{}/{name}", folder.trim_end_matches('/'))
            }
            _ => path.to_owned(),
        }
    }

    /// The bytes at a path; one link is followed.
    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match self.node(path)? {
            Node::File { bytes, .. } => Some(bytes),
            Node::Link { target, .. } => match self.node(&target)? {
                Node::File { bytes, .. } => Some(bytes),
                _ => None,
            },
            Node::Folder { .. } => None,
        }
    }

    /// Writes a node as one operation; a kill at it leaves half of a file.
    fn write_node(&self, words: String, path: &str, node: Node) -> Result<(), SystemError> {
        let folder = parent(path).and_then(|folder| self.node(folder));
        if !matches!(folder, Some(Node::Folder { .. } | Node::Link { .. })) {
            return Err(absent(path));
        }
        let result = self.operate(words);
        let node = match (&result, node) {
            (Ok(()), node) => node,
            (
                Err(_),
                Node::File {
                    mut bytes,
                    mode,
                    owner,
                    modified,
                    number,
                },
            ) if self.was_killed_now() => {
                bytes.truncate(bytes.len() / 2);
                Node::File {
                    bytes,
                    mode,
                    owner,
                    modified,
                    number,
                }
            }
            _ => return result,
        };
        let path = self.spelled(path);
        self.inner.borrow_mut().nodes.insert(path, node);
        result
    }

    fn was_killed_now(&self) -> bool {
        let inner = self.inner.borrow();
        inner.kill_at == Some(inner.operations)
            && inner
                .log
                .last()
                .is_some_and(|words| words.starts_with("killed before: write"))
    }

    fn new_file(&self, bytes: Vec<u8>, mode: u32) -> Node {
        let mut inner = self.inner.borrow_mut();
        Node::File {
            bytes,
            mode,
            owner: Owner::Agent,
            modified: inner.operations.cast_signed(),
            number: inner.number(),
        }
    }
}

impl Files for Memory {
    fn look(&self, path: &str) -> Result<Option<Look>, SystemError> {
        self.live()?;
        Ok(self.node(path).map(|node| match node {
            Node::File {
                bytes,
                mode,
                owner,
                modified,
                number,
            } => Look {
                kind: Kind::File,
                size: bytes.len() as u64,
                mode,
                modified,
                number,
                owner,
            },
            Node::Folder { mode } => look_of(Kind::Folder, mode),
            Node::Link { owner, .. } => Look {
                owner,
                ..look_of(Kind::Link, 0o777)
            },
        }))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SystemError> {
        self.live()?;
        Ok(self.bytes(path))
    }

    fn digest(&self, path: &str) -> Result<Sha256Digest, SystemError> {
        self.live()?;
        let bytes = self.bytes(path).ok_or_else(|| absent(path))?;
        Ok(Sha256Digest::of(&bytes))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, SystemError> {
        self.live()?;
        let folder = self.spelled(folder);
        let inner = self.inner.borrow();
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let names = inner.nodes.keys().filter_map(|path| {
            let name = path.strip_prefix(&prefix)?;
            (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
        });
        Ok(names.collect())
    }

    fn make_folder(&self, path: &str, mode: u32) -> Result<(), SystemError> {
        if self.node(path) == Some(Node::Folder { mode }) {
            return self.live();
        }
        self.write_node(format!("make {path}"), path, Node::Folder { mode })
    }

    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SystemError> {
        let node = self.new_file(bytes.to_vec(), mode);
        self.write_node(format!("write {path}"), path, node)
    }

    fn copy(&self, from: &str, to: &str, mode: u32) -> Result<(), SystemError> {
        let bytes = self.bytes(from).ok_or_else(|| absent(from))?;
        let node = self.new_file(bytes, mode);
        self.write_node(format!("write {to} from {from}"), to, node)
    }

    fn pour(&self, from: &str, to: &str) -> Result<(), SystemError> {
        let Some(Node::File { bytes, mode, .. }) = self.node(from) else {
            return Err(absent(from));
        };
        let node = self.new_file(bytes, mode);
        self.write_node(format!("pour {from} into {to}"), to, node)?;
        let from = self.spelled(from);
        if let Some(Node::File { bytes, .. }) = self.inner.borrow_mut().nodes.get_mut(&from) {
            bytes.clear();
        }
        Ok(())
    }

    fn twin(&self, from: &str, to: &str) -> Result<(), SystemError> {
        let node = self.node(from).ok_or_else(|| absent(from))?;
        self.write_node(format!("write {to} as {from}"), to, node)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), SystemError> {
        self.live()?;
        let node = self.node(from).ok_or_else(|| absent(from))?;
        self.operate(format!("rename {from} to {to}"))?;
        let (from, replaced, to) = (self.spelled(from), self.spelled(to), self.newly_spelled(to));
        let mut inner = self.inner.borrow_mut();
        inner.nodes.remove(&from);
        inner.nodes.remove(&replaced);
        inner.nodes.insert(to, node);
        Ok(())
    }

    fn set_mode(&self, path: &str, wanted: u32) -> Result<(), SystemError> {
        self.operate(format!("mode of {path}"))?;
        let spelled = self.spelled(path);
        match self.inner.borrow_mut().nodes.get_mut(&spelled) {
            Some(Node::File { mode, owner, .. }) => {
                *mode = wanted;
                *owner = Owner::Agent;
                Ok(())
            }
            Some(Node::Folder { mode }) => {
                *mode = wanted;
                Ok(())
            }
            _ => Err(absent(path)),
        }
    }

    fn remove(&self, path: &str) -> Result<Removed, SystemError> {
        self.live()?;
        if self.node(path).is_none() {
            return Ok(Removed::Nothing);
        }
        self.operate(format!("remove {path}"))?;
        let path = self.spelled(path);
        let below = format!("{path}/");
        let mut inner = self.inner.borrow_mut();
        inner
            .nodes
            .retain(|at, _| *at != path && !at.starts_with(&below));
        Ok(Removed::Gone)
    }

    fn remove_empty(&self, folder: &str) -> Result<Removed, SystemError> {
        if self.list(folder)?.is_empty() {
            self.remove(folder)
        } else {
            Ok(Removed::Nothing)
        }
    }
}

fn look_of(kind: Kind, mode: u32) -> Look {
    Look {
        kind,
        size: 0,
        mode,
        modified: 0,
        number: 0,
        owner: Owner::Agent,
    }
}

fn absent(path: &str) -> SystemError {
    let words = format!("`{path}` is not there");
    SystemError::File(io::Error::new(io::ErrorKind::NotFound, words))
}
