//! A scratch folder in the agent's way of writing paths.

pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().unwrap().replace('\\', "/")
    }
}
