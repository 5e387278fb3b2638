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

fn judged(pem: &[u8]) -> Result<(), Unfit> {
    check(&spec(pem), "lin1", &["10.99.0.12".parse().unwrap()])
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
    let known = ["10.99.0.12".parse().unwrap(), unknown];
    assert_eq!(check(&spec(both), "lin1", &known), Ok(()));
    assert_eq!(
        check(&spec(fixture!("lin1")), "lin1", &[]),
        Err(Unfit::Address(known[0]))
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
    let known = ["10.99.0.12".parse().unwrap()];
    assert!(matches!(
        check(&of_lin1, "lin2", &known),
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
        assert_eq!(check(&request, "lin1", &[]), Err(Unfit::Group));
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
        vec![],
    ] {
        let request = CertificateSigningRequestSpec {
            usages: Some(usages),
            ..spec(fixture!("lin1"))
        };
        assert!(matches!(
            check(&request, "lin1", &[]),
            Err(Unfit::Usages(_))
        ));
    }
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
