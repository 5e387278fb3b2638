//! Linux programs that do in a stand-in what Windows' own would do on a node, once kubeadm has made the machine one.
//!
//! | twin | in place of | what it reads of the drive besides kubelet's kubeconfig |
//! |---|---|---|
//! | `mullion-flanneld` | `flanneld.exe` | `etc/kube-flannel/net-conf.json` |
//! | `mullion-cni` | flannel's plugin | whether there is that file |
//! | `mullion-kube-proxy` | `kube-proxy.exe` | the pods' network, of the same file |
//! | `mullion-kube-router` | what would enforce network policy on Windows | `etc/kube-router/flags` |
//!
//! systemd starts all of them on a node. Each waits for its file itself: a unit with a condition that its `.path` does not
//! have would be started again and again. When the file goes or changes, what runs is ended.

use std::path::Path;

use crate::error::TemplateError;
use crate::stand_in::PREFIX;
use crate::tree::Tree;

/// Starts one of them with kubelet's own kubeconfig, of which the paths are translated. `$1` the program.
const TWIN: &str = r#"#!/bin/sh
set -eu
twin=$1
drive=/root/.wine/drive_c
node=$drive/etc/kubernetes/kubelet.conf
settings=$drive/etc/kube-flannel/net-conf.json
flags=$drive/etc/kube-router/flags
kubeconfig=/run/mullion/kubeconfig.$twin
network=/etc/cni/net.d
case $twin in
kube-router) file=$flags ;;
*) file=$settings ;;
esac
child=
end() {
  [ -z "$child" ] || { kill $child || true; wait $child || true; }
}
trap 'end; exit 0' TERM INT
# Waiting in the background, so that the signal is heard at once.
pause() {
  sleep 1 &
  wait $!
}
contents() {
  cat "$file" 2>/dev/null || true
}
# Services there are without flannel too.
is_wanted() {
  [ -e "$node" ] && { [ -s "$file" ] || [ $twin = kube-proxy ]; }
}
until is_wanted; do
  [ -e "$node" ] || exit 0
  pause
done
before=$(contents)
mkdir -p /run/mullion /run/flannel
sed -e "/^ *client-\\(certificate\\|key\\): /{s#[Cc]:[\\\\/]*#$drive/#;s#[\\\\]\\+#/#g}" "$node" > $kubeconfig
name=$(hostname)
case $twin in
flanneld)
  export NODE_NAME=$name
  flanneld --kube-subnet-mgr --kubeconfig-file=$kubeconfig --iface=host0 --ip-masq --net-config-path=$settings & ;;
cni)
  export SUBNET_FILE=/run/flannel/subnet.env NETWORK_FOLDER=$network
  /bin/sh /usr/local/lib/mullion/write-network & ;;
kube-proxy)
  pods=
  [ ! -f $settings ] || pods=$(sed -n 's/.*"Network": *"\([^"]*\)".*/--cluster-cidr=\1/p' $settings)
  kube-proxy --kubeconfig=$kubeconfig --hostname-override=$name --proxy-mode=iptables $pods \
    --conntrack-max-per-core=0 --oom-score-adj=0 & ;;
kube-router)
  kube-router --kubeconfig=$kubeconfig --hostname-override=$name $(cat "$flags") & ;;
esac
child=$!
while kill -0 $child 2>/dev/null; do
  now=$(contents)
  # It belongs to the node and to its file: when either is there no more, it ends, and takes along what it wrote down.
  if ! is_wanted; then
    end
    rm -f $kubeconfig
    case $twin in
    flanneld) rm -f /run/flannel/subnet.env ;;
    cni) rm -f $network/10-flannel.conflist ;;
    kube-router) kube-router --cleanup-config || true ;;
    esac
    exit 0
  fi
  # It is told something else now, and started anew with that.
  if [ "$now" != "$before" ]; then
    end
    exit 0
  fi
  pause
done
wait $child
"#;

/// By how much their memory may grow before what is unused is collected, in percent. They do little, and a stand-in is to
/// be small.
const COLLECT: u32 = 40;

/// Lays them down, and has them run whenever the machine is a node.
pub(crate) fn write(root: &Tree, write_network: &str) -> Result<(), TemplateError> {
    let folder = Path::new("usr/local/lib/mullion");
    root.write(folder.join("twin"), TWIN, 0o755)?;
    root.write(folder.join("write-network"), write_network, 0o755)?;
    let units = Path::new("etc/systemd/system");
    let is_node = format!("PathExists=/{PREFIX}/drive_c/etc/kubernetes/kubelet.conf\n");
    for (twin, what) in [
        ("flanneld", "flanneld"),
        ("kube-proxy", "kube-proxy"),
        ("kube-router", "kube-router"),
        ("cni", "flannel's plugin"),
    ] {
        let service = format!(
            "[Unit]\nDescription={what}, in place of the one for Windows\nAfter=mullion-network.service containerd.service\n\
             Condition{is_node}StartLimitIntervalSec=0\n\n[Service]\n\
             Environment=GOGC={COLLECT}\nExecStart=/usr/local/lib/mullion/twin {twin}\nRestart=always\nRestartSec=1\n"
        );
        root.write(
            units.join(format!("mullion-{twin}.service")),
            service,
            0o644,
        )?;
        let path = format!("mullion-{twin}.path");
        let watch =
            format!("[Unit]\nDescription=Whether this machine is a node\n\n[Path]\n{is_node}");
        root.write(units.join(&path), watch, 0o644)?;
        let wants = units.join("multi-user.target.wants").join(&path);
        root.link(format!("../{path}"), wants)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
