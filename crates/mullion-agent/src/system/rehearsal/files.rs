//! Files and folders as an apply would leave them.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use mullion_wire::Sha256Digest;

use super::super::{Family, Files, Kind, Look, Owner, Removed, SystemError, parent};
use super::{Rehearsal, refuse};

/// Where the bytes of a file are.
#[derive(Debug, Clone)]
enum Bytes {
    /// Here.
    Here(Rc<[u8]>),
    /// In a file of the machine: large ones are never whole in memory.
    At(String),
    /// On their way to this place of the agent's store.
    Promised { path: String, sha256: Sha256Digest },
}

/// What would be at a path.
#[derive(Debug, Clone)]
enum Node {
    /// Nothing.
    Gone,
    /// A folder; a new one has nothing of the machine in it.
    Folder { mode: u32, is_new: bool },
    /// A file, with how it looks.
    File { bytes: Bytes, look: Look },
    /// What the machine has at this path.
    Same(String),
}

/// Everything that would change, by path.
#[derive(Debug)]
pub(super) struct Nodes {
    family: Family,
    /// Each with the letters of its path.
    changed: BTreeMap<String, (String, Node)>,
    next_number: u64,
}

impl Nodes {
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            changed: BTreeMap::new(),
            // Far from the numbers that a file system gives first.
            next_number: u64::MAX,
        }
    }

    /// A path in the one form that it is kept in: names on Windows have no case.
    fn plain(&self, path: &str) -> String {
        match self.family {
            Family::Linux => path.to_owned(),
            Family::Windows => path.to_lowercase(),
        }
    }

    fn put(&mut self, path: &str, node: Node) {
        let plain = self.plain(path);
        self.changed.insert(plain, (path.to_owned(), node));
    }

    /// What would be at a path; nothing where it stays as the machine has it.
    fn find(&self, path: &str) -> Option<Node> {
        if let Some((_, node)) = self.changed.get(&self.plain(path)) {
            return Some(node.clone());
        }
        let mut above = parent(path);
        while let Some(folder) = above {
            match self.changed.get(&self.plain(folder)) {
                Some((_, Node::Folder { is_new: false, .. })) | None => {}
                Some(_) => return Some(Node::Gone),
            }
            above = parent(folder);
        }
        None
    }

    fn number(&mut self) -> u64 {
        self.next_number -= 1;
        self.next_number
    }
}

impl Rehearsal<'_> {
    /// Lets a content count as stored at a path.
    pub(super) fn promise(&self, path: &str, sha256: &Sha256Digest, size: u64) {
        let bytes = Bytes::Promised {
            path: path.to_owned(),
            sha256: sha256.clone(),
        };
        self.put_file(path, bytes, size, 0o600);
    }

    fn put_file(&self, path: &str, bytes: Bytes, size: u64, mode: u32) {
        let mut nodes = self.nodes.borrow_mut();
        let look = Look {
            kind: Kind::File,
            size,
            mode,
            modified: 0,
            number: nodes.number(),
            owner: Owner::Agent,
        };
        nodes.put(path, Node::File { bytes, look });
    }

    fn found(&self, path: &str) -> Option<Node> {
        self.nodes.borrow().find(path)
    }

    /// Where the bytes of a file are, and how many.
    fn bytes(&self, path: &str) -> Result<(Bytes, u64), SystemError> {
        let at = match self.found(path) {
            Some(Node::File { bytes, look }) => return Ok((bytes, look.size)),
            Some(Node::Same(at)) => at,
            Some(Node::Gone | Node::Folder { .. }) => return Err(absent(path)),
            None => path.to_owned(),
        };
        let look = self.base.look(&at)?.ok_or_else(|| absent(path))?;
        Ok((Bytes::At(at), look.size))
    }
}

impl Files for Rehearsal<'_> {
    fn look(&self, path: &str) -> Result<Option<Look>, SystemError> {
        match self.found(path) {
            None => self.base.look(path),
            Some(Node::Same(at)) => self.base.look(&at),
            Some(Node::Gone) => Ok(None),
            Some(Node::File { look, .. }) => Ok(Some(look)),
            Some(Node::Folder { mode, .. }) => Ok(Some(Look {
                kind: Kind::Folder,
                size: 0,
                mode,
                modified: 0,
                number: 0,
                owner: Owner::Agent,
            })),
        }
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SystemError> {
        match self.found(path) {
            None => self.base.read(path),
            Some(Node::Same(at)) => self.base.read(&at),
            Some(Node::Gone | Node::Folder { .. }) => Ok(None),
            Some(Node::File { bytes, .. }) => match bytes {
                Bytes::Here(bytes) => Ok(Some(bytes.to_vec())),
                Bytes::At(at) => self.base.read(&at),
                Bytes::Promised { path: at, sha256 } => {
                    // It may have been brought already.
                    let stored = self.base.read(&at)?;
                    let stored = stored.filter(|bytes| Sha256Digest::of(bytes) == sha256);
                    stored.map(Some).ok_or_else(|| {
                        SystemError::Nonsense(format!(
                            "the content of `{path}` is not on this machine yet (sha256 {sha256})"
                        ))
                    })
                }
            },
        }
    }

    fn digest(&self, path: &str) -> Result<Sha256Digest, SystemError> {
        match self.bytes(path)?.0 {
            Bytes::Here(bytes) => Ok(Sha256Digest::of(&bytes)),
            Bytes::At(at) => self.base.digest(&at),
            Bytes::Promised { sha256, .. } => Ok(sha256),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, SystemError> {
        let folder = folder.trim_end_matches('/');
        let mut names = BTreeMap::new();
        let nodes = self.nodes.borrow();
        match nodes.find(folder) {
            None | Some(Node::Folder { is_new: false, .. }) => {
                for name in self.base.list(folder)? {
                    names.insert(nodes.plain(&name), name);
                }
            }
            Some(_) => {}
        }
        let prefix = format!("{}/", nodes.plain(folder));
        let below = nodes.changed.range(prefix.clone()..);
        for (plain, (path, node)) in below.take_while(|(plain, _)| plain.starts_with(&prefix)) {
            let plain = &plain[prefix.len()..];
            if plain.contains('/') {
                continue;
            }
            if matches!(node, Node::Gone) {
                names.remove(plain);
            } else {
                let name = path.rsplit('/').next().unwrap_or(path);
                names.insert(plain.to_owned(), name.to_owned());
            }
        }
        let mut names: Vec<_> = names.into_values().collect();
        names.sort();
        Ok(names)
    }

    fn make_folder(&self, path: &str, mode: u32) -> Result<(), SystemError> {
        let is_new = match self.found(path) {
            Some(Node::Folder { is_new, .. }) => is_new,
            Some(_) => true,
            None => self.base.look(path)?.is_none(),
        };
        let node = Node::Folder { mode, is_new };
        self.nodes.borrow_mut().put(path, node);
        Ok(())
    }

    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SystemError> {
        self.put_file(path, Bytes::Here(bytes.into()), bytes.len() as u64, mode);
        Ok(())
    }

    fn copy(&self, from: &str, to: &str, mode: u32) -> Result<(), SystemError> {
        let (bytes, size) = self.bytes(from)?;
        self.put_file(to, bytes, size, mode);
        Ok(())
    }

    fn pour(&self, _from: &str, _to: &str) -> Result<(), SystemError> {
        refuse("empty files")
    }

    fn twin(&self, from: &str, to: &str) -> Result<(), SystemError> {
        let node = match self.found(from) {
            Some(Node::Gone) => return Err(absent(from)),
            Some(node) => node,
            None if self.base.look(from)?.is_none() => return Err(absent(from)),
            None => Node::Same(from.to_owned()),
        };
        self.nodes.borrow_mut().put(to, node);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), SystemError> {
        if matches!(self.look(from)?, Some(look) if look.kind == Kind::Folder) {
            return refuse("move folders");
        }
        self.twin(from, to)?;
        self.nodes.borrow_mut().put(from, Node::Gone);
        Ok(())
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), SystemError> {
        let look = self.look(path)?.ok_or_else(|| absent(path))?;
        if look.kind == Kind::Folder {
            return self.make_folder(path, mode);
        }
        let (bytes, _) = self.bytes(path)?;
        let look = Look {
            mode,
            owner: Owner::Agent,
            ..look
        };
        let node = Node::File { bytes, look };
        self.nodes.borrow_mut().put(path, node);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<Removed, SystemError> {
        if self.look(path)?.is_none() {
            return Ok(Removed::Nothing);
        }
        let mut nodes = self.nodes.borrow_mut();
        let below = format!("{}/", nodes.plain(path));
        nodes.changed.retain(|plain, _| !plain.starts_with(&below));
        nodes.put(path, Node::Gone);
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

fn absent(path: &str) -> SystemError {
    let words = format!("`{path}` is not there");
    SystemError::File(io::Error::new(io::ErrorKind::NotFound, words))
}
