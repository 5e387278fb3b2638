//! Commands of the user's, each run once.

use std::time::Duration;

use mullion_wire::UserCommand;

use crate::failure::{AgentError, How};
use crate::system::Tail;
use crate::work::Work;

/// Nobody waits longer for a command.
const DEADLINE: Duration = Duration::from_hours(1);

/// Runs the commands of a list that did not run yet, in their order. What they say is never the command itself: it may
/// hold what others must not see.
pub(crate) fn run(
    work: &mut Work<'_, '_>,
    list: &str,
    commands: &[UserCommand],
) -> Result<(), AgentError> {
    for (index, command) in commands.iter().enumerate() {
        let number = index + 1;
        let ran = work.state.ran.get(list);
        if ran.is_some_and(|marks| marks.contains(&command.mark)) {
            continue;
        }
        work.report.doing(format!(
            "running command {number} of {} of `{list}`",
            commands.len()
        ));
        let program = work.system.shell(&command.run).within(DEADLINE);
        let mut tail = Tail::default();
        let report = &mut *work.report;
        let ended = work.system.run(&program, &mut |line| {
            tail.push(line);
            report.output(line);
        });
        if let Some(how) = How::of(ended)? {
            return Err(AgentError::Command {
                number,
                list: list.to_owned(),
                how,
                tail: tail.into_lines(),
            });
        }
        let marks = work.state.ran.entry(list.to_owned()).or_default();
        marks.insert(command.mark.clone());
        work.save()?;
        work.report
            .changed(format!("command {number} of `{list}` ran"));
    }
    Ok(())
}
