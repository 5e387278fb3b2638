//! The machine before several control planes.

use std::net::SocketAddr;

use crate::document::Blueprint;
use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_wire::{Service, ServiceState};

use crate::API_PORT;
use crate::blueprint::Draft;
use crate::error::RenderError;
use crate::setting::{Ground, Setting};
use crate::system::{package, text_file};

const CONFIG: &str = "/etc/haproxy/haproxy.cfg";

/// The blueprint of the machine before several control planes: the distribution's own `HAProxy`.
pub fn load_balancer_blueprint(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Blueprint, RenderError> {
    let seat = setting.linux_seat(machine)?;
    if seat.group.duty != Duty::LoadBalancer {
        return Err(RenderError::OtherDuty {
            machine: machine.clone(),
            wanted: Duty::LoadBalancer,
        });
    }
    let mut draft = Draft::begin(setting, seat)?;
    draft.package(package("haproxy", "haproxy"));
    draft
        .blueprint
        .files
        .push(text_file(CONFIG, config(setting, seat.ground()?)));
    draft.blueprint.services.push(Service {
        name: "haproxy".into(),
        after: [].into(),
        restarted_by: [CONFIG.to_owned()].into(),
        state: ServiceState::Running,
        definition: None,
    });
    draft.finish()
}

/// Connections are passed on whole: the API server's own certificate is what clients see. Only the look at its
/// readiness opens one, and that proves nothing that a certificate would make surer.
fn config(setting: &Setting<'_>, ground: Ground) -> String {
    // It asks for open files by its number of connections, and would not start where it may not.
    let limits = if ground.can_raise_limits {
        ""
    } else {
        "    no strict-limits\n"
    };
    let servers: Vec<_> = setting
        .control_planes()
        .iter()
        .map(|seat| {
            let place = SocketAddr::new(seat.address, API_PORT);
            format!("    server {} {place}\n", seat.name)
        })
        .collect();
    let servers = servers.concat();
    format!(
        "\
# Written by Mullion.
global
    log /dev/log local0
    user haproxy
    group haproxy
    maxconn 4096
{limits}
defaults
    log global
    mode tcp
    option dontlognull
    retries 3
    timeout connect 5s
    timeout check 5s
    timeout client 1m
    timeout server 1m
    # Watches and shells are silent for long.
    timeout tunnel 4h

frontend api
    bind :{port}
    default_backend control-planes

backend control-planes
    balance leastconn
    option httpchk GET /readyz
    http-check expect status 200
    default-server check check-ssl verify none inter 1s fall 3 rise 1 on-marked-down shutdown-sessions
{servers}",
        port = setting.endpoint.port
    )
}
