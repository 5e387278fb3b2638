//! Rules about what this release does not have yet: `E09…`.
//!
//! Such fields are parsed and checked like any other, then refused by name, so that a file written
//! for a later release is told so instead of being misread.

use super::rules;

rules! {
    DRIVER_LATER "E0901" "driver-later" Error
        "this release does not have the driver yet"
        why "The driver's place in the file is settled, its implementation is not part of this release."
        do "take a driver that this release has"
        e.g. "hosts: [{name: h1, address: 192.0.2.1}]\nmachines:\n  - {name: cp, role: control-plane, driver: libvirt, host: h1}\n";
    CNI_LATER "E0902" "cni-later" Error
        "this release does not have the network plugin yet"
        why "The network plugin's place in the file is settled, its installation is not part of this release."
        do "take `flannel`, or `none` and install a plugin yourself"
        e.g. "machines: {linux: 1}\nnetwork: {cni: antrea}\n";
    EXISTING_LATER "E0903" "existing-later" Error
        "this release cannot add workers to an existing cluster yet"
        why "The field's place in the file is settled, its implementation is not part of this release."
        do "let Mullion make the control plane: a group with `role: control-plane`"
        e.g. "controlPlane: {existing: {kubeconfig: ./admin.conf}}\nmachines:\n  - {name: lin}\n";
    FEATURE_LATER "E0904" "feature-later" Error
        "this release does not have this yet"
        why "The field's place in the file is settled, its implementation is not part of this release. The same goes for settings of Windows on a stand-in, which has nothing that they would change."
        do "leave the field out"
        e.g. "machines: {linux: 1}\naddons: [metrics]\n";
}
