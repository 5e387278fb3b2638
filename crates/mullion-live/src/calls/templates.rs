//! A builder that builds nothing and records what it would build.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use mullion_plan::Attend;
use mullion_template::TemplateError;

use super::super::lock;
use super::super::supply::{BuildTemplates, TemplateWish};

/// The templates that were asked for, in order.
pub(super) type Templates = Arc<Mutex<Vec<String>>>;

pub(super) struct Recorder(pub(super) Templates);

impl BuildTemplates for Recorder {
    fn build(
        &self,
        templates: &mullion_template::Templates,
        wish: &TemplateWish,
        _attendant: &dyn Attend,
    ) -> Result<PathBuf, TemplateError> {
        lock(&self.0).push(format!("{wish:?} in {templates:?}"));
        Ok(templates.place().to_owned())
    }
}
