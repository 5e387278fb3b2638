//! Tells clusters of one name apart.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many hexadecimal digits an id has: 128 bits.
const DIGITS: usize = 32;

/// The random id of a cluster, beside its name in every label.
///
/// The first `up` makes it. Labels of older versions have none: those belong to the cluster of their name.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ClusterUid(String);

/// Why a text is not the id of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a cluster has {DIGITS} lower-case hexadecimal digits")]
pub struct NoUid;

impl ClusterUid {
    /// The id of those random bits.
    pub fn of(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterUid {
    type Err = NoUid;
    fn from_str(text: &str) -> Result<Self, NoUid> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == DIGITS && text.bytes().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NoUid)
        }
    }
}

impl TryFrom<String> for ClusterUid {
    type Error = NoUid;
    fn try_from(text: String) -> Result<Self, NoUid> {
        text.parse()
    }
}

impl From<ClusterUid> for String {
    fn from(id: ClusterUid) -> Self {
        id.0
    }
}

impl Display for ClusterUid {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

/// Whose something is: the cluster's id, and the user who brought the cluster up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The cluster's id.
    pub id: ClusterUid,
    /// The number of the user who brought it up.
    pub owner: u32,
}

/// Why something that has the name of ours must be left as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Trouble {
    /// The file that says whose it is cannot be read.
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A newer version of this program wrote the file that says whose it is.
    Newer {
        /// The file.
        file: String,
        /// The version of its form.
        version: String,
    },
    /// It belongs to another cluster of the same name.
    OtherCluster {
        /// The id in its label.
        found: ClusterUid,
        /// The id of this cluster; none where it has none yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own: Option<ClusterUid>,
        /// The number of the user who brought the other cluster up, where the label says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u32>,
        /// The file that holds this cluster's id, or would hold it.
        file: String,
    },
    /// The agent of a machine cannot tell what it did there.
    Agent {
        /// What it says.
        why: String,
        /// What it says can be done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// Machines that have no folder here use it.
    UsedElsewhere {
        /// What uses it.
        by: String,
    },
    /// A machine of this cluster runs, and somebody removed its folder.
    NoFolder {
        /// The folder that was removed.
        folder: String,
        /// The command that ends the machine.
        end: String,
    },
    /// A folder among those of its machines has a name that no machine can have.
    StrangeFolder {
        /// The folder.
        folder: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_and_read_with_all_its_digits() {
        let id = ClusterUid::of(0x2a);
        assert_eq!(id.as_str(), "0000000000000000000000000000002a");
        assert_eq!(id.as_str().parse(), Ok(id));
        for wrong in [
            "",
            "2a",
            "0000000000000000000000000000002A",
            "../../../../../../etc/passwd/////",
        ] {
            assert_eq!(wrong.parse::<ClusterUid>(), Err(NoUid), "{wrong}");
        }
    }
}
