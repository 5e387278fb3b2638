//! Small values that the file writes as text: names, sizes, addresses, references to secrets.
//!
//! Each has one way in (`FromStr` or a constructor that refuses), so that a value of the type is a
//! checked value.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text is not a DNS label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Nothing is written.
    #[error("it is empty")]
    Empty,
    /// More than 63 characters.
    #[error("it has {0} characters, and a DNS label has at most 63")]
    Long(usize),
    /// A character that no DNS label has.
    #[error("`{0}` is not a lower-case letter, a digit or a hyphen")]
    Character(char),
    /// A hyphen at an end.
    #[error("it must begin and end with a letter or a digit")]
    Ends,
}

fn dns_label(text: &str) -> Result<(), LabelError> {
    if text.is_empty() {
        return Err(LabelError::Empty);
    }
    if let Some(odd) = text
        .chars()
        .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-'))
    {
        return Err(LabelError::Character(odd));
    }
    if text.len() > 63 {
        return Err(LabelError::Long(text.len()));
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(LabelError::Ends);
    }
    Ok(())
}

/// Makes the type of a name. Copies share their text: a plan holds each name many times.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = LabelError;
            fn from_str(text: &str) -> Result<Self, LabelError> {
                dns_label(text).map(|()| Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = LabelError;
            fn try_from(text: String) -> Result<Self, LabelError> {
                dns_label(&text).map(|()| Self(text.into()))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().into()
            }
        }

        impl Display for $name {
            fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
                out.pad(&self.0)
            }
        }
    };
}

label! {
    /// A cluster's name: the label on everything that is made for it.
    ClusterName
}
label! {
    /// A group of machines.
    GroupName
}
label! {
    /// A computer that carries machines.
    HostName
}
label! {
    /// One machine: its group's name and its number, such as `win1`.
    MachineName
}

impl GroupName {
    /// The name of the group's machine with that number.
    ///
    /// A long group name may give a machine name above the limit of a DNS label; the checker refuses
    /// such a group before anyone asks for its machines.
    pub fn machine(&self, number: u32) -> MachineName {
        MachineName(format!("{}{number}", self.0).into())
    }
}

/// A number of bytes, written as `2GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(u64);

/// The text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size like 2GiB or 512MiB")]
pub struct SizeError(pub String);

const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl ByteSize {
    /// That many mebibytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// That many gibibytes.
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let refuse = || SizeError(text.into());
        let (unit, factor) = UNITS
            .iter()
            // `Gi` is how Kubernetes writes the same unit.
            .flat_map(|&(unit, factor)| [(unit, factor), (&unit[..2], factor)])
            .find(|(unit, _)| text.ends_with(unit))
            .ok_or_else(refuse)?;
        let number = text[..text.len() - unit.len()].trim_end();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse());
        }
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .map(Self)
            .ok_or_else(refuse)
    }
}

impl TryFrom<String> for ByteSize {
    type Error = SizeError;
    fn try_from(text: String) -> Result<Self, SizeError> {
        text.parse()
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

impl Display for ByteSize {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match UNITS
            .iter()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
        {
            Some((unit, factor)) => write!(out, "{}{unit}", self.0 / factor),
            None => write!(out, "{}B", self.0),
        }
    }
}

/// Where a secret is kept. The value itself is never in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretRef {
    /// An environment variable of the user's.
    Env(String),
    /// A file of the user's.
    File(PathBuf),
}

/// A secret that Mullion makes unless the user refers to one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Secret {
    /// Made at random, kept in the cluster's state folder.
    Generated,
    /// The user's own.
    Given(SecretRef),
}

/// A computer's address as the user gave it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum Address {
    /// An IP address.
    Ip(IpAddr),
    /// A DNS name, in lower case.
    Name(String),
}

/// The text is neither an IP address nor a DNS name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an IP address nor a DNS name")]
pub struct AddressError(pub String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        let label = |part: &str| {
            !part.is_empty()
                && part.len() <= 63
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        // Four numbers that are no address are a mistyped address, not a name.
        let numeric = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        if text.len() <= 253 && text.split('.').all(label) && !numeric {
            // Names are the same in upper and lower case.
            Ok(Self::Name(text.to_ascii_lowercase()))
        } else {
            Err(AddressError(text.into()))
        }
    }
}

impl Display for Address {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(out),
            Self::Name(name) => out.write_str(name),
        }
    }
}

/// An address with a port, such as the API server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    /// Where it listens.
    pub address: Address,
    /// On which port.
    pub port: u16,
}

impl FromStr for Endpoint {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refuse = || AddressError(text.into());
        let (host, port) = text.rsplit_once(':').ok_or_else(refuse)?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        Ok(Self {
            address: host.parse()?,
            port: port
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(refuse)?,
        })
    }
}

impl Display for Endpoint {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Ip(IpAddr::V6(ip)) => write!(out, "[{ip}]:{}", self.port),
            address => write!(out, "{address}:{}", self.port),
        }
    }
}

/// A computer to go through: `user@host:port`. A user's name may hold an `@` itself, as those of Windows domains do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Jump {
    /// Whom to log in as; as on the computer behind it where nobody is named.
    pub user: Option<String>,
    /// Where it is.
    pub address: Address,
    /// The port of its SSH server; 22 where none is named.
    pub port: Option<u16>,
}

impl FromStr for Jump {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (user, place) = match text.rsplit_once('@') {
            Some(("", _)) => return Err(AddressError(text.into())),
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, text),
        };
        // An IPv6 address without a port is one whole; with one it is in brackets.
        let (address, port) = if let Ok(address) = place.parse::<Address>() {
            (address, None)
        } else {
            let Endpoint { address, port } = place.parse()?;
            (address, Some(port))
        };
        Ok(Self {
            user,
            address,
            port,
        })
    }
}

impl TryFrom<String> for Jump {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Jump> for String {
    fn from(jump: Jump) -> Self {
        jump.to_string()
    }
}

impl Display for Jump {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(out, "{user}@")?;
        }
        match self.port {
            None => self.address.fmt(out),
            Some(port) => Endpoint {
                address: self.address.clone(),
                port,
            }
            .fmt(out),
        }
    }
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// They are not scheduled there.
    NoSchedule,
    /// They are scheduled there when nothing else fits.
    PreferNoSchedule,
    /// They are not scheduled there, and running ones leave.
    NoExecute,
}

/// A node taint, written as kubectl does: `os=windows:NoSchedule`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// The text is not a taint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a taint like os=windows:NoSchedule")]
pub struct TaintError(pub String);

impl FromStr for Taint {
    type Err = TaintError;

    fn from_str(text: &str) -> Result<Self, TaintError> {
        let refuse = || TaintError(text.into());
        let (pair, effect) = text.rsplit_once(':').ok_or_else(refuse)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let effect = match effect {
            "NoSchedule" => Effect::NoSchedule,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => return Err(refuse()),
        };
        if !is_qualified_name(key) || !is_label_value(value) {
            return Err(refuse());
        }
        Ok(Self {
            key: key.into(),
            value: value.into(),
            effect,
        })
    }
}

impl TryFrom<String> for Taint {
    type Error = TaintError;
    fn try_from(text: String) -> Result<Self, TaintError> {
        text.parse()
    }
}

impl From<Taint> for String {
    fn from(taint: Taint) -> Self {
        taint.to_string()
    }
}

impl Display for Taint {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.key)?;
        if !self.value.is_empty() {
            write!(out, "={}", self.value)?;
        }
        write!(out, ":{:?}", self.effect)
    }
}

/// A Kubernetes label key: a name of at most 63 characters, with an optional DNS prefix.
pub fn is_qualified_name(text: &str) -> bool {
    match text.rsplit_once('/') {
        Some((prefix, name)) => {
            matches!(prefix.parse(), Ok(Address::Name(_)))
                && prefix.bytes().all(|byte| !byte.is_ascii_uppercase())
                && is_name_part(name)
        }
        None => is_name_part(text),
    }
}

/// A Kubernetes label value: empty, or shaped like a name.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

fn is_name_part(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_to_go_through_is_split_at_the_last_at() {
        let read = |text: &str| text.parse::<Jump>().unwrap();
        let jump = read("ada@corp.example@gate:2222");
        assert_eq!(jump.user.as_deref(), Some("ada@corp.example"));
        assert_eq!(jump.address.to_string(), "gate");
        assert_eq!(jump.port, Some(2222));
        for text in [
            "gate",
            "gate:22",
            "ada@192.0.2.1",
            "ada@[2001:db8::1]:22",
            "2001:db8::1",
        ] {
            assert_eq!(read(text).to_string(), text);
        }
        for text in [
            "",
            "@gate",
            "ada@",
            "ada@gate:0",
            "ada@gate:x",
            "a b",
            "ada@gate@",
        ] {
            assert!(text.parse::<Jump>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_alike() {
        for text in ["2GiB", "512MiB", "1TiB", "1536KiB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        assert_eq!("2Gi".parse::<ByteSize>().unwrap(), ByteSize::gib(2));
        for bad in ["", "2", "2GB", "GiB", "-1GiB", "1.5GiB", "99999999999TiB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn taints_are_kubectl_s() {
        let taint: Taint = "os=windows:NoSchedule".parse().unwrap();
        assert_eq!(
            (taint.key.as_str(), taint.value.as_str()),
            ("os", "windows")
        );
        assert_eq!(taint.to_string(), "os=windows:NoSchedule");
        assert_eq!(
            "a.b/c:NoExecute".parse::<Taint>().unwrap().to_string(),
            "a.b/c:NoExecute"
        );
        for bad in [
            "os=windows",
            "os=windows:Never",
            "=x:NoSchedule",
            "o s:NoSchedule",
        ] {
            assert!(bad.parse::<Taint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn four_numbers_that_are_no_address_are_not_a_name() {
        assert!("192.0.2.300".parse::<Address>().is_err());
        assert!(matches!("192.0.2.3".parse(), Ok(Address::Ip(_))));
        assert!(matches!("node-1.example".parse(), Ok(Address::Name(_))));
        assert_eq!("A.EXAMPLE".parse::<Address>(), "a.example".parse());
        assert_eq!(
            "[2001:db8::1]:6443"
                .parse::<Endpoint>()
                .unwrap()
                .to_string(),
            "[2001:db8::1]:6443"
        );
        assert!("host:0".parse::<Endpoint>().is_err());
    }

    #[test]
    fn names_are_dns_labels() {
        assert!("demo-1".parse::<ClusterName>().is_ok());
        assert_eq!(
            "Demo".parse::<ClusterName>(),
            Err(LabelError::Character('D'))
        );
        assert_eq!("-a".parse::<GroupName>(), Err(LabelError::Ends));
        assert_eq!(
            "a".repeat(64).parse::<HostName>(),
            Err(LabelError::Long(64))
        );
    }
}
