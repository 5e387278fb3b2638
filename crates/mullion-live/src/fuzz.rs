//! What fuzzing calls: readers of what others wrote, each with what must hold of its answer. A refusal says why.

use mullion_plan::Unattended;

use super::{inspect, look, talk};

/// What a machine's agent writes to its streams.
pub fn agent_answer(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let mut ear = talk::Ear::default();
    for (number, line) in text.lines().enumerate() {
        if number % 4 == 3 {
            ear.overhear(line);
        } else {
            ear.hear(line, &Unattended);
        }
    }
    let answer = ear.answer("lin1", 0).map_err(|error| error.words)?;
    if let Some(facts) = &answer.facts {
        let _ = look::inside(facts);
    }
    Ok(())
}

/// What the script that looks at a machine of the user's writes.
pub fn inspection(bytes: &[u8]) -> Result<(), String> {
    inspect::read(&String::from_utf8_lossy(bytes)).map_err(|error| error.words)?;
    Ok(())
}
