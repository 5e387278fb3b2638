//! What only a program can do: `netsh` alone knows the range of dynamic ports.

use std::time::Duration;

use mullion_wire::{DynamicPorts, Protocol};

use super::super::{Program, Programs, SystemError, run_well};

const PROGRAM: &str = "netsh.exe";
const DEADLINE: Duration = Duration::from_secs(30);

fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// Asks for the range.
pub(super) fn read(
    programs: &(impl Programs + ?Sized),
    protocol: Protocol,
) -> Result<DynamicPorts, SystemError> {
    let args = ["int", "ipv4", "show", "dynamicport", word(protocol)];
    let program = Program::new(PROGRAM, args).within(DEADLINE);
    let mut text = String::new();
    run_well(programs, &program, &mut |line| {
        text.push_str(line);
        text.push('\n');
    })?;
    let (first, count) = numbers(&text).ok_or_else(|| {
        SystemError::Nonsense(format!("`netsh {}` tells no range", args.join(" ")))
    })?;
    Ok(DynamicPorts {
        protocol,
        first,
        count,
    })
}

/// Sets the range.
pub(super) fn set(
    programs: &(impl Programs + ?Sized),
    wanted: DynamicPorts,
) -> Result<(), SystemError> {
    let program = Program::new(
        PROGRAM,
        [
            "int",
            "ipv4",
            "set",
            "dynamicport",
            word(wanted.protocol),
            &format!("start={}", wanted.first),
            &format!("num={}", wanted.count),
        ],
    )
    .within(DEADLINE);
    run_well(programs, &program, &mut |_| {})
}

/// The two numbers behind the last colons: the words before them are in the user's language.
fn numbers(text: &str) -> Option<(u16, u16)> {
    let mut found = text
        .lines()
        .filter_map(|line| line.rsplit_once(':')?.1.trim().parse().ok());
    let range = (found.next()?, found.next()?);
    found.next().is_none().then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Ended;
    use crate::system::memory::Memory;

    const ANSWER: &str = "\nProtocol tcp Dynamic Port Range\n---------------------------------\n\
                          Start Port      : 49152\nNumber of Ports : 16384\n";
    const GERMAN: &str = "Dynamischer Portbereich des Protokolls tcp\n---\n\
                          Startport            : 34000\nAnzahl von Ports     : 31536\n";

    #[test]
    fn the_range_is_read_in_any_language() {
        assert_eq!(numbers(ANSWER), Some((49_152, 16_384)));
        assert_eq!(numbers(GERMAN), Some((34_000, 31_536)));
        assert_eq!(numbers(""), None);
        assert_eq!(numbers("Start Port : 1\n"), None);
        assert_eq!(numbers("a : 1\nb : 2\nc : 3\n"), None);
    }

    fn machine(status: i32, answer: &'static str) -> Memory {
        let machine = Memory::windows("win1");
        machine.put_program(
            "netsh",
            std::rc::Rc::new(move |_, program, on_line| {
                on_line(&program.args.join(" "));
                answer.lines().for_each(&mut *on_line);
                Ok(Ended::Status(status))
            }),
        );
        machine
    }

    #[test]
    fn netsh_is_asked_and_told() {
        let machine = machine(0, ANSWER);
        let found = read(&machine, Protocol::Tcp).unwrap();
        assert_eq!((found.first, found.count), (49_152, 16_384));
        set(&machine, found).unwrap();
        assert_eq!(machine.log(), ["run netsh.exe", "run netsh.exe"]);
    }

    #[test]
    fn netsh_that_fails_is_told_with_what_it_said() {
        let wanted = DynamicPorts {
            protocol: Protocol::Udp,
            first: 34_000,
            count: 31_536,
        };
        let error = set(&machine(1, "The parameter is incorrect."), wanted).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`netsh.exe int ipv4 set dynamicport udp start=34000 num=31536` ended with status 1"
        );
        assert_eq!(error.tail().last().unwrap(), "The parameter is incorrect.");
        let error = read(&machine(0, ""), Protocol::Tcp).unwrap_err();
        assert!(error.to_string().contains("tells no range"), "{error}");
    }
}
