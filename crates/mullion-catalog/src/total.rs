//! A table that has a row for every word of a closed set.

use std::collections::BTreeMap;

use mullion_spec::words::Word;
use serde::{Deserialize, Deserializer, Serialize};

/// One value for every word of `Key`: reading data that lacks a word fails, so looking one up cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Total<Key: Ord, Value>(BTreeMap<Key, Value>);

impl<Key: Word + Ord, Value> Total<Key, Value> {
    pub(crate) fn get(&self, key: Key) -> &Value {
        &self.0[&key]
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.values_mut()
    }

    /// In the order that the words are documented.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Value)> {
        Key::ALL.iter().map(|key| (*key, self.get(*key)))
    }
}

impl<'de, Key, Value> Deserialize<'de> for Total<Key, Value>
where
    Key: Word + Ord + Deserialize<'de>,
    Value: Deserialize<'de>,
{
    fn deserialize<De: Deserializer<'de>>(from: De) -> Result<Self, De::Error> {
        let rows = BTreeMap::deserialize(from)?;
        match Key::ALL.iter().find(|key| !rows.contains_key(*key)) {
            Some(key) => Err(serde::de::Error::custom(format!(
                "`{}` has no row",
                key.word()
            ))),
            None => Ok(Self(rows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::words::Os;

    use super::*;

    #[test]
    fn a_table_without_a_row_for_a_word_cannot_be_read() {
        let whole: Total<Os, u8> = toml::from_str("linux = 1\nwindows = 2").unwrap();
        assert_eq!(*whole.get(Os::Windows), 2);
        let error = toml::from_str::<Total<Os, u8>>("linux = 1").unwrap_err();
        assert!(
            error.to_string().contains("`windows` has no row"),
            "{error}"
        );
    }
}
