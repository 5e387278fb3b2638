//! Rules about drivers, media and sizes: `E06…`.

use super::rules;

rules! {
    CANNOT_CARRY "E0601" "cannot-carry" Error
        "the driver cannot carry this operating system"
        why "A system container shares this computer's Linux kernel; a stand-in for Windows stands in for Windows only."
        do "take a driver that the message lists, or leave `driver` out"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2022\", driver: nspawn}\n";
    MEDIA_UNUSED "E0602" "media-unused" Error
        "the driver takes no media"
        why "The machines of this driver, or machines that exist already, are not installed from media, so that the media would silently be ignored."
        do "remove `media`, or take a driver that installs from it"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2022\", driver: wine, media: {iso: ./server.iso}}\n";
    MEDIA_MISSING "E0603" "media-missing" Error
        "the driver needs media or a template"
        why "Windows cannot be downloaded without its licence terms being accepted, so Mullion installs it from media that you have."
        do "add `media: {iso: ./SERVER_2022.iso}`, or `template` with the name of a golden disk"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2022\", driver: qemu}\n";
    ADDRESSES_MISSING "E0604" "addresses-missing" Error
        "machines that exist need addresses"
        why "The driver takes machines as they are and must know where to find them."
        do "add `addresses: [192.0.2.10]`"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: ssh}\n";
    ADDRESSES_UNUSED "E0605" "addresses-unused" Error
        "the driver makes machines and takes no addresses"
        why "Machines that are made get their addresses from `network.machineCIDR`."
        do "remove `addresses`, or set `driver: ssh` for machines that exist"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: nspawn, addresses: [192.0.2.10]}\n";
    HOST_UNUSED "E0606" "host-unused" Error
        "the driver carries machines on this computer only"
        why "The driver has no way to another computer, and machines that exist are where they are, so that `host` would silently be ignored."
        do "remove `host`, or take a driver that works on hosts"
        e.g. "hosts: [{name: h1, address: 192.0.2.1}]\nmachines:\n  - {name: cp, role: control-plane, driver: nspawn, host: h1}\n";
    MEMORY_SMALL "E0607" "memory-small" Error
        "the machine has too little memory"
        why "Below this the operating system or kubelet does not start, or pods are evicted at once."
        do "raise `memory` to the minimum that the message names"
        e.g. "machines:\n  - {name: cp, role: control-plane, memory: 256MiB}\n";
    DISK_SMALL "E0608" "disk-small" Error
        "the machine has too little disk"
        why "The operating system, the programs and the container images do not fit."
        do "raise `disk` to the minimum that the message names"
        e.g. "machines:\n  - {name: cp, role: control-plane, disk: 1GiB}\n";
    EDITION "E0609" "edition" Error
        "the catalog has no such edition"
        why "The edition selects the image on the installation media, so it must be one that the media hold."
        do "take an edition that `mullion catalog` lists"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2022\", edition: essentials}\n";
    TWO_ORIGINS "E0610" "two-origins" Error
        "the machines have two origins"
        why "A machine is installed from media or cloned from a template, and media are one file of one kind."
        do "keep one of the two"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2022\", driver: qemu, media: {iso: ./a.iso}, template: golden}\n";
    DIGEST_MISSING "E0611" "digest-missing" Error
        "media from an address need a digest"
        why "What is fetched from elsewhere is only as good as the digest it is held against."
        do "add `sha256` with the digest that the publisher names"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2022\", driver: qemu, media: {url: \"https://example.com/server.iso\"}}\n";
    EVALUATION "E0612" "evaluation" Note
        "the Windows licence is for evaluation"
        why "An evaluation copy works for a limited time. Afterwards Windows shuts itself down about every hour, which looks like random crashes."
        do "set `windows.licence` to `{key: {env: WINDOWS_KEY}}` for a cluster that stays"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, version: \"2022\", driver: qemu, media: {iso: ./server.iso}}\n";
    SIZE_UNUSED "E0613" "size-unused" Error
        "the size of an existing machine cannot be set"
        why "Machines that exist are taken as they are."
        do "remove `cpus`, `memory` and `disk`"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [192.0.2.10], memory: 8GiB}\n";
    CPUS_SMALL "E0614" "cpus-small" Error
        "the machine has too few processors"
        why "kubeadm refuses to set up a control plane with fewer."
        do "raise `cpus` to the minimum that the message names"
        e.g. "machines:\n  - {name: cp, role: control-plane, cpus: 1}\n";
    INSTALLATION_UNUSED "E0615" "installation-unused" Error
        "the installation of an existing machine cannot be chosen"
        why "The owner of an existing machine installed and activated its system: they chose its release, edition, desktop, language, licence and passwords, and decide which updates it gets. Mullion takes the machine as it is."
        do "remove the field that the message names; change the licence with `slmgr`, a password with `net user` and updates with Windows Update on the machine itself"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: old, os: windows, driver: ssh, addresses: [192.0.2.10], desktop: true}\n";
    PAGE_FILE_LARGE "E0616" "page-file-large" Error
        "the page file does not fit the disk"
        why "Windows needs its own part of the disk beside the page file."
        do "lower `pageFile`, or raise `disk`"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: win, os: windows, driver: qemu, template: golden, licence: {key: {env: WINDOWS_KEY}}, pageFile: 80GiB}\n";
    AUTOSTART_UNUSED "E0617" "autostart-unused" Error
        "the start of an existing machine cannot be set"
        why "Mullion starts the machines that it makes. Machines that exist start with their own computer, so that `autostart` would silently be ignored."
        do "remove `autostart`"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [192.0.2.10], autostart: false}\n";
}
