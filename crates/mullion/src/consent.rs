//! Consent to what cannot be taken back: one rule for every command.
//!
//! What was said beforehand with `--yes` is not asked; where somebody can answer, they are; where nobody can, it is not
//! done.

use crate::console::{Console, Presence};
use crate::failure::{Class, Failure};

/// Whether something may be done: `what` is that, as `remove lin1`.
pub fn consent(console: &mut Console<'_>, what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    answerable(console, what, yes)?;
    console.err.flush()?;
    let answer = dialoguer::Confirm::new()
        .with_prompt(format!("{what}?"))
        .default(false)
        .interact()
        .map_err(|error| Failure::new(Class::Usage, "no answer was given").because(&error))?;
    if answer {
        return Ok(());
    }
    Err(Failure::new(Class::Usage, "it was not done: you said no"))
}

/// Refuses what nobody can be asked about: before root is asked for, and before anything is looked at.
pub fn answerable(console: &Console<'_>, what: &str, yes: bool) -> Result<(), Failure> {
    if yes || console.presence == Presence::Attended {
        return Ok(());
    }
    Err(Failure::new(Class::Usage, format!("this would {what}"))
        .hint("say that it may with `--yes`"))
}
