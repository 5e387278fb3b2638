#!/bin/bash
# The peer that `cargo xtask bench` measures against: one control plane and one Linux worker, brought up by plain
# commands as people do it by hand. Prints the seconds of each phase and of all.
#
#   by-hand.sh template   make root file system and images, once
#   by-hand.sh up | down
#
# WORK is a folder of its own, BIN holds the Linux programs. The only differences from what people type are the
# ones that a system container needs.
set -euo pipefail
: "${WORK:?}" "${BIN:?}"
version=${KUBERNETES:-1.36.4} etcd=${ETCD:-3.6.8-0} coredns=${COREDNS:-v1.14.2} pause=${PAUSE:-3.10.2}
bridge=byhand0 net=10.98.0
declare -A address=([cp1]=$net.11 [lin1]=$net.12)

pid_of() { cat "$WORK/machines/$1/pid" 2>/dev/null; }
leader_of() { ps --ppid "$(pid_of "$1")" -o pid= | head -1 | tr -d ' '; }
inside() {
  local machine=$1; shift
  nsenter -t "$(leader_of "$machine")" -m -u -i -n -p -C \
    env HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
kubectl() { "$BIN/kubectl" --kubeconfig "$WORK/machines/cp1/root/etc/kubernetes/admin.conf" "$@"; }

began=$(date +%s.%N) last=$began
phase() {
  local now; now=$(date +%s.%N)
  printf '%-10s %6.1f\n' "$1" "$(echo "$now - $last" | bc)"; last=$now
}

# One layer with one static program, in the form that `ctr images import` takes.
archive() {
  python3 - "$@" <<'PY'
import hashlib, io, json, os, sys, tarfile
out, reference, program, path = sys.argv[1:5]
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    for folder in ("tmp", "etc", "var"):
        entry = tarfile.TarInfo(folder); entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(entry)
    entry = tar.gettarinfo(os.path.realpath(program), arcname=path.lstrip("/"))
    entry.mode, entry.uid, entry.gid, entry.mtime = 0o755, 0, 0, 0
    with open(program, "rb") as file:
        tar.addfile(entry, file)
blob = layer.getvalue()
config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": [path], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
                     "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(blob).hexdigest()]}}).encode()
if "kube-" in reference or "etcd" in reference:
    config = config.replace(b'"Entrypoint": ["' + path.encode() + b'"], ', b"")
name = hashlib.sha256(config).hexdigest() + ".json"
manifest = json.dumps([{"Config": name, "RepoTags": [reference], "Layers": ["layer.tar"]}]).encode()
with tarfile.open(out, "w") as tar:
    for member, data in ((name, config), ("layer.tar", blob), ("manifest.json", manifest)):
        entry = tarfile.TarInfo(member); entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
PY
}

template() {
  local root=$WORK/template
  [ -d "$root" ] && [ -d "$WORK/images" ] && return
  rm -rf "$root" "$WORK/images"; mkdir -p "$WORK/images"
  mmdebstrap --quiet --variant=minbase bookworm "$root" \
    --include=systemd-sysv,openssh-server,iproute2,udev,kmod,runc,iptables,conntrack,socat,ethtool,dbus,ca-certificates,mount,procps
  mkdir -p "$root"/{opt/cni/bin,etc/containerd,etc/kubernetes,etc/kube-flannel,etc/cni/net.d,images,var/lib/etcd}
  cp "$BIN"/{kubeadm,kubelet,kubectl,kube-proxy,containerd,containerd-shim-runc-v2,ctr,flanneld} "$root/usr/local/bin/"
  cp "$BIN"/{bridge,host-local,portmap,loopback} "$root/opt/cni/bin/"
  cat > "$root/etc/containerd/config.toml" <<EOF
version = 3
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = 'registry.k8s.io/pause:$pause'
EOF
  cat > "$root/etc/systemd/system/containerd.service" <<'EOF'
[Service]
ExecStartPre=/bin/sh -c 'for c in /sys/fs/cgroup/*; do mount -o remount,rw,bind $c 2>/dev/null || true; done; mount --make-rshared /'
ExecStart=/usr/local/bin/containerd
Delegate=yes
KillMode=process
Restart=always
[Install]
WantedBy=multi-user.target
EOF
  cat > "$root/etc/systemd/system/kubelet.service" <<'EOF'
[Unit]
After=containerd.service
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
EOF
  chroot "$root" systemctl --quiet enable containerd kubelet systemd-networkd
  echo '{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}' > "$root/etc/kube-flannel/net-conf.json"
  local program
  for program in kube-apiserver kube-controller-manager kube-scheduler; do
    archive "$WORK/images/$program.tar" "registry.k8s.io/$program:v$version" "$BIN/$program" "/usr/local/bin/$program"
  done
  archive "$WORK/images/etcd.tar" "registry.k8s.io/etcd:$etcd" "$BIN/etcd" /usr/local/bin/etcd
  archive "$WORK/images/coredns.tar" "registry.k8s.io/coredns/coredns:$coredns" "$BIN/coredns" /coredns
  archive "$WORK/images/pause.tar" "registry.k8s.io/pause:$pause" "$BIN/pause" /pause
}

start() {
  local machine=$1 folder=$WORK/machines/$1
  mkdir -p "$folder"/{upper,work,root,containerd,kubelet,etcd}
  mount -t overlay "$machine" -o "lowerdir=$WORK/template,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
  echo "$machine" > "$folder/root/etc/hostname"
  printf '[Match]\nName=host0\n[Network]\nAddress=%s/24\nGateway=%s.1\n' "${address[$machine]}" "$net" > "$folder/root/etc/systemd/network/10-host0.network"
  { echo 127.0.0.1 localhost; local name; for name in "${!address[@]}"; do echo "${address[$name]} $name"; done; } > "$folder/root/etc/hosts"
  SYSTEMD_SECCOMP=0 SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes setsid systemd-nspawn -q --register=no --keep-unit -D "$folder/root" --machine="byhand-$machine" \
    --network-bridge="$bridge" --capability=all --system-call-filter=@known --property=DeviceAllow='*' --bind=/dev/kmsg \
    --bind="$folder/containerd:/var/lib/containerd" --bind="$folder/kubelet:/var/lib/kubelet" --bind="$folder/etcd:/var/lib/etcd" \
    --bind-ro="$WORK/images:/images" -b > "$folder/console.log" 2>&1 < /dev/null &
  echo $! > "$folder/pid"
}

up() {
  ip link add "$bridge" type bridge; ip address add "$net.1/24" dev "$bridge"; ip link set "$bridge" up
  sysctl -qw net.ipv4.ip_forward=1
  local machine
  for machine in cp1 lin1; do start "$machine"; done
  for machine in cp1 lin1; do until inside "$machine" ctr version > /dev/null 2>&1; do sleep 0.2; done; done
  phase boot
  local imports=()
  for machine in cp1 lin1; do
    inside "$machine" sh -c 'for image in /images/*.tar; do ctr -n k8s.io images import "$image"; done' > /dev/null 2>&1 & imports+=($!)
  done
  wait "${imports[@]}"
  phase images
  cat > "$WORK/machines/cp1/root/root/init.yaml" <<EOF
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: abcdef.0123456789abcdef}]
localAPIEndpoint: {advertiseAddress: ${address[cp1]}}
nodeRegistration: {criSocket: "unix:///run/containerd/containerd.sock", imagePullPolicy: IfNotPresent}
skipPhases: [addon/kube-proxy]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$version
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
EOF
  inside cp1 kubeadm init --config /root/init.yaml --ignore-preflight-errors=all > "$WORK/init.log" 2>&1
  phase init
  local hash; hash=$(grep -oE 'sha256:[0-9a-f]+' "$WORK/init.log" | tail -1)
  inside lin1 kubeadm join "${address[cp1]}:6443" --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash "$hash" --ignore-preflight-errors=all > "$WORK/join.log" 2>&1
  phase join
  local subnet
  for machine in cp1 lin1; do
    [ "$machine" = cp1 ] || cp "$WORK/machines/cp1/root/etc/kubernetes/admin.conf" "$WORK/machines/$machine/root/etc/kubernetes/"
    until subnet=$(kubectl get node "$machine" -o jsonpath='{.spec.podCIDR}') && [ -n "$subnet" ]; do sleep 0.2; done
    cat > "$WORK/machines/$machine/root/etc/cni/net.d/10-flannel.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "cbr0", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "mtu": 1450, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$subnet"}]], "routes": [{"dst": "10.244.0.0/16"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
    inside "$machine" systemd-run -q --unit=flanneld -E NODE_NAME="$machine" /usr/local/bin/flanneld \
      --kube-subnet-mgr --kubeconfig-file=/etc/kubernetes/admin.conf --iface=host0 --ip-masq
    inside "$machine" systemd-run -q --unit=kube-proxy /usr/local/bin/kube-proxy --kubeconfig=/etc/kubernetes/admin.conf \
      --hostname-override="$machine" --cluster-cidr=10.244.0.0/16 --conntrack-max-per-core=0 --oom-score-adj=0
  done
  phase network
  kubectl wait --for=condition=Ready node --all --timeout=120s > /dev/null
  kubectl -n kube-system rollout status deploy/coredns --timeout=120s > /dev/null
  phase ready
  last=$began; phase all
}

down() {
  local machine pid leader
  for machine in lin1 cp1; do
    pid=$(pid_of "$machine") || true
    if [ -n "${pid:-}" ]; then
      leader=$(leader_of "$machine" || true)
      [ -n "$leader" ] && kill -RTMIN+4 "$leader" 2>/dev/null || true
      for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
      kill -9 "$pid" 2>/dev/null || true
    fi
    umount -l "$WORK/machines/$machine/root" 2>/dev/null || true
    rm -rf "$WORK/machines/$machine"
  done
  ip link del "$bridge" 2>/dev/null || true
}

case $1 in template) template ;; up) template; began=$(date +%s.%N) last=$began; up ;; down) down ;; *) exit 2 ;; esac
