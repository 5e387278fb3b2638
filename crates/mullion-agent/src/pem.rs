//! Certificates in text form: just enough to tell one authority from another.

use mullion_wire::Sha256Digest;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
const AUTHORITY: &str = "certificate-authority-data:";

/// The digest of the first certificate in a text.
pub(crate) fn certificate_digest(pem: &str) -> Option<Sha256Digest> {
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    Some(Sha256Digest::of(&base64(body)?))
}

/// The digest of the authority that a kubeconfig names.
pub(crate) fn authority_digest(kubeconfig: &str) -> Option<Sha256Digest> {
    let line = kubeconfig
        .lines()
        .find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(AUTHORITY))?;
    let pem = base64(line.trim().trim_matches(['"', '\'']))?;
    certificate_digest(std::str::from_utf8(&pem).ok()?)
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
