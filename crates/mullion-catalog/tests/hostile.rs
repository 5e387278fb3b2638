//! A file of any kind is judged soon, and no more is said of it than anyone reads.

use mullion_catalog::Catalog;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::finding::{MOST_FINDINGS, Severity};
use mullion_spec::render::{Colour, MOST_SHOWN, render};
use mullion_spec::source::Source;

/// The size of each file.
const SIZE: usize = 1 << 17;

/// Files as nobody writes them. By hand, try `SIZE` at the limit of a file's size: no kind takes seconds.
fn hostile() -> Vec<(&'static str, String)> {
    let fill = |head: &str, item: &dyn Fn(usize) -> String, tail: &str| {
        let mut text = head.to_owned();
        for number in 0.. {
            let item = item(number);
            if text.len() + item.len() + tail.len() > SIZE {
                break;
            }
            text.push_str(&item);
        }
        text + tail
    };
    let deep = "[".repeat(30);
    let shut = "]".repeat(30);
    vec![
        (
            "a list in one line",
            fill("images: [a", &|_| ",a".into(), "]\n"),
        ),
        ("nothings", fill("images: [~", &|_| ",~".into(), "]\n")),
        (
            "a mapping in one line",
            fill("{a: 1", &|n| format!(", k{n}: 1"), "}\n"),
        ),
        (
            "bad labels",
            fill(
                "machines: [{name: a, labels: {a: '!'",
                &|n| format!(",k{n}: '!'"),
                "}}]\n",
            ),
        ),
        (
            "one key again and again",
            fill("", &|_| "a: 1\n".into(), ""),
        ),
        ("many keys", fill("", &|n| format!("k{n}: 1\n"), "")),
        (
            "many secrets",
            fill("", &|n| format!("token{n}: abc{n}\n"), ""),
        ),
        (
            "secrets in one line",
            fill("{a: 1", &|n| format!(",token{n}: !abc{n} x"), "}\n"),
        ),
        (
            "secrets that cannot be read",
            fill("[\n", &|n| format!("token{n}: abc{n}\n"), ""),
        ),
        (
            "bad addresses",
            fill(
                "machines: [{name: a, addresses: [b",
                &|_| ",a:b@c".into(),
                "]}]\n",
            ),
        ),
        ("variables", fill("{a: [b", &|_| ",'${x}'".into(), "]}\n")),
        (
            "deep lists",
            fill("a:\n", &|_| format!("- {deep}{shut}\n"), ""),
        ),
        (
            "one huge text",
            fill("metadata: {name: \"", &|_| "x y ".into(), "\"}\n"),
        ),
        ("one huge word", fill("machines: ", &|_| "@".into(), "\n")),
        ("one huge key", fill("? ", &|_| "k".into(), "\n: 1\n")),
        (
            "wide characters",
            fill("images: [ä", &|_| ",ä".into(), "]\n"),
        ),
        (
            "comments",
            fill("a: 1\n", &|_| "# password: x\n".into(), ""),
        ),
        ("anchors", fill("a: [b", &|_| ",&a b".into(), "]\n")),
        (
            "blank lines",
            fill("kind: a\n", &|_| "\n".into(), "kind: b\n"),
        ),
        (
            "groups",
            fill(
                "machines:\n",
                &|n| format!("- {{name: a{n}, host: b{n}}}\n"),
                "",
            ),
        ),
        (
            "hosts",
            fill(
                "machines: {linux: 1}\nhosts:\n",
                &|n| format!("- {{name: a{n}, address: b}}\n"),
                "",
            ),
        ),
    ]
}

/// The bound is on what is said, which is what costs the time; the time itself depends on the computer.
#[test]
fn of_a_hostile_file_no_more_is_said_than_anyone_reads() {
    for (kind, text) in hostile() {
        let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
        let verdict = Catalog::builtin().judge(draft).verdict;
        let plain = render(&verdict, Colour::Plain);
        assert!(verdict.findings.len() <= MOST_FINDINGS, "{kind}");
        assert!(plain.len() < MOST_SHOWN * 4000, "{kind}: {}", plain.len());
        let words = verdict.findings.iter().map(|located| {
            let hints = located.finding.hints.iter().map(String::len);
            located.finding.message.len() + hints.sum::<usize>()
        });
        let said: usize = words.sum();
        assert!(said < 4_000_000, "{kind}: {said}");
        if verdict.left_unsaid > 0 {
            assert!(verdict.count(Severity::Error) > 0, "{kind}");
            assert!(plain.trim_end().ends_with("more"), "{kind}");
        }
    }
}
