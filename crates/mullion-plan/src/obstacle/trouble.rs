//! Says why something of the cluster's name must be left as it is, and what helps.

use mullion_spec::value::MachineName;

use crate::identity::Trouble;

fn named(machine: Option<&MachineName>) -> String {
    machine.map_or_else(
        || "the machine network of this name".into(),
        |machine| format!("machine `{machine}`"),
    )
}

/// What must be left as it is and why, in one sentence.
pub(super) fn left_alone(machine: Option<&MachineName>, trouble: &Trouble) -> String {
    let what = named(machine);
    match trouble {
        Trouble::Unreadable { file, why } => {
            format!("cannot tell whose {what} is: `{file}` {why}")
        }
        Trouble::Newer { file, version } => format!(
            "a newer version of Mullion made {what}: `{file}` has version `{version}`, which this version cannot read"
        ),
        Trouble::OtherCluster {
            found, own, owner, ..
        } => {
            let owner = owner.map(|owner| format!(", brought up by the user with number {owner}"));
            let own = match own {
                Some(own) => format!("this cluster has the id {own}"),
                None => "this cluster has no id yet".into(),
            };
            format!(
                "{what} belongs to another cluster of the same name (id {found}{}); {own}",
                owner.unwrap_or_default()
            )
        }
        Trouble::Agent { why, .. } => {
            format!("the agent of {what} cannot tell what it did there: {why}")
        }
        Trouble::UsedElsewhere { by } => {
            format!("{what} is in use by {by}")
        }
        Trouble::NoFolder { folder, .. } => {
            format!(
                "{what} is in use by a machine that runs although its folder `{folder}` was removed"
            )
        }
        Trouble::StrangeFolder { folder } => {
            format!(
                "`{folder}` is among the machines of this cluster, and its name is not one of a machine"
            )
        }
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-".contains(letter);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// What the user can do about it, in one sentence.
pub(super) fn way_out(machine: Option<&MachineName>, trouble: &Trouble) -> String {
    match trouble {
        Trouble::Unreadable { file, .. } if machine.is_some() => format!(
            "restore `{file}` from a backup, or stop the machine and move its folder away if you do not need it; nothing \
             was changed"
        ),
        Trouble::Unreadable { file, .. } => format!("restore or remove `{file}`; nothing was changed"),
        Trouble::Newer { .. } => {
            "use the version of Mullion that made it, or a newer one; nothing was changed".into()
        }
        // The folder of the file went with the state.
        Trouble::OtherCluster {
            found,
            own: None,
            file,
            ..
        } => format!(
            "if it is the same cluster and its state was lost, run `install -D -m 600 /dev/null {file} && echo {found} > \
             {file}`, then the command again; if not, give this cluster another `metadata.name` in the file",
            file = quoted(file)
        ),
        Trouble::OtherCluster { found, file, .. } => format!(
            "give this cluster another `metadata.name` in the file; if it is the same cluster and its state was lost, write \
             `{found}` into `{file}`"
        ),
        Trouble::Agent { hint, .. } => hint
            .clone()
            .unwrap_or_else(|| "log in to the machine and see what it says".into()),
        Trouble::UsedElsewhere { .. } => {
            "run the command with the `MULLION_PLACE` that the machines were made with, or give this cluster another \
             `metadata.name` in the file"
                .into()
        }
        Trouble::NoFolder { end, .. } => {
            format!("end the machine with `{end}`, then run the command again; nothing was changed")
        }
        Trouble::StrangeFolder { folder } => format!(
            "give `{folder}` the name back that it had, use a newer version of Mullion if one made it, or move it to another \
             folder if it is not a machine; nothing was changed"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Obstacle, ObstacleClass};
    use super::*;

    #[test]
    fn promise_06_a_folder_that_cannot_be_a_machine_is_named_with_a_remedy() {
        let obstacle = Obstacle::LeftAlone {
            machine: None,
            trouble: Trouble::StrangeFolder {
                folder: "/place/clusters/demo/machines/CP1".into(),
            },
        };
        assert_eq!(obstacle.class(), ObstacleClass::ThisComputer);
        for words in [obstacle.words(), obstacle.hint()] {
            assert!(words.contains("demo/machines/CP1"), "{words}");
        }
        assert!(obstacle.hint().contains("move it"), "{}", obstacle.hint());
    }
}
