//! Rules about what works with what, held against the catalog: `E05…`.

use super::rules;

rules! {
    UNKNOWN_KUBERNETES "E0501" "unknown-kubernetes" Error
        "the catalog does not know this Kubernetes"
        why "Mullion installs versions whose parts and limits it knows."
        do "take a version that `mullion catalog` lists"
        e.g. "kubernetes: {version: \"1.20\"}\nmachines: {linux: 1}\n";
    WINDOWS_UNSUPPORTED "E0502" "windows-unsupported" Error
        "this Kubernetes does not support this Windows"
        why "Upstream names the Windows Server releases that each Kubernetes is tested with. Others may join and then fail in ways nobody mends."
        do "take a Windows or a Kubernetes that fit, or set `kubernetes.allowUnsupported`"
        e.g. "kubernetes: {version: \"1.36\"}\nmachines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2019\"}\n";
    UNKNOWN_LINUX "E0503" "unknown-linux" Error
        "the catalog does not know this Linux release"
        why "Machines are made from releases whose packages are known to fit."
        do "take a release that `mullion catalog` lists"
        e.g. "machines:\n  - {name: cp, role: control-plane, version: \"9\"}\n";
    UNKNOWN_WINDOWS "E0504" "unknown-windows" Error
        "the catalog does not know this Windows release"
        why "Windows containers only run on a host of a fitting build, so the release decides what can run at all."
        do "write `version: \"2019\"`, `\"2022\"` or `\"2025\"`"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2016\"}\n";
    OLD_PATCH "E0505" "old-patch" Warning
        "this Kubernetes lacks fixes that Windows nodes need"
        why "Later patches of the same minor release mend the Windows service proxy: lost services, traffic to the wrong node."
        do "take the newest patch of the minor release"
        e.g. "kubernetes: {version: \"1.36.0\"}\nmachines: {linux: 1, windows: 1}\n";
    CNI_WINDOWS "E0506" "cni-windows" Error
        "the network plugin does not list this Windows"
        why "A network plugin programs the Windows host network service, and its releases name the Windows builds they were made for."
        do "take another Windows or another network plugin, or set `kubernetes.allowUnsupported`"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2025\"}\nnetwork: {cni: calico}\n";
    GATE "E0507" "feature-gate" Error
        "the feature gate cannot be set"
        why "A component that is given a gate which is locked to another value refuses to start."
        do "remove the gate"
        e.g. "kubernetes: {version: \"1.36\", featureGates: {WinDSR: false}}\nmachines: {linux: 1}\n";
    SKEW "E0508" "version-skew" Error
        "the cluster runs a Kubernetes that does not go with the file's"
        why "A kubelet may be older than its API server by three minor releases and never newer, and a control plane moves up one minor release at a time and never down. This release does not upgrade a running cluster at all, so `plan` refuses every difference."
        do "write the version that runs into the file";
    KNOWN_BAD_UPDATE "E0509" "known-bad-update" Warning
        "the Windows update is known to be bad"
        why "Some updates broke networking or containers on Windows nodes. The catalog names them, the network plugins with which the fault shows, and the update that mends it; where the fault does not show with the cluster's plugin, this is a note."
        do "install the update that mends it instead, or any later one"
        e.g. "machines: {linux: 1, windows: 1}\nnetwork: {cni: none}\nwindows: {updates: [KB5040437]}\n";
    UNKNOWN_TIME_ZONE "E0510" "unknown-time-zone" Error
        "the catalog does not know this time zone"
        why "Windows has names of its own for time zones and refuses any other; the catalog knows which of them a place keeps. A stand-in has the time zone of its computer, and `timezone` is refused there."
        do "name a larger place of the same zone, such as that of a capital, or the zone as Windows does, such as `W. Europe Standard Time`"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, addresses: [192.0.2.10], timezone: Europe/Atlantis}\n";
}
