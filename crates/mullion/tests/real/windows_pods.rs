//! Pods on a stand-in for Windows, as people write them: images, volumes, fields, and what kubectl does with them.

use serde_json::{Value, json};

use crate::kube::{IMAGE, SETTLE, SPACE, name};
use crate::lab::Lab;
use crate::trial::until;

/// The class of pods for `win1`.
const CLASS: &str = "windows-2022";

fn space() -> String {
    format!("--namespace={SPACE}")
}

/// A pod for Windows by the class of its build, with more or other fields of its only container.
fn pod(name: &str, container: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "runtimeClassName": CLASS,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}],
        },
    });
    merge(&mut pod["spec"]["containers"][0], container);
    pod
}

fn merge(value: &mut Value, more: Value) {
    let Value::Object(more) = more else {
        panic!("no fields: {more}");
    };
    value.as_object_mut().unwrap().extend(more);
}

/// A pod's own script.
#[track_caller]
fn inside(lab: &Lab, pod: &str, script: &str) -> String {
    lab.exec(pod, &["/bin/sh", "-c", script]).good().out
}

#[track_caller]
fn runs(lab: &Lab, pod: &str) -> Value {
    until("a pod runs", SETTLE, || {
        let found = lab.get(&["pod", pod, &space()]);
        match found["status"]["phase"].as_str() {
            Some("Running") => Ok(found),
            _ => Err(format!("{:#}", found["status"])),
        }
    })
}

#[track_caller]
fn remove(lab: &Lab, pods: &[&str]) {
    let space = space();
    let words = [&["delete", "pod", "--wait=true", &space], pods].concat();
    let _ = lab.kubectl(&words).good();
}

/// Images with nothing for this Windows fail as on Windows; Windows' own names run what stands in for them.
#[track_caller]
pub(crate) fn images_are_judged_as_on_windows(lab: &Lab) {
    let wrong = [
        ("old", "mcr.microsoft.com/windows/nanoserver:1809"),
        ("new", "mcr.microsoft.com/windows/servercore:ltsc2025"),
        ("linux", "registry.k8s.io/coredns/coredns:v1.14.2"),
        ("nobody-knows", "registry.example.invalid/shop/app:1"),
    ];
    let right = [
        ("nano", "mcr.microsoft.com/windows/nanoserver:ltsc2022"),
        (
            "dotnet",
            "mcr.microsoft.com/dotnet/aspnet:9.0-nanoserver-ltsc2022",
        ),
    ];
    let iis = "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022";
    let mut pods: Vec<_> = wrong
        .iter()
        .map(|(name, image)| pod(name, json!({"image": image})))
        .collect();
    let stays = json!(["cmd", "/c", "echo ready && sleep 3600"]);
    pods.extend(
        right.map(|(name, image)| pod(name, json!({"image": image, "command": stays.clone()}))),
    );
    pods.push(pod("iis", json!({"image": iis})));
    lab.apply(&pods);
    for (pod, image) in wrong {
        until("it is refused", SETTLE, || {
            let of_pod = format!("--field-selector=involvedObject.name={pod}");
            let events = lab.list(&["events", &space(), &of_pod]);
            let messages = events.iter().filter_map(|event| event["message"].as_str());
            let messages: Vec<_> = messages.collect();
            let is_told = |message: &&str| {
                message.contains("no match for platform in manifest") && message.contains(image)
            };
            if messages.iter().any(is_told) {
                Ok(())
            } else {
                Err(messages.join("\n"))
            }
        });
    }
    for (pod, _) in right {
        let _ = runs(lab, pod);
        assert_eq!(lab.kubectl(&["logs", &space(), pod]).good().out, "ready\n");
    }
    let address = runs(lab, "iis")["status"]["podIP"]
        .as_str()
        .unwrap()
        .to_owned();
    until("it serves", SETTLE, || {
        lab.connects("lin1", &format!("{address}:80"))
    });
    let wrong = wrong.map(|(name, _)| name);
    remove(lab, &[&wrong[..], &["nano", "dotnet", "iis"]].concat());
}

/// A pod as people write it for Windows, with volumes at Windows' paths; `kubectl cp` brings files and gets them back.
#[track_caller]
pub(crate) fn volumes_are_there(lab: &Lab) {
    let mut volumes = pod(
        "volumes",
        json!({
            "args": ["netexec"],
            "volumeMounts": [
                {"name": "config", "mountPath": "C:\\config"},
                {"name": "secret", "mountPath": "C:\\secret"},
                {"name": "scratch", "mountPath": "C:\\scratch"},
            ],
        }),
    );
    merge(
        &mut volumes["spec"],
        json!({
            "os": {"name": "windows"},
            "volumes": [
                {"name": "config", "configMap": {"name": "words"}},
                {"name": "secret", "secret": {"secretName": "words"}},
                {"name": "scratch", "emptyDir": {}},
            ],
        }),
    );
    let named = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "words", "namespace": SPACE}});
    let mut config = named("ConfigMap");
    config["data"] = json!({"greeting": "hello"});
    let mut secret = named("Secret");
    secret["stringData"] = json!({"password": "open"});
    lab.apply(&[config, secret, volumes]);
    let _ = runs(lab, "volumes");
    let inside = |script: &str| inside(lab, "volumes", script);
    assert_eq!(inside("cat /config/greeting"), "hello");
    assert_eq!(inside("cat /secret/password"), "open");
    assert_eq!(inside("echo x > /scratch/y; cat /scratch/y"), "x\n");
    let token = inside("cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(token.split('.').count(), 3, "a token is there");

    let (sent, back) = (lab.path("sent"), lab.path("back"));
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs_err::write(&sent, &bytes).unwrap();
    let (sent, shown) = (sent.display().to_string(), back.display().to_string());
    let place = format!("{SPACE}/volumes:/scratch/copied");
    let _ = lab.kubectl(&["cp", &sent, &place]).good();
    let _ = lab.kubectl(&["cp", &place, &shown]).good();
    assert!(fs_err::read(&back).unwrap() == bytes, "not what was sent");
    remove(lab, &["volumes"]);
}

/// Who attaches to a pod talks to its program.
#[track_caller]
pub(crate) fn programs_are_talked_to(lab: &Lab) {
    let talker = json!({"command": ["cmd", "/c", "cat"], "stdin": true, "stdinOnce": true});
    lab.apply(&[pod("talker", talker)]);
    let _ = runs(lab, "talker");
    let words = ["kubectl", "attach", "--stdin", &space(), "talker"];
    let ran = lab.run_with(&words, "hello\n").good();
    assert!(ran.out.contains("hello"), "{ran}");
    remove(lab, &["talker"]);
}

/// Fields that mean something on Linux only are nobody's here, as on Windows, and the machine's own network is for
/// `HostProcess` alone.
#[track_caller]
pub(crate) fn fields_mean_what_they_do_on_windows(lab: &Lab) {
    let mut linux = pod(
        "linux-fields",
        json!({
            "args": ["pause"],
            "securityContext": {
                "privileged": true,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        }),
    );
    merge(
        &mut linux["spec"],
        json!({
            "hostNetwork": true,
            "hostPID": true,
            "hostIPC": true,
            "securityContext": {
                "runAsUser": 1234,
                "runAsGroup": 1234,
                "fsGroup": 1234,
                "seLinuxOptions": {"level": "s0"},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }),
    );
    let mut host = pod(
        "host-process",
        json!({"command": ["cmd", "/c", "sleep 3600"]}),
    );
    merge(
        &mut host["spec"],
        json!({
            "hostNetwork": true,
            "securityContext": {
                "windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"},
            },
        }),
    );
    lab.apply(&[linux, host]);
    let address = |pod: &Value, of: &str| pod["status"][of].as_str().unwrap().to_owned();
    let found = runs(lab, "linux-fields");
    assert_ne!(
        address(&found, "podIP"),
        address(&found, "hostIP"),
        "it has an address of its own: {}",
        name(&found)
    );
    let seen = inside(
        lab,
        "linux-fields",
        "echo x > /written && cat /written && id -u && cat /proc/1/comm && ls /dev/kmsg || echo none",
    );
    assert_eq!(seen, "x\n0\nagnhost\nnone\n");
    let found = runs(lab, "host-process");
    assert_eq!(address(&found, "podIP"), address(&found, "hostIP"));
    let seen = inside(
        lab,
        "host-process",
        "ls /mnt/c/k/kubelet.exe && cat /proc/1/comm",
    );
    assert_eq!(seen, "/mnt/c/k/kubelet.exe\nsystemd\n");
    remove(lab, &["linux-fields", "host-process"]);
}
