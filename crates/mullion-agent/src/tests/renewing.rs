//! Certificates of a control plane: told, renewed once, and used by every program, also after a kill.

use std::rc::Rc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use mullion_wire::{Certificates, Event, Facts, Kubeadm, Request};

use super::fixtures::*;
use super::killed::outlive_every_kill;
use crate::system::memory::{Memory, Node};
use crate::system::{Activity, Ended, Files as _, Program, SystemError};

/// A certificate of ten minutes that was issued at noon of 2026-11-18.
const OLD: &str = "261118121000Z";
const OLD_END: u64 = 1_795_003_800;
/// One of a year, issued ten minutes later.
const NEW: &str = "271118121000Z";
const NEW_END: u64 = OLD_END + 365 * 86_400;
const AUTHORITY: &str = "361118120000Z";

const PROGRAMS: [&str; 4] = [
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
];

const FILES: [&str; 11] = [
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

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128);
    [&[tag, length], content].concat()
}

/// A certificate that ends then, without what nobody reads: key, extensions, signature.
fn certificate(ends: &str) -> String {
    let times = [&der(0x17, b"261118120000Z"), &der(0x17, ends.as_bytes())];
    let validity = der(0x30, &times.map(Vec::as_slice).concat());
    let version = der(0xa0, &der(2, &[2]));
    let serial = der(2, &[1]);
    let (algorithm, issuer, subject) = (der(0x30, &[]), der(0x30, &[]), der(0x30, &[]));
    let fields = [version, serial, algorithm, issuer, validity, subject].concat();
    let bytes = der(0x30, &der(0x30, &fields));
    let data = BASE64_STANDARD.encode(bytes);
    format!("-----BEGIN CERTIFICATE-----\n{data}\n-----END CERTIFICATE-----\n")
}

/// What is in one of kubeadm's files.
fn content(file: &str, ends: &str) -> String {
    let pem = certificate(ends);
    if file.rsplit_once('.').unwrap().1 == "conf" {
        let data = BASE64_STANDARD.encode(pem);
        format!("users:\n- name: x\n  user:\n    client-certificate-data: {data}\n")
    } else {
        pem
    }
}

/// A kubeadm that renews one file after another.
fn kubeadm(
    machine: &Memory,
    program: &Program,
    on_line: &mut dyn FnMut(&str),
) -> Result<Ended, SystemError> {
    assert_eq!(program.args, ["certs", "renew", "all"]);
    on_line("[renew] Reading configuration from the cluster");
    if machine.look("/etc/external-authority")?.is_some() {
        return Ok(Ended::Status(0));
    }
    for file in FILES {
        let path = format!("/etc/kubernetes/{file}");
        machine.write(&path, content(file, NEW).as_bytes(), 0o600)?;
    }
    Ok(Ended::Status(0))
}

fn control_plane() -> Memory {
    let machine = machine();
    machine.put_program("kubeadm", Rc::new(kubeadm));
    machine.put_service("kubelet", true, Activity::Running);
    machine.set_kubelet_health(true);
    machine.put("/var/lib/mullion", Node::Folder { mode: 0o700 });
    machine.put_file(
        "/etc/kubernetes/manifests/kube-apiserver.yaml",
        b"pod",
        0o600,
    );
    for file in FILES {
        let path = format!("/etc/kubernetes/{file}");
        machine.put_file(&path, content(file, OLD).as_bytes(), 0o600);
    }
    for file in ["ca", "etcd/ca", "front-proxy-ca"] {
        let path = format!("/etc/kubernetes/pki/{file}.crt");
        machine.put_file(&path, certificate(AUTHORITY).as_bytes(), 0o644);
    }
    machine
}

fn renew() -> Request {
    Request::Kubeadm {
        step: Kubeadm::Renew { expires: OLD_END },
    }
}

fn facts(machine: &Memory) -> Facts {
    let (_, events) = ask_well(machine, &Request::Facts);
    let facts = events.into_iter().find_map(|event| match event {
        Event::Facts { facts } => Some(*facts),
        _ => None,
    });
    facts.unwrap()
}

fn certificates(machine: &Memory) -> Certificates {
    *facts(machine).certificates.unwrap()
}

fn ended(machine: &Memory) -> Vec<String> {
    let log = machine.log().into_iter();
    log.filter_map(|words| Some(words.strip_prefix("end ")?.to_owned()))
        .collect()
}

#[test]
fn a_control_plane_tells_which_certificate_ends_first() {
    let machine = control_plane();
    let path = "/etc/kubernetes/pki/etcd/peer.crt";
    machine.put_file(path, certificate("261118120500Z").as_bytes(), 0o644);
    let found = certificates(&machine);
    assert_eq!(found.first.file, "pki/etcd/peer.crt");
    assert_eq!(found.first.expires, OLD_END - 300);
    assert_eq!(found.first.issued, OLD_END - 600);
    assert!(!found.renewing);
    let authority = found.authority.unwrap();
    assert_eq!(authority.file, "pki/ca.crt");
    assert!(authority.expires > NEW_END);
    // One in a kubeconfig counts, and what nobody can read does not.
    machine.put_file(
        "/etc/kubernetes/scheduler.conf",
        content("x.conf", "261118120100Z").as_bytes(),
        0o600,
    );
    machine.put_file(path, b"nothing", 0o644);
    assert_eq!(certificates(&machine).first.file, "scheduler.conf");
    // Further control planes have no kubeconfig for the super-admin.
    machine.remove("/etc/kubernetes/super-admin.conf").unwrap();
    assert!(facts(&machine).certificates.is_some());
}

#[test]
fn a_worker_tells_of_no_certificates() {
    let machine = control_plane();
    machine
        .remove("/etc/kubernetes/manifests/kube-apiserver.yaml")
        .unwrap();
    assert_eq!(facts(&machine).certificates, None);
    let words = ask_badly(&machine, &renew());
    assert!(words.contains("kube-apiserver.yaml"), "{words}");
}

#[test]
fn a_renewal_restarts_every_program_and_gives_the_new_kubeconfig() {
    let machine = control_plane();
    let before = certificates(&machine).admin;
    let (changed, events) = ask_well(&machine, &renew());
    assert_eq!(changed, 1);
    assert_eq!(ended(&machine), PROGRAMS);
    let admin = events.into_iter().find_map(|event| match event {
        Event::Kubeadm { done } => done.admin,
        _ => None,
    });
    assert_eq!(admin.unwrap().reveal(), content("admin.conf", NEW));
    let after = certificates(&machine);
    assert_eq!(after.first.expires, NEW_END);
    assert_ne!(after.admin, before);
    assert!(!after.renewing);
    // Whoever did not hear of it asks again: nothing is done a second time.
    let (changed, _) = ask_well(&machine, &renew());
    assert_eq!((changed, ended(&machine).len()), (0, PROGRAMS.len()));
}

#[test]
fn a_renewal_outlives_every_kill() {
    let check = |machine: &Memory| {
        let found = certificates(machine);
        assert_eq!(found.first.expires, NEW_END);
        assert!(!found.renewing);
        // Each was ended after the last certificate was written.
        let log = machine.log();
        let written = log
            .iter()
            .rposition(|words| words.contains("super-admin.conf"));
        for program in PROGRAMS {
            let ended = log
                .iter()
                .rposition(|words| *words == format!("end {program}"));
            assert!(ended > written, "{log:#?}");
        }
    };
    outlive_every_kill(&control_plane, &renew(), &check);
}

#[test]
fn a_renewal_that_was_cut_off_is_told_and_finished_though_every_certificate_is_new() {
    let machine = control_plane();
    machine.break_service("kube-apiserver");
    let words = ask_badly(&machine, &renew());
    assert!(
        words.contains("kubelet did not start kube-apiserver again"),
        "{words}"
    );
    // kubelet was restarted before anybody gave up.
    assert_eq!(machine.all_services()["kubelet"].starts, 1);
    let found = certificates(&machine);
    assert_eq!(found.first.expires, NEW_END);
    assert!(found.renewing);
    machine.mend_service("kube-apiserver");
    ask_well(&machine, &renew());
    assert!(!certificates(&machine).renewing);
    assert_eq!(ended(&machine).len(), 3 + PROGRAMS.len());
}

#[test]
fn what_kubeadm_cannot_renew_is_told_and_nothing_is_restarted() {
    let machine = control_plane();
    machine.put_file("/etc/external-authority", b"", 0o600);
    let words = ask_badly(&machine, &renew());
    assert!(
        words.contains("kubeadm did not renew `/etc/kubernetes/admin.conf`"),
        "{words}"
    );
    assert_eq!(ended(&machine), [""; 0]);
}

#[test]
fn a_kubelet_that_does_not_answer_is_restarted_first() {
    let machine = control_plane();
    machine.set_kubelet_health(false);
    ask_well(&machine, &renew());
    assert_eq!(machine.all_services()["kubelet"].starts, 1);
    assert_eq!(ended(&machine), PROGRAMS);
}
