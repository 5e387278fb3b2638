//! Memory that runs out: told with the machine and the way out, and the next request goes on.

use std::rc::Rc;

use mullion_wire::{Event, Request, UserCommand};

use super::fixtures::*;
use crate::failure::AgentError;
use crate::system::memory::Memory;
use crate::system::{Ended, Program, SystemError};

fn eat() -> Request {
    let command = UserCommand {
        run: "tail /dev/zero".into(),
        mark: "mark".into(),
    };
    Request::Run {
        commands: vec![command],
        list: "before".into(),
    }
}

/// A machine whose shell ends that way, with memory run out or not.
fn hungry(ended: Ended, is_starved: bool) -> Memory {
    let machine = machine();
    let shell = move |machine: &Memory, _: &Program, on_line: &mut dyn FnMut(&str)| {
        on_line("it grows");
        if is_starved {
            machine.starve();
        }
        Ok(ended)
    };
    machine.put_program("sh", Rc::new(shell));
    machine
}

fn told(machine: &Memory) -> (String, Vec<String>, String, Vec<String>) {
    let (_, events) = ask(machine, &eat());
    failed(&events)
}

#[test]
fn memory_that_ran_out_is_told_and_the_next_request_goes_on() {
    // A shell says 137 of what was killed; a program may fail because one of its own was.
    for ended in [Ended::Signal(9), Ended::Status(137), Ended::Status(1)] {
        let machine = hungry(ended, true);
        let (words, causes, hint, tail) = told(&machine);
        assert_eq!(words, "memory ran out on lin1");
        assert_eq!(causes, [format!("command 1 of `before` {ended}")]);
        assert!(hint.starts_with("give lin1 more memory (`memory` of its group"));
        assert_eq!(tail, ["it grows"]);
        machine.put_program("sh", Rc::new(|_, _, _| Ok(Ended::Status(0))));
        assert_eq!(ask_well(&machine, &eat()).0, 1);
    }
}

#[test]
fn a_program_that_was_killed_without_a_word_about_memory_is_told_with_caution() {
    for ended in [Ended::Signal(9), Ended::Status(137)] {
        let (words, causes, hint, _) = told(&hungry(ended, false));
        let said = "was ended by signal 9, as the system does where memory runs out";
        assert_eq!(words, format!("a program on lin1 {said}"));
        assert_eq!(causes, [format!("command 1 of `before` {ended}")]);
        assert!(hint.starts_with("if nobody killed it, give lin1 more memory"));
    }
    let (words, ..) = told(&hungry(Ended::Signal(15), false));
    assert_eq!(words, "command 1 of `before` was ended by signal 15");
}

#[test]
fn a_service_that_fails_while_memory_runs_out_is_told_so() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    machine.break_service("containerd");
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(!words.contains("memory"), "{words}");
    machine.starve_services();
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(words.starts_with("memory ran out on lin1\n"), "{words}");
    assert!(
        words.contains("the service `containerd` could not be"),
        "{words}"
    );
    machine.mend_service("containerd");
    ask_well(&machine, &apply(&blueprint()));
}

#[test]
fn what_nobody_killed_keeps_its_own_remedy_too() {
    let source = AgentError::Packages {
        names: vec!["socat".into()],
        source: Box::new(SystemError::NoProgram("apt-get".into())),
    };
    let error = AgentError::MemoryRanOut {
        machine: "lin1".into(),
        source: Box::new(source),
    };
    let Event::Failed { hint, .. } = error.event() else {
        panic!("{error:?}");
    };
    let hint = hint.unwrap();
    assert!(hint.starts_with("check that the machine reaches its package sources"));
    assert!(hint.contains("; or give lin1 more memory"), "{hint}");
}
