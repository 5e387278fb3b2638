//! What `plan --diff` shows: how machines and the cluster's objects differ from what the file asks for.
//!
//! Text is shown as a unified diff, everything else in one line. What a terminal would obey is made visible, and secrets
//! have been hidden before they get here: by the agent, and by the client of the API server.

mod machine;
mod objects;
mod plan;
mod rows;
mod unified;

pub use machine::machine_text;
pub use objects::set_text;
pub use plan::{PlanDiff, plan_text};
pub use rows::{
    DifferenceRow, FieldRow, MachineDiff, ObjectChangeWord, ObjectRow, SetDiff, SideRow,
};
