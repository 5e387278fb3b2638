//! Values of the registry as Windows keeps them: a type and bytes.

use mullion_wire::RegistryData;
use serde::{Deserialize, Serialize};

/// `REG_SZ`.
pub const STRING: u32 = 1;
/// `REG_EXPAND_SZ`.
pub const EXPANDABLE: u32 = 2;
/// `REG_DWORD`.
pub const DWORD: u32 = 4;
/// `REG_MULTI_SZ`.
pub const MULTI_STRING: u32 = 7;

/// A value of the registry, of any type: what was there before is kept byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Its type.
    pub kind: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Value {
    /// Text.
    pub fn string(text: &str) -> Self {
        Self {
            kind: STRING,
            bytes: wide(text),
        }
    }

    /// A number.
    pub fn dword(number: u32) -> Self {
        Self {
            kind: DWORD,
            bytes: number.to_le_bytes().to_vec(),
        }
    }

    /// The text in it; `None` where it is none.
    pub fn text(&self) -> Option<String> {
        if !matches!(self.kind, STRING | EXPANDABLE) {
            return None;
        }
        self.texts().into_iter().next().or(Some(String::new()))
    }

    /// The texts in it.
    pub fn texts(&self) -> Vec<String> {
        if !matches!(self.kind, STRING | EXPANDABLE | MULTI_STRING) {
            return Vec::new();
        }
        let units: Vec<_> = self
            .bytes
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        let texts = units.split(|unit| *unit == 0);
        texts
            .filter(|text| !text.is_empty())
            .map(String::from_utf16_lossy)
            .collect()
    }

    /// The number in it.
    pub fn number(&self) -> Option<u32> {
        let bytes = <[u8; 4]>::try_from(self.bytes.as_slice()).ok()?;
        (self.kind == DWORD).then(|| u32::from_le_bytes(bytes))
    }

    /// Whether two values say the same: whoever writes text may have left out the zero at its end.
    pub fn says_the_same(&self, other: &Self) -> bool {
        match self.kind {
            STRING | EXPANDABLE | MULTI_STRING => {
                self.kind == other.kind && self.texts() == other.texts()
            }
            _ => self == other,
        }
    }
}

impl From<&RegistryData> for Value {
    fn from(data: &RegistryData) -> Self {
        match data {
            RegistryData::Dword(number) => Self::dword(*number),
            RegistryData::String(text) => Self::string(text),
            RegistryData::Expandable(text) => Self {
                kind: EXPANDABLE,
                bytes: wide(text),
            },
            RegistryData::MultiString(texts) => Self {
                kind: MULTI_STRING,
                bytes: texts
                    .iter()
                    .flat_map(|text| wide(text))
                    .chain([0, 0])
                    .collect(),
            },
        }
    }
}

/// Where Windows keeps what it renames and removes at its next start, and the two names that it keeps it under.
const SESSION_MANAGER: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager";
const RENAMES: [&str; 2] = [
    "PendingFileRenameOperations",
    "PendingFileRenameOperations2",
];

/// That files are to be renamed or removed at Windows' next start; `read` gives values of the registry.
///
/// No reason for a start: scanners and updaters leave such files behind at every one, and it would never end.
pub fn awaited_renames(read: impl Fn(&str, &str) -> Option<Value>) -> Option<String> {
    // Each is two texts, and one that is removed has no second: the first path is all that is told.
    let first = RENAMES
        .iter()
        .filter_map(|name| read(SESSION_MANAGER, name))
        .find_map(|value| value.texts().into_iter().next())?;
    let path = first.trim_start_matches(r"\??\");
    Some(format!(
        "files are renamed or removed at the next start, `{path}` first"
    ))
}

/// Text in Windows' form, with the zero at its end.
fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

/// A key below the one hive that machines have in common; `None` for any other hive.
pub fn below_machine(key: &str) -> Option<&str> {
    let (hive, below) = key.split_once('\\')?;
    let is_machine =
        hive.eq_ignore_ascii_case("HKLM") || hive.eq_ignore_ascii_case("HKEY_LOCAL_MACHINE");
    (is_machine && !below.is_empty()).then_some(below)
}

/// The key above a key, where it is not the hive itself.
pub fn key_above(key: &str) -> Option<&str> {
    let (above, _) = key.rsplit_once('\\')?;
    above.contains('\\').then_some(above)
}

/// One text for one value, however its key and name are written.
pub fn place(key: &str, name: &str) -> String {
    let below = below_machine(key).unwrap_or(key);
    format!("HKLM\\{below}\\{name}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_bytes_that_windows_writes() {
        assert_eq!(
            Value::from(&RegistryData::Dword(0x1_0002)).bytes,
            [2, 0, 1, 0]
        );
        let text = Value::from(&RegistryData::String("Aé".into()));
        assert_eq!((text.kind, text.bytes), (1, vec![0x41, 0, 0xe9, 0, 0, 0]));
        let texts = Value::from(&RegistryData::MultiString(vec!["a".into(), "b".into()]));
        assert_eq!(
            (texts.kind, texts.bytes),
            (7, vec![0x61, 0, 0, 0, 0x62, 0, 0, 0, 0, 0])
        );
    }

    #[test]
    fn values_are_read_back() {
        assert_eq!(Value::dword(7).number(), Some(7));
        assert_eq!(Value::string("7").number(), None);
        assert_eq!(Value::string("größe").text().as_deref(), Some("größe"));
        assert_eq!(Value::string("").text().as_deref(), Some(""));
        assert_eq!(Value::dword(7).text(), None);
        let texts = vec!["a".to_owned(), "b".to_owned()];
        let value = Value::from(&RegistryData::MultiString(texts.clone()));
        assert_eq!(value.texts(), texts);
    }

    #[test]
    fn text_without_its_last_zero_is_the_same_text() {
        let mut bare = Value::string("a");
        bare.bytes.truncate(2);
        assert!(bare.says_the_same(&Value::string("a")));
        assert!(!bare.says_the_same(&Value::string("b")));
        let expandable = Value::from(&RegistryData::Expandable("a".into()));
        assert!(!expandable.says_the_same(&Value::string("a")));
        assert!(!Value::dword(1).says_the_same(&Value::dword(2)));
    }

    #[test]
    fn a_value_has_one_place_however_it_is_written() {
        assert_eq!(
            place(r"HKEY_LOCAL_MACHINE\Software\X", "Y"),
            place(r"hklm\SOFTWARE\x", "y")
        );
        assert_eq!(below_machine(r"HKCU\Software"), None);
        assert_eq!(below_machine(r"HKLM\"), None);
        assert_eq!(key_above(r"HKLM\a\b"), Some(r"HKLM\a"));
        assert_eq!(key_above(r"HKLM\a"), None);
    }
}
