//! What was typed, and what to type next so that it means the same cluster.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use mullion_spec::value::ClusterName;

use crate::arguments::{Global, Patience};
use crate::shell;

/// What was typed, besides what a command takes for itself.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// All of it, the program first.
    pub arguments: &'a [OsString],
    /// Whether everything that programs say is shown.
    pub is_verbose: bool,
    /// How patient a run is, where that was said.
    pub patience: Option<Patience>,
    file: Option<&'a Path>,
    cluster: Option<&'a ClusterName>,
}

impl<'a> Invocation<'a> {
    /// Of what was typed, as it was understood.
    pub fn new(arguments: &'a [OsString], global: &'a Global, patience: Option<Patience>) -> Self {
        Self {
            arguments,
            is_verbose: global.verbose,
            patience,
            file: global.file.as_deref(),
            cluster: global.cluster.as_ref(),
        }
    }

    /// What was typed, on one line.
    pub fn line(&self) -> String {
        let typed = self.arguments.iter().skip(1).map(OsString::as_os_str);
        shell::line([OsStr::new("mullion")].into_iter().chain(typed))
    }

    /// What to type for those words to mean the same cluster, of that name.
    pub fn next(&self, name: &ClusterName, words: &[impl AsRef<OsStr>]) -> String {
        let words = words.iter().map(AsRef::as_ref);
        let mut line = vec![OsStr::new("mullion")];
        match (self.cluster, self.file) {
            // What came through standard input does not come again; the run kept it.
            (None, Some(file)) if file == Path::new("-") => {
                line.extend([OsStr::new("--cluster"), OsStr::new(name.as_str())]);
            }
            (Some(cluster), _) => {
                line.extend([OsStr::new("--cluster"), OsStr::new(cluster.as_str())]);
            }
            (None, Some(file)) => line.extend([OsStr::new("-f"), file.as_os_str()]),
            (None, None) => {}
        }
        shell::line(line.into_iter().chain(words))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    fn down_after(typed: &[&str]) -> String {
        let arguments: Vec<_> = typed.iter().map(OsString::from).collect();
        let global = Arguments::try_parse_from(&arguments).unwrap().global;
        let name = "lab".parse().unwrap();
        Invocation::new(&arguments, &global, None).next(&name, &["down"])
    }

    #[test]
    fn what_to_type_next_means_the_same_cluster() {
        for (typed, next) in [
            (&["mullion", "up"][..], "mullion down"),
            (
                &["mullion", "-f", "lab.yaml", "up"],
                "mullion -f lab.yaml down",
            ),
            (
                &["mullion", "up", "--file=my lab.yaml"],
                "mullion -f 'my lab.yaml' down",
            ),
            (&["mullion", "up", "-f", "-"], "mullion --cluster lab down"),
            (
                &["mullion", "--cluster", "lab", "up"],
                "mullion --cluster lab down",
            ),
        ] {
            assert_eq!(down_after(typed), next, "{typed:?}");
        }
    }
}
