//! Rules about fields and their types: `E02…`.

use super::rules;

rules! {
    UNKNOWN_FIELD "E0201" "unknown-field" Error
        "there is no such field"
        why "A misspelt field would silently leave its default in place."
        do "`mullion explain file` shows every field"
        e.g. "machines: {linux: 1}\nnetwrok: {cni: flannel}\n";
    WRONG_TYPE "E0202" "wrong-type" Error
        "the value has the wrong type"
        why "A field takes one type: a text, a number, a truth value, a list or a mapping."
        do "`mullion explain file` shows every field with an example"
        e.g. "machines: {linux: two}\n";
    UNKNOWN_WORD "E0203" "unknown-word" Error
        "the field does not take this word"
        why "The field takes one word out of a fixed set."
        do "take one of the words that the message lists"
        e.g. "machines: {linux: 1}\nnetwork: {cni: flanel}\n";
    MISSING_FIELD "E0204" "missing-field" Error
        "a field is missing"
        why "The field has no default that could be right."
        do "add the field"
        e.g. "machines:\n  - role: control-plane\n";
    API_VERSION "E0205" "api-version" Error
        "the file is of another version or kind"
        why "Fields may change their meaning between versions, so a file of a version that this program does not know is not read by guess."
        do "write `apiVersion: mullion.dev/v1alpha1` and `kind: Cluster`, or leave both out"
        e.g. "apiVersion: mullion.dev/v2\nmachines: {linux: 1}\n";
    LITERAL_SECRET "E0206" "literal-secret" Error
        "a secret is written into the file"
        why "Files get committed, copied and pasted. Secrets are named by where they are kept, and read when they are needed."
        do "write `{env: NAME}` or `{file: PATH}` instead, and change the secret if the file was ever shared"
        e.g. "machines: {linux: 1}\nwindows: {administratorPassword: Passw0rd!}\n";
    VARIABLE "E0207" "variable" Error
        "variables are not expanded"
        why "A variable that is expanded silently makes the file mean something else on another computer, and an unset one makes it mean nothing."
        do "write the value out; where a secret is meant, write `{env: NAME}`"
        e.g. "machines: {linux: 1}\nartifacts: {mirror: \"https://${MIRROR}/\"}\n";
    BAD_VALUE "E0208" "bad-value" Error
        "the value is not of the form that the field takes"
        why "The field takes a text of a certain form: a size, a network, an address, a version."
        do "`mullion explain file` shows every field with an example"
        e.g. "machines: {linux: 1}\nnetwork: {podCIDR: 10.244.0.0}\n";
    OUT_OF_RANGE "E0209" "out-of-range" Error
        "the number is out of range"
        why "Outside these limits the value has no meaning for Kubernetes or for the machines."
        do "take a number within the limits that the message names"
        e.g. "machines: {linux: 1}\nnetwork: {mtu: 100}\n";
    MIRROR_PLAIN "E0211" "mirror-plain" Error
        "a mirror over plain HTTP needs a list of digests"
        why "Anybody on the way can change what comes over plain HTTP, and the checksum beside it as well. Root runs what comes."
        do "write `https://`, or add `artifacts.digests` with a list that `sha256sum` wrote where you trust the files"
        e.g. "machines: {linux: 1}\nartifacts: {mirror: \"http://mirror.example/\"}\n";
    IDLE "E0212" "no-effect" Warning
        "the setting has no effect in this cluster"
        why "The setting is about machines or programs that this cluster does not have, so that it would silently be ignored."
        do "remove the setting, or add what it is about"
        e.g. "machines: {linux: 1}\nwindows: {rdp: true}\n";
    PATCH_NAME "E0213" "patch-name" Error
        "kubeadm would not apply the patch"
        why "kubeadm reads from the first part of a patch's name what the patch changes, and from the second, such as `+merge`, how. It ignores files with other names, and it refuses a kind of patch that it does not know."
        do "name the file after what it changes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kubeletconfiguration"
        e.g. "machines: {linux: 1}\nkubernetes: {patches: [./kubelet.yaml]}\n";
    DUPLICATE_IMAGE "E0214" "duplicate-image" Error
        "two images have the same name"
        why "A node keeps one image under a name, so of two archives with images of that name one would be lost. Names are compared in full: `app:1` is `docker.io/library/app:1`, and a tag beside a digest does not count."
        do "keep one of the two"
        e.g. "machines: {linux: 1}\nimages:\n  - {ref: app:1, archive: old.tar}\n  - {ref: docker.io/library/app:1, archive: new.tar}\n";
    PROXY_MISSING "E0215" "proxy-missing" Error
        "there are hosts without a proxy, and no proxy"
        why "`proxy.no` lists hosts that are reached without the proxy. Where there is no proxy, the list does nothing: machines would have no proxy although the file looks as if they had one. The variables `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY` also count as a proxy, since downloads use them."
        do "set `proxy.http` or `proxy.https`, or remove `proxy.no`"
        e.g. "machines: {linux: 1}\nproxy: {no: [registry.example]}\n";
}
