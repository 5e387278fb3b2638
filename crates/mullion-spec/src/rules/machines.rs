//! Rules about machines, their names and their duties: `E03…`.

use super::rules;

rules! {
    BAD_NAME "E0301" "bad-name" Error
        "the name is not a DNS label"
        why "Names become host names, node names and labels: lower-case letters, digits and hyphens, at most 63 characters, a letter or digit at both ends."
        do "choose a name such as `demo-1`"
        e.g. "metadata: {name: My_Cluster}\nmachines: {linux: 1}\n";
    WINDOWS_NAME_LONG "E0302" "windows-name-long" Error
        "a Windows machine's name is too long"
        why "Windows takes a computer name of at most 15 characters (NetBIOS) and cuts a longer one off, so that node and computer no longer agree. The number at the end counts too."
        do "shorten the group's name"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: windows-server-a, os: windows, version: \"2022\"}\n";
    WINDOWS_NAME_DIGITS "E0303" "windows-name-digits" Error
        "a Windows machine's name has only digits"
        why "Windows refuses a computer name made of digits alone."
        do "begin the group's name with a letter"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: \"2022\", os: windows, version: \"2022\"}\n";
    DUPLICATE_MACHINE "E0304" "duplicate-machine" Error
        "two machines have the same name"
        why "Machines are named by group and number, so `win` with number 11 and `win1` with number 1 are both `win11`. Windows does not tell upper from lower case either."
        do "rename one of the groups"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: w, count: 11}\n  - {name: w1, count: 1}\n";
    WINDOWS_CONTROL_PLANE "E0305" "windows-control-plane" Error
        "Windows cannot be a control plane"
        why "Kubernetes' control plane runs on Linux only."
        do "give the group `role: worker`, and a Linux group `role: control-plane`"
        e.g. "machines:\n  - {name: lin}\n  - {name: cp, role: control-plane, os: windows, version: \"2022\"}\n";
    EVEN_CONTROL_PLANES "E0306" "even-control-planes" Warning
        "an even number of control planes"
        why "etcd needs more than half of its members. An even number bears no more failures than one fewer does, and has one machine more that can fail."
        do "take 1, 3 or 5"
        e.g. "machines:\n  - {name: cp, role: control-plane, count: 2}\n";
    NO_LINUX_PLACE "E0307" "no-linux-place" Error
        "no Linux node may run ordinary pods"
        why "CoreDNS and other system pods are Linux containers. With no Linux worker and control planes that take no ordinary pods, they have nowhere to run."
        do "add a Linux worker, or leave `schedulable` out so that the control plane takes pods"
        e.g. "machines:\n  - {name: cp, role: control-plane, schedulable: false}\n  - {name: win, os: windows, version: \"2022\"}\n";
    NO_CONTROL_PLANE "E0308" "no-control-plane" Error
        "no machine is a control plane"
        why "A cluster needs at least one machine that runs the API server."
        do "add a group with `role: control-plane`, or name a cluster that exists with `controlPlane.existing`"
        e.g. "machines:\n  - {name: lin}\n";
    NO_MACHINES "E0309" "no-machines" Error
        "the file asks for no machines"
        why "There is nothing to do."
        do "write `machines: {linux: 1, windows: 1}`"
        e.g. "machines: []\n";
    ADDRESS_COUNT "E0310" "address-count" Error
        "count and addresses disagree"
        why "Machines that exist already are counted by their addresses."
        do "leave `count` out, or give as many addresses"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: old, driver: ssh, count: 3, addresses: [192.0.2.10, 192.0.2.11]}\n";
    ENDPOINT_NEEDED "E0311" "endpoint-needed" Error
        "several control planes need an endpoint"
        why "With more than one control plane something must stand before them. Mullion makes a load balancer machine only where it makes the control planes too."
        do "set `controlPlane.endpoint` to the address of your load balancer"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [192.0.2.10, 192.0.2.11, 192.0.2.12]}\n";
    RESERVED_NAME "E0312" "reserved-name" Error
        "the group's name is taken"
        why "With several control planes and no endpoint, Mullion makes a machine `lb1`, the load balancer."
        do "rename the group, or set `controlPlane.endpoint`"
        e.g. "machines:\n  - {name: cp, role: control-plane, count: 3}\n  - {name: lb}\n";
    UNKNOWN_HOST "E0313" "unknown-host" Error
        "there is no such host"
        why "A group is carried by a computer that `hosts` describes."
        do "add the host under `hosts`, or leave `host` out for this computer"
        e.g. "machines:\n  - {name: cp, role: control-plane, host: h1}\n";
    TWO_CONTROL_PLANES "E0314" "two-control-planes" Error
        "the control plane is made and exists at once"
        why "With `controlPlane.existing` the cluster has its control plane; machines of that role would be a second one."
        do "remove the group with `role: control-plane`, or `controlPlane.existing`"
        e.g. "controlPlane: {existing: {kubeconfig: ./admin.conf}}\nmachines:\n  - {name: cp, role: control-plane}\n";
    DUPLICATE_ADDRESS "E0315" "duplicate-address" Error
        "two machines have the same address"
        why "One machine would be prepared twice under two names."
        do "remove one of the two"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: old, driver: ssh, addresses: [192.0.2.10, 192.0.2.10]}\n";
    WRONG_SYSTEM_FIELD "E0316" "wrong-system-field" Error
        "the field is for another operating system"
        why "The field would have no effect on this group's machines."
        do "remove the field, or set `os`"
        e.g. "machines:\n  - {name: cp, role: control-plane, edition: datacenter}\n";
    DUPLICATE_GROUP "E0317" "duplicate-group" Error
        "two groups or hosts have the same name"
        why "A name must point to one thing."
        do "rename one of the two"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: lin}\n  - {name: lin}\n";
    RESERVED_LABEL "E0318" "reserved-label" Error
        "the label is set by Kubernetes or by Mullion"
        why "Kubernetes sets the labels for a node's system, build, host name, instance type and topology itself and would set them back, and Mullion's own (`mullion.dev/…`) say what it made. Other labels are free, those under `kubernetes.io` too: Mullion sets them by the API, where kubelet's limits do not hold."
        do "use a prefix of your own, such as `example.com/`"
        e.g. "machines:\n  - {name: cp, role: control-plane, labels: {kubernetes.io/os: windows}}\n";
    NODE_IP_SHARED "E0319" "node-ip-shared" Error
        "several machines cannot have one address"
        why "`nodeIP` is for every machine of the group, and an address belongs to one of them."
        do "give the network that the addresses are in, or the adapter's name"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [192.0.2.10]}\n  - {name: old, driver: ssh, addresses: [192.0.2.11, 192.0.2.12], nodeIP: 198.51.100.11}\n";
    DUPLICATE_TAINT "E0320" "duplicate-taint" Error
        "two taints have the same key and effect"
        why "Kubernetes tells a node's taints apart by key and effect, and refuses a node that has one of them twice, whatever the values."
        do "keep one of the two"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: lin}\n  - {name: gpu, taints: [\"for=gpu:NoSchedule\", \"for=batch:NoSchedule\"]}\n";
    SPECIAL_ADDRESS "E0321" "special-address" Error
        "a machine cannot have this address"
        why "Loopback, link-local, multicast and broadcast addresses and 0.0.0.0 mean something else on every computer; kubelet refuses them as a node's address."
        do "give the address that the other machines reach it by"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [127.0.0.1]}\n";
}
