//! Linux programs that do in a stand-in what Windows' own would do on a node, once kubeadm has made the machine one.
//!
//! | twin | in place of | what it reads of the drive besides kubelet's kubeconfig |
//! |---|---|---|
//! | `mullion-flanneld` | `flanneld.exe` | `etc/kube-flannel/net-conf.json` |
//! | `mullion-cni` | flannel's plugin | |
//! | `mullion-kube-proxy` | `kube-proxy.exe` | the pods' network, of the same file |
//! | `mullion-kube-router` | what would enforce network policy on Windows | `etc/kube-router/flags` |

use std::path::Path;

use crate::error::TemplateError;
use crate::stand_in::{PREFIX, put};

/// Starts one of them with kubelet's own kubeconfig, of which the paths are translated. `$1` the program.
const TWIN: &str = r#"#!/bin/sh
set -eu
drive=/root/.wine/drive_c
kubeconfig=/run/mullion/kubeconfig
settings=$drive/etc/kube-flannel/net-conf.json
mkdir -p /run/mullion /run/flannel
sed -e "/^ *client-\\(certificate\\|key\\): /{s#[Cc]:[\\\\/]*#$drive/#;s#[\\\\]\\+#/#g}" \
  "$drive/etc/kubernetes/kubelet.conf" > $kubeconfig.$1
name=$(hostname)
case $1 in
flanneld)
  export NODE_NAME=$name
  flanneld --kube-subnet-mgr --kubeconfig-file=$kubeconfig.$1 --iface=host0 --ip-masq --net-config-path=$settings & ;;
kube-proxy)
  pods=
  [ ! -f $settings ] || pods=$(sed -n 's/.*"Network": *"\([^"]*\)".*/--cluster-cidr=\1/p' $settings)
  kube-proxy --kubeconfig=$kubeconfig.$1 --hostname-override=$name --proxy-mode=iptables $pods \
    --conntrack-max-per-core=0 --oom-score-adj=0 & ;;
kube-router)
  kube-router --kubeconfig=$kubeconfig.$1 --hostname-override=$name \
    $(cat "$drive/etc/kube-router/flags") & ;;
esac
child=$!
trap 'kill $child; wait $child; exit 0' TERM INT
# It belongs to the node: when the machine is one no more, it ends, and takes along what it wrote down.
while kill -0 $child 2>/dev/null; do
  if [ ! -e "$drive/etc/kubernetes/kubelet.conf" ]; then
    kill $child
    wait $child || true
    rm -f $kubeconfig.$1
    [ $1 != flanneld ] || rm -f /run/flannel/subnet.env /etc/cni/net.d/10-flannel.conflist
    [ $1 != kube-router ] || kube-router --cleanup-config || true
    exit 0
  fi
  sleep 1 &
  wait $!
done
wait $child
"#;

/// By how much their memory may grow before what is unused is collected, in percent. They do little, and a stand-in is to
/// be small.
const COLLECT: u32 = 40;

/// Lays them down, and has them run whenever the machine is a node.
pub(crate) fn write(root: &Path, write_network: &str) -> Result<(), TemplateError> {
    let folder = root.join("usr/local/lib/mullion");
    put(&folder.join("twin"), TWIN.as_bytes(), 0o755)?;
    put(
        &folder.join("write-network"),
        write_network.as_bytes(),
        0o755,
    )?;
    let units = root.join("etc/systemd/system");
    let service = |what: &str, (start, more): (&str, &str)| {
        format!(
            "[Unit]\nDescription={what}, in place of the one for Windows\nAfter=mullion-network.service containerd.service\n\
             ConditionPathExists=/{PREFIX}/drive_c/etc/kubernetes/kubelet.conf\n{more}StartLimitIntervalSec=0\n\n[Service]\n\
             Environment=GOGC={COLLECT}\n{start}\nRestart=always\nRestartSec=1\n"
        )
    };
    let twin = |name: &str| format!("ExecStart=/usr/local/lib/mullion/twin {name}");
    let of_flannel =
        format!("ConditionPathExists=/{PREFIX}/drive_c/etc/kube-flannel/net-conf.json\n");
    let of_policy = format!("ConditionPathExists=/{PREFIX}/drive_c/etc/kube-router/flags\n");
    let network = "Environment=SUBNET_FILE=/run/flannel/subnet.env NETWORK_FOLDER=/etc/cni/net.d\n\
                   ExecStart=/bin/sh /usr/local/lib/mullion/write-network";
    for (unit, text) in [
        (
            "mullion-flanneld.service",
            service("flanneld", (&twin("flanneld"), &of_flannel)),
        ),
        (
            "mullion-kube-proxy.service",
            service("kube-proxy", (&twin("kube-proxy"), "")),
        ),
        (
            "mullion-kube-router.service",
            service("kube-router", (&twin("kube-router"), &of_policy)),
        ),
        (
            "mullion-cni.service",
            service("flannel's plugin", (network, &of_flannel)),
        ),
    ] {
        put(&units.join(unit), text.as_bytes(), 0o644)?;
        let path = unit.replace(".service", ".path");
        let watch = format!(
            "[Unit]\nDescription=Whether this machine is a node\n\n[Path]\n\
             PathExists=/{PREFIX}/drive_c/etc/kubernetes/kubelet.conf\n"
        );
        put(&units.join(&path), watch.as_bytes(), 0o644)?;
        let wants = units.join("multi-user.target.wants").join(&path);
        fs_err::os::unix::fs::symlink(format!("../{path}"), wants)?;
    }
    Ok(())
}
