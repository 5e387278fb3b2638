//! A stand-in for Windows boots, and a login is as on Windows.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mullion_machines::{Driver as _, Look as _, MachineWish, Stop};
use mullion_plan::{Fingerprint, TemplateId, Unattended};
use mullion_ssh::{
    Command, Key, Login, Probe, Put, ReadTransport as _, Session, Shell, Ssh, Transport as _,
};
use mullion_template::{
    DriveContent, DriveFile, Face, LinuxTemplate, Program, StandInTemplate, Templates,
};

use crate::ground::{Ground, apart, files};

/// Where the agent of a Windows machine is.
const AGENT: &str = r"C:\Program Files\mullion-agent\mullion-agent.exe";

/// The template of stand-ins, made by the first that needs it.
fn template() -> (TemplateId, PathBuf) {
    let folder = |name: &str| PathBuf::from(std::env::var_os(name).expect(name));
    let (parts, own) = (
        folder("MULLION_TEST_PARTS"),
        folder("MULLION_TEST_STAND_IN"),
    );
    let programs: Vec<_> = files(&parts.join("bin"))
        .into_iter()
        .map(|path| Program::new(path.file_name().unwrap().to_str().unwrap(), path.as_path()))
        .collect();
    let program = fs_err::read(own.join("mullion-standin")).unwrap();
    let id = TemplateId {
        name: "test-stand-in".into(),
        fingerprint: Fingerprint::of(&program),
    };
    let wish = StandInTemplate {
        linux: LinuxTemplate {
            id: id.clone(),
            root_tar: own.join("root.tar").into(),
            programs,
            images: vec![parts.join("images/pause.tar").into()],
        },
        face: Face {
            build: 20348,
            revision: 3807,
            product: "Windows Server 2022 Datacenter".into(),
            edition: "ServerDatacenter".into(),
            desktop: false,
        },
        program,
        drive: vec![DriveFile {
            path: "ProgramData/mullion/hello.txt".into(),
            content: DriveContent::Bytes(b"hello\r\n".to_vec()),
        }],
        containerd: "version = 3\n".into(),
        cri_port: 2376,
        write_network: "exit 0\n".into(),
        images: Vec::new(),
    };
    let begun = Instant::now();
    let templates = Templates::new(own.join("templates"));
    let path = templates.build_stand_in(&wish, &Unattended).unwrap();
    println!("template {:.1?}", begun.elapsed());
    (id, path)
}

fn connect(ground: &Ground, wish: &MachineWish) -> Session {
    let door = ground.stand_ins().door(&wish.cluster, &wish.name).unwrap();
    let mut login = Login::new(door.user, door.address, Key::File(ground.key_path()));
    login.host_key = door.host_key;
    let login = login.shell(Shell::Cmd {
        agent: AGENT.into(),
    });
    Ssh::new().unwrap().connect(&login).unwrap()
}

fn said(session: &Session, line: &[&str]) -> (i32, String) {
    let command = Command::new(line[0]).args(line[1..].iter().copied());
    let output = session
        .output(&command.within(Duration::from_mins(1)))
        .unwrap();
    (output.exit.status, output.out + &output.err)
}

/// The agent is put in place once, tells digests of others, and says what it is on.
fn bring_the_agent(session: &Session) {
    let own = PathBuf::from(std::env::var_os("MULLION_TEST_STAND_IN").unwrap());
    let bytes = fs_err::read(own.join("mullion-agent.exe")).unwrap();
    let begun = Instant::now();
    let put = || session.put_bytes(AGENT, &bytes, 0o755).unwrap();
    assert_eq!(put(), Put::Sent);
    println!("the agent is put in place {:.2?}", begun.elapsed());
    assert_eq!(put(), Put::AlreadyThere);
    let file = "C:/k/a folder/file.txt";
    assert_eq!(session.put_bytes(file, b"text", 0o644).unwrap(), Put::Sent);
    assert_eq!(session.put_bytes(file, b"more", 0o644).unwrap(), Put::Sent);
    assert_eq!(session.read_file(file, 100).unwrap(), b"more");
    let begun = Instant::now();
    let program = AGENT.to_owned();
    let asked = session.answer(&Probe::AgentFacts { program }).unwrap();
    println!("facts {:.2?}", begun.elapsed());
    assert!(asked.exit.is_success(), "{asked:?}");
    assert!(asked.out.contains("20348"), "{}", asked.out);
    println!("{}", asked.out);
}

/// Whoever goes takes along what they started, as with Windows' own server.
fn what_is_called_off_ends(session: &Session) {
    let runs = || {
        let (status, words) = said(session, &["tasklist"]);
        assert_eq!(status, 0, "{words}");
        words.to_lowercase().contains("ping.exe")
    };
    assert!(!runs());
    let long = Command::new("ping").args(["-n", "300", "127.0.0.1"]);
    let ended = session.output(&long.within(Duration::from_secs(3)));
    assert!(ended.is_err(), "{ended:?}");
    let begun = Instant::now();
    while runs() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it runs on");
    }
}

/// Which start of the machine this is, as its registry tells it.
fn start_count(session: &Session) -> String {
    let key = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
    let (status, words) = said(session, &["reg", "query", key, "/v", "BootId"]);
    assert_eq!(status, 0, "{words}");
    words.split_whitespace().last().unwrap().to_owned()
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_stand_in_is_logged_in_to_as_windows_is() {
    apart(|| {
        let ground = Ground::new("stand-in", 11);
        let (id, path) = template();
        let driver = ground.stand_ins();
        let wish = MachineWish {
            template: id,
            os: mullion_spec::words::Os::Windows,
            template_path: path,
            ..ground.wish("win1", 21)
        };
        driver.make_network(&ground.network(), &Unattended).unwrap();
        driver.make(&wish, &Unattended).unwrap();
        let begun = Instant::now();
        driver
            .start(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        let session = connect(&ground, &wish);
        println!("start to login {:.2?}", begun.elapsed());
        let (status, words) = said(&session, &["ver"]);
        println!("start to the first answer {:.2?}", begun.elapsed());
        assert_eq!(status, 0, "{words}");
        assert!(words.contains("10.0.20348"), "{words}");
        let begun = Instant::now();
        assert!(session.answer(&Probe::Alive).unwrap().exit.is_success());
        println!("an answer {:.2?}", begun.elapsed());

        let name = |session: &Session| said(session, &["hostname"]).1.trim().to_lowercase();
        assert_eq!(name(&session), "win1");
        assert_eq!(said(&session, &["exit", "7"]).0, 7);
        assert_eq!(
            said(&session, &["type", r"C:\ProgramData\mullion\hello.txt"]).1,
            "hello\n"
        );
        let key = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";
        let (status, words) = said(&session, &["reg", "query", key, "/v", "ProductName"]);
        assert_eq!(status, 0, "{words}");
        assert!(words.contains("Windows Server 2022 Datacenter"), "{words}");
        // Nobody has brought an agent yet, and that has the status that other shells have for it.
        let program = AGENT.to_owned();
        let asked = session.answer(&Probe::AgentFacts { program }).unwrap();
        assert_eq!(asked.exit.status, 127, "{asked:?}");
        let text = session
            .read_file("C:/ProgramData/mullion/hello.txt", 100)
            .unwrap();
        assert_eq!(text, b"hello\r\n");
        assert!(session.read_file(r"C:\none", 100).is_err());
        bring_the_agent(&session);
        what_is_called_off_ends(&session);
        assert_eq!(start_count(&session), "0x1");
        drop(session);
        driver
            .stop(&wish.cluster, &wish.name, Stop::Graceful, &Unattended)
            .unwrap();
        driver
            .start(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        let session = connect(&ground, &wish);
        assert_eq!(name(&session), "win1");
        assert_eq!(start_count(&session), "0x2");
        driver
            .remove(&wish.cluster, &wish.name, &Unattended)
            .unwrap();
        ground.remove_all();
    });
}
