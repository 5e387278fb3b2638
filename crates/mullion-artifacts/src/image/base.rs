//! The layer of the distribution's programs that images stand on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::layer::Trim;
use crate::build::BuildError;
use crate::distribution::{Bootstrap, Distribution, Variant};
use crate::error::SupplyError;
use crate::item::Item;
use crate::job::Job;
use crate::record::{Draft, Origin};
use crate::root::supply_bootstrap;

const SUITE: &str = "bookworm";

/// What every such layer holds: a shell and the small tools that start scripts use.
const ALWAYS: &[&str] = &["coreutils", "dash"];

/// What works on the machine's own network. Whoever needs one of them gets all, so that the images share one layer.
const NETWORK: &[&str] = &["conntrack", "ipset", "iptables", "kmod", "nftables"];

const TRIM: Trim<'_> = Trim {
    without: &[
        "boot",
        "dev",
        "etc/apt",
        "etc/cron.daily",
        "etc/dpkg",
        "etc/fstab",
        "etc/hostname",
        "etc/init.d",
        "etc/logrotate.d",
        "etc/resolv.conf",
        "lib/systemd",
        "proc",
        "sys",
        "usr/lib/systemd",
        "usr/lib/x86_64-linux-gnu/gconv",
        "usr/lib/x86_64-linux-gnu/perl-base",
        "usr/bin/perl",
        "usr/share/bash-completion",
        "usr/share/bug",
        "usr/share/doc",
        "usr/share/info",
        "usr/share/lintian",
        "usr/share/locale",
        "usr/share/man",
        "usr/share/polkit-1",
        "usr/share/zsh",
        "var/cache",
        "var/lib/apt",
        "var/lib/dpkg",
        "var/log",
    ],
    // What `update-alternatives` would have set up.
    links: &[
        ("bin/sh", "dash"),
        ("usr/sbin/ip6tables", "xtables-nft-multi"),
        ("usr/sbin/ip6tables-restore", "xtables-nft-multi"),
        ("usr/sbin/ip6tables-save", "xtables-nft-multi"),
        ("usr/sbin/iptables", "xtables-nft-multi"),
        ("usr/sbin/iptables-restore", "xtables-nft-multi"),
        ("usr/sbin/iptables-save", "xtables-nft-multi"),
        ("usr/bin/nc", "nc.openbsd"),
    ],
};

/// Writes a layer of what a distribution's tar file has for images.
pub(crate) fn trim(from: &Path, to: &Path) -> std::io::Result<()> {
    TRIM.write(from, to, &|| true)
}

/// Raised when the trimming changes.
const RECIPE: u32 = 1;

/// The package that brings a program.
fn package(program: &str) -> &str {
    match program {
        "sh" => "dash",
        "nc" => "netcat-openbsd",
        "dig" => "bind9-dnsutils",
        "modprobe" => "kmod",
        "nft" => "nftables",
        other => other,
    }
}

fn bootstrap(needs: &[String]) -> Option<Bootstrap> {
    if needs.is_empty() {
        return None;
    }
    let mut packages: BTreeSet<_> = ALWAYS.iter().copied().collect();
    for need in needs {
        let package = package(need);
        packages.insert(package);
        if NETWORK.contains(&package) {
            packages.extend(NETWORK);
        }
    }
    Some(Bootstrap {
        distribution: Distribution::Debian,
        suite: SUITE.into(),
        variant: Variant::Files,
        packages: packages.into_iter().map(str::to_owned).collect(),
    })
}

/// What the cache knows the layer of these needs by.
pub(super) fn item(needs: &[String]) -> Option<Item> {
    bootstrap(needs).map(|bootstrap| Item::Layer {
        suite: bootstrap.suite.clone(),
        fingerprint: format!("{}-{RECIPE}", bootstrap.fingerprint()),
    })
}

/// The layer of these needs; none where there are none.
pub(super) fn supply(job: &Job<'_>, needs: &[String]) -> Result<Option<PathBuf>, SupplyError> {
    let (Some(bootstrap), Some(item)) = (bootstrap(needs), item(needs)) else {
        return Ok(None);
    };
    let path = supply_bootstrap(job, &item, &mut |job, entry| {
        let whole = entry.temporary("whole.tar")?;
        bootstrap.write(job, &whole)?;
        let file = entry.item.default_file();
        let new = entry.temporary(&file)?;
        let go_on = || !job.attendant.is_called_off();
        let failed = |source| BuildError::io("writing a layer", source);
        TRIM.write(&whole, &new, &go_on).map_err(failed)?;
        fs::remove_file(&whole).map_err(failed)?;
        let draft = Draft::new(entry.item.clone(), file, Origin::Made);
        Ok(entry.hash_and_keep(&new, draft, job.attendant)?)
    })?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn images_that_work_on_the_network_share_one_layer() {
        let one = item(&needs(&["iptables"]));
        assert!(one.is_some());
        assert_eq!(one, item(&needs(&["iptables", "ipset"])));
        assert_ne!(one, item(&needs(&["sh", "curl", "nc", "dig"])));
        assert_eq!(item(&[]), None);
    }

    #[test]
    fn programs_are_found_in_their_packages() {
        let packages = bootstrap(&needs(&["sh", "curl", "nc", "dig"]))
            .unwrap()
            .packages;
        let told: Vec<_> = packages.iter().map(String::as_str).collect();
        assert_eq!(
            told,
            [
                "bind9-dnsutils",
                "coreutils",
                "curl",
                "dash",
                "netcat-openbsd"
            ]
        );
    }
}
