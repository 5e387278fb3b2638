//! The document by which Task Scheduler knows what to run when the machine starts.

/// How the task is called.
#[cfg(windows)]
pub(super) const NAME: &str = "Mullion";

/// Who it runs as.
#[cfg(windows)]
pub(super) const USER: &str = "SYSTEM";

/// A task that runs a program as the system itself, half a minute after each start: services come up in that time.
///
/// With the priority of any other program: that of tasks is lower, for processor, disk and memory alike, and the
/// services that it starts would get it too.
pub(super) fn at_start(program: &str, arguments: &str) -> String {
    let program = escaped(&program.replace('/', "\\"));
    let arguments = escaped(arguments);
    format!(
        r#"<?xml version="1.0"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>Goes on with what Mullion began before this machine was started anew</Description>
  </RegistrationInfo>
  <Triggers>
    <BootTrigger>
      <Enabled>true</Enabled>
      <Delay>PT30S</Delay>
    </BootTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>S-1-5-18</UserId>
      <RunLevel>HighestAvailable</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT2H</ExecutionTimeLimit>
    <Enabled>true</Enabled>
    <Priority>5</Priority>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>"{program}"</Command>
      <Arguments>{arguments}</Arguments>
    </Exec>
  </Actions>
</Task>
"#
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_named_as_windows_does_and_runs_as_the_system_at_each_start() {
        let task = at_start("C:/Program Files/R&D/agent.exe", "resume");
        for words in [
            r#"<Command>"C:\Program Files\R&amp;D\agent.exe"</Command>"#,
            "<Arguments>resume</Arguments>",
            "<BootTrigger>",
            "<UserId>S-1-5-18</UserId>",
            "<RunLevel>HighestAvailable</RunLevel>",
            "<Priority>5</Priority>",
        ] {
            assert!(task.contains(words), "{words}: {task}");
        }
    }
}
