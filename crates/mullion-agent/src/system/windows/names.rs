//! The host name and the time zone.

use windows::Win32::Foundation::SYSTEMTIME;
use windows::Win32::Security::SE_TIME_ZONE_NAME;
use windows::Win32::System::SystemInformation::{
    ComputerNameDnsHostname, ComputerNamePhysicalDnsHostname, GetComputerNameExW,
    SetComputerNameExW,
};
use windows::Win32::System::Time::{
    DYNAMIC_TIME_ZONE_INFORMATION, GetDynamicTimeZoneInformation, SetDynamicTimeZoneInformation,
    TIME_ZONE_ID_INVALID,
};
use windows::core::{Error, PWSTR};

use super::super::SystemError;
use super::call::{Wide, failed};
use super::{hive, privileges};

const TCPIP: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters";
const COMPUTER: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\ComputerName";
const TIME_ZONES: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Time Zones";
/// How `tzutil` writes that a zone's daylight saving time is switched off.
const WITHOUT_SUMMER: &str = "_dstoff";

/// The host name that holds.
pub(super) fn host_name() -> Result<String, SystemError> {
    let mut name = [0_u16; 256];
    let mut length = u32::try_from(name.len()).unwrap_or_default();
    unsafe {
        GetComputerNameExW(
            ComputerNameDnsHostname,
            Some(PWSTR(name.as_mut_ptr())),
            &raw mut length,
        )
    }
    .map_err(failed("GetComputerNameEx"))?;
    Ok(String::from_utf16_lossy(&name[..length as usize]))
}

/// The host name that holds from the next start on.
pub(super) fn next_host_name() -> Result<String, SystemError> {
    // Windows keeps the one to come under `NV`, which stands for what outlives a start.
    match hive::text(TCPIP, "NV Hostname") {
        name if name.is_empty() => host_name(),
        name => Ok(name),
    }
}

/// The host name that waits for a start: Windows keeps what holds and what is to come side by side, twice.
pub(super) fn awaited_host_name() -> Option<String> {
    let pairs = [
        (
            hive::text(&format!(r"{COMPUTER}\ActiveComputerName"), "ComputerName"),
            hive::text(&format!(r"{COMPUTER}\ComputerName"), "ComputerName"),
        ),
        (
            hive::text(TCPIP, "Hostname"),
            hive::text(TCPIP, "NV Hostname"),
        ),
    ];
    let is_change = |now: &str, next: &str| {
        !now.is_empty() && !next.is_empty() && !now.eq_ignore_ascii_case(next)
    };
    let changes = pairs.into_iter().filter(|(now, next)| is_change(now, next));
    changes.map(|(_, next)| next).next_back()
}

pub(super) fn set_host_name(name: &str) -> Result<(), SystemError> {
    let wide = Wide::new(name);
    unsafe { SetComputerNameExW(ComputerNamePhysicalDnsHostname, wide.as_ptr()) }
        .map_err(failed(format!("SetComputerNameEx {name}")))
}

pub(super) fn time_zone() -> Result<String, SystemError> {
    let mut found = DYNAMIC_TIME_ZONE_INFORMATION::default();
    if unsafe { GetDynamicTimeZoneInformation(&raw mut found) } == TIME_ZONE_ID_INVALID {
        return Err(failed("GetDynamicTimeZoneInformation")(Error::from_thread()));
    }
    let name = found.TimeZoneKeyName;
    let end = name
        .iter()
        .position(|unit| *unit == 0)
        .unwrap_or(name.len());
    let mut name = String::from_utf16_lossy(&name[..end]);
    // A zone without daylight saving time is the same zone either way, and stays comparable.
    if found.DynamicDaylightTimeDisabled && rules(&name).is_ok_and(|rules| has_summer(&rules)) {
        name.push_str(WITHOUT_SUMMER);
    }
    Ok(name)
}

/// What Windows knows of a time zone: three numbers, then two dates of eight short ones each.
fn rules(name: &str) -> Result<Vec<u8>, SystemError> {
    let rules = hive::value(&format!("{TIME_ZONES}\\{name}"), "TZI")?;
    let rules = rules.map(|value| value.bytes);
    rules.filter(|bytes| bytes.len() >= 44).ok_or_else(|| {
        let words = format!("this Windows does not know the time zone `{name}`");
        SystemError::Nonsense(words)
    })
}

/// Whether daylight saving time begins in some month.
fn has_summer(rules: &[u8]) -> bool {
    rules[30..32] != [0, 0]
}

pub(super) fn set_time_zone(zone: &str) -> Result<(), SystemError> {
    let without_summer = zone.strip_suffix(WITHOUT_SUMMER);
    let name = without_summer.unwrap_or(zone);
    let mut rules = rules(name)?;
    if without_summer.is_some() {
        // No dates, no change of the clock.
        rules[12..44].fill(0);
    }
    let key = format!("{TIME_ZONES}\\{name}");
    let number =
        |at: usize| i32::from_le_bytes([rules[at], rules[at + 1], rules[at + 2], rules[at + 3]]);
    let date = |at: usize| {
        let part =
            |index: usize| u16::from_le_bytes([rules[at + 2 * index], rules[at + 2 * index + 1]]);
        SYSTEMTIME {
            wYear: part(0),
            wMonth: part(1),
            wDayOfWeek: part(2),
            wDay: part(3),
            wHour: part(4),
            wMinute: part(5),
            wSecond: part(6),
            wMilliseconds: part(7),
        }
    };
    let mut wanted = DYNAMIC_TIME_ZONE_INFORMATION {
        Bias: number(0),
        StandardBias: number(4),
        DaylightBias: number(8),
        StandardDate: date(12),
        DaylightDate: date(28),
        DynamicDaylightTimeDisabled: without_summer.is_some(),
        ..DYNAMIC_TIME_ZONE_INFORMATION::default()
    };
    write(&mut wanted.StandardName, &hive::text(&key, "Std"));
    write(&mut wanted.DaylightName, &hive::text(&key, "Dlt"));
    write(&mut wanted.TimeZoneKeyName, name);
    // A privilege that administrators have and that is not in use unless they say so.
    privileges::with(&[SE_TIME_ZONE_NAME], || {
        unsafe { SetDynamicTimeZoneInformation(&raw const wanted) }
            .map_err(failed(format!("SetDynamicTimeZoneInformation {zone}")))
    })
}

/// Writes a text into a room of fixed size, with at least one zero after it.
fn write(room: &mut [u16], text: &str) {
    let most = room.len() - 1;
    for (place, unit) in room[..most].iter_mut().zip(text.encode_utf16()) {
        *place = unit;
    }
}
