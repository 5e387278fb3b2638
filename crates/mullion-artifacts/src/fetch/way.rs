//! The way out: proxies, what goes without them, and certificates.

use std::sync::OnceLock;

use fs_err as fs;
use mullion_rights::Opened;
use mullion_spec::cluster::Proxy;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, http::Uri};

use super::FetchError;
use crate::sources::Sources;
use crate::trust::MOST_BYTES;

/// Where distributions keep the certificates that they trust.
const SYSTEM_CERTIFICATES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Connections, one pool for each way out.
#[derive(Default)]
pub(super) struct Way {
    direct: OnceLock<Agent>,
    http: OnceLock<Agent>,
    https: OnceLock<Agent>,
}

impl Way {
    /// The connections that lead to an address.
    pub(super) fn to(&self, uri: &Uri, sources: &Sources) -> Result<Agent, FetchError> {
        let is_https = uri.scheme_str() == Some("https");
        let proxy = if is_https {
            &sources.proxy.https
        } else {
            &sources.proxy.http
        };
        let host = uri.host().unwrap_or_default();
        let (kept, proxy) = match proxy {
            Some(_) if goes_without(&sources.proxy, host) => (&self.direct, None),
            Some(proxy) if is_https => (&self.https, Some(proxy)),
            Some(proxy) => (&self.http, Some(proxy)),
            None => (&self.direct, None),
        };
        if let Some(agent) = kept.get() {
            return Ok(agent.clone());
        }
        let agent = agent(sources, proxy.map(String::as_str))?;
        Ok(kept.get_or_init(|| agent).clone())
    }
}

fn agent(sources: &Sources, proxy: Option<&str>) -> Result<Agent, FetchError> {
    let proxy = proxy
        .map(|address| {
            ureq::Proxy::new(address).map_err(|_| FetchError::Address {
                address: super::shown(address),
            })
        })
        .transpose()?;
    let patience = sources.patience;
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // Followed by hand: every hop may go another way out.
        .max_redirects(0)
        .proxy(proxy)
        .tls_config(tls(sources)?)
        .timeout_resolve(Some(patience.connect))
        .timeout_connect(Some(patience.connect))
        .timeout_per_read(Some(patience.stall))
        .timeout_recv_response(Some(patience.window))
        .user_agent(concat!("mullion/", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(config.new_agent())
}

fn tls(sources: &Sources) -> Result<TlsConfig, FetchError> {
    let roots = if sources.trust.is_empty() {
        RootCerts::PlatformVerifier
    } else {
        let mut certificates = Vec::new();
        let system = SYSTEM_CERTIFICATES
            .iter()
            .find_map(|path| fs::read(path).ok())
            .unwrap_or_default();
        certificates.extend(certificates_in(&system).flatten());
        for file in &sources.trust {
            let broken = |source| FetchError::Trust {
                file: file.clone(),
                source,
            };
            let opened = Opened::by_invoker(file).map_err(|error| broken(error.into()))?;
            let pem = opened
                .bytes(MOST_BYTES)
                .map_err(|error| broken(error.into()))?;
            let before = certificates.len();
            for certificate in certificates_in(&pem) {
                certificates.push(certificate.map_err(|error| broken(error.into()))?);
            }
            if certificates.len() == before {
                return Err(broken("there is no certificate in it".into()));
            }
        }
        RootCerts::from(certificates)
    };
    Ok(TlsConfig::builder().root_certs(roots).build())
}

fn certificates_in(
    pem: &[u8],
) -> impl Iterator<Item = Result<Certificate<'static>, ureq::Error>> + '_ {
    parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// Whether a host is reached without the proxy, by the rules of `NO_PROXY`: a name stands for itself and what is
/// below it, `*` for everything, a network for its addresses; a port is not looked at.
fn goes_without(proxy: &Proxy, host: &str) -> bool {
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_ascii_lowercase();
    let address: Option<std::net::IpAddr> = host.parse().ok();
    proxy.no.iter().any(|entry| {
        let entry = entry.trim().to_ascii_lowercase();
        if entry == "*" || entry == host {
            return true;
        }
        if let (Ok(network), Some(address)) = (entry.parse::<ipnet::IpNet>(), address) {
            return network.contains(&address);
        }
        let name = entry.trim_start_matches("*.").trim_start_matches('.');
        !name.is_empty()
            && (host == name
                || host
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.ends_with('.')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_an_excepted_name_and_addresses_of_a_network_go_without_the_proxy() {
        let mut proxy = Proxy::default();
        proxy.no = ["example.org", ".inner", "10.0.0.0/8", "::1"]
            .map(Into::into)
            .to_vec();
        for host in [
            "example.org",
            "a.example.org",
            "b.inner",
            "10.1.2.3",
            "[::1]",
        ] {
            assert!(goes_without(&proxy, host), "{host}");
        }
        for host in ["badexample.org", "example.com", "11.1.2.3"] {
            assert!(!goes_without(&proxy, host), "{host}");
        }
        proxy.no = vec!["*".into()];
        assert!(goes_without(&proxy, "anything"));
    }
}
