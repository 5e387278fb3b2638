//! The requests were made with `openssl req -new -subj /O=system:nodes/CN=system:node:lin1 -addext subjectAltName=…`.

use k8s_openapi::ByteString;
use proptest::prelude::*;

use super::*;

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/requests/", $name, ".pem")).as_slice()
    };
}

fn spec(pem: &[u8]) -> CertificateSigningRequestSpec {
    let words = |words: &[&str]| Some(words.iter().map(ToString::to_string).collect());
    CertificateSigningRequestSpec {
        request: ByteString(pem.into()),
        groups: words(&["system:nodes", "system:authenticated"]),
        usages: words(&["digital signature", "server auth"]),
        username: Some("system:node:lin1".into()),
        signer_name: crate::certificates::SIGNER.into(),
        ..CertificateSigningRequestSpec::default()
    }
}

fn serving(addresses: &[&str]) -> Serving {
    Serving {
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        ..Serving::default()
    }
}

fn judged(pem: &[u8]) -> Result<(), Unfit> {
    check(&spec(pem), "lin1", &serving(&["10.99.0.12"]))
}

#[test]
fn a_nodes_own_name_and_address_are_approved() {
    assert_eq!(judged(fixture!("lin1")), Ok(()));
}

#[test]
fn every_address_must_be_known() {
    let both = fixture!("lin1-both-stacks");
    let unknown = "fd00::12".parse().unwrap();
    assert_eq!(judged(both), Err(Unfit::Address(unknown)));
    let known = serving(&["10.99.0.12", "fd00::12"]);
    assert_eq!(check(&spec(both), "lin1", &known), Ok(()));
    assert_eq!(
        check(&spec(fixture!("lin1")), "lin1", &Serving::default()),
        Err(Unfit::Address(known.addresses[0]))
    );
}

#[test]
fn what_is_not_the_nodes_is_refused_and_named() {
    let cases: [(&[u8], &str); 8] = [
        (
            fixture!("other-name"),
            "its subject is `system:node:cp1` of `system:nodes`, which is not its sender's",
        ),
        (
            fixture!("other-organisation"),
            "its subject is `system:node:lin1` of `system:masters`, which is not its sender's",
        ),
        (
            fixture!("two-organisations"),
            "its subject is `system:node:lin1` of `system:nodes, system:masters`, which is not its sender's",
        ),
        (
            fixture!("foreign-name"),
            "it asks for the name `kubernetes.default`, which is not the node's",
        ),
        (
            fixture!("foreign-address"),
            "it asks for the address 10.99.0.11, which is not known as the node's",
        ),
        (fixture!("email"), "it asks for an email address"),
        (fixture!("uri"), "it asks for a URI"),
        (fixture!("nameless"), "it asks for no name and no address"),
    ];
    for (pem, words) in cases {
        assert_eq!(judged(pem).unwrap_err().to_string(), words);
    }
    let of_lin1 = spec(fixture!("lin1"));
    let known = serving(&["10.99.0.12"]);
    assert!(matches!(
        check(&of_lin1, "lin2", &known),
        Err(Unfit::Sender(_))
    ));
    let of_lin2 = CertificateSigningRequestSpec {
        username: Some("system:node:lin2".into()),
        ..of_lin1
    };
    assert!(matches!(
        check(&of_lin2, "lin2", &known),
        Err(Unfit::Subject(_))
    ));
}

#[test]
fn a_sender_outside_the_nodes_group_is_refused() {
    for groups in [None, Some(vec!["system:authenticated".to_owned()])] {
        let request = CertificateSigningRequestSpec {
            groups,
            ..spec(fixture!("lin1"))
        };
        assert_eq!(
            check(&request, "lin1", &Serving::default()),
            Err(Unfit::Group)
        );
    }
}

#[test]
fn a_certificate_that_could_log_in_is_refused() {
    for usages in [
        vec![
            "digital signature".to_owned(),
            "server auth".into(),
            "client auth".into(),
        ],
        vec!["digital signature".to_owned()],
        vec!["server auth".to_owned()],
        vec!["server auth".to_owned(), "cert sign".into()],
        vec![],
    ] {
        let request = CertificateSigningRequestSpec {
            usages: Some(usages),
            ..spec(fixture!("lin1"))
        };
        assert!(matches!(
            check(&request, "lin1", &Serving::default()),
            Err(Unfit::Usages(_))
        ));
    }
}

#[test]
fn promise_11_an_address_of_another_is_refused_though_it_is_known_as_the_nodes() {
    let others = [
        "10.99.0.12",
        "::ffff:10.99.0.12",
        // As it stands in a Node object or an endpoint.
        "10.99.0.12",
    ];
    for other in others {
        let serving = Serving {
            taken: vec![Taken::new(&other, "the endpoint")],
            ..serving(&["10.99.0.12"])
        };
        let unfit = check(&spec(fixture!("lin1")), "lin1", &serving).unwrap_err();
        assert_eq!(
            unfit.to_string(),
            "it asks for `10.99.0.12`, which belongs to the endpoint"
        );
    }
    let elsewhere = Serving {
        taken: vec![
            Taken::new("10.99.0.11", "machine cp1"),
            Taken::new("lin12", "x"),
        ],
        ..serving(&["10.99.0.12"])
    };
    assert_eq!(check(&spec(fixture!("lin1")), "lin1", &elsewhere), Ok(()));
}

#[test]
fn promise_11_a_name_of_another_is_refused_though_it_is_the_nodes() {
    for name in ["lin1", "LIN1", "lin1."] {
        let serving = Serving {
            taken: vec![Taken::new(&name, "the endpoint")],
            ..serving(&["10.99.0.12"])
        };
        let unfit = check(&spec(fixture!("lin1")), "lin1", &serving).unwrap_err();
        assert!(matches!(unfit, Unfit::Taken { .. }), "{unfit}");
    }
}

#[test]
fn promise_11_names_that_every_client_trusts_are_no_nodes() {
    // No machine may be called so, but one that exists already and joins by another way may be.
    let request = CertificateSigningRequestSpec {
        username: Some("system:node:kubernetes".into()),
        ..spec(fixture!("kubernetes"))
    };
    let unfit = check(&request, "kubernetes", &serving(&["10.99.0.12"])).unwrap_err();
    assert!(matches!(unfit, Unfit::Taken { .. }), "{unfit}");
}

#[test]
fn promise_11_addresses_that_are_every_computers_are_no_nodes() {
    let request = spec(fixture!("loopback"));
    let own = serving(&["10.99.0.12", "127.0.0.1"]);
    assert_eq!(
        check(&request, "lin1", &own),
        Err(Unfit::Address("127.0.0.1".parse().unwrap()))
    );
}

#[test]
fn promise_11_sender_and_signer_are_held_to_the_node() {
    let own = serving(&["10.99.0.12"]);
    for sender in [
        None,
        Some("system:node:lin2"),
        Some("lin1"),
        Some("system:node:lin1x"),
        Some("kubernetes-admin"),
    ] {
        let request = CertificateSigningRequestSpec {
            username: sender.map(str::to_owned),
            ..spec(fixture!("lin1"))
        };
        let unfit = check(&request, "lin1", &own).unwrap_err();
        assert!(matches!(unfit, Unfit::Sender(_)), "{unfit}");
    }
    let request = CertificateSigningRequestSpec {
        signer_name: "kubernetes.io/kube-apiserver-client".into(),
        ..spec(fixture!("lin1"))
    };
    let unfit = check(&request, "lin1", &own).unwrap_err();
    assert!(matches!(unfit, Unfit::Signer(_)), "{unfit}");
}

#[test]
fn two_requests_in_one_or_another_thing_in_pem_is_refused() {
    let one = fixture!("lin1");
    let certificate = include_bytes!("../../tests/authority.pem");
    for text in [
        [one, one].concat(),
        certificate.to_vec(),
        b"nothing".to_vec(),
        Vec::new(),
    ] {
        assert_eq!(judged(&text), Err(Unfit::Unreadable));
    }
}

#[test]
fn a_request_that_is_cut_off_or_goes_on_is_refused() {
    let whole = pem::parse(fixture!("lin1")).unwrap().into_contents();
    assert!(read_der(&whole).is_some());
    for length in 0..whole.len() {
        assert_eq!(read_der(&whole[..length]), None, "{length}");
    }
    let longer = [whole.as_slice(), &[0x05, 0x00]].concat();
    assert_eq!(read_der(&longer), None);
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_fall(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_der(&bytes);
        let _ = read(&bytes);
    }

    #[test]
    fn a_changed_byte_never_widens_what_is_approved(place in 0_usize..300, value in any::<u8>()) {
        let mut bytes = pem::parse(fixture!("lin1")).unwrap().into_contents();
        let place = place % bytes.len();
        bytes[place] = value;
        let text = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", bytes.clone()));
        if judged(text.as_bytes()).is_ok() {
            let asked = read_der(&bytes).unwrap();
            prop_assert!(asked.names.iter().all(|name| name == "lin1"));
            prop_assert!(asked.addresses.iter().all(|address| address.to_string() == "10.99.0.12"));
            prop_assert_eq!(asked.common_names, ["system:node:lin1"]);
        }
    }
}
