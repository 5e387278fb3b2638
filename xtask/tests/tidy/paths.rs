//! The paths that code names, with imports resolved.

use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{ItemUse, UseTree};

use crate::rust::Token;

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
    tokens: &[Token<'_>],
    banned: impl Fn(&[String], Glob) -> Option<String>,
) -> Vec<(usize, String)> {
    let (imports, rest) = split_imports(code, tokens);
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
fn split_imports(code: &str, tokens: &[Token<'_>]) -> (Vec<Import>, Vec<Named>) {
    let mut imports = Vec::new();
    let mut rest = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
        let place = tokens[index].place;
        // A macro may have `$crate` in an import. `syn` rejects `use<'a>` in a type, which is no import.
        let import = |end: usize| code[place..=tokens[end].place].replace('$', " ");
        if text(index) == "use"
            && let Some(end) = (index..tokens.len()).find(|end| text(*end) == ";")
            && let Ok(import) = syn::parse_str::<ItemUse>(&import(end))
        {
            let mut found = Vec::new();
            leaves(&import.tree, Vec::new(), start(&import.tree), &mut found);
            imports.extend(found.into_iter().map(|import| Import {
                place: place + import.place,
                ..import
            }));
            index = end + 1;
        } else if is_name(text(index)) {
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

fn start(tree: &UseTree) -> usize {
    tree.span().byte_range().start
}

/// Adds what an import tree imports to `found`.
fn leaves(tree: &UseTree, mut path: Vec<String>, place: usize, found: &mut Vec<Import>) {
    let (last, name) = match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.unraw().to_string());
            return leaves(&tree.tree, path, place, found);
        }
        UseTree::Group(group) => {
            let trees = group.items.iter();
            return trees.for_each(|tree| leaves(tree, path.clone(), start(tree), found));
        }
        UseTree::Glob(_) => (None, None),
        UseTree::Name(tree) => (Some(&tree.ident), None),
        UseTree::Rename(tree) => (Some(&tree.ident), Some(tree.rename.unraw().to_string())),
    };
    let own = last.filter(|last| *last != "self");
    path.extend(own.map(|own| own.unraw().to_string()));
    let name = last.and_then(|_| name.or_else(|| path.last().cloned()));
    found.push(Import { path, name, place });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::Source;

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
        // Code that ends too early has no tokens.
        let tokens = Source::new(code).map(|source| source.tokens(code));
        naming(code, &tokens.unwrap_or_default(), banned)
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
