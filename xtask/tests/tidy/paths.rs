//! The paths that code names, with imports resolved.

use crate::rust::{Token, tokens};

/// One path, such as `std::fs::read`, with the place where code names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) path: Vec<String>,
    pub(crate) place: usize,
}

#[derive(Debug)]
struct Import {
    path: Vec<String>,
    /// What the rest of the file calls it. Nothing for a glob.
    name: Option<String>,
    place: usize,
}

/// Every place where code names something on the list, by a whole path, an import or an imported part of a
/// path. `banned` gives the entry that a path falls under.
///
/// What was imported under a banned path is told once, at the import.
pub(crate) fn naming(
    code: &str,
    banned: impl Fn(&[String], Glob) -> Option<String>,
) -> Vec<(usize, String)> {
    let tokens = tokens(code);
    let (imports, rest) = split_imports(&tokens);
    let mut found = Vec::new();
    let mut harmless = Vec::new();
    for import in &imports {
        let glob = if import.name.is_some() {
            Glob::No
        } else {
            Glob::Yes
        };
        match banned(&import.path, glob) {
            Some(entry) => found.push((import.place, entry)),
            None => harmless.push(import),
        }
    }
    for named in rest {
        let imported = |import: &&Import| import.name.as_ref() == named.path.first();
        if imports.iter().any(|import| imported(&import)) {
            let whole = harmless.iter().copied().filter(imported).map(|import| {
                import
                    .path
                    .iter()
                    .chain(&named.path[1..])
                    .cloned()
                    .collect::<Vec<_>>()
            });
            found.extend(
                whole
                    .filter_map(|path| banned(&path, Glob::No))
                    .map(|entry| (named.place, entry)),
            );
        } else if let Some(entry) = banned(&named.path, Glob::No) {
            found.push((named.place, entry));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Whether a path is imported with everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glob {
    Yes,
    No,
}

/// The imports of some code, and the paths named outside them.
fn split_imports(tokens: &[Token<'_>]) -> (Vec<Import>, Vec<Named>) {
    let mut imports = Vec::new();
    let mut rest = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
        // `use<'a>` in a type is not an import.
        if text(index) == "use" && text(index + 1) != "<" {
            index = read_tree(tokens, index + 1, &[], &mut imports);
        } else if is_name(text(index)) {
            let place = tokens[index].place;
            let mut path = vec![text(index).to_owned()];
            index += 1;
            while text(index) == "::" && is_name(text(index + 1)) {
                path.push(text(index + 1).to_owned());
                index += 2;
            }
            rest.push(Named { path, place });
        } else {
            index += 1;
        }
    }
    (imports, rest)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Reads one import tree and gives the index after it.
fn read_tree(
    tokens: &[Token<'_>],
    start: usize,
    prefix: &[String],
    imports: &mut Vec<Import>,
) -> usize {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let place = tokens.get(start).map_or(0, |token| token.place);
    let mut path = prefix.to_vec();
    let mut index = start;
    loop {
        match text(index) {
            "::" => index += 1,
            "*" => {
                imports.push(Import {
                    path,
                    name: None,
                    place,
                });
                return index + 1;
            }
            "{" => {
                index += 1;
                while index < tokens.len() && text(index) != "}" {
                    index = if text(index) == "," {
                        index + 1
                    } else {
                        read_tree(tokens, index, &path, imports)
                    };
                }
                return index + 1;
            }
            "as" => {
                imports.push(Import {
                    path,
                    name: Some(text(index + 1).to_owned()),
                    place,
                });
                return index + 2;
            }
            "self" if !path.is_empty() => index += 1,
            name if is_name(name) => {
                path.push(name.to_owned());
                index += 1;
            }
            _ => {
                if let Some(name) = path.last().cloned() {
                    let name = Some(name);
                    imports.push(Import { path, name, place });
                }
                // A sign that no tree holds: go past it, so that reading always ends.
                return if matches!(text(index), "," | "}") {
                    index
                } else {
                    index + 1
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `naming` finds with `std::fs` and `std::time::Instant` on the list.
    fn found(code: &str) -> Vec<String> {
        let lists = [
            ["std", "fs"].as_slice(),
            ["std", "time", "Instant"].as_slice(),
        ];
        let banned = |path: &[String], glob: Glob| {
            lists.iter().find_map(|entry| {
                let is_below =
                    path.len() >= entry.len() && entry.iter().zip(path).all(|(a, b)| a == b);
                let takes_all =
                    glob == Glob::Yes && path.iter().zip(entry.iter()).all(|(a, b)| a == b);
                (is_below || takes_all).then(|| entry.join("::"))
            })
        };
        naming(code, banned)
            .into_iter()
            .map(|(place, entry)| format!("{place} {entry}"))
            .collect()
    }

    #[test]
    fn whole_paths_and_imports_are_found() {
        assert_eq!(found("std::fs::read(x)"), ["0 std::fs"]);
        assert_eq!(found("::std::fs::read(x)"), ["2 std::fs"]);
        assert_eq!(found("use std::fs;"), ["4 std::fs"]);
        assert_eq!(
            found("use std::{io, fs::{self, File}};"),
            ["19 std::fs", "25 std::fs"]
        );
    }

    #[test]
    fn an_imported_part_of_a_path_is_found_where_it_is_used() {
        assert_eq!(
            found("use std::time; let a = time::Instant::now();"),
            ["23 std::time::Instant"]
        );
        assert_eq!(found("use std as s; s::fs::read(x)"), ["14 std::fs"]);
        assert_eq!(
            found("use std::{time::{self as t}}; t::Instant"),
            ["30 std::time::Instant"]
        );
    }

    #[test]
    fn what_was_imported_is_told_once() {
        assert_eq!(
            found("use std::time::Instant; Instant::now(); Instant::now();"),
            ["4 std::time::Instant"]
        );
    }

    #[test]
    fn a_glob_takes_what_is_below_it() {
        assert_eq!(found("use std::time::*;"), ["4 std::time::Instant"]);
        assert_eq!(found("use std::fs::*;"), ["4 std::fs"]);
        assert!(found("use std::io::*;").is_empty());
    }

    #[test]
    fn names_that_only_look_alike_are_not_found() {
        assert!(found("use crate::fs; fs::read(x); my::std::fs::x();").is_empty());
        assert!(found("use std::time::Duration; let instant = Instant;").is_empty());
        assert!(found("fn f<'a>() -> impl Sized + use<'a> {}").is_empty());
    }

    #[test]
    fn unfinished_code_ends_too() {
        assert!(found("use std::{a, (b;").is_empty());
        assert!(found("use").is_empty());
    }
}
