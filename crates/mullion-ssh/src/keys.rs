//! Keys: made, read, named by fingerprint, and compared.

use mullion_wire::Secret;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::ssh_key::rand_core::Rng as _;
use russh::keys::ssh_key::{Fingerprint, LineEnding};
use russh::keys::{
    Algorithm, EcdsaCurve, Error, HashAlg, PrivateKey, PublicKey, decode_secret_key,
};

use crate::error::{Cause, TransportError};
use crate::login::Key;
use crate::short_number;

/// A key that was made here: an ed25519 one, without a passphrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The private key, in OpenSSH's form.
    pub private: Secret,
    /// The public key, as a line for `authorized_keys` or `hostKey`.
    pub public: String,
}

/// Makes an ed25519 key.
pub fn generate_key() -> Result<KeyPair, TransportError> {
    let pair = Ed25519Keypair::random(&mut russh::keys::key::safe_rng());
    let key = PrivateKey::from(pair);
    let private = key
        .to_openssh(LineEnding::LF)
        .map_err(|error| bad_key("a key that was just made", &error))?;
    Ok(KeyPair {
        private: Secret::new(private.as_str()),
        public: line_of(key.public_key()),
    })
}

/// The public key of a private one, as a line for `authorized_keys`.
pub fn public_key(private: &Secret) -> Result<String, TransportError> {
    let key = Key::Pem(private.clone());
    Ok(line_of(parsed(&key, private.reveal())?.public_key()))
}

/// The fingerprint of a public key in one line: `SHA256:…`.
pub fn fingerprint(public: &str) -> Result<String, TransportError> {
    let key = PublicKey::from_openssh(public.trim())
        .map_err(|error| bad_key(&format!("`{public}`"), &error))?;
    Ok(fingerprint_of(&key))
}

fn bad_key(key: &str, error: &dyn std::error::Error) -> TransportError {
    TransportError::BadKey {
        key: key.to_owned(),
        source: Cause::new(error.to_string()),
    }
}

pub(crate) fn fingerprint_of(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// A public key in one line, without the comment behind it.
pub(crate) fn line_of(key: &PublicKey) -> String {
    let bare = PublicKey::new(key.key_data().clone(), "");
    // Only a key of an unknown kind cannot be written; its fingerprint says as much as can be said.
    let line = bare.to_openssh().unwrap_or_else(|_| fingerprint_of(key));
    line.trim_end().to_owned()
}

/// The private key of a login that has one itself.
pub(crate) fn private_key(key: &Key) -> Result<Option<PrivateKey>, TransportError> {
    let text = match key {
        Key::Agent { .. } => return Ok(None),
        Key::Pem(pem) => pem.clone(),
        Key::File(path) => Secret::new(
            fs_err::read_to_string(path).map_err(|source| TransportError::KeyFile { source })?,
        ),
    };
    parsed(key, text.reveal()).map(Some)
}

fn parsed(key: &Key, text: &str) -> Result<PrivateKey, TransportError> {
    let encrypted = || TransportError::KeyEncrypted {
        key: key.to_string(),
    };
    // Older forms say it in their head, and are not all understood further.
    if text.lines().take(3).any(|line| line.contains("ENCRYPTED")) {
        return Err(encrypted());
    }
    match decode_secret_key(text, None) {
        Ok(key) => Ok(key),
        Err(Error::KeyIsEncrypted) => Err(encrypted()),
        Err(error) => with_short_number(text).ok_or_else(|| bad_key(&key.to_string(), &error)),
    }
}

fn with_short_number(text: &str) -> Option<PrivateKey> {
    let file = pem::parse(text).ok()?;
    PrivateKey::from_bytes(&short_number::lengthened(file.contents())?).ok()
}

/// Sixteen hexadecimal digits that nobody else has.
pub(crate) fn unique() -> String {
    format!("{:016x}", russh::keys::key::safe_rng().next_u64())
}

/// What a machine's host key must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pin {
    /// Nothing is known: no key will do.
    Nothing,
    /// This key.
    Key(Box<PublicKey>),
    /// A key of this fingerprint.
    Fingerprint(Fingerprint),
}

impl Pin {
    /// What a login says. `None` when it cannot be read.
    pub(crate) fn read(text: Option<&str>) -> Option<Self> {
        let Some(text) = text.map(str::trim) else {
            return Some(Self::Nothing);
        };
        if text.starts_with("SHA256:") {
            // Some tools pad the digits, OpenSSH does not.
            return text
                .trim_end_matches('=')
                .parse()
                .ok()
                .map(Self::Fingerprint);
        }
        let key = PublicKey::from_openssh(text).ok()?;
        Some(Self::Key(Box::new(key)))
    }

    pub(crate) fn admits(&self, key: &PublicKey) -> bool {
        match self {
            Self::Nothing => false,
            Self::Key(pinned) => pinned.key_data() == key.key_data(),
            Self::Fingerprint(pinned) => key.fingerprint(HashAlg::Sha256) == *pinned,
        }
    }

    /// Its fingerprint, if something is known.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Key(key) => Some(fingerprint_of(key)),
            Self::Fingerprint(fingerprint) => Some(fingerprint.to_string()),
        }
    }

    /// The kinds of keys to ask the server for, in the order of attempts. A server shows one of its keys, of the first
    /// kind that it has: a pinned key is asked for first, and for a fingerprint every kind is asked for in turn.
    pub(crate) fn kinds(&self) -> Vec<Vec<Algorithm>> {
        let ed25519 = vec![Algorithm::Ed25519];
        let ecdsa: Vec<_> = [
            EcdsaCurve::NistP256,
            EcdsaCurve::NistP384,
            EcdsaCurve::NistP521,
        ]
        .map(|curve| Algorithm::Ecdsa { curve })
        .into();
        // Never with SHA-1, which is all that a bare `ssh-rsa` means.
        let rsa: Vec<_> = [HashAlg::Sha512, HashAlg::Sha256]
            .map(|hash| Algorithm::Rsa { hash: Some(hash) })
            .into();
        let all = vec![ed25519, ecdsa, rsa];
        match self {
            Self::Nothing => vec![all.concat()],
            Self::Fingerprint(_) => all,
            Self::Key(key) => {
                let wanted = key.algorithm();
                let is_wanted = |kind: &Algorithm| match wanted {
                    Algorithm::Rsa { .. } => matches!(kind, Algorithm::Rsa { .. }),
                    _ => *kind == wanted,
                };
                let (mut first, rest): (Vec<_>, Vec<_>) =
                    all.concat().into_iter().partition(is_wanted);
                first.extend(rest);
                vec![first]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_key_can_be_read_back_and_has_its_public_line() {
        let pair = generate_key().unwrap();
        assert!(
            pair.private
                .reveal()
                .starts_with("-----BEGIN OPENSSH PRIVATE KEY-----")
        );
        assert!(
            pair.public.starts_with("ssh-ed25519 AAAA"),
            "{}",
            pair.public
        );
        assert_eq!(public_key(&pair.private).unwrap(), pair.public);
        assert_ne!(generate_key().unwrap(), pair);
    }

    #[test]
    fn a_fingerprint_is_the_one_that_openssh_prints() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pub");
        let public = generate_key().unwrap().public;
        fs_err::write(&file, &public).unwrap();
        let output = std::process::Command::new("ssh-keygen")
            .arg("-lf")
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            fingerprint(&public).unwrap(),
            said.split(' ').nth(1).unwrap()
        );
        assert!(fingerprint("not a key").is_err());
    }

    #[test]
    fn a_pin_admits_its_key_and_no_other() {
        let one = generate_key().unwrap().public;
        let other = PublicKey::from_openssh(&generate_key().unwrap().public).unwrap();
        let key = PublicKey::from_openssh(&one).unwrap();
        for text in [
            one.clone(),
            format!("{one} root@a"),
            fingerprint(&one).unwrap(),
            format!("{}=", fingerprint(&one).unwrap()),
        ] {
            let pin = Pin::read(Some(&text)).unwrap();
            assert!(pin.admits(&key), "{text}");
            assert!(!pin.admits(&other), "{text}");
            assert_eq!(pin.fingerprint(), Some(fingerprint(&one).unwrap()));
        }
        assert!(!Pin::read(None).unwrap().admits(&key));
    }

    #[test]
    fn what_is_no_key_is_no_pin() {
        for text in [
            "",
            "ssh-ed25519",
            "ssh-ed25519 AAAA",
            "SHA256:short",
            "MD5:aa:bb",
        ] {
            assert_eq!(Pin::read(Some(text)), None, "{text}");
        }
    }

    #[test]
    fn a_server_is_asked_for_the_pinned_kind_first() {
        let public = generate_key().unwrap().public;
        let kinds = Pin::read(Some(&public)).unwrap().kinds();
        assert_eq!(kinds.len(), 1);
        assert_eq!(kinds[0][0], Algorithm::Ed25519);
        assert!(kinds[0].len() > 3, "other kinds are shown in the refusal");
        let fingerprint = fingerprint(&public).unwrap();
        assert_eq!(Pin::read(Some(&fingerprint)).unwrap().kinds().len(), 3);
    }

    #[test]
    fn a_key_with_a_passphrase_is_told_apart_from_a_broken_one() {
        let folder = tempfile::tempdir().unwrap();
        for (form, kind) in [("RFC4716", "ed25519"), ("PEM", "rsa"), ("PKCS8", "ecdsa")] {
            let file = folder.path().join(kind);
            let status = std::process::Command::new("ssh-keygen")
                .args(["-q", "-N", "hunter2", "-m", form, "-t", kind, "-f"])
                .arg(&file)
                .status();
            assert!(status.unwrap().success());
            let error = private_key(&Key::File(file.clone())).unwrap_err();
            assert!(
                matches!(error, TransportError::KeyEncrypted { .. }),
                "{error}"
            );
            assert!(error.hint().unwrap().contains("ssh-add"));
            assert!(error.to_string().contains(&file.display().to_string()));
        }
        let error = private_key(&Key::Pem(Secret::new("nonsense"))).unwrap_err();
        assert!(matches!(error, TransportError::BadKey { .. }), "{error}");
        let error = private_key(&Key::File(folder.path().join("none"))).unwrap_err();
        assert!(matches!(error, TransportError::KeyFile { .. }), "{error}");
    }

    #[test]
    fn a_key_whose_number_begins_with_zeros_can_be_read() {
        let pem = format!("-----BEGIN {SHORT_KIND}-----\n{SHORT}\n-----END {SHORT_KIND}-----\n");
        let public = public_key(&Secret::new(pem)).unwrap();
        assert_eq!(public, SHORT_PUBLIC);
    }

    /// Made for this test alone; some hundred keys were made until one was short.
    const SHORT_KIND: &str = "OPENSSH PRIVATE KEY";
    const SHORT: &str = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAaAAAABNlY2RzYS
1zaGEyLW5pc3RwMjU2AAAACG5pc3RwMjU2AAAAQQRnLQAq/mNsmxcoW2X3uflmmze5xeEC
pSqYaE/S+fbxgVfv8E/vFv2JkAtBj3Yxzv2G/zWOJCYYp523qCKZ4pfQAAAAmEB45PZAeO
T2AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGctACr+Y2ybFyhb
Zfe5+WabN7nF4QKlKphoT9L59vGBV+/wT+8W/YmQC0GPdjHO/Yb/NY4kJhinnbeoIpnil9
AAAAAfYWB6XR3wLSRvLs4nNrNknni9dWO1AYZTawDThSr4lwAAAAAB";
    const SHORT_PUBLIC: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBG\
         ctACr+Y2ybFyhbZfe5+WabN7nF4QKlKphoT9L59vGBV+/wT+8W/YmQC0GPdjHO/Yb/NY4kJhinnbeoIpnil9A=";

    #[test]
    fn keys_that_openssh_makes_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        for (form, kind) in [
            ("RFC4716", "ed25519"),
            ("RFC4716", "rsa"),
            ("PEM", "rsa"),
            ("PKCS8", "ecdsa"),
        ] {
            let file = folder.path().join(format!("{form}-{kind}"));
            let status = std::process::Command::new("ssh-keygen")
                .args(["-q", "-N", "", "-m", form, "-t", kind, "-f"])
                .arg(&file)
                .status();
            assert!(status.unwrap().success());
            assert!(
                private_key(&Key::File(file)).unwrap().is_some(),
                "{form} {kind}"
            );
        }
    }
}
