//! The executor names and uses every field of every action, so that a step carries nothing in vain.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::files::{Breach, File, line_of};

/// The file with the executor: the method `perform` of `impl Perform for Adapter`.
const EXECUTOR: &str = "crates/mullion-live/src/lib.rs";

/// What it matches on.
const SCRUTINEE: &str = "&step.action";

/// No pattern of the executor's match leaves out a field or an action.
pub(crate) fn uses_every_field(files: &[File]) -> Vec<Breach> {
    let Some(file) = files.iter().find(|file| file.path == EXECUTOR) else {
        return vec![Breach {
            path: EXECUTOR.into(),
            line: 1,
            what: "is missing".into(),
        }];
    };
    let parsed = match syn::parse_file(&file.text) {
        Ok(parsed) => parsed,
        Err(error) => return vec![Breach::new(file, 1, format!("cannot be read: {error}"))],
    };
    let mut search = Search {
        file,
        is_inside: false,
        matches: 0,
        breaches: Vec::new(),
    };
    search.visit_file(&parsed);
    if search.matches == 0 {
        let what = format!("`perform` has no `match {SCRUTINEE}`");
        search.breaches.push(Breach::new(file, 1, what));
    }
    search.breaches
}

struct Search<'a> {
    file: &'a File,
    /// Whether the search is in a pattern of the executor's match.
    is_inside: bool,
    matches: usize,
    breaches: Vec<Breach>,
}

impl Search<'_> {
    fn breach(&mut self, place: usize, what: &str) {
        let line = line_of(&self.file.text, place);
        self.breaches.push(Breach::new(self.file, line, what));
    }

    fn pattern(&mut self, pattern: &syn::Pat) {
        self.is_inside = true;
        self.visit_pat(pattern);
        self.is_inside = false;
    }
}

impl<'a> Visit<'a> for Search<'_> {
    fn visit_item_impl(&mut self, node: &'a syn::ItemImpl) {
        let Some((interface, _)) = &node.trait_ else {
            return;
        };
        let last = interface.segments.last();
        if last.is_some_and(|segment| segment.ident == "Perform") {
            visit::visit_item_impl(self, node);
        }
    }

    fn visit_item_mod(&mut self, _node: &'a syn::ItemMod) {
        // Tests may perform as they like.
    }

    fn visit_expr_match(&mut self, node: &'a syn::ExprMatch) {
        let on = &self.file.text[node.expr.span().byte_range()];
        let on: String = on.split_whitespace().collect();
        if on != SCRUTINEE {
            return visit::visit_expr_match(self, node);
        }
        self.matches += 1;
        for arm in &node.arms {
            self.pattern(&arm.pat);
            if let syn::Pat::Ident(all) = &arm.pat {
                let place = all.span().byte_range().start;
                self.breach(place, "an arm for every other action: name the actions");
            }
            self.visit_expr(&arm.body);
        }
    }

    fn visit_pat_rest(&mut self, node: &'a syn::PatRest) {
        if self.is_inside {
            let place = node.span().byte_range().start;
            self.breach(place, "`..` leaves out fields: name and use them");
        }
    }

    fn visit_pat_wild(&mut self, node: &'a syn::PatWild) {
        if self.is_inside {
            let place = node.span().byte_range().start;
            self.breach(place, "`_` leaves out a value: name and use it");
        }
    }

    fn visit_pat_ident(&mut self, node: &'a syn::PatIdent) {
        if self.is_inside && node.ident.to_string().starts_with('_') {
            let place = node.span().byte_range().start;
            let what = format!("`{}` is not used: use it", node.ident);
            self.breach(place, &what);
        }
        visit::visit_pat_ident(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The breaches in an executor with those arms.
    fn told(arms: &str) -> Vec<String> {
        let text = format!(
            "impl Perform for Adapter {{ fn perform(&self, step: &Step) {{\nmatch &step.action {{\n{arms}\n}} }} }}"
        );
        let breaches = uses_every_field(&[File::new(EXECUTOR, &text)]);
        breaches.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whatever_leaves_out_a_field_is_found() {
        for (arm, what) in [
            ("Action::A { .. } => a(),", "`..` leaves out"),
            ("Action::A { b, .. } => a(b),", "`..` leaves out"),
            ("Action::A { b: _ } => a(),", "`_` leaves out"),
            ("Action::A { b: B { c: _ } } => a(),", "`_` leaves out"),
            ("Action::A { b: Some(_) } => a(),", "`_` leaves out"),
            ("Action::A { b: _b } => a(),", "`_b` is not used"),
            ("Action::A { b: (_, c) } => a(c),", "`_` leaves out"),
            ("Action::A(..) => a(),", "`..` leaves out"),
            ("_ => a(),", "`_` leaves out"),
            ("other => a(other),", "an arm for every other action"),
        ] {
            let told = told(arm);
            assert_eq!(told.len(), 1, "{arm}: {told:?}");
            assert!(
                told[0].starts_with("crates/mullion-live/src/lib.rs:3: "),
                "{told:?}"
            );
            assert!(told[0].contains(what), "{arm}: {told:?}");
        }
    }

    #[test]
    fn arms_that_name_every_field_are_fine() {
        let arms = "Action::A => a(),\nAction::B { c, d: e } => b(c, e),\n\
            Action::C { f: true } => { match f { Some(_) => 1, _ => 2 } }";
        assert_eq!(told(arms), [""; 0]);
    }

    #[test]
    fn other_matches_are_left_alone() {
        let text = "impl Adapter { fn builds(&self) { match &step.action { Action::A { .. } => 1, _ => 2 } } }\n\
            impl Perform for Adapter { fn perform(&self) { match &step.action { Action::A => 1 } } }";
        assert!(uses_every_field(&[File::new(EXECUTOR, text)]).is_empty());
    }

    #[test]
    fn an_executor_that_is_not_found_is_a_breach() {
        assert_eq!(uses_every_field(&[]).len(), 1);
        assert_eq!(
            uses_every_field(&[File::new(EXECUTOR, "fn a() {}")]).len(),
            1
        );
        let elsewhere =
            "impl Perform for Adapter { fn perform(&self) { match step.action() { _ => 1 } } }";
        assert_eq!(uses_every_field(&[File::new(EXECUTOR, elsewhere)]).len(), 1);
    }
}
