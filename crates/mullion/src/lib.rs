//! The command line: arguments, commands, and the views they print.
//!
//! [`run`] is the whole program as a function of its arguments, its environment and its streams, so
//! that a test runs it without a process. Commands look at the world through [`mod@file`],
//! [`surroundings`] and [`doctor`], hand values to the pure crates, and show what comes back in one of
//! three forms: for people, plain, or as JSON.
//!
//! What holds always: data goes to standard output and everything else to standard error; the exit
//! code is the [`failure::Class`]'s; a command that asks does so only where somebody can answer, and without an answer
//! does nothing.
//!
//! # Current limitations
//!
//! - Windows machines are planned and not made.
//! - `up` works on this computer and on machines that exist already; hosts of the file are not used yet.

pub mod agent_program;
pub mod arguments;
pub mod commands;
pub mod conduct;
pub mod consent;
pub mod console;
pub mod doctor;
pub mod elevation;
pub mod environment;
pub mod failure;
pub mod file;
pub mod guard;
pub mod invocation;
pub mod links;
mod lookup;
pub mod output_file;
pub mod saved_plan;
pub mod shell;
pub mod signals;
pub mod surroundings;
pub mod views;
pub mod windows_parts;
pub mod workshop;

use std::ffi::OsString;
use std::io::{self, Read, Write};

use clap::Parser as _;
use mullion_spec::render::Colour;

use arguments::{Arguments, Command, Global};
use console::{Console, Format, Presence};
use environment::Environment;
use failure::{Class, Failure};
use file::{Aim, Judged};
use guard::Guard;
use invocation::Invocation;

/// The streams of one invocation, and which of them are terminals.
pub struct Streams<'a> {
    /// Standard input.
    pub input: &'a mut dyn Read,
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// Whether standard input and standard error lead to a person.
    pub is_attended: bool,
    /// Whether standard output is a terminal.
    pub out_is_terminal: bool,
    /// Whether standard error is a terminal.
    pub err_is_terminal: bool,
}

/// Runs one invocation; its exit code.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &Environment,
    streams: &mut Streams<'_>,
) -> u8 {
    let colour = |is_terminal: bool| {
        if is_terminal && !environment.is_colourless && !environment.is_dumb {
            Colour::Styled
        } else {
            Colour::Plain
        }
    };
    let (out_colour, err_colour) = (
        colour(streams.out_is_terminal),
        colour(streams.err_is_terminal),
    );
    let mut out = Tolerant(&mut *streams.out);
    let mut err = Tolerant(&mut *streams.err);
    let mut out = Guard::new(&mut out, out_colour);
    let mut err = Guard::new(&mut err, err_colour);
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        format: Format::Text,
        out_colour,
        err_colour,
        presence: if streams.is_attended && !environment.is_ci && !environment.is_dumb {
            Presence::Attended
        } else {
            Presence::Unattended
        },
    };
    let typed: Vec<_> = arguments.into_iter().collect();
    let arguments = match Arguments::try_parse_from(&typed) {
        Ok(arguments) => arguments,
        Err(error) => return refuse_arguments(&mut console, &error),
    };
    if arguments.global.json {
        console.format = Format::Json;
    }
    let is_named = arguments.global.cluster.is_some();
    if (is_named || arguments.command.uses_state())
        && let Err(failure) = environment.check_state()
    {
        return told(&mut console, &failure);
    }
    let environment = match environment.beside(&arguments.global) {
        Ok(environment) => environment,
        Err(error) => {
            let words = "the state of the cluster cannot be read";
            let failure = Failure::new(Class::ThisComputer, words).because(&error);
            return told(&mut console, &failure);
        }
    };
    let result = dispatch(
        arguments,
        &typed,
        &environment,
        &mut *streams.input,
        &mut console,
    );
    match result {
        Ok(code) => code,
        Err(failure) => told(&mut console, &failure),
    }
}

/// Tells a failure; gives its exit code.
fn told(console: &mut Console<'_>, failure: &Failure) -> u8 {
    // Where the failure itself cannot be written there is nobody left to tell.
    let _ = match console.format {
        Format::Json => console.json("Failure", failure),
        Format::Text => write!(console.err, "{failure}"),
    };
    failure.class.exit_code()
}

/// Help and the version are answers; everything else that clap has to say is about a mistake.
fn refuse_arguments(console: &mut Console<'_>, error: &clap::Error) -> u8 {
    let rendered = error.render();
    let text = |colour| match colour {
        Colour::Styled => rendered.ansi().to_string(),
        Colour::Plain => rendered.to_string(),
    };
    let (stream, colour, code): (&mut dyn Write, _, _) = if error.use_stderr() {
        (
            &mut *console.err,
            console.err_colour,
            Class::Usage.exit_code(),
        )
    } else {
        (&mut *console.out, console.out_colour, 0)
    };
    let _ = write!(stream, "{}", text(colour));
    code
}

/// Does what was asked for.
fn dispatch(
    arguments: Arguments,
    typed: &[OsString],
    environment: &Environment,
    input: &mut dyn Read,
    console: &mut Console<'_>,
) -> Result<u8, Failure> {
    let Arguments { global, command } = arguments;
    let invocation = Invocation::new(typed, &global, command.patience());
    let aim = if command.makes() { Aim::Make } else { Aim::Use };
    let mut judged = || {
        let judged = judge(&global, aim, environment, input)?;
        if let Some(model) = &judged.judgement.model {
            // What may not be used or read is refused before anything is done.
            environment.cache_of(model.cluster())?;
            links::refuse_for_root(model.cluster(), environment)?;
        }
        Ok::<_, Failure>(judged)
    };
    match command {
        Command::Init(wishes) => commands::init::init(
            console,
            &wishes,
            global.file.as_deref(),
            &environment.folder,
        ),
        Command::Validate => {
            let judgement = judged()?.judgement;
            commands::validate::validate(console, &judgement)
        }
        Command::Plan(wishes) => {
            let judgement = judged()?.judgement;
            let detail = if global.verbose {
                views::plan::Detail::Durations
            } else {
                views::plan::Detail::Usual
            };
            commands::plan::plan(console, &judgement, &wishes, environment, detail)
        }
        Command::Up(wishes) => {
            let judged = judged()?;
            commands::up::up(console, &judged, &wishes, environment, invocation)
        }
        Command::Status => {
            let judgement = judged()?.judgement;
            commands::status::status(console, &judgement, environment)
        }
        Command::Down(wishes) => {
            let judgement = judged()?.judgement;
            commands::down::down(console, &judgement, &wishes, environment, invocation)
        }
        Command::Node(wishes) => {
            let judged = judged()?;
            let file = global.file.as_deref();
            commands::node::node(console, &judged, &wishes, file, environment, invocation)
        }
        Command::Ssh(wishes) => {
            let judgement = judged()?.judgement;
            commands::ssh::ssh(console, &judgement, &wishes, environment)
        }
        Command::Console(wishes) => {
            let judgement = judged()?.judgement;
            commands::machine_console::machine_console(console, &judgement, &wishes, environment)
        }
        Command::Kubeconfig(wishes) => {
            let judgement = judged()?.judgement;
            commands::kubeconfig::kubeconfig(console, &judgement, &wishes, environment)
        }
        Command::Kubectl(wishes) => {
            let judgement = judged()?.judgement;
            commands::kubectl::kubectl(console, &judgement, &wishes, environment)
        }
        Command::Runs(wishes) => commands::runs::runs(console, &wishes, environment),
        Command::Artifacts(wishes) => {
            let judgement = judged()?.judgement;
            commands::artifacts::artifacts(console, &judgement, &wishes, environment, invocation)
        }
        Command::Doctor(wishes) => {
            let judgement = judged()?.judgement;
            commands::doctor::doctor(console, &judgement, &wishes, environment)
        }
        Command::Catalog(wishes) => commands::catalog::catalog(console, &wishes),
        Command::Explain(wishes) => commands::explain::explain(console, wishes.code.as_deref()),
        Command::Completions(wishes) => commands::completions::completions(console, wishes.shell),
        Command::Version => commands::version::version(console),
        Command::RestoreNetwork(wishes) => {
            commands::restore_network::restore_network(console, wishes)
        }
    }
}

fn judge(
    global: &Global,
    aim: Aim,
    environment: &Environment,
    input: &mut dyn Read,
) -> Result<Judged, Failure> {
    let source = match &global.cluster {
        Some(cluster) => Ok(file::of_cluster(cluster, &environment.state)?),
        None => file::read(global.file.as_deref(), &environment.folder, input),
    };
    match source {
        Ok(source) => Judged::here(source, environment, aim),
        Err(verdict) => Ok(Judged::unreadable(*verdict)),
    }
}

/// A stream whose reader may have gone: `mullion catalog | head` is not a failure.
struct Tolerant<'a>(&'a mut dyn Write);

impl Write for Tolerant<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}
