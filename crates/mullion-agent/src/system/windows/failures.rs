//! What Windows keeps of a service's failures, kept and put back as it stands in the registry.

use std::collections::BTreeMap;

use super::super::SystemError;
use super::super::registry::Value;
use super::hive;
use super::recovery::{self, Actions};
use super::service_control::Control;
use super::services::{FAILURE_ACTIONS, key};

const COMMAND: &str = "FailureCommand";
const MESSAGE: &str = "RebootMessage";
/// Whether a service has failed too that ends with an error of its own.
const AFTER_ERRORS: &str = "FailureActionsOnNonCrashFailures";

const NAMES: [&str; 4] = [FAILURE_ACTIONS, COMMAND, MESSAGE, AFTER_ERRORS];

/// What is there.
pub(super) fn read(name: &str) -> Result<BTreeMap<String, Value>, SystemError> {
    let mut found = BTreeMap::new();
    for value in NAMES {
        if let Some(held) = hive::value(&key(name), value)? {
            found.insert(value.to_owned(), held);
        }
    }
    Ok(found)
}

/// Puts it back: the service control manager is told, and what then stands otherwise in the registry is written there.
pub(super) fn write(name: &str, values: &BTreeMap<String, Value>) -> Result<(), SystemError> {
    let text = |value: &str| values.get(value).and_then(Value::text).unwrap_or_default();
    let actions = values.get(FAILURE_ACTIONS);
    let actions = actions.map_or_else(Actions::default, |value| recovery::actions(&value.bytes));
    let control = Control::take(name)?;
    control.set_failures(&actions, Some(&text(COMMAND)), Some(&text(MESSAGE)))?;
    let after_errors = values.get(AFTER_ERRORS).and_then(Value::number);
    control.set_after_errors(after_errors.unwrap_or(0) != 0)?;
    let key = key(name);
    for value in NAMES {
        let held = hive::value(&key, value)?;
        match values.get(value) {
            Some(wanted) if held.as_ref() != Some(wanted) => hive::set_value(&key, value, wanted)?,
            None if held.is_some() => {
                hive::remove_value(&key, value)?;
            }
            _ => {}
        }
    }
    Ok(())
}
