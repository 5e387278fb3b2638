//! The program `mullion`: the process around [`mullion::run`].

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mullion::Streams;
use mullion::elevation;
use mullion::environment::Environment;
use mullion::failure::Class;

/// A plan of thousands of machines is a great many small values.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A variable of the environment. Where there is no home folder in it, the computer's database has one: the folder of
/// the command may be somebody else's repository, with a state folder that they made.
fn variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name);
    if name != "HOME" {
        return value;
    }
    let given = value.filter(|home| Path::new(home).is_absolute());
    given.or_else(|| mullion_rights::home().map(PathBuf::into_os_string))
}

fn main() -> ExitCode {
    panic::set_hook(Box::new(|info| {
        // Standard error may be closed; a panic inside the hook would abort without our exit code.
        let _ = writeln!(
            io::stderr(),
            "mullion: this is a bug of ours: {info}\n\n\
             hint: please report it with the command that you gave and the line above; mullion {}",
            env!("CARGO_PKG_VERSION")
        );
    }));
    mullion_rights::restrict_umask();
    let code = panic::catch_unwind(AssertUnwindSafe(|| {
        let folder = std::env::current_dir().unwrap_or_else(|_| ".".into());
        let environment = Environment::new(folder, variable);
        // Before there are threads: each has the rights of the one that starts it.
        if let Err(failure) = elevation::act_for_invoker(&environment) {
            let _ = write!(io::stderr(), "{failure}");
            return failure.class.exit_code();
        }
        // Results are written at once, not line by line: a long catalog is thousands of lines.
        let mut out = io::BufWriter::new(io::stdout().lock());
        let mut err = io::stderr().lock();
        let mut streams = Streams {
            input: &mut io::stdin().lock(),
            out: &mut out,
            err: &mut err,
            is_attended: io::stdin().is_terminal() && io::stderr().is_terminal(),
            out_is_terminal: io::stdout().is_terminal(),
            err_is_terminal: io::stderr().is_terminal(),
        };
        let code = mullion::run(std::env::args_os(), &environment, &mut streams);
        match out.flush() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let _ = writeln!(
                    err,
                    "error: the output could not be written\n  because: {error}"
                );
                Class::ThisComputer.exit_code()
            }
            _ => code,
        }
    }));
    ExitCode::from(code.unwrap_or(Class::OurBug.exit_code()))
}
