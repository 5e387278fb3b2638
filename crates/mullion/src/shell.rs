//! Words as a shell reads them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// A word that a shell reads back as it is.
pub fn quoted(word: &OsStr) -> OsString {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:=@,+%^".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return word.to_owned();
    }
    let mut out = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => out.extend(br"'\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
    OsString::from_vec(out)
}

/// Words on one line that can be typed; what is not UTF-8 is shown as well as that goes.
pub fn line(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words = words.into_iter().map(|word| {
        let word = quoted(word.as_ref());
        word.to_string_lossy().into_owned()
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_typed() {
        assert_eq!(
            line(["mullion", "-f", "my lab.yaml", ""]),
            "mullion -f 'my lab.yaml' ''"
        );
    }
}
