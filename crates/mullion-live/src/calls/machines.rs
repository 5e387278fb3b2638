//! Networks and machines: made, started, looked at, prepared.

use std::collections::{BTreeMap, BTreeSet};

use mullion_plan::{
    Action, Carried, Document, ExpectedProfile, Fingerprint, Names, Place, Prior, Size, UserCommand,
};
use mullion_render::{Cgroups, Footing, Ground, MachineDocument};
use mullion_spec::words::{Driver, MachineAccess, Os};
use mullion_wire::{Blueprint, File, Named, Sha256Digest};

use super::super::{lock, made};
use super::world::{NETWORK, World, agent, name};
use super::{Case, change};

fn elsewhere() -> Place {
    Place::On("h1".parse().unwrap())
}

fn names(last: u8) -> Carried<Names> {
    let address = [10, 1, 0, last].into();
    Carried::new(Names([(name("cp1"), address)].into()))
}

fn size(cpus: u32) -> Size {
    Size {
        cpus,
        memory: "1GiB".parse().unwrap(),
        disk: "1GiB".parse().unwrap(),
    }
}

fn make() -> Action {
    Action::MakeMachine {
        place: Place::Here,
        driver: Driver::Nspawn,
        template: made::id("debian"),
        os: Os::Linux,
        size: size(1),
        address: [10, 1, 0, 9].into(),
        network: NETWORK.parse().unwrap(),
        autostart: true,
        names: names(2),
        name_servers: vec![[192, 0, 2, 53].into()],
    }
}

/// A ground that [`super::agent`] tells of.
const GROUND: Ground = Ground {
    footing: Footing::Computer,
    cgroups: Cgroups::V2,
    can_raise_limits: true,
    has_swap: false,
    has_resolver: true,
};

fn inspect() -> Action {
    Action::Inspect {
        os: Os::Linux,
        profile: ExpectedProfile::Known(GROUND),
    }
}

fn command(run: &str) -> UserCommand {
    UserCommand {
        run: run.into(),
        fingerprint: Fingerprint::of(&run),
    }
}

fn variables(value: &str) -> BTreeMap<String, String> {
    [("HTTP_PROXY".into(), value.into())].into()
}

/// A file in the document of a machine.
fn file(path: &str, text: &str) -> File<Named> {
    File {
        path: path.into(),
        content: Named::Text(text.into()),
        mode: 0o644,
    }
}

fn document() -> MachineDocument {
    MachineDocument {
        address: [10, 1, 0, 4].into(),
        name_servers: Some(vec![[192, 0, 2, 53].into()]),
        blueprint: Blueprint {
            version: mullion_wire::VERSION,
            machine: "lin1".into(),
            packages: Vec::new(),
            modules: BTreeSet::new(),
            sysctls: BTreeMap::new(),
            folders: Vec::new(),
            files: vec![file("/etc/motd", "one")],
            services: Vec::new(),
            firewall: None,
            windows: None,
        },
        images: BTreeMap::new(),
    }
}

/// The document of a machine, in which something is otherwise.
fn other(change: impl Fn(&mut MachineDocument)) -> Document<MachineDocument> {
    let mut document = document();
    change(&mut document);
    Document::Known(Carried::new(document))
}

/// A Windows machine of the user's that is fit, and waits for a restart.
fn waits_for_restart(world: &World) {
    let facts = serde_json::json!({
        "agent": agent().version,
        "architecture": "x86_64",
        "cpus": 4,
        "memory": 8_u64 << 30,
        "disk": {"total": 99_u64 << 30, "free": 99_u64 << 30},
        "clock": jiff::Timestamp::now().as_second(),
        "rebootPending": "an update",
        "windows": {"build": 20348, "edition": "ServerStandard"},
    });
    let mut machine = lock(&world.machine);
    let mut all = serde_json::to_value(&machine.facts).unwrap();
    all.as_object_mut()
        .unwrap()
        .extend(facts.as_object().unwrap().clone());
    machine.facts = serde_json::from_value(all).unwrap();
}

pub(super) fn cases() -> Vec<Case> {
    let version = || Some(agent().version);
    vec![
        Case::new(None, |_| Action::MakeNetwork {
            place: Place::Here,
            network: NETWORK.parse().unwrap(),
            access: MachineAccess::Host,
        })
        .calls(change!(MakeNetwork.place = elsewhere()))
        .calls(change!(
            MakeNetwork.network = "10.2.0.0/24".parse().unwrap()
        ))
        .calls(change!(MakeNetwork.access = MachineAccess::Lan)),
        Case::new("lin2", |_| make())
            .calls(change!(MakeMachine.place = elsewhere()))
            .calls(change!(MakeMachine.driver = Driver::Wine))
            .calls(change!(MakeMachine.template = made::id("other")))
            .calls(change!(MakeMachine.os = Os::Windows))
            .calls(change!(MakeMachine.size = size(2)))
            .calls(change!(
                MakeMachine.size = Size {
                    memory: "2GiB".parse().unwrap(),
                    ..size(1)
                }
            ))
            .calls(change!(
                MakeMachine.size = Size {
                    disk: "2GiB".parse().unwrap(),
                    ..size(1)
                }
            ))
            .calls(change!(MakeMachine.address = [10, 1, 0, 10].into()))
            .calls(change!(
                MakeMachine.network = "10.1.0.0/25".parse().unwrap()
            ))
            .calls(change!(MakeMachine.autostart = false))
            .calls(change!(MakeMachine.names = names(3)))
            .calls(change!(MakeMachine.name_servers = Vec::new())),
        Case::new("lin1", |_| Action::StartMachine {
            names: names(2),
            name_servers: Vec::new(),
        })
        .calls(change!(StartMachine.names = names(3)))
        .calls(change!(
            StartMachine.name_servers = vec![[192, 0, 2, 53].into()]
        )),
        Case::new("lin1", |_| Action::SetAutostart { autostart: true })
            .calls(change!(SetAutostart.autostart = false)),
        Case::new("lin1", |_| Action::Reach {
            address: "127.0.0.1".into(),
        })
        .calls(change!(Reach.address = "10.1.0.99".into())),
        Case::new("lin1", |_| inspect())
            .calls(change!(Inspect.os = Os::Windows))
            .outcome(change!(Inspect.profile = ExpectedProfile::Unknown))
            .outcome(change!(
                Inspect.profile = ExpectedProfile::Known(Ground {
                    has_swap: true,
                    ..GROUND
                })
            )),
        Case::new("lin1", move |_| Action::InstallAgent {
            os: Os::Linux,
            version: version(),
            prior: Prior::Absent,
        })
        .calls(change!(InstallAgent.os = Os::Windows))
        .calls(change!(InstallAgent.version = Some("0".into()))),
        // On Linux nothing depends on what was there: the agent is brought and asked alike.
        Case::new("own1", |_| Action::InstallAgent {
            os: Os::Windows,
            version: None,
            prior: Prior::Different,
        })
        .within(waits_for_restart)
        .calls(change!(InstallAgent.prior = Prior::Absent)),
        Case::new("lin1", |_| Action::RunBefore {
            commands: vec![command("true")],
            variables: variables("a"),
        })
        .calls(change!(RunBefore.commands = vec![command("false")]))
        .calls(change!(
            RunBefore.commands = vec![UserCommand {
                fingerprint: Fingerprint::of(&"other"),
                ..command("true")
            }]
        ))
        .calls(change!(RunBefore.variables = variables("b"))),
        Case::new("lin1", |_| Action::RunAfter {
            commands: vec![command("true")],
            variables: variables("a"),
        })
        .calls(change!(RunAfter.commands = vec![command("false")]))
        .calls(change!(
            RunAfter.commands = vec![UserCommand {
                fingerprint: Fingerprint::of(&"other"),
                ..command("true")
            }]
        ))
        .calls(change!(RunAfter.variables = variables("b"))),
        Case::new("win1", |_| Action::EnableFeatures {
            features: vec!["Containers".into()],
        })
        .calls(change!(EnableFeatures.features = vec!["Hyper-V".into()])),
        Case::new("win1", |_| Action::Reboot),
        Case::new("lin1", |_| Action::ApplyBlueprint {
            document: other(|_| ()),
        })
        .calls(change!(
            ApplyBlueprint.document = other(|document| document.address = [10, 1, 0, 5].into())
        ))
        .calls(change!(
            ApplyBlueprint.document = other(|document| document.name_servers = None)
        ))
        .calls(change!(
            ApplyBlueprint.document =
                other(|document| document.blueprint.files = vec![file("/etc/motd", "two")])
        ))
        .calls(change!(
            ApplyBlueprint.document = other(|document| {
                document.images = [("app:1".into(), Some(Sha256Digest::of(b"1")))].into();
            })
        ))
        .calls(change!(ApplyBlueprint.document = Document::AfterInspection)),
        Case::new("old1", |_| Action::ReleaseMachine),
        Case::new("lin1", |_| Action::RemoveMachine),
        Case::new(None, |_| Action::RemoveNetwork { place: Place::Here })
            .calls(change!(RemoveNetwork.place = elsewhere())),
    ]
}
