//! The names by which we know our own things again.

/// The label on everything of ours: its value is the cluster's name.
pub const CLUSTER_LABEL: &str = "mullion.dev/cluster";

/// The label on nodes and objects of ours: its value is the cluster's random id.
pub const ID_LABEL: &str = "mullion.dev/cluster-id";

/// The label on an object of a set: its value is the set's name.
pub const SET_LABEL: &str = "mullion.dev/set";

/// The annotation on a node with the labels and taints that we set, so that those alone are ever taken away.
pub const SET_ANNOTATION: &str = "mullion.dev/set";

/// The annotation on a node whose serving certificate was approved.
pub const CERTIFICATES_ANNOTATION: &str = "mullion.dev/certificates";

/// The annotation on a node that we keep new pods away from: what somebody else cordoned stays so.
pub(crate) const DRAINED_ANNOTATION: &str = "mullion.dev/drained";

/// The value of the one for certificates.
pub(crate) const APPROVED: &str = "approved";

/// Who we are among those that apply objects.
pub(crate) const MANAGER: &str = "mullion";

/// Where the cluster's own objects are.
pub(crate) const SYSTEM: &str = "kube-system";

/// What is written into bootstrap tokens of ours.
pub const TOKEN_DESCRIPTION: &str = "mullion";
