//! Definitions of services as lines of text.

use std::fmt::Write as _;

use mullion_wire::{Side, Start};

use super::sides::shown;
use crate::failure::AgentError;
use crate::system::System;

/// The definition of a service, or none if the system has no such service.
pub(super) fn of(system: &dyn System, name: &str) -> Result<Option<Side>, AgentError> {
    let Some(definition) = system.definition(name)? else {
        return Ok(None);
    };
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(text, "display name: {}", definition.display_name);
    let _ = writeln!(text, "command: {}", definition.command);
    let _ = writeln!(text, "account: {}", system.account(name)?.name());
    let start = match definition.start {
        Start::Automatic => "automatic",
        Start::Delayed => "automatic, delayed",
        Start::OnDemand => "on demand",
        Start::Disabled => "disabled",
    };
    let _ = writeln!(text, "start: {start}");
    for service in &definition.depends_on {
        let _ = writeln!(text, "depends on: {service}");
    }
    for wait in &definition.recovery.restart_after_ms {
        let _ = writeln!(text, "restart after: {wait} ms");
    }
    let reset = definition.recovery.reset_after_s;
    let _ = writeln!(text, "failures count for: {reset} s");
    for (name, value) in &definition.environment {
        let _ = writeln!(text, "environment: {name}={value}");
    }
    Ok(Some(shown(&text)))
}
