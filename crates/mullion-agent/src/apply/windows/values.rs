//! Values of the registry: those that the blueprint names, and those that environment, exclusions and page file are.

use std::collections::BTreeSet;

use mullion_wire::{RegistryData, Windows};

use super::{failed, not_done, tell};
use crate::change::Change;
use crate::failure::AgentError;
use crate::state::{KeptValue, WindowsState};
use crate::system::registry::{Value, key_above, place};
use crate::system::{EVENT_SOURCE, Family, System, SystemError};
use crate::work::Work;

/// Where the machine's environment is.
pub(super) const ENVIRONMENT: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
/// Where page files are set.
const MEMORY: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management";
const PAGING_FILES: &str = "PagingFiles";
/// Defender's exclusions by policy: unlike its own list, which only its service writes, these hold on every edition and
/// are there to be set.
const EXCLUSIONS: &str = r"HKLM\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions";

/// Where sources of the event log `Application` are known.
const EVENT_SOURCES: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application";
/// Windows' own program whose messages are no more than the text that they are given.
const EVENT_MESSAGES: &str = r"%SystemRoot%\System32\EventCreate.exe";
/// Errors, warnings and information.
const EVENT_TYPES: u32 = 7;

/// A value as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedValue {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) value: Value,
    /// Whether it holds only from the next start of the machine on.
    pub(super) restart: bool,
}

impl WantedValue {
    fn new(key: &str, name: &str, data: &RegistryData) -> Self {
        Self {
            key: key.to_owned(),
            name: name.to_owned(),
            value: Value::from(data),
            restart: false,
        }
    }

    fn after_restart(self, restart: bool) -> Self {
        Self { restart, ..self }
    }
}

/// Every value of the registry that a machine with a blueprint has: what this asks for in one way or another, and the
/// agent's own source of the event log.
pub(super) fn wanted(family: Family, windows: &Windows) -> Vec<WantedValue> {
    let named = windows.registry.iter();
    let mut values: Vec<_> = named
        .map(|value| {
            let wanted = WantedValue::new(&value.key, &value.name, &value.data);
            wanted.after_restart(value.restart)
        })
        .collect();
    if family == Family::Windows {
        values.extend(event_source());
    }
    for (name, text) in &windows.environment {
        let data = if text.contains('%') {
            RegistryData::Expandable(text.clone())
        } else {
            RegistryData::String(text.clone())
        };
        values.push(WantedValue::new(ENVIRONMENT, name, &data));
    }
    for (list, entries) in [
        ("Paths", &windows.exclusions.paths),
        ("Processes", &windows.exclusions.processes),
    ] {
        if entries.is_empty() {
            continue;
        }
        let switch = format!("Exclusions_{list}");
        values.push(WantedValue::new(
            EXCLUSIONS,
            &switch,
            &RegistryData::Dword(1),
        ));
        for entry in entries {
            let key = format!("{EXCLUSIONS}\\{list}");
            let zero = RegistryData::String("0".to_owned());
            values.push(WantedValue::new(&key, entry, &zero));
        }
    }
    if let Some(file) = &windows.page_file {
        let line = format!("{} {} {}", file.path, file.first_mib, file.most_mib);
        let data = RegistryData::MultiString(vec![line]);
        values.push(WantedValue::new(MEMORY, PAGING_FILES, &data).after_restart(true));
    }
    values
}

/// Those of them that are not as they should be.
pub(super) fn different(
    system: &dyn System,
    windows: &Windows,
) -> Result<Vec<WantedValue>, SystemError> {
    let mut found = Vec::new();
    for value in wanted(system.family(), windows) {
        let is_so = system
            .value(&value.key, &value.name)?
            .is_some_and(|found| found.says_the_same(&value.value));
        if !is_so {
            found.push(value);
        }
    }
    Ok(found)
}

/// Refuses a page file that the disk has no room for: Windows would start with another one without an error.
pub(super) fn check(system: &dyn System, windows: &Windows) -> Result<(), AgentError> {
    let Some(file) = &windows.page_file else {
        return Ok(());
    };
    let is_changed = |value: &WantedValue| value.key == MEMORY && value.name == PAGING_FILES;
    if !different(system, windows)?.iter().any(is_changed) {
        return Ok(());
    }
    let facts = system.describe()?;
    let commit = facts.windows.map_or(0, |windows| windows.commit.total);
    // At most so much is free once the page files that there are have gone.
    let room = facts.disk.free + commit.saturating_sub(facts.memory);
    let room = room / (1024 * 1024);
    // A disk of no size is one that could not be asked.
    if facts.disk.total > 0 && u64::from(file.most_mib) > room {
        let words = format!(
            "it is to have {} MiB, and the disk has room for {room} MiB",
            file.most_mib
        );
        let what = format!("page file {}", file.path);
        return Err(not_done(what)(SystemError::Nonsense(words)));
    }
    Ok(())
}

fn event_source() -> [WantedValue; 2] {
    let key = format!("{EVENT_SOURCES}\\{EVENT_SOURCE}");
    let messages = RegistryData::Expandable(EVENT_MESSAGES.to_owned());
    let types = RegistryData::Dword(EVENT_TYPES);
    [
        WantedValue::new(&key, "EventMessageFile", &messages),
        WantedValue::new(&key, "TypesSupported", &types),
    ]
}

/// The words under which a value waits for a start of the machine.
pub(super) fn awaits(key: &str, name: &str) -> String {
    if place(key, name) == place(MEMORY, PAGING_FILES) {
        return "the page file changes".to_owned();
    }
    format!("the registry value {name} changes")
}

/// Keeps what a value is, and which keys are to be made for it.
pub(super) fn keep(
    system: &dyn System,
    kept: &mut WindowsState,
    value: &WantedValue,
) -> Result<(), SystemError> {
    let place = place(&value.key, &value.name);
    if kept.values.contains_key(&place) {
        return Ok(());
    }
    let before = KeptValue {
        key: value.key.clone(),
        name: value.name.clone(),
        value: system.value(&value.key, &value.name)?,
        restart: value.restart,
    };
    kept.values.insert(place, before);
    let mut key = Some(value.key.as_str());
    while let Some(missing) = key
        && !system.has_key(missing)?
    {
        kept.keys.insert(missing.to_owned());
        key = key_above(missing);
    }
    Ok(())
}

/// Gives back values that are not wanted any more, and removes keys that were made for them.
pub(super) fn give_back(
    work: &mut Work<'_, '_>,
    wanted: Option<&Windows>,
) -> Result<(), AgentError> {
    let family = work.system.family();
    let wanted: BTreeSet<_> = wanted
        .into_iter()
        .flat_map(|wanted| self::wanted(family, wanted))
        .map(|value| place(&value.key, &value.name))
        .collect();
    let dropped: Vec<_> = work
        .state
        .windows
        .values
        .iter()
        .filter(|(place, _)| !wanted.contains(*place))
        .map(|(place, kept)| (place.clone(), kept.clone()))
        .collect();
    if dropped.is_empty() {
        return Ok(());
    }
    work.touch()?;
    for (_, kept) in &dropped {
        put_back(work, kept)?;
    }
    // A key comes before those below it. One that is not empty still has values that are wanted, or others'.
    let keys: Vec<_> = work.state.windows.keys.iter().rev().cloned().collect();
    for key in keys {
        work.system.remove_empty_key(&key)?;
        if !work.system.has_key(&key)? {
            work.state.windows.keys.remove(&key);
        }
    }
    for (place, _) in dropped {
        work.state.windows.values.remove(&place);
    }
    Ok(())
}

fn put_back(work: &mut Work<'_, '_>, kept: &KeptValue) -> Result<(), AgentError> {
    let KeptValue {
        key,
        name,
        value,
        restart,
    } = kept;
    if *restart && work.system.value(key, name)? != *value {
        work.await_restart(awaits(key, name));
        work.save()?;
    }
    let change = Change::RegistryValue(key.clone(), name.clone());
    match value {
        None => {
            let removed = work.system.remove_value(key, name);
            let removed = removed.map_err(failed(&change))?;
            tell(work, removed, change);
        }
        Some(value) => {
            if work.system.value(key, name)?.as_ref() == Some(value) {
                return Ok(());
            }
            work.system
                .set_value(key, name, value)
                .map_err(failed(&change))?;
            work.report.applied(change);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mullion_wire::{Exclusions, PageFile};

    #[test]
    fn environment_exclusions_and_page_file_are_values_of_the_registry() {
        let windows = Windows {
            environment: [
                ("NO_PROXY".to_owned(), ".svc".to_owned()),
                ("TOOLS".to_owned(), r"%SystemDrive%\k".to_owned()),
            ]
            .into(),
            exclusions: Exclusions {
                paths: [].into(),
                processes: [r"C:\k\kubelet.exe".to_owned()].into(),
            },
            page_file: Some(PageFile {
                path: r"C:\pagefile.sys".into(),
                first_mib: 4096,
                most_mib: 8192,
            }),
            ..Windows::default()
        };
        let mut values = wanted(Family::Windows, &windows);
        let source: Vec<_> = values.drain(..2).map(|value| value.key).collect();
        assert!(
            source
                .iter()
                .all(|key| key.ends_with(r"\Application\Mullion"))
        );
        assert_eq!(values, wanted(Family::Linux, &windows));
        let shown: Vec<_> = values
            .iter()
            .map(|value| {
                let key = value.key.rsplit('\\').next().unwrap_or_default();
                (
                    key,
                    value.name.as_str(),
                    value.value.kind,
                    value.value.texts(),
                )
            })
            .collect();
        let text = |text: &str| vec![text.to_owned()];
        assert_eq!(
            shown,
            [
                ("Environment", "NO_PROXY", 1, text(".svc")),
                ("Environment", "TOOLS", 2, text(r"%SystemDrive%\k")),
                ("Exclusions", "Exclusions_Processes", 4, vec![]),
                ("Processes", r"C:\k\kubelet.exe", 1, text("0")),
                (
                    "Memory Management",
                    "PagingFiles",
                    7,
                    text(r"C:\pagefile.sys 4096 8192")
                ),
            ]
        );
        let waiting: Vec<_> = values.iter().map(|value| value.restart).collect();
        assert_eq!(waiting, [false, false, false, false, true]);
        let words = awaits(&values[4].key, &values[4].name);
        assert_eq!(words, "the page file changes");
    }
}
