use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;

use mullion_spec::render::Colour;
use tempfile::TempDir;

use super::probe::programs::{Answer, Question};
use super::*;
use crate::console::{Format, Presence};

/// A Debian as a folder, on which installing works by making a file of each package's program.
struct Debian {
    folder: TempDir,
    offers: &'static str,
    ran: RefCell<Vec<String>>,
}

impl Debian {
    fn new(uid: u32, offers: &'static str) -> Self {
        let debian = Self {
            folder: TempDir::new().unwrap(),
            offers,
            ran: RefCell::default(),
        };
        debian.write("etc/os-release", "PRETTY_NAME=Debian\nID=debian\n");
        debian.write("proc/self/status", &format!("Uid:\t{uid}\t{uid}\n"));
        debian.program("apt-cache");
        debian
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        path
    }

    fn program(&self, name: &str) {
        let path = self.write(&format!("usr/sbin/{name}"), "");
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn doctor(&self, fix: Fix, format: Format) -> (Result<u8, Failure>, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            format,
            out_colour: Colour::Plain,
            err_colour: Colour::Plain,
            presence: Presence::Unattended,
        };
        let wishes = Wishes {
            fix,
            cache: self.folder.path().into(),
            state: self.folder.path().into(),
            place: self.folder.path().into(),
            machines: BTreeMap::new(),
            media: Vec::new(),
            toolchains: BTreeMap::new(),
            variables: BTreeMap::new(),
        };
        let place = Place {
            root: self.folder.path(),
            variables: &wishes.variables,
            programs: self,
        };
        let result = doctor_at(&mut console, &wishes, &place, Catalog::builtin());
        (
            result,
            String::from_utf8(out).unwrap(),
            String::from_utf8(err).unwrap(),
        )
    }
}

impl Programs for Debian {
    fn ask(&self, question: &Question<'_>) -> Answer {
        let exited = |status, output: &str| Answer::Exited {
            status: Some(status),
            output: output.into(),
            complaint: String::new(),
        };
        let name = question
            .program
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let line = format!("{name} {}", question.arguments.join(" "));
        match name.as_str() {
            "apt-cache" => exited(0, &format!("  Candidate: {}\n", self.offers)),
            "apt-get" => {
                assert_eq!(question.environment["DEBIAN_FRONTEND"], "noninteractive");
                self.ran.borrow_mut().push(line);
                if question
                    .arguments
                    .iter()
                    .any(|argument| argument == "qemu-system-x86")
                {
                    return exited(100, "E: Unable to locate package\n");
                }
                for package in question.arguments {
                    self.program(package);
                }
                exited(0, "")
            }
            _ => exited(0, "go version go1.26.8 linux/amd64\n"),
        }
    }
}

#[test]
fn looking_changes_nothing() {
    let debian = Debian::new(0, "2:1.19~1");
    let (result, out, err) = debian.doctor(Fix::Look, Format::Text);
    assert_eq!(result.unwrap(), 4);
    assert!(out.contains("`mullion doctor --fix`"), "{out}");
    assert!(err.is_empty() && debian.ran.borrow().is_empty());
}

#[test]
fn an_ordinary_user_gets_the_commands_to_type_and_nothing_is_run() {
    let debian = Debian::new(1000, "2:1.19~1");
    let (result, out, _) = debian.doctor(Fix::Install, Format::Text);
    assert_eq!(result.unwrap(), 4);
    assert!(
        out.contains(
            "    sudo apt-get update\n    sudo apt-get install -y --no-install-recommends "
        ),
        "{out}"
    );
    assert!(debian.ran.borrow().is_empty());
}

#[test]
fn root_gets_packages_installed_and_a_failed_command_is_told() {
    let debian = Debian::new(0, "2:1.19~1");
    let (result, out, err) = debian.doctor(Fix::Install, Format::Text);
    let failure = result.unwrap_err();
    assert_eq!(failure.class, Class::ThisComputer);
    assert_eq!(
        failure.what,
        "`apt-get install -y --no-install-recommends qemu-system-x86` failed with status 100"
    );
    assert_eq!(failure.causes, ["E: Unable to locate package"]);
    assert!(
        out.is_empty() && err.starts_with("running `apt-get update`\n"),
        "{err}"
    );
    let ran = debian.ran.borrow();
    assert_eq!(ran.len(), 3);
    assert!(!ran[1].contains("golang-go"), "too old to help: {}", ran[1]);
}

#[test]
fn go_is_installed_where_the_distribution_has_a_new_one() {
    let debian = Debian::new(0, "2:1.26~2");
    debian.program("qemu-system-x86_64");
    let (result, out, err) = debian.doctor(Fix::Install, Format::Json);
    assert_eq!(result.unwrap(), 4, "the kernel of this one has nothing");
    assert!(debian.ran.borrow()[1].contains("golang-go"));
    assert_eq!(err.lines().count(), 2, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["kind"], "Doctor");
    let is_ok = |id: &str| {
        let diagnoses = report["diagnoses"].as_array().unwrap();
        diagnoses
            .iter()
            .any(|found| found["requirement"] == id && found["state"] == "ok")
    };
    assert!(
        is_ok("root-maker"),
        "it was looked at again after installing"
    );
}
