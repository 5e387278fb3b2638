//! The way out of a machine: proxies, and who is trusted on the way.

use std::net::IpAddr;

use crate::document::File;
use mullion_spec::cluster::Proxy;
use mullion_spec::value::{Address, MachineName};
use mullion_spec::words::Os;
use mullion_wire::{Package, Service, ServiceState};

use crate::error::RenderError;
use crate::setting::{Seat, Setting};
use crate::system::text_file;

/// The service that makes the system's bundle of certificates anew.
pub(crate) const TRUST_SERVICE: &str = "mullion-trust";
const TRUST_UNIT: &str = "/etc/systemd/system/mullion-trust.service";
const CERTIFICATES: &str = "/etc/mullion/trust";
/// What the distribution's program puts into its bundle.
const BUNDLED: &str = "/usr/local/share/ca-certificates";
const APT: &str = "/etc/apt/apt.conf.d/90mullion-proxy";
const PROXY: &str = "/etc/default/mullion-proxy";
const LOGINS: &str = "/etc/environment";

fn has_proxy(proxy: &Proxy) -> bool {
    proxy.http.is_some() || proxy.https.is_some()
}

/// What goes without the proxy on every machine: what the user says, then the cluster's own networks and names.
///
/// It names networks and no single machine besides the endpoint, so that it does not change when a machine comes.
fn no_proxy(setting: &Setting<'_>) -> Vec<String> {
    let network = &setting.cluster().network;
    let mut list = setting.cluster().proxy.no.clone();
    let mut add = |text: String| {
        if !list.contains(&text) {
            list.push(text);
        }
    };
    for local in ["localhost", "127.0.0.1"] {
        add(local.into());
    }
    add(network.pods.to_string());
    add(network.services.to_string());
    if let Some(machines) = setting.machine_network.or(network.machines) {
        add(machines.to_string());
    }
    add(match &setting.endpoint.address {
        Address::Ip(address) => address.to_string(),
        Address::Name(name) => name.clone(),
    });
    add(".svc".into());
    add(format!(".{}", network.domain));
    list
}

/// The variables that programs written in Go read.
fn variables(setting: &Setting<'_>, own: IpAddr) -> Vec<(&'static str, String)> {
    let proxy = &setting.cluster().proxy;
    let mut list = no_proxy(setting);
    let own = own.to_string();
    if !list.contains(&own) {
        list.push(own);
    }
    let ways = [("HTTP_PROXY", &proxy.http), ("HTTPS_PROXY", &proxy.https)];
    ways.into_iter()
        .filter_map(|(name, way)| Some((name, way.clone()?)))
        .chain([("NO_PROXY", list.join(","))])
        .collect()
}

/// What a service of a machine is told of the proxy; nothing where there is none.
pub(crate) fn proxy_variables(
    setting: &Setting<'_>,
    seat: Seat<'_>,
) -> Vec<(&'static str, String)> {
    if has_proxy(&setting.cluster().proxy) {
        variables(setting, seat.address)
    } else {
        vec![]
    }
}

/// The variables of the proxy, in a file for services to read; none where there is none. They hold no password: the
/// cluster's file takes none.
pub(crate) fn proxy_environment(setting: &Setting<'_>, seat: Seat<'_>) -> Option<File> {
    let variables = proxy_variables(setting, seat);
    if variables.is_empty() {
        return None;
    }
    let mut text = "# Written by Mullion.\n".to_owned();
    for (name, value) in variables {
        text.extend([name, "=\""]);
        for letter in value.chars() {
            if matches!(letter, '"' | '\\' | '`' | '$') {
                text.push('\\');
            }
            text.push(letter);
        }
        text.push_str("\"\n");
    }
    Some(text_file(PROXY, text))
}

/// What every login on a machine is told of the proxy; nothing where there is none, and on machines that we do not make:
/// there it is their owner's.
fn seat_variables(setting: &Setting<'_>, seat: Seat<'_>) -> Vec<(String, String)> {
    if !seat.group.carrier.is_made() || seat.group.system.os() == Os::Windows {
        return Vec::new();
    }
    // Some programs know the one spelling, some the other.
    let spelt = |(name, value): (&str, String)| {
        [
            (name.to_lowercase(), value.clone()),
            (name.to_owned(), value),
        ]
    };
    let variables = proxy_variables(setting, seat);
    variables.into_iter().flat_map(spelt).collect()
}

/// The file that tells logins; none where they are told nothing, or where the user lays that file down.
pub(crate) fn login_proxy(setting: &Setting<'_>, seat: Seat<'_>) -> Option<File> {
    let variables = seat_variables(setting, seat);
    let is_given = || seat.group.files.iter().any(|copy| copy.to == LOGINS);
    if variables.is_empty() || is_given() {
        return None;
    }
    let lines = variables.iter();
    let lines: Vec<_> = lines
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    Some(text_file(LOGINS, lines.concat()))
}

/// What logins on a machine are told, for a user's command: it may run before the file is there.
pub fn login_variables(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Vec<(String, String)>, RenderError> {
    Ok(seat_variables(setting, setting.seat(machine)?))
}

/// The addition to a service's unit that has it read the variables of the proxy.
pub(crate) fn service_proxy(service: &str) -> File {
    let path = format!("/etc/systemd/system/{service}.service.d/10-proxy.conf");
    let text = format!("# Written by Mullion.\n[Service]\nEnvironmentFile={PROXY}\n");
    text_file(path, text)
}

/// What tells the package manager of the proxy; none where there is none.
pub(crate) fn package_proxy(setting: &Setting<'_>) -> Option<File> {
    let proxy = &setting.cluster().proxy;
    if !has_proxy(proxy) {
        return None;
    }
    // No quote can be written inside quotes there.
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "%22"));
    let mut lines = vec!["// Written by Mullion.\n".to_owned()];
    for (scheme, way) in [("http", &proxy.http), ("https", &proxy.https)] {
        let Some(way) = way else { continue };
        lines.push(format!("Acquire::{scheme}::Proxy {};\n", quoted(way)));
        // It knows exceptions by the name of a host only: networks and domains would be names that nobody has.
        for host in proxy.no.iter().filter(|host| is_host(host)) {
            lines.push(format!("Acquire::{scheme}::Proxy::{host} \"DIRECT\";\n"));
        }
    }
    Some(text_file(APT, lines.concat()))
}

fn is_host(text: &str) -> bool {
    matches!(
        text.parse(),
        Ok(Address::Ip(IpAddr::V4(_)) | Address::Name(_))
    )
}

/// What a machine needs to trust the user's authorities.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    pub(crate) files: Vec<File>,
    pub(crate) service: Option<Service>,
    pub(crate) package: Option<Package>,
    /// The certificates among the files: who read the bundle before must read it again.
    pub(crate) certificates: Vec<String>,
}

pub(crate) fn trust(setting: &Setting<'_>) -> Result<Trust, RenderError> {
    let trusted = &setting.cluster().trust;
    if trusted.is_empty() {
        return Ok(Trust::default());
    }
    let mut files = Vec::new();
    for (index, path) in trusted.iter().enumerate() {
        files.push(File {
            // Another ending is not looked at.
            path: format!("{CERTIFICATES}/mullion-{}.crt", index + 1),
            content: setting.contents_of(path)?,
            mode: 0o644,
        });
    }
    let certificates: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
    // The bundle holds them while the service runs: whoever stops it, because the last of them went or the machine is given
    // back, has it made without them. Afresh, for links to what is gone are not looked at otherwise.
    files.push(text_file(
        TRUST_UNIT,
        format!(
            "\
# Written by Mullion.
[Unit]
Description=Authorities that the cluster's file names are trusted
Before=containerd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'rm -f {BUNDLED}/mullion-[0-9]*.crt && cp {CERTIFICATES}/mullion-[0-9]*.crt {BUNDLED}/'
ExecStart=/usr/sbin/update-ca-certificates
ExecStopPost=/bin/sh -c 'rm -f {BUNDLED}/mullion-[0-9]*.crt'
ExecStopPost=/usr/sbin/update-ca-certificates --fresh

[Install]
WantedBy=multi-user.target
"
        ),
    ));
    Ok(Trust {
        service: Some(Service {
            name: TRUST_SERVICE.into(),
            after: [].into(),
            restarted_by: files.iter().map(|file| file.path.clone()).collect(),
            state: ServiceState::Running,
            definition: None,
        }),
        files,
        package: Some(Package {
            name: "ca-certificates".into(),
            program: Some("update-ca-certificates".into()),
        }),
        certificates,
    })
}
