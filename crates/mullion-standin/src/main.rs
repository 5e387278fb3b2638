//! The stand-in's program.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use mullion_standin::cri::{self, Gateway, Images, Map, OsVersion};
use mullion_standin::drive::Drive;
use mullion_standin::settings::{self, Settings};
use mullion_standin::sftp;
use mullion_standin::shell::{self, Start};
use tokio::signal::unix::{SignalKind, signal};

/// Makes a system container look like a Windows machine.
///
/// It can be the login shell of a user: called with `-c LINE`, or as login programs are, it is `shell`.
#[derive(Debug, Parser)]
#[command(name = "mullion-standin", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Stand between kubelet.exe and a Linux container runtime
    Cri(Cri),
    /// Run a line by Windows' cmd, or an interactive one
    Shell {
        /// The line; without it what sshd was asked for, if it forces this command, else none
        #[arg(short = 'c', value_name = "LINE", allow_hyphen_values = true)]
        line: Option<String>,
        #[command(flatten)]
        file: SettingsFile,
    },
    /// Serve SFTP on standard input and output
    Sftp {
        #[command(flatten)]
        file: SettingsFile,
    },
}

#[derive(Debug, Args)]
struct SettingsFile {
    /// The stand-in's settings
    #[arg(long, value_name = "FILE", default_value = settings::FILE)]
    config: PathBuf,
}

#[derive(Debug, Args)]
struct Cri {
    /// Where kubelet.exe asks; on loopback, since whoever may ask is root on the machine
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = on_loopback)]
    listen: SocketAddr,
    /// The container runtime's socket
    #[arg(
        long,
        value_name = "SOCKET",
        default_value = "/run/containerd/containerd.sock"
    )]
    containerd: PathBuf,
    /// The folder of drive C:
    #[arg(long, value_name = "FOLDER")]
    drive: PathBuf,
    /// The build of the Windows that the machine stands in for
    #[arg(long, value_name = "NUMBER")]
    build: u32,
    /// Its revision
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    revision: u32,
    /// The table of Windows images
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// How many processors the machine has; those that are found otherwise
    #[arg(long, value_name = "NUMBER")]
    processors: Option<usize>,
}

fn on_loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|error| format!("{error}"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("it is not on loopback".into())
    }
}

/// What failed, as it is told.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(with_shell(env::args_os().collect()));
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            let mut cause: Option<&dyn Error> = Some(&*error);
            while let Some(error) = cause {
                log(&error.to_string());
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// A login shell is called without the name of its part.
fn with_shell(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_login = words
        .first()
        .is_some_and(|program| program.as_encoded_bytes().starts_with(b"-"));
    let has_line = words.get(1).is_some_and(|word| word == "-c");
    if is_login || has_line {
        words.insert(1, "shell".into());
    }
    words
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Cri(arguments) => gateway(&arguments)?,
        Command::Shell { line, file } => {
            // Set by sshd where its settings force this command upon everyone.
            let line = line.or_else(|| env::var("SSH_ORIGINAL_COMMAND").ok());
            let own = env::current_exe()?;
            let subsystem = line
                .as_deref()
                .and_then(|line| shell::sftp_arguments(line, &own));
            if let Some(words) = subsystem {
                let words = ["mullion-standin", "sftp"].into_iter().chain(words);
                return run(Arguments::try_parse_from(words)?.command);
            }
            let settings = Settings::read(&file.config)?;
            let start = Start::new(&settings, line.as_deref())?;
            return match line {
                Some(_) => Ok(start.run()?.into()),
                None => Err(start.become_it().into()),
            };
        }
        Command::Sftp { file } => files(&file.config)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn files(config: &Path) -> Result<(), Failure> {
    let settings = Settings::read(config)?;
    let drive = Drive::open(&settings.drive())?;
    let home = settings.home()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stream = tokio::io::join(tokio::io::stdin(), tokio::io::stdout());
    runtime.block_on(sftp::serve(stream, drive, home));
    Ok(())
}

fn gateway(arguments: &Cri) -> Result<(), Failure> {
    let drive = Drive::open(&arguments.drive)?;
    let folder = drive.folder().to_str();
    let folder = folder.ok_or("the drive's folder has a name that is no text")?;
    let images = match &arguments.images {
        Some(file) => Images::parse(&fs_err::read_to_string(file)?)?,
        None => Images::default(),
    };
    let processors = match arguments.processors {
        Some(processors) => processors,
        None => std::thread::available_parallelism()?.get(),
    };
    let map = Map::new(
        folder.to_owned(),
        {
            let drive = drive.clone();
            move |path| Ok(drive.locate(path)?.display().to_string())
        },
        OsVersion::of_build(arguments.build, arguments.revision),
        processors,
        images,
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let gateway = Gateway::new(map, &arguments.containerd, log)?;
        let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
        log(&format!("listens on {}", listener.local_addr()?));
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let end = async move {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
        };
        cri::serve(listener, gateway, end).await
    })?;
    Ok(())
}

fn log(line: &str) {
    // Nobody is left to be told.
    let _ = writeln!(io::stderr(), "mullion-standin: {line}");
}
