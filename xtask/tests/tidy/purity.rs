//! Library crates do not print, read the environment or end the process; pure ones touch nothing outside.

use crate::files::{Breach, File, line_of};
use crate::paths::{Glob, naming};
use crate::rust::{Token, macro_calls};
use crate::sources;

/// The crates that only compute.
const PURE: &[&str] = &[
    "mullion-spec",
    "mullion-catalog",
    "mullion-wire",
    "mullion-render",
    "mullion-plan",
    "mullion-lint",
];

/// The crates that are programs: they own the terminal and the environment.
const PROGRAMS: &[&str] = &[
    "mullion",
    "mullion-agent",
    "mullion-fuzz",
    "mullion-standin",
    "xtask",
];

const PRINTING_MACROS: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];

/// Paths that no library crate names.
const FOR_PROGRAMS: &[&str] = &[
    "std::env",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::process::exit",
    "std::process::abort",
];

/// Paths that no pure crate names.
const OUTSIDE: &[&str] = &[
    "std::fs",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::os::unix::net",
    "std::process::Child",
    "std::process::Command",
    "std::process::Stdio",
    "std::process::id",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "fs_err",
    "rustix",
    "tokio",
];

/// Methods of paths that ask the file system.
const ASKING_METHODS: &[&str] = &[
    "canonicalize",
    "is_dir",
    "is_file",
    "is_symlink",
    "read_dir",
    "read_link",
    "symlink_metadata",
    "try_exists",
];

/// Library crates do not print, read the environment or end the process.
pub(crate) fn quiet_libraries(files: &[File]) -> Vec<Breach> {
    let is_library = |name: &str| !PROGRAMS.contains(&name);
    check(files, is_library, |text, tokens| {
        let mut found = naming(text, tokens, |path, glob| banned(FOR_PROGRAMS, path, glob));
        found.extend(macro_calls(tokens, PRINTING_MACROS));
        found
    })
}

/// Pure crates touch no file, clock, process or network.
pub(crate) fn pure_crates(files: &[File]) -> Vec<Breach> {
    let is_pure = |name: &str| PURE.contains(&name);
    check(files, is_pure, |text, tokens| {
        let mut found = naming(text, tokens, |path, glob| banned(OUTSIDE, path, glob));
        let asking = tokens.windows(3).filter(|window| {
            window[0].text == "."
                && ASKING_METHODS.contains(&window[1].text)
                && window[2].text == "("
        });
        found.extend(asking.map(|window| (window[1].place, window[1].text.to_owned())));
        found
    })
}

/// Runs a search over the product code of the crates that are wanted.
fn check(
    files: &[File],
    is_wanted: impl Fn(&str) -> bool,
    search: impl Fn(&str, &[Token<'_>]) -> Vec<(usize, String)>,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, tokens) in sources::of_product(files) {
        let Some(name) = file.crate_name().filter(|name| is_wanted(name)) else {
            continue;
        };
        if !file.path.starts_with(&format!("crates/{name}/src/")) {
            continue;
        }
        let mut found = search(&file.text, &tokens);
        found.sort();
        breaches.extend(found.into_iter().map(|(place, what)| {
            Breach::new(
                file,
                line_of(&file.text, place),
                format!("`{what}` is not for `{name}`"),
            )
        }));
    }
    breaches
}

/// The entry of a list that a path falls under.
fn banned(list: &[&str], path: &[String], glob: Glob) -> Option<String> {
    // `core` and `alloc` hold none of these, save what `std` shows again.
    let path = path.join("::");
    let is_at_or_below = |path: &str, entry: &str| {
        path.strip_prefix(entry)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    list.iter()
        .find(|entry| {
            is_at_or_below(&path, entry) || (glob == Glob::Yes && is_at_or_below(entry, &path))
        })
        .map(|entry| (*entry).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&[File]) -> Vec<Breach>;

    fn told(rule: Rule, path: &str, text: &str) -> Vec<String> {
        rule(&[File::new(path, text)])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn printing_is_found_in_every_library_and_no_program() {
        let text = "fn f() {\n    println!(\"a\");\n    std::eprint!(\"b\");\n    dbg!(c);\n}\n";
        assert_eq!(
            told(quiet_libraries, "crates/mullion-engine/src/lib.rs", text),
            [
                "crates/mullion-engine/src/lib.rs:2: `println!` is not for `mullion-engine`",
                "crates/mullion-engine/src/lib.rs:3: `eprint!` is not for `mullion-engine`",
                "crates/mullion-engine/src/lib.rs:4: `dbg!` is not for `mullion-engine`",
            ]
        );
        assert!(told(quiet_libraries, "crates/mullion/src/main.rs", text).is_empty());
        assert!(told(quiet_libraries, "xtask/src/lib.rs", text).is_empty());
    }

    #[test]
    fn streams_environment_and_exit_are_found_however_they_are_named() {
        for text in [
            "fn f() { std::env::var(\"A\"); }",
            "use std::env; ",
            "use std::{env, fmt};",
            "use std::io::{self, Write}; fn f() { io::stdout().write_all(b\"\"); }",
            "use std::process; fn f() { process::exit(1); }",
        ] {
            assert_eq!(
                told(quiet_libraries, "crates/mullion-plan/src/a.rs", text).len(),
                1,
                "{text}"
            );
        }
    }

    #[test]
    fn what_only_looks_like_it_is_left_alone() {
        let text = "
            //! Call `println!` yourself; std::env::var is not read.
            const A: &str = env!(\"CARGO_PKG_VERSION\");
            const B: Option<&str> = option_env!(\"CARGO_X\");
            fn f(print: u8, x: u8) -> bool { let s = \"println!(std::env)\"; self.print(); print != x }
            use std::io::Write; use std::process::ExitCode; use std::net::IpAddr; use std::time::Duration;
            #[cfg(test)] mod tests { fn g() { println!(\"a\"); std::fs::read(std::env::temp_dir()); } }
        ";
        assert_eq!(
            told(quiet_libraries, "crates/mullion-spec/src/a.rs", text),
            Vec::<String>::new()
        );
        assert_eq!(
            told(pure_crates, "crates/mullion-spec/src/a.rs", text),
            Vec::<String>::new()
        );
        let outside = "fn f() { println!(\"a\"); std::fs::read(x); }";
        assert!(told(quiet_libraries, "crates/mullion-spec/tests/a.rs", outside).is_empty());
        assert!(told(pure_crates, "crates/mullion-spec/build.rs", outside).is_empty());
    }

    #[test]
    fn pure_crates_touch_nothing() {
        for text in [
            "fn f() { std::fs::read(x); }",
            "use fs_err as fs;",
            "use std::time::{Duration, Instant};",
            "use std::time; fn f() { time::SystemTime::now(); }",
            "use std::process::Command;",
            "use std::net::{IpAddr, TcpStream};",
            "use std::os::unix::net::UnixStream;",
            "fn f(path: &Path) -> bool { path.is_file() }",
            "async fn f() { tokio::time::sleep(x).await }",
        ] {
            assert_eq!(
                told(pure_crates, "crates/mullion-catalog/src/a.rs", text).len(),
                1,
                "{text}"
            );
            assert!(
                told(pure_crates, "crates/mullion-engine/src/a.rs", text).is_empty(),
                "{text}"
            );
        }
    }
}
