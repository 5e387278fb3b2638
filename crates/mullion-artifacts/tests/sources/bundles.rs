//! Bundles: written whole or not at all, and never trusted unseen.

use std::collections::BTreeSet;

use mullion_artifacts::bundle::{self, BundleError};
use mullion_artifacts::{Distribution, RootWish, Variant, supply_root};

use super::*;

struct Packed {
    ground: Ground,
    file: std::path::PathBuf,
    items: BTreeSet<Item>,
}

/// A bundle with two programs and a root file system.
fn packed() -> Packed {
    let ground = Ground::new();
    let root = Item::Root {
        suite: "bookworm".into(),
        fingerprint: "abc".into(),
    };
    let items = [
        (
            Item::Part(part("kubeadm", PartKind::Program)),
            content(200_000),
        ),
        (
            Item::Part(part("kubelet", PartKind::Program)),
            content(50_000),
        ),
        (root, content(100_000)),
    ];
    for (item, bytes) in &items {
        let given = ground.folder.path().join("given");
        fs::write(&given, bytes).unwrap();
        ground.store.put(item, &given, &Ears::default()).unwrap();
    }
    let items: BTreeSet<_> = items.into_iter().map(|(item, _)| item).collect();
    let file = ground.folder.path().join("cluster.bundle");
    bundle::write(&ground.store, &items, &file, &Ears::default()).unwrap();
    Packed {
        ground,
        file,
        items,
    }
}

fn offline(file: &Path) -> Sources {
    Sources {
        bundle: Some(file.to_owned()),
        offline: true,
        ..sources()
    }
}

fn words(error: &BundleError) -> String {
    mullion_wire::error_chain(error).join(" | ")
}

#[test]
fn what_went_in_comes_out_without_a_network() {
    let packed = packed();
    let ears = Ears::default();
    let index = bundle::verify(&packed.file, &ears).unwrap();
    assert_eq!(index.items.len(), 3);
    assert!(!ears.amounts().is_empty());
    let other = Ground::trusting(&packed.ground, &packed.file);
    let kubeadm = part("kubeadm", PartKind::Program);
    let artifacts = [program("kubeadm", None)];
    let got = other
        .read(&artifacts, &kubeadm, &offline(&packed.file))
        .unwrap();
    assert_eq!(got, content(200_000));
    let record = other.store.record(&Item::Part(kubeadm)).unwrap();
    assert_eq!(record.carried_by.as_deref(), Some("cluster.bundle"));
}

#[test]
fn the_same_items_give_the_same_bundle() {
    let packed = packed();
    let again = packed.ground.folder.path().join("again.bundle");
    bundle::write(
        &packed.ground.store,
        &packed.items,
        &again,
        &Ears::default(),
    )
    .unwrap();
    assert!(fs::read(&packed.file).unwrap() == fs::read(&again).unwrap());
}

#[test]
fn what_is_not_in_it_is_said_by_name() {
    let packed = packed();
    let other = part("kubectl", PartKind::Program);
    let error = Ground::new()
        .read(&[program("kubectl", None)], &other, &offline(&packed.file))
        .unwrap_err();
    insta::assert_snapshot!(told(&error), @"program kubectl 1.0 for linux is neither in the cache nor in a bundle, and nothing outside may be asked");
}

#[test]
fn a_bundle_that_is_cut_off_says_before_what() {
    let packed = packed();
    let ground = Ground::trusting(&packed.ground, &packed.file);
    let bytes = fs::read(&packed.file).unwrap();
    for keep in [bytes.len() / 3, bytes.len() / 2] {
        fs::write(&packed.file, &bytes[..keep]).unwrap();
        let error = bundle::verify(&packed.file, &Ears::default()).unwrap_err();
        assert!(
            matches!(error, BundleError::CutOff { .. } | BundleError::Io { .. }),
            "{error:?}"
        );
        let told = words(&error);
        assert!(told.contains("cluster.bundle"), "{told}");
    }
    // The last in order is the root; the programs before it are whole only where they end before the cut.
    let kubelet = part("kubelet", PartKind::Program);
    let error = ground
        .read(
            &[program("kubelet", None)],
            &kubelet,
            &offline(&packed.file),
        )
        .unwrap_err();
    assert!(matches!(error, SupplyError::Bundle { .. }), "{error:?}");
    assert!(ground.files_of(&kubelet).is_empty());
    assert!(error.hints()[0].contains("artifacts bundle"));
}

#[test]
fn a_damaged_file_in_it_is_refused_and_not_kept() {
    let packed = packed();
    let ground = Ground::trusting(&packed.ground, &packed.file);
    let mut bytes = fs::read(&packed.file).unwrap();
    // Inside the first program, far behind the index.
    let place = bytes.len() / 4;
    bytes[place] ^= 1;
    fs::write(&packed.file, &bytes).unwrap();
    let error = bundle::verify(&packed.file, &Ears::default()).unwrap_err();
    assert!(matches!(error, BundleError::Damaged { .. }), "{error:?}");
    let kubeadm = part("kubeadm", PartKind::Program);
    let error = ground
        .read(
            &[program("kubeadm", None)],
            &kubeadm,
            &offline(&packed.file),
        )
        .unwrap_err();
    assert!(told(&error).contains("is damaged"), "{}", told(&error));
    assert!(ground.files_of(&kubeadm).is_empty());
}

#[test]
fn what_is_no_bundle_is_said() {
    let ground = Ground::new();
    let file = ground.folder.path().join("something");
    for bytes in [Vec::new(), b"hello".to_vec(), content(4096)] {
        fs::write(&file, &bytes).unwrap();
        let error = bundle::read_index(&file).unwrap_err();
        assert!(matches!(error, BundleError::NotABundle { .. }), "{error:?}");
    }
    let error = bundle::read_index(&ground.folder.path().join("nothing")).unwrap_err();
    assert!(matches!(error, BundleError::Io { .. }), "{error:?}");
}

#[test]
fn a_newer_bundle_is_refused() {
    let ground = Ground::new();
    let file = ground.folder.path().join("newer.bundle");
    let text = br#"{"version": 99, "items": [], "more": 1}"#;
    let mut tar = tar::Builder::new(fs::File::create(&file).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    tar.append_data(&mut header, "mullion-bundle.json", &text[..])
        .unwrap();
    tar.into_inner().unwrap();
    let error = bundle::read_index(&file).unwrap_err();
    assert_eq!(
        steady(&words(&error), &[], ground.folder.path()),
        "the bundle FOLDER/newer.bundle has version 99, and 1 is the newest known here"
    );
}

#[test]
fn an_item_that_is_not_in_the_cache_cannot_go_into_one() {
    let ground = Ground::new();
    let file = ground.folder.path().join("a.bundle");
    let items = BTreeSet::from([Item::Part(part("kubeadm", PartKind::Program))]);
    let error = bundle::write(&ground.store, &items, &file, &Ears::default()).unwrap_err();
    assert!(matches!(error, BundleError::Missing { .. }), "{error:?}");
    assert!(!file.exists());
}

#[test]
fn a_bundle_that_is_called_off_leaves_nothing() {
    let packed = packed();
    let file = packed.ground.folder.path().join("other.bundle");
    let ears = Ears {
        off_after: Some(0),
        ..Ears::default()
    };
    let error = bundle::write(&packed.ground.store, &packed.items, &file, &ears).unwrap_err();
    assert!(matches!(error, BundleError::CalledOff), "{error:?}");
    let names: Vec<_> = fs::read_dir(packed.ground.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with("other"))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_root_file_system_comes_out_of_a_bundle_and_offline_from_nowhere_else() {
    let wish = RootWish {
        distribution: Distribution::Debian,
        suite: "bookworm".into(),
        packages: ["runc".to_owned()].into(),
        variant: Variant::Minimal,
    };
    let ground = Ground::new();
    let given = ground.folder.path().join("given");
    fs::write(&given, "a root file system").unwrap();
    ground
        .store
        .put(&wish.item(), &given, &Ears::default())
        .unwrap();
    let file = ground.folder.path().join("roots.bundle");
    let items = BTreeSet::from([wish.item()]);
    bundle::write(&ground.store, &items, &file, &Ears::default()).unwrap();
    let other = Ground::trusting(&ground, &file);
    let path = supply_root(&other.store, &wish, &offline(&file), &Ears::default()).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "a root file system");
    let mut more = wish;
    more.packages.insert("iptables".into());
    let error = supply_root(&other.store, &more, &offline(&file), &Ears::default()).unwrap_err();
    assert!(matches!(error, SupplyError::Offline { .. }), "{error:?}");
}
