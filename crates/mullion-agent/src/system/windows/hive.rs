//! The registry below `HKEY_LOCAL_MACHINE`.

use windows::Win32::Foundation::{
    ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA, ERROR_NO_MORE_ITEMS, ERROR_PATH_NOT_FOUND, ERROR_SUCCESS,
};
use windows::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_QUERY_VALUE, KEY_READ, KEY_SET_VALUE, KEY_WOW64_64KEY,
    REG_OPTION_NON_VOLATILE, REG_SAM_FLAGS, REG_VALUE_TYPE, RegCloseKey, RegCreateKeyExW,
    RegDeleteKeyExW, RegDeleteValueW, RegEnumKeyExW, RegOpenKeyExW, RegQueryInfoKeyW,
    RegQueryValueExW, RegSetValueExW,
};
use windows::core::{PCWSTR, PWSTR};

use super::super::registry::{Value, below_machine};
use super::super::{Removed, SystemError};
use super::call::{Wide, outcome};

/// The longest name that a key has, and its zero.
const LONGEST_NAME: usize = 256;

/// A key that is open.
struct Key(HKEY);

impl Drop for Key {
    fn drop(&mut self) {
        // Nothing is lost with a handle that does not close.
        let _ = unsafe { RegCloseKey(self.0) };
    }
}

fn below(key: &str) -> Result<Wide, SystemError> {
    match below_machine(key) {
        Some(below) => Ok(Wide::new(below)),
        None => Err(SystemError::Nonsense(format!(
            "`{key}` is not a key of the machine's registry"
        ))),
    }
}

/// Opens a key; none where there is none.
fn open(key: &str, access: REG_SAM_FLAGS) -> Result<Option<Key>, SystemError> {
    let wide = below(key)?;
    let mut handle = HKEY::default();
    let code = unsafe {
        RegOpenKeyExW(
            HKEY_LOCAL_MACHINE,
            wide.as_ptr(),
            None,
            access | KEY_WOW64_64KEY,
            &raw mut handle,
        )
    };
    if code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND {
        return Ok(None);
    }
    outcome(format!("RegOpenKeyEx {key}"), code)?;
    Ok(Some(Key(handle)))
}

pub(super) fn has_key(key: &str) -> Result<bool, SystemError> {
    Ok(open(key, KEY_QUERY_VALUE)?.is_some())
}

pub(super) fn value(key: &str, name: &str) -> Result<Option<Value>, SystemError> {
    let Some(open) = open(key, KEY_QUERY_VALUE)? else {
        return Ok(None);
    };
    let wide = Wide::new(name);
    let mut bytes = vec![0; 512];
    loop {
        let mut kind = REG_VALUE_TYPE::default();
        let mut size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let code = unsafe {
            RegQueryValueExW(
                open.0,
                wide.as_ptr(),
                None,
                Some(&raw mut kind),
                Some(bytes.as_mut_ptr()),
                Some(&raw mut size),
            )
        };
        if code == ERROR_FILE_NOT_FOUND {
            return Ok(None);
        }
        if code == ERROR_MORE_DATA {
            bytes.resize((size as usize).max(bytes.len() * 2), 0);
            continue;
        }
        outcome(format!("RegQueryValueEx {key} {name}"), code)?;
        bytes.truncate(size as usize);
        return Ok(Some(Value {
            kind: kind.0,
            bytes,
        }));
    }
}

/// The text of a value; empty where there is none.
pub(super) fn text(key: &str, name: &str) -> String {
    let found = value(key, name).ok().flatten();
    found.and_then(|value| value.text()).unwrap_or_default()
}

/// The number of a value.
pub(super) fn number(key: &str, name: &str) -> Option<u32> {
    value(key, name).ok().flatten()?.number()
}

pub(super) fn set_value(key: &str, name: &str, value: &Value) -> Result<(), SystemError> {
    let wide = below(key)?;
    let mut handle = HKEY::default();
    let code = unsafe {
        RegCreateKeyExW(
            HKEY_LOCAL_MACHINE,
            wide.as_ptr(),
            None,
            PCWSTR::null(),
            REG_OPTION_NON_VOLATILE,
            KEY_SET_VALUE | KEY_WOW64_64KEY,
            None,
            &raw mut handle,
            None,
        )
    };
    outcome(format!("RegCreateKeyEx {key}"), code)?;
    let open = Key(handle);
    let wide = Wide::new(name);
    let code = unsafe {
        RegSetValueExW(
            open.0,
            wide.as_ptr(),
            None,
            REG_VALUE_TYPE(value.kind),
            Some(&value.bytes),
        )
    };
    outcome(format!("RegSetValueEx {key} {name}"), code)
}

pub(super) fn remove_value(key: &str, name: &str) -> Result<Removed, SystemError> {
    let Some(open) = open(key, KEY_SET_VALUE)? else {
        return Ok(Removed::Nothing);
    };
    let wide = Wide::new(name);
    let code = unsafe { RegDeleteValueW(open.0, wide.as_ptr()) };
    if code == ERROR_FILE_NOT_FOUND {
        return Ok(Removed::Nothing);
    }
    outcome(format!("RegDeleteValue {key} {name}"), code)?;
    Ok(Removed::Gone)
}

pub(super) fn remove_empty_key(key: &str) -> Result<Removed, SystemError> {
    let Some(open) = open(key, KEY_READ)? else {
        return Ok(Removed::Nothing);
    };
    let (mut keys, mut values) = (0, 0);
    let code = unsafe {
        RegQueryInfoKeyW(
            open.0,
            None,
            None,
            None,
            Some(&raw mut keys),
            None,
            None,
            Some(&raw mut values),
            None,
            None,
            None,
            None,
        )
    };
    outcome(format!("RegQueryInfoKey {key}"), code)?;
    if keys != 0 || values != 0 {
        return Ok(Removed::Nothing);
    }
    drop(open);
    let wide = below(key)?;
    let code =
        unsafe { RegDeleteKeyExW(HKEY_LOCAL_MACHINE, wide.as_ptr(), KEY_WOW64_64KEY.0, None) };
    if code == ERROR_FILE_NOT_FOUND {
        return Ok(Removed::Nothing);
    }
    outcome(format!("RegDeleteKeyEx {key}"), code)?;
    Ok(Removed::Gone)
}

/// The names of the keys below a key; none where it cannot be read.
pub(super) fn keys_below(key: &str) -> Vec<String> {
    let mut names = Vec::new();
    let Ok(Some(open)) = open(key, KEY_READ) else {
        return names;
    };
    for index in 0.. {
        let mut name = [0_u16; LONGEST_NAME];
        let mut length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let code = unsafe {
            RegEnumKeyExW(
                open.0,
                index,
                Some(PWSTR(name.as_mut_ptr())),
                &raw mut length,
                None,
                None,
                None,
                None,
            )
        };
        if code == ERROR_NO_MORE_ITEMS || code != ERROR_SUCCESS {
            break;
        }
        names.push(String::from_utf16_lossy(&name[..length as usize]));
    }
    names
}
