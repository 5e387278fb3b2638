//! ECDSA keys whose number is short.
//!
//! OpenSSH writes a key's number without the zeros in front of it, which one key in 256 has. What reads keys here takes
//! a number of the curve P-256 with less than all its bytes for damage.

/// How such a file begins.
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// The kind of key.
const KIND: &[u8] = b"ecdsa-sha2-nistp256";
/// How many bytes its number has.
const SIZE: usize = 32;
/// What a key without a passphrase is filled up to a multiple of.
const BLOCK: usize = 8;

/// The content of a file with its number at full length; none where that is not what it lacks.
pub(crate) fn lengthened(file: &[u8]) -> Option<Vec<u8>> {
    let mut rest = file.strip_prefix(MAGIC)?;
    let head = [text(&mut rest)?, text(&mut rest)?, text(&mut rest)?];
    let count = taken(&mut rest, 4)?;
    let (public, private) = (text(&mut rest)?, text(&mut rest)?);
    if head != [b"none".as_slice(), b"none", b""] || count != [0, 0, 0, 1] {
        return None;
    }
    let mut rest = private;
    let check = taken(&mut rest, 8)?;
    let (kind, curve, point) = (text(&mut rest)?, text(&mut rest)?, text(&mut rest)?);
    let (number, comment) = (text(&mut rest)?, text(&mut rest)?);
    if kind != KIND || number.len() >= SIZE {
        return None;
    }
    let mut whole = vec![0; SIZE - number.len()];
    whole.extend(number);
    let mut inner = check.to_vec();
    for part in [kind, curve, point, &whole, comment] {
        put(&mut inner, part)?;
    }
    let filling = inner.len().next_multiple_of(BLOCK) - inner.len();
    inner.extend((1u8..).take(filling));
    let mut file = MAGIC.to_vec();
    for part in head {
        put(&mut file, part)?;
    }
    file.extend(count);
    put(&mut file, public)?;
    put(&mut file, &inner)?;
    Some(file)
}

fn taken<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, others) = rest.split_at_checked(length)?;
    *rest = others;
    Some(first)
}

/// Bytes behind their length.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length: [u8; 4] = taken(rest, 4)?.try_into().ok()?;
    taken(rest, usize::try_from(u32::from_be_bytes(length)).ok()?)
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) -> Option<()> {
    let length = u32::try_from(part.len()).ok()?;
    bytes.extend(length.to_be_bytes());
    bytes.extend(part);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lacks_zeros_is_changed() {
        assert_eq!(lengthened(b""), None);
        assert_eq!(lengthened(MAGIC), None);
        assert_eq!(lengthened(b"openssh-key-v1\0\xff\xff\xff\xffnone"), None);
    }
}
