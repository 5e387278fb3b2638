//! What changes in a file, as people know it from `diff -u`.

/// How many lines around a change are shown.
const AROUND: usize = 2;
/// Beyond so many lines between the first and the last change, nobody looks for what stayed among them.
const MOST: usize = 500;

/// A line of either text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// The lines that differ between two texts, with some around them; nothing where none do.
pub(super) fn lines(name: &str, before: &str, after: &str) -> Vec<String> {
    let all = compared(before, after);
    let is_shown = |at: usize| {
        let near = at.saturating_sub(AROUND)..(at + AROUND + 1).min(all.len());
        all[near].iter().any(|line| !matches!(line, Line::Same(_)))
    };
    let mut out = Vec::new();
    let (mut old, mut new) = (1, 1);
    let mut at = 0;
    while at < all.len() {
        if is_shown(at) {
            let end = (at..all.len())
                .find(|at| !is_shown(*at))
                .unwrap_or(all.len());
            let part = &all[at..end];
            let gone = part
                .iter()
                .filter(|line| !matches!(line, Line::New(_)))
                .count();
            let come = part
                .iter()
                .filter(|line| !matches!(line, Line::Gone(_)))
                .count();
            out.push(format!("@@ -{old},{gone} +{new},{come} @@"));
            out.extend(part.iter().map(|line| match line {
                Line::Same(text) => format!(" {text}"),
                Line::Gone(text) => format!("-{text}"),
                Line::New(text) => format!("+{text}"),
            }));
            (old, new, at) = (old + gone, new + come, end);
        } else {
            // Only what stayed is not shown.
            (old, new, at) = (old + 1, new + 1, at + 1);
        }
    }
    if !out.is_empty() {
        out.splice(0..0, [format!("--- {name}"), format!("+++ {name}")]);
    }
    out
}

fn compared<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = rest.take_while(|(a, b)| a == b).count();
    let mut out: Vec<_> = old[..head].iter().map(|line| Line::Same(line)).collect();
    middle(
        &old[head..old.len() - tail],
        &new[head..new.len() - tail],
        &mut out,
    );
    out.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    out
}

/// The longest common lines stay.
fn middle<'a>(old: &[&'a str], new: &[&'a str], out: &mut Vec<Line<'a>>) {
    if old.len().max(new.len()) > MOST {
        out.extend(old.iter().map(|line| Line::Gone(line)));
        out.extend(new.iter().map(|line| Line::New(line)));
        return;
    }
    let width = new.len() + 1;
    let mut common = vec![0_usize; (old.len() + 1) * width];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            common[a * width + b] = if old[a] == new[b] {
                common[(a + 1) * width + b + 1] + 1
            } else {
                common[(a + 1) * width + b].max(common[a * width + b + 1])
            };
        }
    }
    let (mut a, mut b) = (0, 0);
    while a < old.len() || b < new.len() {
        if a < old.len() && b < new.len() && old[a] == new[b] {
            out.push(Line::Same(old[a]));
            (a, b) = (a + 1, b + 1);
        } else if a < old.len()
            && (b == new.len() || common[(a + 1) * width + b] >= common[a * width + b + 1])
        {
            out.push(Line::Gone(old[a]));
            a += 1;
        } else {
            out.push(Line::New(new[b]));
            b += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_those_around_them() {
        let before = "a\nb\nc\ncount: 3\nd\ne\nf\ng\nh\ni\nj\n";
        let after = "a\nb\nc\ncount: 2\nskip: [2]\nd\ne\nf\ng\nh\nj\n";
        assert_eq!(
            lines("c.yaml", before, after),
            [
                "--- c.yaml",
                "+++ c.yaml",
                "@@ -2,5 +2,6 @@",
                " b",
                " c",
                "-count: 3",
                "+count: 2",
                "+skip: [2]",
                " d",
                " e",
                "@@ -8,4 +9,3 @@",
                " g",
                " h",
                "-i",
                " j"
            ]
        );
        assert!(lines("c.yaml", before, before).is_empty());
        assert_eq!(
            lines("c", "", "a\n"),
            ["--- c", "+++ c", "@@ -1,0 +1,1 @@", "+a"]
        );
    }
}
