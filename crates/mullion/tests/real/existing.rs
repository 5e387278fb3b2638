//! Machines that exist already: taken by SSH, used, and given back as they were.
//!
//! The machines are those of a first cluster that is brought no further than to its machines: computers with a login,
//! about which the second cluster knows nothing but what its file says.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::computer::cut_power;
use crate::lab::Lab;
use crate::network::services_are_reached;
use crate::secrets;
use crate::trial::Trial;

const NODES: [&str; 2] = ["cp1", "box1"];

/// A user who may become root, and is not.
const USER: &str = "keeper";

/// Two machines that have nothing to do with Kubernetes yet.
pub(crate) struct Metal {
    pub(crate) lab: Lab,
}

impl Metal {
    pub(crate) fn new(word: &str) -> Self {
        let lab = Lab::linux(word, 1);
        let _ = lab.run(&["up", "--until", "machines"]).good();
        let metal = Self { lab };
        for machine in ["cp1", "lin1"] {
            // Machines of somebody else know nothing of our agent.
            let _ = metal.root(machine, "rm -r /var/lib/mullion /usr/local/lib/mullion");
        }
        metal
    }

    /// A command as root on one of them.
    #[track_caller]
    pub(crate) fn root(&self, machine: &str, script: &str) -> String {
        let ran = self.lab.run(&["ssh", machine, "--", script]).good();
        ran.out
    }

    pub(crate) fn host_key(&self, machine: &str) -> String {
        let text = fs_err::read_to_string(self.lab.machine(machine).join("machine.json")).unwrap();
        let label: Value = serde_json::from_str(&text).unwrap();
        label["hostKey"].as_str().unwrap().to_owned()
    }

    pub(crate) fn key(&self) -> String {
        self.lab.kept().join("id_ed25519").display().to_string()
    }

    /// The file of a cluster of both, each reached as it says.
    pub(crate) fn file(&self, first: &str, second: &str) -> String {
        format!(
            "metadata: {{name: NAME}}\nmachines:\n\
             - {{name: cp, role: control-plane, driver: ssh, addresses: [{}], ssh: {first}}}\n\
             - {{name: box, role: worker, driver: ssh, addresses: [{}], nodeIP: host0, ssh: {second}}}\n",
            self.lab.address("cp1"),
            self.lab.address("lin1"),
        )
    }

    /// How root logs in.
    pub(crate) fn login(&self, machine: &str) -> String {
        format!(
            "{{user: root, key: {{file: {}}}, hostKey: {}}}",
            self.key(),
            self.host_key(machine)
        )
    }

    /// Everything of a machine that a cluster could have changed: files with their contents and owners, packages,
    /// services, rules, interfaces, settings of the kernel.
    ///
    /// Not what the kernel does in a panic or with memory: every kubelet sets that, and here all have one kernel.
    #[track_caller]
    fn look(&self, machine: &str) -> BTreeSet<String> {
        let script = r#"
            find /etc /usr/local /opt /root /srv /lib/systemd /var/spool -xdev -type f -exec sha256sum {} +
            find /etc /usr/local /opt /root /srv /lib/systemd /var/spool -xdev -printf 'entry %p %y %m %u %g %l\n'
            find /var/lib -xdev -maxdepth 1 -printf 'folder %p %m %u %g\n'
            for folder in cni kubelet etcd mullion; do find /var/lib/$folder -mindepth 1 -maxdepth 1 -printf 'folder %p\n'; done
            ls /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots 2>/dev/null | sed 's/^/snapshot /'
            ls /run | grep -E 'flannel|kube|mullion' | sed 's/^/run /'
            dpkg-query --show --showformat='package ${Package} ${Version} ${Status}\n'
            systemctl list-unit-files --no-legend --no-pager | sed 's/^/unit /'
            systemctl list-units --type=service,socket,timer --state=active --no-legend --plain --no-pager | awk '{print $1, $3, $4}' | sed 's/^/active /'
            ip -o link | awk '{print $2}' | cut -d@ -f1 | sed 's/^/link /'
            ip route | sed 's/^/route /'
            iptables-save | grep '^-A' | sed 's/^/rule /'
            nft list tables | grep -vE 'filter|nat|mangle' | sed 's/^/table /'
            sysctl -a 2>/dev/null | grep -E 'ip_forward|bridge-nf|rp_filter.*(all|default)'
            cat /proc/swaps | sed 's/^/swap /'
            processes=$(ps -eo user,comm --no-headers); echo "$processes" | awk '{print "process", $1, $2}' | sort -u
        "#;
        let text = self.root(machine, script);
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// What differs between two looks at a machine, save what comes and goes by itself.
fn differences(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let is_lasting = |line: &&String| {
        // Logins, timers and the kernel's own helpers.
        ![
            "session-",
            "user@",
            "systemd-tmpfiles",
            "sshd",
            "(sd-pam)",
            "kworker",
            "apt-daily",
            "logrotate",
            // containerd makes it wherever it runs.
            "/opt/containerd",
        ]
        .iter()
        .any(|word| line.contains(word))
    };
    let came = after
        .difference(before)
        .filter(is_lasting)
        .map(|line| format!("came: {line}"));
    let went = before
        .difference(after)
        .filter(is_lasting)
        .map(|line| format!("went: {line}"));
    came.chain(went).collect()
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn existing_machines_by_ssh() {
    let mut trial = Trial::begin("existing_machines_by_ssh");
    let metal = Metal::new("metal");
    // One lacks programs, which must be brought to it, and lets in nobody but a user who asks `sudo`.
    let _ = metal.root("lin1", "rm -rf /usr/local/bin/kube* /opt/cni");
    // Neither has an image, nor a way to a registry.
    for machine in ["cp1", "lin1"] {
        let _ = metal.root(machine, "rm -rf /var/lib/containerd/*");
    }
    let _ = metal.root(
        "lin1",
        &format!(
            "useradd --create-home --shell /bin/bash {USER} &&
             install -d -m 700 -o {USER} -g {USER} /home/{USER}/.ssh &&
             install -m 600 -o {USER} -g {USER} /root/.ssh/authorized_keys /home/{USER}/.ssh/ &&
             echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}"
        ),
    );
    let before = ["cp1", "lin1"].map(|machine| metal.look(machine));
    trial.lap("two machines with a login, one of them bare");

    let user = format!(
        "{{user: {USER}, key: {{file: {}}}, hostKey: {}}}",
        metal.key(),
        metal.host_key("lin1")
    );
    let lab = Lab::new("ssh", &metal.file(&metal.login("cp1"), &user));
    let _ = lab.up();
    trial.lap("up");
    lab.is_up(&NODES);
    lab.all_pods_run();
    let again = lab.has_nothing_to_do();
    trial.lap(&format!(
        "all Ready; nothing to do ({:.1} s)",
        again.took.as_secs_f32()
    ));
    lab.serve(&NODES);
    services_are_reached(&lab, &NODES);
    let ran = lab.run(&["ssh", "box1", "--", "id", "-un"]).good();
    assert_eq!(ran.out.trim(), USER);
    trial.lap("Services are reached");
    // Who holds a machine says so: a second cluster does not take it.
    let thief = Lab::new("thief", &metal.file(&metal.login("cp1"), &user));
    let _ = thief.run(&["up"]).code(5).says(&["cp1"]);
    drop(thief);
    lab.is_up(&NODES);
    trial.lap("another cluster does not get them");

    // One that the file no longer has is given back.
    let text = fs_err::read_to_string(lab.path("cluster.yaml")).unwrap();
    let rest: Vec<_> = text
        .lines()
        .filter(|line| !line.contains("name: box"))
        .collect();
    lab.write(&rest.join("\n"));
    let _ = lab.run(&["up", "--yes"]).good();
    lab.is_up(&["cp1"]);
    let differences_of_left = differences(&before[1], &metal.look("lin1"));
    assert!(differences_of_left.is_empty(), "{differences_of_left:#?}");
    trial.lap("one leaves, and is as it was");
    lab.write(&text);
    let _ = lab.up();
    lab.is_up(&NODES);
    trial.lap("and comes back");

    let journals = lab.runs();
    for run in journals {
        let text = fs_err::read_to_string(run.join("journal.jsonl")).unwrap();
        assert_eq!(secrets::secrets(&text), Vec::<String>::new());
    }
    // One that does not answer is not forgotten.
    let address = lab.address("box1");
    cut_power(&metal.lab, "lin1");
    let status = lab.status();
    let machines = status["machines"].as_array().unwrap();
    let silent = machines.iter().find(|machine| machine["name"] == "box1");
    let silent = silent.unwrap_or_else(|| panic!("{status:#}"));
    assert_eq!(silent["machine"], "silent", "{status:#}");
    assert_eq!(silent["address"], address, "{status:#}");
    assert_eq!(silent["answers"], false, "{status:#}");
    let _ = lab.run(&["down", "--yes"]).code(5).says(&["box1"]);
    assert!(lab.kept().exists(), "what is kept is needed still");
    let _ = metal.lab.run(&["up", "--until", "machines"]).good();
    trial.lap("down without one that does not answer");
    let _ = lab.down().says(&["nothing is left"]);
    assert!(!lab.kept().exists(), "{} is left", lab.kept().display());
    trial.lap("down");
    for (machine, before) in ["cp1", "lin1"].into_iter().zip(&before) {
        let differences = differences(before, &metal.look(machine));
        assert!(
            differences.is_empty(),
            "{machine} is not as it was:\n  {}",
            differences.join("\n  ")
        );
    }
    trial.lap("the machines are as they were");
    drop(lab);
    let _ = metal.lab.down();
    trial.nothing_is_left();
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_machine_behind_another_one_is_reached_through_it() {
    let mut trial = Trial::begin("a_machine_behind_another_one_is_reached_through_it");
    let metal = Metal::new("behind");
    let front = metal.lab.address("cp1");
    let back = |keys: &str| {
        format!(
            "{{user: root, key: {{file: {}}}, hostKey: {}, jump: root@{front}{keys}}}",
            metal.key(),
            metal.host_key("lin1"),
        )
    };
    let file = metal.file(&metal.login("cp1"), &back(""));
    let lab = Lab::new("jump", &file);
    // The one in between has a key of its own, which nobody has given yet.
    let _ = lab.run(&["up", "--until", "inspect"]).code(5).says(&[
        &front,
        "hostKeys",
        &metal.host_key("cp1"),
    ]);
    let keys = format!(", hostKeys: {{\"{front}\": {}}}", metal.host_key("cp1"));
    lab.write(&metal.file(&metal.login("cp1"), &back(&keys)));
    // From now on nobody but the one before it gets in.
    let script = format!("iptables -I INPUT -p tcp --dport 22 ! -s {front} -j REJECT");
    let _ = lab.run(&["ssh", "box1", "--", &script]).good();
    let ran = lab.run(&["ssh", "box1", "--", "hostname"]).good();
    assert_eq!(ran.out.trim(), "lin1");
    let _ = lab.run(&["up", "--until", "prepare"]).good();
    let status = lab.status();
    for machine in status["machines"].as_array().unwrap() {
        assert_eq!(machine["answers"], true, "{status:#}");
    }
    let _ = lab.down();
    drop(lab);
    trial.lap("prepared and released through another machine");
    let _ = metal.lab.down();
    trial.nothing_is_left();
}
