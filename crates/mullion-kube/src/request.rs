//! Certificate requests: what one asks for, and whether a node may have it. Pure.
//!
//! The request itself is read, and not only who sent it: the signer puts the request's own subject and names into
//! the certificate, and a node that may speak as another node's server could listen to what is meant for that one.

use std::collections::BTreeSet;
use std::net::IpAddr;

use der::asn1::AnyRef;
use der::{Reader as _, SliceReader, Tag, TagNumber, Tagged as _};
use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;

use crate::certificates::SIGNER;
use crate::owner::Owner;

/// The group of all nodes, and the organisation in their certificates.
const NODES: &str = "system:nodes";
/// A node's user name begins so.
pub(crate) const USER_PREFIX: &str = "system:node:";

/// Object identifiers, as they stand in DER.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANISATION: &[u8] = &[0x55, 4, 10];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 29, 17];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];

/// Names that clients of every cluster reach the API server or their own computer by. A node that has one of them as its
/// own name gets no certificate for it.
const RESERVED_NAMES: [&str; 2] = ["kubernetes", "localhost"];

/// What a node may serve by, and what belongs to others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serving {
    /// The node's own addresses.
    pub addresses: Vec<IpAddr>,
    /// Addresses and names of others. They win: an address that is among both is not the node's.
    pub taken: Vec<Taken>,
    /// The cluster, by the labels of its Node objects.
    pub owner: Owner,
    /// Machines of the cluster file. A Node object of ours whose machine is not among them is left over, and a machine
    /// of another name may have its address by now.
    pub machines: BTreeSet<String>,
}

impl Serving {
    fn refuse_taken(
        &self,
        what: &impl ToString,
        is_it: impl Fn(&Taken) -> bool,
    ) -> Result<(), Unfit> {
        match self.taken.iter().find(|taken| is_it(taken)) {
            None => Ok(()),
            Some(taken) => Err(Unfit::Taken {
                what: what.to_string(),
                owner: taken.owner.clone(),
            }),
        }
    }
}

/// An address or a name that belongs to someone else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The address, or the name.
    pub what: String,
    /// Whose it is, for people: `machine lin2`.
    pub owner: String,
}

impl Taken {
    /// One of that owner.
    pub fn new(what: &(impl ToString + ?Sized), owner: impl Into<String>) -> Self {
        Self {
            what: what.to_string(),
            owner: owner.into(),
        }
    }

    fn is_address(&self, address: IpAddr) -> bool {
        let own = self.what.parse::<IpAddr>();
        own.is_ok_and(|own| own.to_canonical() == address.to_canonical())
    }

    fn is_name(&self, name: &str) -> bool {
        let own = self.what.trim_end_matches('.');
        own.eq_ignore_ascii_case(name.trim_end_matches('.'))
    }
}

/// Why a request is not approved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Another one than the node sent it.
    #[error("its sender is `{0}`, which is not the node")]
    Sender(String),
    /// Another signer than that of kubelets' serving certificates is to sign it.
    #[error("it is for the signer `{0}`")]
    Signer(String),
    /// It asks for an address or a name that belongs to someone else.
    #[error("it asks for `{what}`, which belongs to {owner}")]
    Taken {
        /// The address or name.
        what: String,
        /// Whose it is.
        owner: String,
    },
    /// Its sender is no node.
    #[error("its sender is not in group `{NODES}`")]
    Group,
    /// It is for something else than serving.
    #[error(
        "it is for {0}, and a kubelet serves: digital signature, key encipherment, server auth"
    )]
    Usages(String),
    /// It is not a certificate request in PEM and DER.
    #[error("it cannot be read")]
    Unreadable,
    /// It is in another name than its sender's.
    #[error("its subject is {0}, which is not its sender's")]
    Subject(String),
    /// It asks for a name that is not the node's.
    #[error("it asks for the name `{0}`, which is not the node's")]
    Name(String),
    /// It asks for an address that is not the node's.
    #[error("it asks for the address {0}, which is not known as the node's")]
    Address(IpAddr),
    /// It asks for something that no kubelet serves by.
    #[error("it asks for {0}")]
    Kind(&'static str),
    /// It asks for nothing to be reached by.
    #[error("it asks for no name and no address")]
    Nameless,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    common_names: Vec<String>,
    organisations: Vec<String>,
    has_more_subject: bool,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    others: Vec<&'static str>,
}

/// Whether the node may have what the request asks for: its own name, its own addresses, for serving.
pub(crate) fn check(
    request: &CertificateSigningRequestSpec,
    node: &str,
    serving: &Serving,
) -> Result<(), Unfit> {
    if request.signer_name != SIGNER {
        return Err(Unfit::Signer(request.signer_name.clone()));
    }
    let sender = request.username.as_deref().unwrap_or_default();
    if sender.strip_prefix(USER_PREFIX) != Some(node) {
        return Err(Unfit::Sender(sender.into()));
    }
    let groups = request.groups.as_deref().unwrap_or_default();
    if !groups.iter().any(|group| group == NODES) {
        return Err(Unfit::Group);
    }
    let usages = request.usages.as_deref().unwrap_or_default();
    let is_serving = |usage: &String| {
        matches!(
            usage.as_str(),
            "digital signature" | "key encipherment" | "server auth"
        )
    };
    // As the signer wants it: these two, and key encipherment for keys that can do it.
    let has = |wanted: &str| usages.iter().any(|usage| usage == wanted);
    if !usages.iter().all(is_serving) || !has("server auth") || !has("digital signature") {
        return Err(Unfit::Usages(usages.join(", ")));
    }
    let asked = read(&request.request.0).ok_or(Unfit::Unreadable)?;
    let is_own_subject = asked.common_names == [format!("{USER_PREFIX}{node}")]
        && asked.organisations == [NODES]
        && !asked.has_more_subject;
    if !is_own_subject {
        let common = asked.common_names.join(", ");
        let organisation = asked.organisations.join(", ");
        return Err(Unfit::Subject(format!("`{common}` of `{organisation}`")));
    }
    if let Some(other) = asked.others.first() {
        return Err(Unfit::Kind(other));
    }
    if let Some(name) = asked.names.iter().find(|name| *name != node) {
        return Err(Unfit::Name(name.clone()));
    }
    for name in &asked.names {
        if RESERVED_NAMES.contains(&name.to_ascii_lowercase().as_str()) {
            let owner = "every cluster's API server or every computer itself".into();
            let what = name.clone();
            return Err(Unfit::Taken { what, owner });
        }
        serving.refuse_taken(name, |taken| taken.is_name(name))?;
    }
    for address in &asked.addresses {
        serving.refuse_taken(address, |taken| taken.is_address(*address))?;
    }
    let is_known = |address: &&IpAddr| {
        let plain = address.to_canonical();
        let is_own = |known: &IpAddr| known.to_canonical() == plain;
        // These are every computer's, or no computer's.
        let is_one_computers =
            !(plain.is_loopback() || plain.is_unspecified() || plain.is_multicast());
        is_one_computers && serving.addresses.iter().any(is_own)
    };
    if let Some(address) = asked.addresses.iter().find(|address| !is_known(address)) {
        return Err(Unfit::Address(*address));
    }
    if asked.names.is_empty() && asked.addresses.is_empty() {
        return Err(Unfit::Nameless);
    }
    Ok(())
}

/// Reads the one request in a PEM text.
pub(crate) fn read(text: &[u8]) -> Option<Asked> {
    let blocks = pem::parse_many(text).ok()?;
    let [block] = blocks.as_slice() else {
        return None;
    };
    if block.tag() != "CERTIFICATE REQUEST" {
        return None;
    }
    read_der(block.contents())
}

/// `CertificationRequest` of RFC 2986.
fn read_der(bytes: &[u8]) -> Option<Asked> {
    let [request] = exactly(parts(bytes)?)?;
    let [info, _algorithm, _signature] = exactly(parts(sequence(request)?)?)?;
    let info = parts(sequence(info)?)?;
    let [version, subject, _key, attributes @ ..] = info.as_slice() else {
        return None;
    };
    if version.tag() != Tag::Integer {
        return None;
    }
    let mut asked = Asked::default();
    read_subject(*subject, &mut asked)?;
    match attributes {
        [] => {}
        [attributes] if attributes.tag() == context(0, Form::Constructed) => {
            for attribute in parts(attributes.value())? {
                read_attribute(attribute, &mut asked)?;
            }
        }
        _ => return None,
    }
    Some(asked)
}

fn read_subject(subject: AnyRef<'_>, asked: &mut Asked) -> Option<()> {
    for relative in parts(sequence(subject)?)? {
        for pair in parts(tagged(relative, Tag::Set)?)? {
            let [kind, value] = exactly(parts(sequence(pair)?)?)?;
            match tagged(kind, Tag::ObjectIdentifier)? {
                COMMON_NAME => asked.common_names.push(text(value)?),
                ORGANISATION => asked.organisations.push(text(value)?),
                _ => asked.has_more_subject = true,
            }
        }
    }
    Some(())
}

/// An attribute; of interest is the one that asks for extensions, and of those the alternative names. Where there
/// are several, everything in all of them counts: what the signer takes is among it.
fn read_attribute(attribute: AnyRef<'_>, asked: &mut Asked) -> Option<()> {
    let [kind, values] = exactly(parts(sequence(attribute)?)?)?;
    if tagged(kind, Tag::ObjectIdentifier)? != EXTENSION_REQUEST {
        return Some(());
    }
    for extensions in parts(tagged(values, Tag::Set)?)? {
        for extension in parts(sequence(extensions)?)? {
            let fields = parts(sequence(extension)?)?;
            let (kind, value) = match fields.as_slice() {
                [kind, value] => (*kind, *value),
                [kind, critical, value] if critical.tag() == Tag::Boolean => (*kind, *value),
                _ => return None,
            };
            if tagged(kind, Tag::ObjectIdentifier)? == ALTERNATIVE_NAMES {
                let [names] = exactly(parts(tagged(value, Tag::OctetString)?)?)?;
                for name in parts(sequence(names)?)? {
                    read_name(name, asked)?;
                }
            }
        }
    }
    Some(())
}

/// `GeneralName` of RFC 5280.
fn read_name(name: AnyRef<'_>, asked: &mut Asked) -> Option<()> {
    let tag = name.tag();
    if tag == context(2, Form::Primitive) {
        let text = std::str::from_utf8(name.value()).ok()?;
        asked.names.push(text.into());
    } else if tag == context(7, Form::Primitive) {
        let address: IpAddr = match name.value().len() {
            4 => <[u8; 4]>::try_from(name.value()).ok()?.into(),
            16 => <[u8; 16]>::try_from(name.value()).ok()?.into(),
            _ => return None,
        };
        asked.addresses.push(address);
    } else if tag == context(1, Form::Primitive) {
        asked.others.push("an email address");
    } else if tag == context(6, Form::Primitive) {
        asked.others.push("a URI");
    } else {
        asked.others.push("a name of a strange kind");
    }
    Some(())
}

/// Everything that stands side by side in some bytes.
fn parts(bytes: &[u8]) -> Option<Vec<AnyRef<'_>>> {
    let mut reader = SliceReader::new(bytes).ok()?;
    let mut parts = Vec::new();
    while !reader.is_finished() {
        parts.push(reader.decode().ok()?);
    }
    Some(parts)
}

fn exactly<const COUNT: usize>(parts: Vec<AnyRef<'_>>) -> Option<[AnyRef<'_>; COUNT]> {
    parts.try_into().ok()
}

fn tagged(value: AnyRef<'_>, tag: Tag) -> Option<&[u8]> {
    (value.tag() == tag).then(|| value.value())
}

fn sequence(value: AnyRef<'_>) -> Option<&[u8]> {
    tagged(value, Tag::Sequence)
}

fn text(value: AnyRef<'_>) -> Option<String> {
    let is_text = matches!(
        value.tag(),
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String
    );
    let text = std::str::from_utf8(value.value()).ok()?;
    is_text.then(|| text.into())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Primitive,
    Constructed,
}

fn context(number: u32, form: Form) -> Tag {
    Tag::ContextSpecific {
        constructed: form == Form::Constructed,
        number: TagNumber(number),
    }
}

#[cfg(test)]
mod tests;
