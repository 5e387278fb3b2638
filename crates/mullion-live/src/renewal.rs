//! New certificates for control planes: judged by this computer's clock, issued by kubeadm on the machine.

use mullion_plan::{Attend, Certificate, CertificateFacts, ErrorClass, StepError};
use mullion_spec::value::MachineName;
use mullion_wire::{Certificates, Kubeadm, Request};

use super::talk::Told;
use super::{Adapter, look};

/// What planning and people are told of a control plane's certificates. This computer's clock decides, and not the
/// machine's, which may be wrong.
pub(super) fn judge(found: &Certificates, now: u64) -> CertificateFacts {
    let read = |certificate: &mullion_wire::Certificate| Certificate {
        file: certificate.file.clone(),
        issued: certificate.issued,
        expires: certificate.expires,
    };
    let first = read(&found.first);
    let due = if found.renewing {
        Some("a renewal of its certificates was cut off".to_owned())
    } else {
        let words = || format!("`{}` {}", first.file, first.end(now));
        first.is_due(now).then(words)
    };
    CertificateFacts {
        authority: found.authority.as_ref().map(read),
        admin: found.admin.as_ref().map(ToString::to_string),
        first,
        due,
    }
}

impl Adapter<'_> {
    /// The certificates of a control plane are renewed where they end soon, and its own API server answers where an
    /// endpoint is given.
    pub(super) fn renew(
        &self,
        machine: &MachineName,
        endpoint: Option<&str>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let Told::Facts(facts) = self.told(machine)? else {
            let words = format!("the agent of {machine} did not tell of its certificates");
            return Err(StepError::new(ErrorClass::Unreachable, words));
        };
        let found = facts.certificates.ok_or_else(|| {
            let words = format!("{machine} has no certificates of a control plane");
            StepError::new(ErrorClass::Refused, words)
        })?;
        // A step that is tried again, or that waits for the API server, finds new ones.
        if judge(&found, look::now()).due.is_some() {
            let expires = found.first.expires;
            let step = Kubeadm::Renew { expires };
            let answer = self.ask(machine, &Request::Kubeadm { step }, attendant)?;
            let admin = answer.kubeadm.and_then(|done| done.admin);
            admin.map_or(Ok(()), |admin| self.hold_admin(&admin))?;
            self.note(format!(
                "renewed the certificates of {machine}; a kubeconfig that was merged or copied before holds an old one: \
                 `mullion kubeconfig --merge` gives you the new one"
            ));
        }
        endpoint.map_or(Ok(()), |endpoint| self.await_api(Some(machine), endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    const NOW: u64 = 2_000_000_000;

    fn found(left: u64) -> Certificates {
        let certificate = |file: &str, left: u64, life: u64| mullion_wire::Certificate {
            file: file.into(),
            issued: NOW + left * DAY - life * DAY,
            expires: NOW + left * DAY,
        };
        Certificates {
            first: certificate("pki/apiserver.crt", left, 365),
            authority: Some(certificate("pki/ca.crt", 3000, 3650)),
            renewing: false,
            admin: None,
        }
    }

    #[test]
    fn certificates_are_due_with_less_than_a_tenth_of_their_life_left() {
        assert_eq!(judge(&found(37), NOW).due, None);
        let due = judge(&found(36), NOW).due.unwrap();
        assert_eq!(due, "`pki/apiserver.crt` ends in 36 days");
        let due = judge(&found(0), NOW + 3 * DAY).due.unwrap();
        assert_eq!(due, "`pki/apiserver.crt` expired 3 days ago");
    }

    #[test]
    fn a_renewal_that_was_cut_off_is_due_whatever_the_certificates_say() {
        let cut = Certificates {
            renewing: true,
            ..found(364)
        };
        let due = judge(&cut, NOW).due.unwrap();
        assert_eq!(due, "a renewal of its certificates was cut off");
    }
}
