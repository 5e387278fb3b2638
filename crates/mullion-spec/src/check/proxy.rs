//! The way out through a proxy, and what must not go that way.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

use super::Checker;
use crate::cluster::{Carrier, Group, Network, Proxy};
use crate::finding::{Finding, Place};
use crate::raw::RawProxy;
use crate::rules::network as rule;
use crate::source::Path;
use crate::value::{Address, Endpoint};

impl Checker<'_> {
    pub(super) fn proxy(
        &mut self,
        raw: &RawProxy,
        network: &Network,
        groups: &[Group],
        endpoint: Option<&Endpoint>,
    ) -> Proxy {
        let at = Path::top().key("proxy");
        let way = |checker: &mut Self, field: &str, text: &Option<String>| {
            text.as_ref()
                .map(|text| checker.address(&at.key(field), text))
        };
        let http = way(self, "http", &raw.http);
        let https = way(self, "https", &raw.https);
        if http.is_some() || https.is_some() {
            self.exceptions(&at, &raw.no, &own(network, groups, endpoint));
        }
        Proxy {
            http,
            https,
            no: raw.no.clone(),
        }
    }

    /// Warns where the proxy would be asked for the cluster's own addresses.
    fn exceptions(&mut self, at: &Path, given: &[String], own: &[Own]) {
        let mut missing: Vec<String> = Vec::new();
        for own in own {
            let text = own.to_string();
            if !given.iter().any(|given| covers(given, own)) && !missing.contains(&text) {
                missing.push(text);
            }
        }
        if missing.is_empty() {
            return;
        }
        let items: Vec<_> = missing.iter().map(|text| item(text)).collect();
        // What the user wrote is not repeated: somebody may have put a password there.
        let (place, hint) = if given.is_empty() {
            (at.clone(), format!("write `no: [{}]`", items.join(", ")))
        } else {
            (
                at.key("no"),
                format!("add {} to the list", items.join(", ")),
            )
        };
        self.report(
            Finding::new(&rule::PROXY_NO, Place::Key(place))
                .message(format!(
                    "the proxy would be asked for the cluster's own addresses: {}",
                    missing.join(", ")
                ))
                .hint(hint),
        );
    }
}

/// Something of the cluster's own that the proxy must not be asked for.
enum Own {
    /// All addresses of a network.
    Net(Ipv4Net),
    /// One computer.
    Computer(Address),
    /// All names below a domain.
    Domain(String),
}

impl std::fmt::Display for Own {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Net(net) => net.fmt(out),
            Self::Computer(address) => address.fmt(out),
            Self::Domain(domain) => write!(out, ".{domain}"),
        }
    }
}

/// What the proxy must not be asked for: networks, computers and names of the cluster's own.
fn own(network: &Network, groups: &[Group], endpoint: Option<&Endpoint>) -> Vec<Own> {
    let mut own = vec![Own::Net(network.pods), Own::Net(network.services)];
    let mut existing = Vec::new();
    let mut makes_machines = false;
    for group in groups.iter().filter(|group| !group.numbers.is_empty()) {
        match &group.carrier {
            Carrier::Made { .. } => makes_machines = true,
            Carrier::Existing { addresses, .. } => existing.extend(addresses.iter().cloned()),
        }
    }
    own.extend(network.machines.filter(|_| makes_machines).map(Own::Net));
    existing.extend(endpoint.map(|endpoint| endpoint.address.clone()));
    // An address that could not be read is kept as 0.0.0.0, and reported elsewhere.
    existing.retain(|address| *address != Address::Ip(Ipv4Addr::UNSPECIFIED.into()));
    own.extend(existing.into_iter().map(Own::Computer));
    let local = [
        Address::Name("localhost".into()),
        Address::Ip(Ipv4Addr::LOCALHOST.into()),
    ];
    own.extend(local.map(Own::Computer));
    own.push(Own::Domain(network.domain.clone()));
    own
}

/// Whether an exception covers something. A name covers what is below it, with or without a dot or a
/// star before it; a star alone covers everything.
fn covers(exception: &str, own: &Own) -> bool {
    if exception == "*" {
        return true;
    }
    let lower = exception.to_ascii_lowercase();
    let name = lower.trim_start_matches('*').trim_start_matches('.');
    let is_below = |text: &str| {
        text == name
            || text
                .strip_suffix(name)
                .is_some_and(|rest| rest.ends_with('.') && !name.is_empty())
    };
    let net = exception.parse::<Ipv4Net>();
    match own {
        Own::Net(own) => net.is_ok_and(|net| net.contains(own)),
        Own::Computer(Address::Ip(IpAddr::V4(ip))) => {
            name == ip.to_string() || net.is_ok_and(|net| net.contains(ip))
        }
        Own::Computer(Address::Ip(ip)) => name == ip.to_string(),
        Own::Computer(Address::Name(own)) | Own::Domain(own) => is_below(own),
    }
}

/// A text as an item of a YAML list in brackets: in quotes where YAML would read something else.
fn item(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"./-_".contains(&byte));
    if is_plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_covers_what_is_below_it() {
        let name = |text: &str| Own::Computer(text.parse().unwrap());
        let domain = Own::Domain("cluster.local".into());
        for exception in [
            "*",
            "local",
            ".cluster.local",
            "*.cluster.local",
            "Cluster.Local",
        ] {
            assert!(covers(exception, &domain), "{exception}");
        }
        for exception in ["", "*.", "luster.local", "a.cluster.local"] {
            assert!(!covers(exception, &domain), "{exception}");
        }
        assert!(covers("192.0.2.0/24", &name("192.0.2.7")));
        assert!(covers("example", &name("node1.example")));
        assert!(!covers("example", &name("node1.anexample")));
        assert!(!covers(
            "10.0.0.0/16",
            &Own::Net("10.0.0.0/8".parse().unwrap())
        ));
    }

    #[test]
    fn what_yaml_would_read_otherwise_is_quoted() {
        assert_eq!(item("*"), "\"*\"");
        assert_eq!(item("fd00::/8"), "\"fd00::/8\"");
        assert_eq!(item(".cluster.local"), ".cluster.local");
    }
}
