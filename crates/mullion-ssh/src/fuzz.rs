//! What fuzzing calls: readers of what others wrote, each with what must hold of its answer. A refusal says why.

use crate::keys::Pin;
use crate::lines::Lines;
use crate::login::Key;

/// What a machine writes to its streams, however its pieces are cut.
pub fn lines(bytes: &[u8]) -> Result<(), String> {
    let split = |pieces: &[&[u8]]| {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut keep = |line: &str| {
            let is_plain = !line.contains(|letter: char| letter.is_control() && letter != '\t');
            assert!(is_plain, "{line:?}");
            found.push(line.to_owned());
        };
        for piece in pieces {
            lines.take(piece, &mut keep);
        }
        lines.finish(&mut keep);
        found
    };
    let whole = split(&[bytes]);
    let (first, second) = bytes.split_at(bytes.len() / 3);
    assert_eq!(split(&[first, second]), whole, "pieces make the same lines");
    Ok(())
}

/// Host keys that a file or a server gives, and private keys of a file.
pub fn keys(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let pin = Pin::read(Some(&text));
    if let Some(pin) = &pin {
        let _ = (pin.fingerprint(), pin.kinds());
    }
    let key = Key::Pem(mullion_wire::Secret::new(text.as_ref()));
    match crate::keys::private_key(&key) {
        Ok(_) => Ok(()),
        Err(_) if pin.is_some() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
