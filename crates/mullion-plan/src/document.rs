//! Documents as steps carry them: whole, and known by their digests.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use mullion_wire::Sha256Digest;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::fingerprint::Fingerprint;

/// A document with its digest. Copies share it.
#[derive(Debug)]
pub struct Carried<T> {
    digest: Sha256Digest,
    document: Arc<T>,
}

impl<T> Clone for Carried<T> {
    fn clone(&self) -> Self {
        Self {
            digest: self.digest.clone(),
            document: Arc::clone(&self.document),
        }
    }
}

impl<T: Serialize> Carried<T> {
    /// That document.
    pub fn new(document: T) -> Self {
        Self {
            digest: Sha256Digest::of_json(&document),
            document: Arc::new(document),
        }
    }

    /// The document as JSON.
    pub fn json(&self) -> Value {
        // A document that JSON cannot hold has the digest of the reason, and the same is shown.
        serde_json::to_value(&*self.document).unwrap_or_else(|error| error.to_string().into())
    }
}

impl<T> Carried<T> {
    /// The digest of its JSON.
    pub const fn digest(&self) -> &Sha256Digest {
        &self.digest
    }

    /// The beginning of the digest.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_digest(&self.digest)
    }
}

impl<T> Deref for Carried<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.document
    }
}

impl<T> PartialEq for Carried<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T> Eq for Carried<T> {}

/// In a step it is named by its digest; the plan has the document itself.
impl<T> Serialize for Carried<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.digest.serialize(out)
    }
}

impl<T> JsonSchema for Carried<T> {
    fn schema_name() -> Cow<'static, str> {
        "DocumentDigest".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// The document that a step on a machine applies.
#[derive(Debug, PartialEq, Eq)]
pub enum Document<T> {
    /// This one.
    Known(Carried<T>),
    /// The one that is rendered once the machine was inspected: what it stands on, or its address, is not known yet.
    AfterInspection,
}

impl<T> Clone for Document<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Known(carried) => Self::Known(carried.clone()),
            Self::AfterInspection => Self::AfterInspection,
        }
    }
}

impl<T> Document<T> {
    /// The document, where it is known.
    pub const fn known(&self) -> Option<&Carried<T>> {
        match self {
            Self::Known(carried) => Some(carried),
            Self::AfterInspection => None,
        }
    }
}

/// How a document that is not rendered yet is named in a step.
const AFTER_INSPECTION: &str = "after-inspection";

impl<T> Serialize for Document<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(carried) => carried.serialize(out),
            Self::AfterInspection => out.serialize_str(AFTER_INSPECTION),
        }
    }
}

impl<T> JsonSchema for Document<T> {
    fn schema_name() -> Cow<'static, str> {
        "DocumentName".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}
