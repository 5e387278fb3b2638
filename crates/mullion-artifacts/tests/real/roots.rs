//! Root file systems.

use std::sync::atomic::{AtomicBool, Ordering};

use mullion_artifacts::SupplyError;

use super::*;

pub(crate) fn wish() -> RootWish {
    let packages = [
        "ca-certificates",
        "conntrack",
        "curl",
        "dbus",
        "ethtool",
        "haproxy",
        "iproute2",
        "ipset",
        "iptables",
        "iputils-ping",
        "kmod",
        "mount",
        "nftables",
        "openssh-server",
        "procps",
        "runc",
        "socat",
        "sudo",
        "systemd-sysv",
        "udev",
    ];
    RootWish {
        distribution: Distribution::Debian,
        suite: "bookworm".into(),
        packages: packages.map(Into::into).into(),
        variant: Variant::Minimal,
    }
}

#[test]
#[ignore = "needs root and the package registries; cargo xtask test --slow runs it"]
fn a_root_file_system_is_the_same_whenever_it_is_made() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let hashes: Vec<_> = ["one", "two"]
        .iter()
        .map(|name| {
            let store = Store::open(&folder.path().join(name)).unwrap();
            let begun = Instant::now();
            let path = supply_root(&store, &wish(), &sources(), &Loud::new())
                .unwrap_or_else(|error| panic!("{:#?}", error.to_step_error()));
            eprintln!("root: {:.1} s", begun.elapsed().as_secs_f64());
            hash(&path)
        })
        .collect();
    assert_eq!(hashes[0], hashes[1]);
}

/// Calls off as soon as packages are being unpacked.
#[derive(Default)]
struct Impatient(AtomicBool);

impl Attend for Impatient {
    fn hear(&self, news: News) {
        if let News::Line(line) = news
            && line.contains("extracting archives")
        {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    fn is_called_off(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
#[ignore = "needs root and the package registries; cargo xtask test --slow runs it"]
fn a_root_that_is_called_off_leaves_no_mounts_and_no_files() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(&folder.path().join("cache")).unwrap();
    let temporary = folder.path().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let mut sources = sources();
    let place = temporary.display().to_string();
    sources.environment.insert("TMPDIR".into(), place.clone());
    let error = supply_root(&store, &wish(), &sources, &Impatient::default()).unwrap_err();
    assert!(matches!(error, SupplyError::CalledOff), "{error:?}");
    let left: Vec<_> = fs::read_dir(&temporary).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&place), "{mounts}");
    assert_eq!(store.item_path(&wish().item()), None);
}

#[test]
#[ignore = "needs root and the package registries; cargo xtask test --slow runs it"]
fn a_package_that_is_not_there_is_named() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut wish = wish();
    wish.packages = ["no-such-package-anywhere".to_owned()].into();
    let error = supply_root(&store, &wish, &sources(), &Loud::new()).unwrap_err();
    let tail = error.to_step_error().tail.join("\n");
    assert!(tail.contains("no-such-package-anywhere"), "{tail}");
}
