//! The admin's kubeconfig, where the one that is kept does not lead to the cluster that runs.

use mullion_kube::kubeconfig::{client_certificate_id, cluster_id};
use mullion_plan::{ClusterId, Observed, Unattended};
use mullion_spec::value::MachineName;
use mullion_wire::{Kubeadm, Request, Secret};

use super::{Adapter, look};

impl Adapter<'_> {
    /// We hold the kubeconfig of the cluster that runs, where a control plane gives it. The one that was kept may be
    /// lost with the state folder, or be of a cluster that is gone: this one was begun from another computer, or by a
    /// run that was killed before it could keep anything.
    pub(super) fn hold_kubeconfig(&self, observed: &Observed) {
        if self.outfit.existing.is_some() {
            return;
        }
        let kept = self.state.kubeconfig().ok().flatten();
        let read = |machine: &MachineName| self.read_admin(machine);
        if let Some(admin) = another(kept.as_ref(), observed, read) {
            // Whoever needs it and finds none says so.
            let _ = self.hold_admin(&admin);
        }
    }

    /// The admin's kubeconfig that is on a control plane.
    pub(super) fn read_admin(&self, machine: &MachineName) -> Option<Secret> {
        let step = Kubeadm::ReadAdmin;
        let answer = self.ask(machine, &Request::Kubeadm { step }, &Unattended);
        answer.ok()?.kubeadm?.admin
    }
}

fn leads_to(kubeconfig: &Secret) -> Option<ClusterId> {
    cluster_id(kubeconfig.reveal(), None).ok()
}

/// Whether the control planes hold other certificates for the admin than the one that is kept: it was renewed by a run
/// that was killed before it could keep the new one, or by somebody with kubeadm, and the old one ends soon.
fn was_renewed(kept: &Secret, observed: &Observed) -> bool {
    let own = client_certificate_id(kept.reveal());
    let machines = observed.machines.values().filter(|facts| facts.ours);
    let inside = machines.filter_map(|facts| facts.inside.as_ref());
    let found = inside.filter_map(|inside| inside.certificates.as_ref());
    let mut admins = found.filter_map(|found| found.admin.as_ref()).peekable();
    own.is_some() && admins.peek().is_some() && admins.all(|admin| Some(admin) != own.as_ref())
}

/// The kubeconfig to hold instead of the one that is kept, where that leads to no cluster of the control planes.
fn another(
    kept: Option<&Secret>,
    observed: &Observed,
    read: impl Fn(&MachineName) -> Option<Secret>,
) -> Option<Secret> {
    let seats: Vec<_> = look::begun(observed).collect();
    let is_theirs = |id: ClusterId| seats.is_empty() || seats.iter().any(|(_, own)| **own == id);
    let has_lasting = |kept: &Secret| !was_renewed(kept, observed);
    if kept
        .filter(|kept| has_lasting(kept))
        .and_then(leads_to)
        .is_some_and(is_theirs)
    {
        return None;
    }
    // The cluster that the look takes for the one that runs.
    let wanted = seats.first().map(|(_, id)| *id);
    let givers = look::members(observed).into_iter().filter(|name| {
        let own = seats.iter().find(|(seat, _)| *seat == name);
        own.map(|(_, id)| *id) == wanted
    });
    let is_wanted =
        |admin: &Secret| wanted.is_none_or(|wanted| leads_to(admin).as_ref() == Some(wanted));
    givers
        .filter_map(|name| read(&name))
        .find(|admin| is_wanted(admin))
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Inside, MachineFacts};
    use mullion_spec::words::Driver;
    use mullion_testkit::running_machine;

    use super::*;

    /// Two authorities' certificates, as kubeconfigs hold them; nobody reads what is in them.
    const OLD: &str =
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmIyeGsKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    const NEW: &str =
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmJtVjMKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

    /// A kubeconfig that leads to the cluster of that authority.
    fn kubeconfig(authority: &str) -> Secret {
        kubeconfig_of(authority, &serde_json::json!({"token": "t"}))
    }

    fn kubeconfig_of(authority: &str, user: &serde_json::Value) -> Secret {
        Secret::new(
            serde_json::json!({
                "clusters": [{"name": "c", "cluster": {
                    "server": "https://192.0.2.1:6443", "certificate-authority-data": authority,
                }}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "current-context": "c",
                "users": [{"name": "c", "user": user}],
            })
            .to_string(),
        )
    }

    fn seat(joined: Option<&Secret>) -> MachineFacts {
        let inside = Inside {
            control_plane: true,
            joined: joined.and_then(leads_to),
            ..Inside::default()
        };
        running_machine(Driver::Ssh, Some(inside))
    }

    fn world<const N: usize>(seats: [(&str, Option<&Secret>); N]) -> Observed {
        Observed {
            machines: seats
                .map(|(name, joined)| (name.parse().unwrap(), seat(joined)))
                .into(),
            ..Observed::default()
        }
    }

    #[test]
    fn the_kubeconfig_of_a_cluster_that_is_gone_gives_way_to_that_of_the_one_that_runs() {
        let (old, new) = (kubeconfig(OLD), kubeconfig(NEW));
        assert_ne!(leads_to(&old).unwrap(), leads_to(&new).unwrap());
        let observed = world([("cp1", Some(&new))]);
        let given = |_: &MachineName| Some(new.clone());
        for kept in [None, Some(&old), Some(&Secret::new("no kubeconfig"))] {
            let held = another(kept, &observed, given).unwrap();
            assert_eq!(held.reveal(), new.reveal());
        }
        // What a machine gives that is not of its own cluster is not held either, nor nothing.
        assert!(another(Some(&old), &observed, |_| Some(old.clone())).is_none());
        assert!(another(Some(&old), &observed, |_| None).is_none());
    }

    #[test]
    fn one_that_leads_to_any_control_plane_is_kept_and_nobody_is_asked() {
        let (old, new) = (kubeconfig(OLD), kubeconfig(NEW));
        let unasked = |_: &MachineName| panic!("nobody is to be asked");
        for observed in [
            world([("cp1", Some(&old))]),
            world([("cp1", Some(&new)), ("cp2", Some(&old))]),
            // There is no telling which cluster it is of.
            world([("cp1", None)]),
        ] {
            assert!(another(Some(&old), &observed, unasked).is_none());
        }
    }

    #[test]
    fn a_kubeconfig_whose_certificate_was_renewed_on_every_control_plane_is_fetched_again() {
        let of = |certificate: &str| {
            let user = serde_json::json!({
                "client-certificate-data": certificate, "client-key-data": "a2V5",
            });
            kubeconfig_of(NEW, &user)
        };
        // The text of either is a certificate like any other.
        let (kept, renewed) = (of(OLD), of(NEW));
        let with = |admins: &[Option<&Secret>]| {
            let mut observed = world([("cp1", Some(&kept)), ("cp2", Some(&kept))]);
            for (facts, admin) in observed.machines.values_mut().zip(admins) {
                let first = mullion_plan::Certificate {
                    file: "pki/apiserver.crt".into(),
                    issued: 0,
                    expires: 1,
                };
                let admin = admin.and_then(|admin| client_certificate_id(admin.reveal()));
                facts.inside.as_mut().unwrap().certificates =
                    Some(mullion_plan::CertificateFacts {
                        first,
                        authority: None,
                        due: None,
                        admin,
                    });
            }
            another(Some(&kept), &observed, |_| Some(renewed.clone())).is_some()
        };
        assert!(with(&[Some(&renewed), Some(&renewed)]));
        assert!(with(&[Some(&renewed), None]));
        // It is one of theirs, or nobody tells.
        assert!(!with(&[Some(&renewed), Some(&kept)]));
        assert!(!with(&[None, None]));
    }

    #[test]
    fn only_control_planes_of_the_cluster_that_runs_are_asked() {
        let (old, new) = (kubeconfig(OLD), kubeconfig(NEW));
        let seats = [("cp1", Some(&new)), ("cp2", Some(&old)), ("cp3", None)];
        let observed = world(seats);
        let ask = |name: &MachineName| {
            assert_eq!(name.as_str(), "cp1");
            Some(new.clone())
        };
        assert!(another(None, &observed, ask).is_some());
        // A damaged one gives what was lost.
        let damaged = world([("cp1", None)]);
        assert!(another(None, &damaged, |_| Some(new.clone())).is_some());
    }
}
