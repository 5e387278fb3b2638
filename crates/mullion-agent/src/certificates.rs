//! Until when the certificates of a control plane are good.

use mullion_wire::{Certificate, Certificates};

use crate::failure::AgentError;
use crate::pem::{certificate_digest, client_certificate, validity};
use crate::system::System;

/// The certificates that `kubeadm certs renew all` renews, below kubeadm's folder.
const RENEWED: &[&str] = &[
    "admin.conf",
    "controller-manager.conf",
    "pki/apiserver-etcd-client.crt",
    "pki/apiserver-kubelet-client.crt",
    "pki/apiserver.crt",
    "pki/etcd/healthcheck-client.crt",
    "pki/etcd/peer.crt",
    "pki/etcd/server.crt",
    "pki/front-proxy-client.crt",
    "scheduler.conf",
    "super-admin.conf",
];

/// The authorities' own certificates, which kubeadm never renews.
const AUTHORITIES: &[&str] = &["pki/ca.crt", "pki/etcd/ca.crt", "pki/front-proxy-ca.crt"];

const ADMIN: &str = "admin.conf";

/// The certificates that end first; none where there is none that can be read.
pub(crate) fn certificates(
    system: &dyn System,
    renewing: bool,
) -> Result<Option<Certificates>, AgentError> {
    let Some(first) = earliest(system, RENEWED)? else {
        return Ok(None);
    };
    let admin = pem(system, ADMIN)?;
    Ok(Some(Certificates {
        first,
        authority: earliest(system, AUTHORITIES)?,
        renewing,
        admin: admin.as_deref().and_then(certificate_digest),
    }))
}

fn earliest(system: &dyn System, files: &[&str]) -> Result<Option<Certificate>, AgentError> {
    let mut found: Option<Certificate> = None;
    for file in files {
        let Some((begins, expires)) = pem(system, file)?.as_deref().and_then(validity) else {
            continue;
        };
        if found.as_ref().is_some_and(|found| found.expires <= expires) {
            continue;
        }
        let written = written(system, file)?;
        found = Some(Certificate {
            file: (*file).to_owned(),
            issued: issued(begins, written, expires),
            expires,
        });
    }
    Ok(found)
}

/// When a certificate was issued. Older kubeadms let every certificate begin with its authority, years before a renewal:
/// there the time at which the file was written tells.
fn issued(begins: u64, written: Option<u64>, expires: u64) -> u64 {
    let written = written.filter(|written| (begins..expires).contains(written));
    written.unwrap_or(begins)
}

fn written(system: &dyn System, file: &str) -> Result<Option<u64>, AgentError> {
    let look = system.look(&path(system, file))?;
    let seconds = look.map(|look| look.modified / 1_000_000_000);
    Ok(seconds.and_then(|seconds| seconds.try_into().ok()))
}

/// The certificate in a file, in text form: a kubeconfig holds it in base64.
fn pem(system: &dyn System, file: &str) -> Result<Option<String>, AgentError> {
    let Some(bytes) = system.read(&path(system, file))? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let is_kubeconfig = matches!(file.rsplit_once('.'), Some((_, "conf")));
    Ok(if is_kubeconfig {
        client_certificate(&text)
    } else {
        Some(text)
    })
}

fn path(system: &dyn System, file: &str) -> String {
    format!("{}/{file}", system.paths().kubernetes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_of_a_renewed_certificate_begins_with_its_renewal() {
        // The authority is of five years ago, and so says every certificate.
        assert_eq!(issued(100, Some(5_000), 6_000), 5_000);
        // A file that was copied with another time says nothing.
        assert_eq!(issued(100, Some(7_000), 6_000), 100);
        assert_eq!(issued(100, Some(50), 6_000), 100);
        assert_eq!(issued(100, None, 6_000), 100);
    }
}
