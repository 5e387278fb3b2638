//! The registry below `HKEY_LOCAL_MACHINE`.

use windows::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA, ERROR_PATH_NOT_FOUND};
use windows::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_QUERY_VALUE, KEY_READ, KEY_SET_VALUE, KEY_WOW64_64KEY,
    REG_SAM_FLAGS, RegDeleteKeyExW, RegQueryInfoKeyW,
};
use windows_registry::{Key, LOCAL_MACHINE, OpenOptions, Type};

use super::super::registry::{Value, below_machine};
use super::super::{Removed, SystemError};
use super::call::{Wide, failed, is, outcome};

fn below(key: &str) -> Result<&str, SystemError> {
    below_machine(key).ok_or_else(|| {
        SystemError::Nonsense(format!("`{key}` is not a key of the machine's registry"))
    })
}

fn options(access: REG_SAM_FLAGS) -> OpenOptions<'static> {
    let mut options = LOCAL_MACHINE.options();
    options.access((access | KEY_WOW64_64KEY).0);
    options
}

/// Opens a key; none where there is none.
fn open(key: &str, access: REG_SAM_FLAGS) -> Result<Option<Key>, SystemError> {
    match options(access).open(below(key)?) {
        Ok(open) => Ok(Some(open)),
        Err(error) if is(&error, ERROR_FILE_NOT_FOUND) || is(&error, ERROR_PATH_NOT_FOUND) => {
            Ok(None)
        }
        Err(error) => Err(failed(format!("RegOpenKeyEx {key}"))(error)),
    }
}

pub(super) fn has_key(key: &str) -> Result<bool, SystemError> {
    Ok(open(key, KEY_QUERY_VALUE)?.is_some())
}

pub(super) fn value(key: &str, name: &str) -> Result<Option<Value>, SystemError> {
    let Some(open) = open(key, KEY_QUERY_VALUE)? else {
        return Ok(None);
    };
    let wide = Wide::new(name);
    let mut room = vec![0; 512];
    loop {
        // `get_value` reads the length and the bytes in two calls: a value that changes between them has a wrong length.
        match unsafe { open.raw_get_bytes(wide.as_ptr(), &mut room) } {
            Ok((kind, bytes)) => {
                return Ok(Some(Value {
                    kind: kind.into(),
                    bytes: bytes.to_vec(),
                }));
            }
            Err(error) if is(&error, ERROR_FILE_NOT_FOUND) => return Ok(None),
            Err(error) if is(&error, ERROR_MORE_DATA) => room.resize(room.len() * 2, 0),
            Err(error) => return Err(failed(format!("RegQueryValueEx {key} {name}"))(error)),
        }
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
    let mut options = options(KEY_SET_VALUE);
    let created = options.create().open(below(key)?);
    let open = created.map_err(failed(format!("RegCreateKeyEx {key}")))?;
    // `Type::Other` passes the number on as it is. With the named types a debug build panics at text without its last
    // zero, which others write and which is put back as it was.
    open.set_bytes(name, Type::Other(value.kind), &value.bytes)
        .map_err(failed(format!("RegSetValueEx {key} {name}")))
}

pub(super) fn remove_value(key: &str, name: &str) -> Result<Removed, SystemError> {
    let Some(open) = open(key, KEY_SET_VALUE)? else {
        return Ok(Removed::Nothing);
    };
    match open.remove_value(name) {
        Ok(()) => Ok(Removed::Gone),
        Err(error) if is(&error, ERROR_FILE_NOT_FOUND) => Ok(Removed::Nothing),
        Err(error) => Err(failed(format!("RegDeleteValue {key} {name}"))(error)),
    }
}

pub(super) fn remove_empty_key(key: &str) -> Result<Removed, SystemError> {
    let Some(open) = open(key, KEY_READ)? else {
        return Ok(Removed::Nothing);
    };
    // The crate's iterators end at an error as they do after the last name, and its `remove_tree` deletes subkeys: with
    // either, a key that is not empty could go.
    let (mut keys, mut values) = (0, 0);
    let code = unsafe {
        RegQueryInfoKeyW(
            HKEY(open.as_raw()),
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
    let wide = Wide::new(below(key)?);
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
    let open = open(key, KEY_READ).ok().flatten();
    let names = open.as_ref().and_then(|open| open.keys().ok());
    names.into_iter().flatten().collect()
}
