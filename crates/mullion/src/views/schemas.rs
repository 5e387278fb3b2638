//! The JSON Schemas of everything that commands write as JSON.

use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::commands::catalog::{Listing, Why};
use crate::commands::explain::Explanation;
use crate::commands::init::Init;
use crate::commands::kubeconfig::KubeconfigDocument;
use crate::commands::machine_console::ConsoleDocument;
use crate::commands::plan::PlanDocument;
use crate::commands::status::StatusDocument;
use crate::commands::version::Version;
use crate::console::JSON_VERSION;
use crate::doctor::DoctorReport;
use crate::failure::Failure;
use crate::views::artifacts::{
    AdoptDocument, ArtifactsDocument, ArtifactsVerifyDocument, BundleDocument,
    BundleVerifyDocument, ImportDocument, KeyDocument, SupplyDocument,
};
use crate::views::findings::Validation;
use crate::views::run::RunDocument;
use crate::views::runs::{RunRecordDocument, RunsDocument};
use mullion_plan::SavedPlan;

/// The schema of every document, by its kind.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("Adopt", schema::<AdoptDocument>("Adopt")),
        ("Artifacts", schema::<ArtifactsDocument>("Artifacts")),
        (
            "ArtifactsVerify",
            schema::<ArtifactsVerifyDocument>("ArtifactsVerify"),
        ),
        ("Bundle", schema::<BundleDocument>("Bundle")),
        ("BundleKey", schema::<KeyDocument>("BundleKey")),
        (
            "BundleVerify",
            schema::<BundleVerifyDocument>("BundleVerify"),
        ),
        ("Catalog", schema::<Listing>("Catalog")),
        ("Console", schema::<ConsoleDocument>("Console")),
        ("Doctor", schema::<DoctorReport>("Doctor")),
        ("Explanation", schema::<Explanation>("Explanation")),
        ("Failure", schema::<Failure>("Failure")),
        ("Import", schema::<ImportDocument>("Import")),
        ("Init", schema::<Init>("Init")),
        ("Kubeconfig", schema::<KubeconfigDocument>("Kubeconfig")),
        ("Plan", schema::<PlanDocument<'static>>("Plan")),
        ("SavedPlan", schemars::schema_for!(SavedPlan).into()),
        ("Run", schema::<RunDocument<'static>>("Run")),
        (
            "RunRecord",
            schema::<RunRecordDocument<'static>>("RunRecord"),
        ),
        ("Runs", schema::<RunsDocument>("Runs")),
        ("Status", schema::<StatusDocument>("Status")),
        ("Supply", schema::<SupplyDocument>("Supply")),
        ("Validation", schema::<Validation>("Validation")),
        ("Version", schema::<Version>("Version")),
        ("Why", schema::<Why>("Why")),
    ]
}

/// The schema of a document's content, with the version and the kind around it.
fn schema<T: JsonSchema>(kind: &str) -> Value {
    let mut schema: Value = schemars::schema_for!(T).into();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("apiVersion".into(), json!({"const": JSON_VERSION}));
        properties.insert("kind".into(), json!({"const": kind}));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.extend([json!("apiVersion"), json!("kind")]);
    }
    schema
}
