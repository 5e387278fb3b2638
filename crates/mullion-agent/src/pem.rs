//! Certificates in text form: just enough to tell one authority from another, and an old certificate from a good one.

use mullion_wire::Sha256Digest;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
const AUTHORITY: &str = "certificate-authority-data:";
const CLIENT: &str = "client-certificate-data:";

/// The digest of the first certificate in a text.
pub(crate) fn certificate_digest(pem: &str) -> Option<Sha256Digest> {
    Some(Sha256Digest::of(&certificate(pem)?))
}

/// The bytes of the first certificate in a text.
fn certificate(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    base64(body)
}

/// The bytes of every certificate in a text; none where one of them cannot be read.
pub(crate) fn certificates(pem: &str) -> Option<Vec<Vec<u8>>> {
    let parts = pem.split(BEGIN).skip(1);
    parts.map(|part| base64(part.split_once(END)?.0)).collect()
}

/// The fields of a certificate from its validity on.
fn from_validity(bytes: &[u8]) -> Option<&[u8]> {
    let (_, outer, _) = element(bytes)?;
    let (_, mut fields, _) = element(outer)?;
    // The version has a tag of its own and may be left out; serial number, algorithm and issuer follow.
    if element(fields)?.0 == 0xa0 {
        fields = element(fields)?.2;
    }
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    Some(fields)
}

/// The common name in the subject of the first certificate in a text.
pub(crate) fn common_name(pem: &str) -> Option<String> {
    /// The object identifier 2.5.4.3.
    const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    let bytes = certificate(pem)?;
    let (_, _, rest) = element(from_validity(&bytes)?)?;
    let (_, mut subject, _) = element(rest)?;
    while !subject.is_empty() {
        let (_, set, rest) = element(subject)?;
        subject = rest;
        let (_, pair, _) = element(set)?;
        let (_, kind, value) = element(pair)?;
        if kind == COMMON_NAME {
            let (_, text, _) = element(value)?;
            return Some(std::str::from_utf8(text).ok()?.to_owned());
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
    let (_, validity, _) = element(from_validity(&bytes)?)?;
    let (tag, begins, rest) = element(validity)?;
    let begins = time(tag, begins)?;
    let (tag, ends, _) = element(rest)?;
    Some((begins, time(tag, ends)?))
}

/// A moment in seconds since 1970.
fn time(tag: u8, text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (year, rest) = match tag {
        // Two digits of the year; what is below 50 is of this century.
        0x17 => {
            let year: u64 = text.get(..2)?.parse().ok()?;
            (
                if year < 50 { 2000 + year } else { 1900 + year },
                text.get(2..)?,
            )
        }
        0x18 => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let number = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let days = days(year, number(0)?, number(2)?)?;
    Some(((days * 24 + number(4)?) * 60 + number(6)?) * 60 + number(8)?)
}

/// The first element of some DER: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first & 0x7f);
    if first & 0x80 != 0 {
        let (digits, after) = rest.split_at_checked(length)?;
        rest = after;
        length = digits.iter().try_fold(0_usize, |length, digit| {
            length.checked_mul(256)?.checked_add(usize::from(*digit))
        })?;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The days from 1970 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // A year that begins in March ends with the leap day.
    let year = if month > 2 {
        year
    } else {
        year.checked_sub(1)?
    };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day.checked_sub(1)?;
    (year * 365 + year / 4 - year / 100 + year / 400 + of_year).checked_sub(719_468)
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
    let text = base64(line.trim().trim_matches(['"', '\'']))?;
    String::from_utf8(text).ok()
}

/// The bytes that a text in base64 stands for; blanks and line ends do not count.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits: u16 = 0;
    let mut held = 0;
    let mut is_over = false;
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                is_over = true;
                continue;
            }
            _ => return None,
        };
        if is_over {
            return None;
        }
        bits = (bits << 6) | u16::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            let [_, byte] = (bits >> held).to_be_bytes();
            bytes.push(byte);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_padding_and_line_ends() {
        assert_eq!(base64("aGVs\nbG8=").unwrap(), b"hello");
        assert_eq!(base64("").unwrap(), b"");
        assert_eq!(base64("aGVsbG8h").unwrap(), b"hello!");
        assert!(base64("a*b").is_none());
        assert!(base64("aG=V").is_none());
    }

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
        assert_eq!(days(0, 1, 1), None);
        assert_eq!(days(1970, 1, 1), Some(0));
        assert_eq!(days(2024, 2, 29), Some(19_782));
        assert_eq!(days(2026, 12, 31), Some(20_818));
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
        // The same text in base64 once more.
        let data =
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmFHVnNiRzg9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";
        let kubeconfig = format!("clusters:\n- cluster:\n    {AUTHORITY} {data}\n    server: x\n");
        assert_eq!(authority_digest(&kubeconfig).unwrap(), digest);
        assert_eq!(authority_digest("clusters: []\n"), None);
        assert_eq!(certificate_digest("no certificate"), None);
    }
}
