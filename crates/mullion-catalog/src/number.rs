//! Version numbers of everything that is not Kubernetes: containerd, pause, the network plugins.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Numbers with dots between, such as `2.2.2` or `3.10`; they order by number, not by letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Number(Vec<u32>);

/// The text is not numbers with dots between.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version number like 2.2.2")]
pub struct NumberError(pub String);

impl Number {
    /// The first two numbers, which name the line that a release belongs to: `2.2` of `2.2.2`.
    #[must_use]
    pub fn line(&self) -> Self {
        Self(self.0.iter().copied().take(2).collect())
    }
}

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        text.strip_prefix('v')
            .unwrap_or(text)
            .split('.')
            .map(|part| part.parse().ok().filter(|_| digits(part)))
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(|| NumberError(text.into()))
    }
}

impl TryFrom<String> for Number {
    type Error = NumberError;

    fn try_from(text: String) -> Result<Self, NumberError> {
        text.parse()
    }
}

impl From<Number> for String {
    fn from(number: Number) -> Self {
        number.to_string()
    }
}

impl Display for Number {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (place, number) in self.0.iter().enumerate() {
            if place > 0 {
                out.write_str(".")?;
            }
            number.fmt(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_order_by_number_not_by_letter() {
        assert!(number("3.10") > number("3.9"));
        assert!(number("3.10.2") > number("3.10"));
        assert_eq!(number("v2.2.2").line(), number("2.2"));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in ["", "v", "2.", "2.x", "2.2.2-rc.1", "+2", "99999999999"] {
            assert!(bad.parse::<Number>().is_err(), "{bad}");
        }
    }
}
