//! The tokens of a Rust source, and the items in it that are test code.
//!
//! `proc-macro2` finds the tokens, in macro bodies too. `syn` finds where a test item begins and ends.

use std::ops::Range;

use proc_macro2::{LexError, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// One token of code and its place: a word, a literal with its quotes, `::`, or any other sign by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) place: usize,
}

/// The places of tokens and of test items in a source.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    tokens: Vec<Range<usize>>,
    /// Items under `#[test]` or `#[cfg(test)]`, attributes included, and all of a file under `#![cfg(test)]`.
    tests: Vec<Range<usize>>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Result<Self, LexError> {
        let stream: TokenStream = text.parse()?;
        let mut tokens = Vec::new();
        flatten(stream.clone(), text, &mut tokens);
        let mut items = TestItems {
            text,
            tests: Vec::new(),
        };
        // In a file that `syn` cannot parse, the rules search all of the code.
        if let Ok(file) = syn::parse2(stream) {
            items.visit_file(&file);
        }
        Ok(Self {
            tokens,
            tests: items.tests,
        })
    }

    /// The tokens, in order. Comments and documentation are not tokens.
    pub(crate) fn tokens<'a>(&self, text: &'a str) -> Vec<Token<'a>> {
        let token = |range: &Range<usize>| Token {
            text: &text[range.clone()],
            place: range.start,
        };
        self.tokens.iter().map(token).collect()
    }

    pub(crate) fn is_test(&self, place: usize) -> bool {
        self.tests.iter().any(|item| item.contains(&place))
    }
}

fn flatten(stream: TokenStream, text: &str, found: &mut Vec<Range<usize>>) {
    for tree in stream {
        let place = tree.span().byte_range();
        let token = &text[place.clone()];
        // `proc-macro2` gives documentation as the tokens of a `doc` attribute.
        if token.starts_with("//") || token.starts_with("/*") {
            continue;
        }
        match (tree, found.last_mut()) {
            (TokenTree::Group(group), _) => {
                found.push(group.span_open().byte_range());
                flatten(group.stream(), text, found);
                found.push(group.span_close().byte_range());
            }
            (_, Some(last)) if &text[last.start..place.end] == "::" => last.end = place.end,
            // `r#type` is the word `type`.
            (TokenTree::Ident(_), _) if token.starts_with("r#") => {
                found.push(place.start + 2..place.end);
            }
            _ => found.push(place),
        }
    }
}

struct TestItems<'a> {
    text: &'a str,
    tests: Vec<Range<usize>>,
}

impl TestItems<'_> {
    fn is_for_tests(&self, attribute: &syn::Attribute) -> bool {
        let meta = &self.text[attribute.meta.span().byte_range()];
        let meta: String = meta.split_whitespace().collect();
        meta == "test" || meta == "cfg(test)" || meta.starts_with("cfg(all(test,")
    }
}

/// Visits the kinds of nodes that test attributes stand on. The rules search a node of any other kind.
macro_rules! find_tests_in {
    ($($visit:ident $node:ident),* $(,)?) => {
        impl<'a> Visit<'a> for TestItems<'_> {
            $(fn $visit(&mut self, node: &'a syn::$node) {
                if node.attrs.iter().any(|attribute| self.is_for_tests(attribute)) {
                    let mut item = node.span().byte_range();
                    item.end += usize::from(self.text[item.end..].starts_with(','));
                    self.tests.push(item);
                } else {
                    visit::$visit(self, node);
                }
            })*
        }
    };
}

find_tests_in! {
    visit_file File, visit_item_const ItemConst, visit_item_enum ItemEnum, visit_item_fn ItemFn,
    visit_item_impl ItemImpl, visit_item_macro ItemMacro, visit_item_mod ItemMod,
    visit_item_static ItemStatic, visit_item_struct ItemStruct, visit_item_trait ItemTrait,
    visit_item_type ItemType, visit_item_use ItemUse, visit_impl_item_const ImplItemConst,
    visit_impl_item_fn ImplItemFn, visit_trait_item_fn TraitItemFn, visit_field Field,
    visit_field_value FieldValue, visit_variant Variant, visit_arm Arm, visit_local Local,
    visit_stmt_macro StmtMacro, visit_expr_block ExprBlock, visit_expr_if ExprIf,
}

/// The calls of macros that have one of the names, such as `todo!`. `todo != x` is a comparison.
pub(crate) fn macro_calls(tokens: &[Token<'_>], names: &[&str]) -> Vec<(usize, String)> {
    let calls = tokens.windows(3).filter(|window| {
        names.contains(&window[0].text) && window[1].text == "!" && window[2].text != "="
    });
    calls
        .map(|window| (window[0].place, format!("{}!", window[0].text)))
        .collect()
}

/// The modules that a source declares for tests only: names of `#[cfg(test)] mod name;`.
pub(crate) fn test_modules(text: &str, source: &Source) -> Vec<String> {
    let items = source.tests.iter().map(|item| &text[item.clone()]);
    items
        .filter_map(|item| item.strip_suffix(';')?.rsplit_once("mod "))
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text without test items.
    fn left(text: &str) -> String {
        let source = Source::new(text).unwrap();
        let kept = text
            .char_indices()
            .filter(|(place, _)| !source.is_test(*place));
        kept.map(|(_, letter)| letter).collect()
    }

    fn squeezed(text: &str) -> String {
        left(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn texts(text: &str) -> Vec<&str> {
        let tokens = Source::new(text).unwrap().tokens(text);
        tokens.into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn tokens_are_found_in_macros_and_not_in_comments() {
        assert_eq!(
            texts("//! a\n/* b /* c */ */ d!{ /// e\n f::<'g>(\"// h\") : :: r#type r\"i\" 'é' }"),
            [
                "d", "!", "{", "f", "::", "<", "'", "g", ">", "(", "\"// h\"", ")", ":", "::",
                "type", "r\"i\"", "'é'", "}"
            ]
        );
        assert!(Source::new("(").is_err());
    }

    #[test]
    fn test_items_are_left_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { c(); }\n}\nfn d() {}\n#[test]\n#[ignore]\nfn e<A, B>() {}\nfn g() {}\n";
        assert_eq!(squeezed(text), "fn a() {} fn d() {} fn g() {}");
    }

    #[test]
    fn a_test_attribute_is_found_after_others_and_on_a_field() {
        let text = "#[allow(x)]\n#[cfg(all(test, unix))]\nuse a::{b, c};\nstruct S { #[cfg(test)] f: u8, g: u8 }";
        assert_eq!(squeezed(text), "struct S { g: u8 }");
    }

    #[test]
    fn a_test_item_ends_with_its_semicolon_or_its_block() {
        let text = "#[cfg(test)] pub(crate) const A: S = S { a: 1 };\n#[cfg(test)] const fn b() {}\nfn c() {}";
        assert_eq!(squeezed(text), "fn c() {}");
    }

    #[test]
    fn code_under_other_conditions_is_not_test_code() {
        let text = "#[cfg(not(test))] fn a() {} #[cfg(feature = \"test\")] fn b() {}";
        assert_eq!(left(text), text);
    }

    #[test]
    fn a_whole_file_can_be_for_tests() {
        assert_eq!(left("#![cfg(test)]\nfn a() {}"), "");
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_known() {
        let text = "mod a;\n#[cfg(test)]\nmod fixtures;\n#[cfg(test)]\nmod tests { fn b() {} }";
        assert_eq!(
            test_modules(text, &Source::new(text).unwrap()),
            ["fixtures"]
        );
    }
}
