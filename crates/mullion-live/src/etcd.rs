//! Asking etcd: for its members and their health, for a snapshot, and to let a member go.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mullion_kube::{Api, EtcdDoor};
use mullion_plan::{
    Attend, ClusterFacts, ErrorClass, EtcdFacts, Health, News, Observed, Risk, SnapshotBefore,
    StepError,
};
use mullion_spec::value::MachineName;
use mullion_ssh::{Command, Transport as _};
use mullion_wire::{Facts, Secret};

use super::cluster::refused;
use super::kubeadm::is_half_way;
use super::members::Machines;
use super::talk::{Told, lost};
use super::{Adapter, lock, look, state};

/// How long a control plane has to tell how to speak to its etcd.
const DOOR: Duration = Duration::from_secs(15);

/// What a snapshot is saved before, where everything goes.
const REMOVAL: &str = "the cluster is removed";

/// Prints the certificates to speak to etcd with, and where it listens.
const DOOR_SCRIPT: &str = "cd /etc/kubernetes/pki/etcd && for file in ca.crt healthcheck-client.crt \
    healthcheck-client.key; do base64 -w0 $file && echo; done && \
    sed -n 's/.*--advertise-client-urls=//p' /etc/kubernetes/manifests/etcd.yaml";

impl Adapter<'_> {
    /// Fills in what etcd itself says of its members. Where no control plane lets us ask, nothing is filled in, and no
    /// plan empties a control plane.
    pub(super) fn look_at_etcd(&self, api: &Api, observed: &Observed, facts: &mut ClusterFacts) {
        let names = self.cluster().machines().map(|machine| machine.name);
        let machines = Machines::of(names, observed, facts);
        *lock(&self.machines) = machines.clone();
        let seats = look::begun(observed).filter(|(_, id)| **id == facts.id);
        let mut answers = seats.filter_map(|(seat, _)| {
            let door = self.etcd_door(seat).ok()?;
            api.etcd_members(&door).ok()
        });
        let Some(members) = answers.next() else {
            return;
        };
        let said = machines.facts(&members);
        if facts.answers {
            // Static pods go with their Node object: etcd knows better.
            facts.members.clear();
        }
        // A member whose machine is gone, or cannot be looked into, is known to etcd alone.
        facts
            .members
            .extend(said.members.values().filter_map(|member| {
                let own = || member.name.parse().ok();
                member.machine.clone().or_else(own)
            }));
        facts.etcd = Some(said);
    }

    /// A machine that is no more leaves etcd: any other control plane lets it go. One that emptied itself has left
    /// already.
    pub(super) fn leave_etcd(&self, machine: &MachineName) -> Result<(), StepError> {
        let mut last = None;
        let addresses = lock(&self.machines).addresses(machine);
        for other in self.other_seats(machine) {
            let removed = self.etcd_door(&other).and_then(|door| {
                let api = self.api()?;
                let removed = api.remove_members(&door, machine.as_str(), &addresses);
                removed.map_err(|error| refused("etcd did not let it go", &error))
            });
            match removed {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        // Without another one there is nobody whom it could be missed by.
        last.map_or(Ok(()), Err)
    }

    /// etcd goes on without the machine, by its own word of now. Whoever empties a control plane calls this right before.
    pub(super) fn spare_from_etcd(&self, machine: &MachineName) -> Result<(), StepError> {
        let api = self.api()?;
        self.ask_to_spare(&api, machine).map(|_| ())
    }

    /// The control planes whose etcd can perhaps be spoken to.
    fn doors(&self, machine: &MachineName) -> (Vec<(MachineName, EtcdDoor)>, Option<StepError>) {
        // The machine itself last: its own etcd may be what is wrong with it.
        let mut seats: Vec<_> = self.other_seats(machine).collect();
        seats.push(machine.clone());
        let mut doors = Vec::new();
        let mut last = None;
        for seat in seats {
            match self.etcd_door(&seat) {
                Ok(door) => doors.push((seat, door)),
                Err(error) => last = Some(error),
            }
        }
        (doors, last)
    }

    /// The control planes whose etcd can be spoken to, once etcd has said that it goes on without the machine.
    fn ask_to_spare(&self, api: &Api, machine: &MachineName) -> Result<Asked, StepError> {
        let Asked { facts, doors, last } = self.ask_etcd(api, machine)?;
        facts
            .may_lose(machine)
            .map_err(|risk| endangered(machine, &risk))?;
        Ok(Asked { facts, doors, last })
    }

    /// What etcd says of its members, and the control planes whose etcd can be spoken to.
    fn ask_etcd(&self, api: &Api, machine: &MachineName) -> Result<Asked, StepError> {
        let (doors, mut last) = self.doors(machine);
        let mut asked = None;
        for (_, door) in &doors {
            match api.etcd_members(door) {
                Ok(members) => {
                    asked = Some(self.known(machine).facts(&members));
                    break;
                }
                Err(error) => last = Some(refused("etcd was not heard", &error)),
            }
        }
        let Some(facts) = asked else {
            let words = format!("etcd could not be asked, so {machine} is left as it is");
            return Err(unsaved(words, last));
        };
        Ok(Asked { facts, doors, last })
    }

    /// The machines by which members are known, among them those that were made since the look.
    fn known(&self, machine: &MachineName) -> Machines {
        let file = self.cluster().machines().map(|machine| machine.name);
        let basis = self.basis().ok();
        let address = basis
            .as_ref()
            .and_then(|basis| basis.roster.address(machine));
        let address = address.and_then(|address| address.parse().ok());
        lock(&self.machines).clone().with(file, machine, address)
    }

    /// A snapshot of etcd is in the state folder. Before a machine is emptied, etcd can do without it.
    pub(super) fn save_etcd(
        &self,
        machine: &MachineName,
        before: SnapshotBefore,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        if before == SnapshotBefore::Removal {
            self.save_if_possible(machine, REMOVAL, attendant);
            return Ok(());
        }
        let api = self.api()?;
        let asked = match before {
            SnapshotBefore::Renewal => self.ask_etcd(&api, machine)?,
            SnapshotBefore::Repair => return self.save_before_repair(&api, machine, attendant),
            SnapshotBefore::Reset | SnapshotBefore::Removal => self.ask_to_spare(&api, machine)?,
        };
        let Asked {
            facts,
            mut doors,
            last,
        } = asked;
        doors.retain(|(seat, _)| {
            let mut members = facts.members.values();
            members.any(|member| member.may_be_of(seat) && member.health == Health::Healthy)
        });
        let saved = self.save_from_any(&api, machine, doors, last, attendant);
        saved.map_err(Unsaved::into_error)
    }

    /// A snapshot where etcd may be as silent as the API server: what keeps it from answering is what the renewal of its
    /// certificates repairs.
    fn save_before_repair(
        &self,
        api: &Api,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let (doors, last) = self.doors(machine);
        match self.save_from_any(api, machine, doors, last, attendant) {
            Err(Unsaved::Etcd(error)) => {
                let what = format!(
                    "saved no snapshot of etcd before the certificates of {machine} are renewed, since etcd does not \
                     answer"
                );
                self.note_unsaved(what, &error.causes, attendant);
                Ok(())
            }
            saved => saved.map_err(Unsaved::into_error),
        }
    }

    /// Saves a snapshot before something that goes on where that fails: a broken cluster must be removable, and a control
    /// plane that was half made can be made again.
    fn save_if_possible(&self, machine: &MachineName, when: &str, attendant: &dyn Attend) {
        let saved = self.any_api(machine).and_then(|api| {
            let (doors, last) = self.doors(machine);
            let saved = self.save_from_any(&api, machine, doors, last, attendant);
            saved.map_err(|unsaved| match unsaved {
                // Its own words say that the machine is left as it is.
                Unsaved::Etcd(mut error) => {
                    error.words = "etcd gave no snapshot".into();
                    error
                }
                Unsaved::Folder(error) => error,
            })
        });
        if let Err(error) = saved {
            let what = format!("saved no snapshot of etcd before {when}: {}", error.words);
            self.note_unsaved(what, &error.causes, attendant);
        }
    }

    /// The API server by the kubeconfig that we hold, or else by the one that is on the machine: an init that was cut off
    /// has given us none.
    fn any_api(&self, machine: &MachineName) -> Result<Arc<Api>, StepError> {
        let held = self.api();
        if held.is_ok() {
            return held;
        }
        let Some(admin) = self.read_admin(machine) else {
            return held;
        };
        let api = Api::connect(admin.reveal(), None)
            .map_err(|error| refused("the kubeconfig of the machine cannot be read", &error))?;
        Ok(Arc::new(api))
    }

    /// Saves a snapshot before a control plane is emptied that kubeadm did not finish, or whose reset was cut off: no step
    /// of the plan saves what it holds. One snapshot of a run is enough.
    pub(super) fn save_half_made(
        &self,
        machine: &MachineName,
        told: &Told,
        attendant: &dyn Attend,
    ) {
        let is_seat = matches!(told, Told::Facts(facts) if facts.control_plane);
        if is_seat && is_half_way(told) && lock(&self.snapshots).is_empty() {
            self.save_if_possible(machine, &format!("{machine} is reset"), attendant);
        }
    }

    /// Saves a snapshot before a control plane is released that was silent at planning: no step of the plan saves what it
    /// holds. One snapshot of a run is enough.
    pub(super) fn save_before_release(
        &self,
        machine: &MachineName,
        facts: &Facts,
        attendant: &dyn Attend,
    ) {
        if facts.control_plane && lock(&self.snapshots).is_empty() {
            self.save_if_possible(machine, REMOVAL, attendant);
        }
    }

    /// Tells now, and at the end of the run, that there is no snapshot.
    fn note_unsaved(&self, what: String, causes: &[String], attendant: &dyn Attend) {
        let causes = causes.iter().map(|cause| format!(": {cause}"));
        let words = causes.fold(what, |words, cause| words + &cause);
        attendant.hear(News::Line(words.clone()));
        self.note(words);
    }

    fn save_from_any(
        &self,
        api: &Api,
        machine: &MachineName,
        doors: Vec<(MachineName, EtcdDoor)>,
        mut last: Option<StepError>,
        attendant: &dyn Attend,
    ) -> Result<(), Unsaved> {
        for (seat, door) in doors {
            match self.save_from(api, &door, machine) {
                Ok((path, size)) => {
                    let path = path.display();
                    attendant.hear(News::Line(format!(
                        "saved a snapshot of etcd from {seat} ({size} bytes) as {path}"
                    )));
                    return Ok(());
                }
                Err(Unsaved::Etcd(error)) => last = Some(error),
                // Another control plane's would not be written either.
                Err(folder @ Unsaved::Folder(_)) => return Err(folder),
            }
        }
        let words = format!("no snapshot of etcd could be saved, so {machine} is left as it is");
        Err(Unsaved::Etcd(unsaved(words, last)))
    }

    fn save_from(
        &self,
        api: &Api,
        door: &EtcdDoor,
        machine: &MachineName,
    ) -> Result<(std::path::PathBuf, u64), Unsaved> {
        let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let name = state::snapshot_name(&now.to_string(), machine);
        let mut size = 0;
        let mut failed = None;
        let kept = self.state.keep_snapshot(&name, |out| {
            api.save_snapshot(door, out)
                .map(|saved| size = saved)
                .map_err(|error| {
                    failed = Some(refused("etcd gave no snapshot", &error));
                    io::Error::other("etcd gave no snapshot")
                })
        });
        match (kept, failed) {
            (Ok(path), _) => {
                lock(&self.snapshots).push(path.clone());
                Ok((path, size))
            }
            (Err(_), Some(failure)) => Err(Unsaved::Etcd(failure)),
            (Err(error), None) => {
                let words = "the snapshot could not be written";
                let error = StepError::new(ErrorClass::Refused, words).because(&error);
                Err(Unsaved::Folder(error))
            }
        }
    }

    /// How to speak to the etcd of a control plane.
    fn etcd_door(&self, machine: &MachineName) -> Result<EtcdDoor, StepError> {
        let none: [&str; 0] = [];
        let output = self
            .session(machine)?
            .output(&Command::script(DOOR_SCRIPT, none).within(DOOR))
            .map_err(|error| lost(machine.as_str(), &error))?;
        read_door(&output.out).ok_or_else(|| {
            StepError::new(
                ErrorClass::Unreachable,
                format!("{machine} does not tell how to speak to its etcd"),
            )
        })
    }
}

/// What [`DOOR_SCRIPT`] printed.
fn read_door(text: &str) -> Option<EtcdDoor> {
    let mut lines = text.lines().map(str::to_owned);
    let (authority, certificate, key) = (lines.next()?, lines.next()?, lines.next()?);
    let urls = lines.next()?;
    let server = urls.split(',').next()?.trim().trim_matches('"').to_owned();
    // Nothing but an address is asked for: the machine says where we connect to.
    let place = server.strip_prefix("https://")?;
    place.parse::<std::net::SocketAddr>().ok()?;
    Some(EtcdDoor {
        server,
        authority,
        certificate,
        key: Secret::new(key),
    })
}

/// What etcd said when it was asked whether it goes on without a machine.
struct Asked {
    facts: EtcdFacts,
    /// The control planes whose etcd can be spoken to.
    doors: Vec<(MachineName, EtcdDoor)>,
    /// The last failure on the way.
    last: Option<StepError>,
}

/// Why a machine must not be emptied now. A member may be coming back, so it is looked at again for a while.
fn endangered(machine: &MachineName, risk: &Risk) -> StepError {
    let words = match risk {
        Risk::Last => format!("{machine} is the last member of etcd"),
        Risk::NoMajority { healthy, others } => format!(
            "only {healthy} of the {others} other members of etcd are healthy, so it cannot do without {machine}"
        ),
        Risk::Unmatched { member } => {
            format!("etcd's member `{member}` is on no known machine: it may be on {machine}")
        }
    };
    StepError::new(ErrorClass::NotYet, words)
        .hint("see `mullion kubectl get pods -n kube-system -l component=etcd`; nothing was reset")
}

/// Why there is no snapshot.
enum Unsaved {
    /// etcd gave none.
    Etcd(StepError),
    /// The state folder did not take it.
    Folder(StepError),
}

impl Unsaved {
    fn into_error(self) -> StepError {
        match self {
            Self::Etcd(error) | Self::Folder(error) => error,
        }
    }
}

fn unsaved(words: String, cause: Option<StepError>) -> StepError {
    let mut error = StepError::new(ErrorClass::Unreachable, words).hint(
        "check that a control plane can be logged in to, that port 2379 of it can be reached from here, and that the \
         state folder has room",
    );
    if let Some(cause) = cause {
        error.causes.push(cause.words);
        error.causes.extend(cause.causes);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_04_down_goes_on_where_no_snapshot_can_be_saved() {
        let scene = super::super::made::Scene::new(
            "metadata: {name: ours}\nmachines:\n- {name: cp, role: control-plane}\n",
        );
        let adapter = scene.adapter();
        let machine = "cp1".parse().unwrap();
        let save = |before| adapter.save_etcd(&machine, before, &mullion_plan::Unattended);
        // There is no kubeconfig, and no control plane answers.
        assert!(save(SnapshotBefore::Reset).is_err());
        assert_eq!(save(SnapshotBefore::Removal), Ok(()));
        let notes = adapter.take_notes();
        assert_eq!(notes.len(), 1);
        let words = "saved no snapshot of etcd before the cluster is removed: ";
        assert!(notes[0].starts_with(words), "{notes:?}");
    }

    #[test]
    fn promise_04_a_control_plane_that_answers_only_during_down_is_saved_once() {
        let scene = super::super::made::Scene::new(
            "metadata: {name: ours}\nmachines:\n- {name: cp, role: control-plane, addresses: [192.0.2.1]}\n",
        );
        let adapter = scene.adapter();
        let machine = "cp1".parse().unwrap();
        let attempts = |control_plane| {
            let facts = Facts {
                control_plane,
                ..Facts::default()
            };
            adapter.save_before_release(&machine, &facts, &mullion_plan::Unattended);
            adapter.take_notes().len()
        };
        // No control plane answers here, so each attempt leaves a note.
        assert_eq!(attempts(true), 1);
        assert_eq!(attempts(false), 0, "a worker holds nothing");
        lock(&adapter.snapshots).push("1-before-cp2.db".into());
        assert_eq!(attempts(true), 0, "one is enough");
    }

    #[test]
    fn promise_04_a_half_made_control_plane_is_saved_if_possible_before_it_is_emptied() {
        use mullion_wire::KubeadmPhase::{Begun, Finished, Resetting};
        let scene = super::super::made::Scene::new(
            "metadata: {name: ours}\nmachines:\n- {name: cp, role: control-plane, addresses: [192.0.2.1]}\n",
        );
        let adapter = scene.adapter();
        let machine = "cp1".parse().unwrap();
        let notes = |kubeadm, control_plane| {
            let facts = Facts {
                kubeadm,
                control_plane,
                ..Facts::default()
            };
            let told = Told::Facts(Box::new(facts));
            adapter.save_half_made(&machine, &told, &mullion_plan::Unattended);
            adapter.take_notes()
        };
        // A worker holds nothing, and the plan saves a whole control plane in a step of its own.
        for (kubeadm, control_plane) in [
            (Some(Begun), false),
            (Some(Finished), true),
            (None, true),
            (None, false),
        ] {
            assert_eq!(notes(kubeadm, control_plane), [""; 0]);
        }
        // No control plane answers here. That is told, and keeps nothing from going on.
        let told = notes(Some(Begun), true);
        assert_eq!(told.len(), 1);
        let words = "saved no snapshot of etcd before cp1 is reset: ";
        assert!(told[0].starts_with(words), "{told:?}");
        // So is a reset that was cut off.
        let again = scene.adapter();
        let facts = Facts {
            kubeadm: Some(Resetting),
            control_plane: true,
            ..Facts::default()
        };
        let told = Told::Facts(Box::new(facts));
        again.save_half_made(&machine, &told, &mullion_plan::Unattended);
        assert_eq!(again.take_notes().len(), 1);
        lock(&adapter.snapshots).push("1-before-cp2.db".into());
        assert_eq!(notes(Some(Begun), true).len(), 0, "one is enough");
    }

    #[test]
    fn a_door_is_read_from_what_the_machine_prints() {
        let text = "YQ==\nYg==\nYw==\nhttps://10.99.0.2:2379,https://127.0.0.1:2379\n";
        let door = read_door(text).unwrap();
        assert_eq!(door.server, "https://10.99.0.2:2379");
        assert_eq!(
            (door.authority.as_str(), door.key.reveal()),
            ("YQ==", "Yw==")
        );
        for bad in [
            "",
            "YQ==\nYg==\nYw==\n",
            "YQ==\nYg==\nYw==\nhttp://10.99.0.2:2379\n",
            "YQ==\nYg==\nYw==\nhttps://elsewhere.example/path\n",
        ] {
            assert!(read_door(bad).is_none(), "{bad}");
        }
    }
}
