//! Certificates in text form: just enough to tell one authority from another, and an old certificate from a good one.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Reader as _, SliceReader, Tag, Tagged as _};
use mullion_wire::Sha256Digest;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const AUTHORITY: &str = "certificate-authority-data:";
const CLIENT: &str = "client-certificate-data:";

/// The digest of the first certificate in a text.
pub(crate) fn certificate_digest(pem: &str) -> Option<Sha256Digest> {
    Some(Sha256Digest::of(&certificate(pem)?))
}

/// The bytes of the first certificate in a text.
fn certificate(pem: &str) -> Option<Vec<u8>> {
    let start = pem.find(BEGIN)?;
    Some(pem::parse(&pem[start..]).ok()?.into_contents())
}

/// The bytes of every certificate in a text; none where one of them cannot be read.
pub(crate) fn certificates(pem: &str) -> Option<Vec<Vec<u8>>> {
    let blocks = pem::parse_many(pem).ok()?.into_iter();
    let found = blocks.filter(|block| block.tag() == "CERTIFICATE");
    let found: Vec<_> = found.map(pem::Pem::into_contents).collect();
    // One that is cut off is no block.
    (found.len() == pem.matches(BEGIN).count()).then_some(found)
}

/// Everything that stands side by side in some DER.
fn parts(bytes: &[u8]) -> Option<Vec<AnyRef<'_>>> {
    let mut reader = SliceReader::new(bytes).ok()?;
    let mut parts = Vec::new();
    while !reader.is_finished() {
        parts.push(reader.decode().ok()?);
    }
    Some(parts)
}

/// The validity and the subject of a certificate.
fn validity_and_subject(bytes: &[u8]) -> Option<[AnyRef<'_>; 2]> {
    let fields = parts(parts(parts(bytes)?.first()?.value())?.first()?.value())?;
    // The version has a tag of its own and may be left out; serial number, algorithm and issuer follow.
    let skipped = 3 + usize::from(fields.first()?.tag().is_context_specific());
    fields.get(skipped..skipped + 2)?.try_into().ok()
}

/// The common name in the subject of the first certificate in a text.
pub(crate) fn common_name(pem: &str) -> Option<String> {
    /// The object identifier 2.5.4.3.
    const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    let bytes = certificate(pem)?;
    let [_, subject] = validity_and_subject(&bytes)?;
    for set in parts(subject.value())? {
        for pair in parts(set.value())? {
            if let [kind, text] = parts(pair.value())?[..]
                && kind.value() == COMMON_NAME
            {
                return Some(std::str::from_utf8(text.value()).ok()?.to_owned());
            }
        }
    }
    None
}

/// Until when the first certificate in a text is good, in seconds since 1970.
pub(crate) fn expiry(pem: &str) -> Option<u64> {
    validity(pem).map(|(_, expires)| expires)
}

/// From when and until when the first certificate in a text is good, in seconds since 1970.
pub(crate) fn validity(pem: &str) -> Option<(u64, u64)> {
    let bytes = certificate(pem)?;
    let [validity, _] = validity_and_subject(&bytes)?;
    let [begins, ends] = parts(validity.value())?[..] else {
        return None;
    };
    Some((time(begins)?, time(ends)?))
}

/// A moment in seconds since 1970.
fn time(moment: AnyRef<'_>) -> Option<u64> {
    let time = if moment.tag() == Tag::UtcTime {
        moment.decode_as::<UtcTime>().ok()?.to_unix_duration()
    } else {
        let time = moment.decode_as::<GeneralizedTime>().ok()?;
        time.to_unix_duration()
    };
    Some(time.as_secs())
}

/// The digest of the authority that a kubeconfig names.
pub(crate) fn authority_digest(kubeconfig: &str) -> Option<Sha256Digest> {
    certificate_digest(&in_kubeconfig(kubeconfig, AUTHORITY)?)
}

/// The client's certificate that a kubeconfig holds, in text form.
pub(crate) fn client_certificate(kubeconfig: &str) -> Option<String> {
    in_kubeconfig(kubeconfig, CLIENT)
}

/// The text that a field of a kubeconfig holds in base64.
fn in_kubeconfig(kubeconfig: &str, field: &str) -> Option<String> {
    let line = kubeconfig
        .lines()
        .find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(field))?;
    let data = line.trim().trim_matches(['"', '\'']);
    String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = "-----END CERTIFICATE-----";

    #[test]
    fn the_expiry_of_a_certificate_is_read() {
        let pem = "-----BEGIN CERTIFICATE-----\n\
            MIIBbTCCAROgAwIBAgIUdtc/ctKBVjMn0mNsMN505k+mP48wCgYIKoZIzj0EAwIw\n\
            DDEKMAgGA1UEAwwBeDAeFw0yNjExMTUxMjMyNDdaFw0yNjExMTYxMjMyNDdaMAwx\n\
            CjAIBgNVBAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATYO0gLmsPUH7j2\n\
            RyO2pZKNDCF+WlzKXSA5QFcNgqElWCUzs54mszDAeRcv+qT0LFvslAJwWym5Fb67\n\
            XQAOBlWCo1MwUTAdBgNVHQ4EFgQUSxcQQG2+J1CGDwxcDn7Y1jlfqf4wHwYDVR0j\n\
            BBgwFoAUSxcQQG2+J1CGDwxcDn7Y1jlfqf4wDwYDVR0TAQH/BAUwAwEB/zAKBggq\n\
            hkjOPQQDAgNIADBFAiEA6oOXS49IBhRyrRNR4qSsJZd8s4ebsI/l0Zq/AijVxC4C\n\
            IHewQJ+1lrxUA3IoPlPippk63uSEd8MjF/eVrnBTSjIz\n\
            -----END CERTIFICATE-----\n";
        assert_eq!(expiry(pem), Some(1_794_832_367));
        assert_eq!(validity(pem), Some((1_794_745_967, 1_794_832_367)));
        assert_eq!(common_name(pem).as_deref(), Some("x"));
        assert_eq!(common_name("no certificate"), None);
        assert_eq!(common_name(&format!("{BEGIN}\naGVsbG8=\n{END}\n")), None);
        assert_eq!(expiry("no certificate"), None);
        assert_eq!(expiry(&format!("{BEGIN}\naGVsbG8=\n{END}\n")), None);
    }

    #[test]
    fn every_certificate_of_a_text_is_read_or_none() {
        let two = format!("of mine\n{BEGIN}\naGVsbG8=\n{END}\nanother\n{BEGIN}\naGVsbG8h\n{END}\n");
        let expected = [b"hello".to_vec(), b"hello!".to_vec()];
        assert_eq!(certificates(&two).unwrap(), expected);
        assert_eq!(certificates(&two.replace("aGVsbG8h", "***")), None);
        assert_eq!(certificates(&format!("{BEGIN}\naGVsbG8=\n")), None);
        assert_eq!(certificates("nothing"), Some(vec![]));
    }

    #[test]
    fn an_authority_is_the_same_as_a_file_and_in_a_kubeconfig() {
        let pem = format!("{BEGIN}\naGVsbG8=\n{END}\n");
        let digest = certificate_digest(&pem).unwrap();
        assert_eq!(digest, Sha256Digest::of(b"hello"));
        // What follows it does not count.
        let followed = format!("{pem}-----BEGIN EC PRIVATE KEY-----\n***\n{END}\n");
        assert_eq!(certificate_digest(&followed).unwrap(), digest);
        // The same text in base64 once more.
        let data =
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmFHVnNiRzg9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";
        let kubeconfig = format!("clusters:\n- cluster:\n    {AUTHORITY} {data}\n    server: x\n");
        assert_eq!(authority_digest(&kubeconfig).unwrap(), digest);
        assert_eq!(authority_digest("clusters: []\n"), None);
        assert_eq!(certificate_digest("no certificate"), None);
    }
}
