use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn add(text: &str, group: &str, more: u32) -> Result<String, EditError> {
    add_machines(text, &group.parse().unwrap(), more)
}

fn remove(text: &str, machine: &str) -> Result<String, EditError> {
    remove_machine(text, &machine.parse().unwrap())
}

fn names(text: &str) -> Vec<String> {
    let file = File::read(text).unwrap();
    let machines = file.groups().flat_map(Group::machines);
    machines.map(|machine| machine.name.to_string()).collect()
}

#[test]
fn the_short_form_counts_up_and_down() {
    let text = "# mine\nmachines: {linux: 1}  # few\n";
    let more = add(text, "lin", 2).unwrap();
    assert_eq!(more, "# mine\nmachines: {linux: 3}  # few\n");
    assert_eq!(
        remove(&more, "lin3").unwrap(),
        "# mine\nmachines: {linux: 2}  # few\n"
    );
    assert_eq!(
        remove(text, "lin1").unwrap(),
        "# mine\nmachines: {linux: 0}  # few\n"
    );
    assert_eq!(
        add(text, "win", 1).unwrap(),
        "# mine\nmachines: {linux: 1, windows: 1}  # few\n"
    );
    assert_eq!(
        add("machines: {}\n", "lin", 1).unwrap(),
        "machines: {linux: 1}\n"
    );
    assert_eq!(
        add("machines:\n  linux: 1 # a\n  # b\nimages: []\n", "win", 2).unwrap(),
        "machines:\n  linux: 1 # a\n  windows: 2\n  # b\nimages: []\n"
    );
}

#[test]
fn a_machine_in_the_middle_of_the_short_form_makes_it_the_long_one() {
    assert_eq!(
        remove("machines: {linux: 3, windows: 1} # c\n", "lin2").unwrap(),
        "machines: [{name: cp, role: control-plane}, {name: lin, count: 2, skip: [2]}, \
         {name: win, os: windows, count: 1}] # c\n"
    );
    let text = "machines:\r\n  # many\r\n  linux: 3   # three\r\n  windows: 0\r\n";
    let changed = remove(text, "lin1").unwrap();
    assert_eq!(
        changed,
        "machines:\r\n  # many\r\n  - {name: cp, role: control-plane}\r\n  \
         - {name: lin, count: 2, skip: [1]}   # three\r\n  - {name: win, os: windows, count: 0}\r\n"
    );
    assert_eq!(names(&changed), ["cp1", "lin2", "lin3"]);
}

#[test]
fn the_highest_number_lowers_the_count_and_others_are_skipped() {
    let text = "machines:\n- name: cp\n  role: control-plane\n- name: lin # workers\n  count: 4\n";
    let first = remove(text, "lin2").unwrap();
    assert_eq!(
        first,
        "machines:\n- name: cp\n  role: control-plane\n- name: lin # workers\n  count: 3\n  skip: [2]\n"
    );
    assert_eq!(names(&first), ["cp1", "lin1", "lin3", "lin4"]);
    let second = remove(&first, "lin3").unwrap();
    assert!(second.ends_with("count: 2\n  skip: [2, 3]\n"), "{second}");
    // With `lin4` gone, nothing keeps 2 and 3 from being used again.
    let third = remove(&second, "lin4").unwrap();
    assert!(third.ends_with("count: 1\n  skip: []\n"), "{third}");
    assert_eq!(
        names(&add(&third, "lin", 1).unwrap()),
        ["cp1", "lin1", "lin2"]
    );
    assert_eq!(
        names(&add(&second, "lin", 1).unwrap()),
        ["cp1", "lin1", "lin4", "lin5"]
    );
}

#[test]
fn numbers_that_the_user_wants_unused_stay_unused() {
    let text =
        "machines: [{name: cp, role: control-plane}, {name: lin, count: 3, skip: [2, 13]}]\n";
    let changed = remove(text, "lin4").unwrap();
    assert!(changed.contains("count: 2, skip: [2, 13]"), "{changed}");
    let changed = remove(&changed, "lin3").unwrap();
    assert!(changed.contains("count: 1, skip: [13]"), "{changed}");
}

#[test]
fn a_group_without_a_count_gets_one() {
    let text = "machines:\n  - role: control-plane\n    name: cp\n  - cpus: 2\n    name: lin   # a\n    # b\n    labels: {a: b}";
    assert_eq!(
        add(text, "lin", 1).unwrap(),
        "machines:\n  - role: control-plane\n    name: cp\n  - cpus: 2\n    name: lin   # a\n    count: 2\n    # b\n    \
         labels: {a: b}"
    );
    let last = "machines:\n  - role: control-plane\n    name: cp";
    assert_eq!(
        add(last, "cp", 2).unwrap(),
        "machines:\n  - role: control-plane\n    name: cp\n    count: 3"
    );
    let json = r#"{"machines": [{"name": "cp", "role": "control-plane"}, {"name": "lin"}]}"#;
    assert_eq!(
        add(json, "lin", 1).unwrap(),
        r#"{"machines": [{"name": "cp", "role": "control-plane"}, {"name": "lin", "count": 2}]}"#
    );
    let nothing =
        "machines:\n- {name: cp, role: control-plane}\n- name: lin\n  count:\n  skip: ~ # none\n";
    assert_eq!(
        add(nothing, "lin", 2).unwrap(),
        "machines:\n- {name: cp, role: control-plane}\n- name: lin\n  count: 3\n  skip: ~ # none\n"
    );
    assert_eq!(
        remove(&add(nothing, "lin", 2).unwrap(), "lin1").unwrap(),
        "machines:\n- {name: cp, role: control-plane}\n- name: lin\n  count: 2\n  skip: [1] # none\n"
    );
}

#[test]
fn lists_of_numbers_keep_their_form() {
    let head = "machines:\n- {name: cp, role: control-plane}\n";
    let text = format!(
        "{head}- name: lin\n  count: 3\n  skip:\n    - 2 # gone\n    -  4\n  # end\n  cpus: 1\n"
    );
    let changed = remove(&text, "lin3").unwrap();
    assert_eq!(
        changed,
        format!(
            "{head}- name: lin\n  count: 2\n  skip:\n    - 2 # gone\n    -  4\n    -  3\n  # end\n  cpus: 1\n"
        )
    );
    let changed = remove(&changed, "lin5").unwrap();
    assert_eq!(
        changed,
        format!("{head}- name: lin\n  count: 1\n  skip:\n  # end\n  cpus: 1\n")
    );
    let text =
        format!("{head}- name: lin\n  count: 2\n  skip: [ # some\n    1,\n    2, # two\n    4 ]\n");
    let changed = remove(&text, "lin5").unwrap();
    assert_eq!(
        changed,
        format!("{head}- name: lin\n  count: 1\n  skip: [ # some\n    1,\n    2 # two\n    ]\n")
    );
    let changed = remove(&changed, "lin3").unwrap();
    assert!(
        changed.contains("# some") && changed.contains("# two"),
        "{changed}"
    );
}

#[test]
fn a_machine_that_exists_already_goes_with_its_address() {
    let head = "machines:\n- name: cp\n  role: control-plane\n  addresses: [192.0.2.1]\n";
    let text = format!(
        "{head}- name: lin\n  count: 3\n  addresses:\n    - 192.0.2.10 # rack 1\n    - 192.0.2.11 # rack 2\n    - \
         192.0.2.12\n"
    );
    assert_eq!(
        remove(&text, "lin2").unwrap(),
        format!(
            "{head}- name: lin\n  count: 2\n  skip: [2]\n  addresses:\n    - 192.0.2.10 # rack 1\n    - 192.0.2.12\n"
        )
    );
    let text = format!("{head}- {{name: lin, addresses: [a.example, b.example]}}\n");
    let changed = remove(&text, "lin2").unwrap();
    assert_eq!(
        changed,
        format!("{head}- {{name: lin, addresses: [a.example]}}\n")
    );
    let changed = remove(&text, "lin1").unwrap();
    assert_eq!(
        changed,
        format!("{head}- {{name: lin, skip: [1], addresses: [b.example]}}\n")
    );
    assert_eq!(names(&changed), ["cp1", "lin2"]);
    assert!(matches!(
        remove(&changed, "lin2"),
        Err(EditError::LastAddress { .. })
    ));
    assert!(matches!(
        add(&text, "lin", 1),
        Err(EditError::Addresses { .. })
    ));
}

#[test]
fn what_cannot_be_is_told_with_what_there_is() {
    let short = "machines: {linux: 1}\n";
    assert_eq!(add(short, "cp", 1), Err(EditError::ShortControlPlane));
    assert_eq!(remove(short, "cp1"), Err(EditError::ShortControlPlane));
    assert!(matches!(
        add(short, "db", 1),
        Err(EditError::NoGroup { .. })
    ));
    assert!(matches!(
        remove(short, "lin2"),
        Err(EditError::NoMachine { known, .. }) if known == ["cp1", "lin1"]
    ));
    assert!(matches!(
        add(short, "lin", u32::MAX),
        Err(EditError::TooMany { .. })
    ));
    let three = "machines: [{name: cp, role: control-plane, count: 3}]\n";
    assert!(matches!(
        remove(three, "lb1"),
        Err(EditError::LoadBalancer { .. })
    ));
    assert!(matches!(
        add(three, "lin", 1),
        Err(EditError::NoGroup { known, .. }) if known == ["cp"]
    ));
    for broken in [
        "",
        "machines: [",
        "machines: &a {linux: 1}\n",
        "a: 1\na: 2\n",
    ] {
        assert_eq!(
            add(broken, "lin", 1).unwrap_err(),
            EditError::Unreadable,
            "{broken}"
        );
    }
    assert!(matches!(
        add("machines: 1\n", "lin", 1),
        Err(EditError::NoGroup { .. })
    ));
    assert_eq!(
        add("machines:\n", "lin", 1).unwrap_err().to_string(),
        "the file has no group `lin`"
    );
}

#[test]
fn a_form_that_would_be_broken_is_refused_whole() {
    let text = "machines:\n- {name: cp, role: control-plane}\n- ? name\n  : lin\n";
    let result = add(text, "lin", 1);
    let is_right = |text: &String| names(text) == ["cp1", "lin1", "lin2"];
    assert!(matches!(&result, Err(EditError::Form { .. })) || result.as_ref().is_ok_and(is_right));
}

/// How a file is written.
#[expect(
    clippy::struct_excessive_bools,
    reason = "every combination is a form of its own"
)]
#[derive(Debug, Clone, Copy)]
struct Form {
    is_flow: bool,
    is_quoted: bool,
    is_commented: bool,
    is_windows: bool,
    is_indented: bool,
    ends: bool,
    skip_lines: bool,
}

#[derive(Debug, Clone)]
struct Wish {
    name: &'static str,
    count: Option<u32>,
    skip: Vec<u32>,
    addresses: usize,
    name_last: bool,
}

fn key(form: Form, key: &str) -> String {
    if form.is_quoted {
        format!("\"{key}\"")
    } else {
        key.into()
    }
}

fn fields(form: Form, wish: &Wish) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    if wish.name == "cp" {
        fields.push((key(form, "role"), "control-plane".into()));
    }
    if let Some(count) = wish.count {
        fields.push((key(form, "count"), count.to_string()));
    }
    if !wish.skip.is_empty() {
        fields.push((key(form, "skip"), format!("{:?}", wish.skip)));
    }
    if wish.addresses > 0 {
        let list: Vec<_> = (0..wish.addresses)
            .map(|at| format!("{}{at}.example", wish.name))
            .collect();
        fields.push((key(form, "addresses"), format!("[{}]", list.join(", "))));
    }
    fields.push((key(form, "labels"), "{tier: \"a, #b\"}".into()));
    let at = if wish.name_last { fields.len() } else { 0 };
    fields.insert(at, (key(form, "name"), wish.name.into()));
    fields
}

fn write(form: Form, wishes: &[Wish]) -> String {
    let mut out = String::from("# top\nmetadata: {name: demo}\n");
    let comment = |text: &str| {
        if form.is_commented {
            format!("  # {text}")
        } else {
            String::new()
        }
    };
    let _ = writeln!(out, "{}:{}", key(form, "machines"), comment("all"));
    let pad = if form.is_indented { "   " } else { "" };
    for wish in wishes {
        if form.is_commented {
            let _ = writeln!(out, "{pad}# group {}", wish.name);
        }
        let fields = fields(form, wish);
        if form.is_flow {
            let fields: Vec<_> = fields
                .iter()
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            let _ = writeln!(
                out,
                "{pad}- {{{}}}{}",
                fields.join(", "),
                comment(wish.name)
            );
            continue;
        }
        for (at, (key, value)) in fields.iter().enumerate() {
            let dash = if at == 0 { "- " } else { "  " };
            let is_list = form.skip_lines && value.starts_with('[');
            if is_list {
                let _ = writeln!(out, "{pad}{dash}{key}:");
                for item in value.trim_matches(['[', ']']).split(", ") {
                    let _ = writeln!(out, "{pad}    - {item}");
                }
            } else {
                let _ = writeln!(
                    out,
                    "{pad}{dash}{key}: {value}{}",
                    comment(key.trim_matches('"'))
                );
            }
            if form.is_commented && at == 0 {
                let _ = writeln!(out, "{pad}  # within ü\n");
            }
        }
    }
    out.push_str("# last\nproxy: {no: [x]}\n");
    if !form.ends {
        out.truncate(out.trim_end().len());
    }
    if form.is_windows {
        out.replace('\n', "\r\n")
    } else {
        out
    }
}

fn forms() -> impl Strategy<Value = Form> {
    any::<[bool; 7]>().prop_map(|bits| Form {
        is_flow: bits[0],
        is_quoted: bits[1],
        is_commented: bits[2],
        is_windows: bits[3],
        is_indented: bits[4],
        ends: bits[5],
        skip_lines: bits[6],
    })
}

fn wish(name: &'static str) -> impl Strategy<Value = Wish> {
    let skip = proptest::collection::btree_set(1_u32..9, 0..4);
    (
        proptest::option::of(0_u32..6),
        skip,
        0_usize..4,
        any::<bool>(),
    )
        .prop_map(move |(count, skip, addresses, name_last)| Wish {
            name,
            count: count.map(|count| {
                if addresses > 0 {
                    u32::try_from(addresses).unwrap()
                } else {
                    count
                }
            }),
            skip: skip.into_iter().collect(),
            addresses,
            name_last,
        })
}

fn comments(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('-') || line.contains('{'));
    lines
        .filter_map(|line| line.split_once("# ").map(|(_, comment)| comment))
        .collect()
}

/// The file without the fields that a change is about.
fn others(text: &str, group: &str) -> Value {
    let file = File::read(text).unwrap();
    let index = file.group(&group.parse().unwrap()).unwrap().index;
    file.rest(Some(index))
}

fn check(before: &str, after: &str, group: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(comments(before), comments(after));
    prop_assert_eq!(others(before, group), others(after, group));
    let bare = |text: &str| text.matches('\n').count() - text.matches("\r\n").count();
    if before.contains("\r\n") {
        prop_assert_eq!(bare(after), 0);
    } else {
        prop_assert!(!after.contains('\r'));
    }
    prop_assert_eq!(before.ends_with('\n'), after.ends_with('\n'));
    Ok(())
}

proptest! {
    #[test]
    fn adding_changes_the_count_and_nothing_else(
        form in forms(),
        control in wish("cp"),
        workers in wish("lin"),
        more in 1_u32..5,
    ) {
        let before = write(form, &[control, workers.clone()]);
        match add(&before, "lin", more) {
            Err(EditError::Addresses { .. }) => prop_assert!(workers.addresses > 0),
            result => {
                let after = result.map_err(|error| TestCaseError::fail(format!("{error}\n{before}")))?;
                check(&before, &after, "lin")?;
                let (old, new) = (names(&before), names(&after));
                prop_assert_eq!(new.len(), old.len() + more as usize);
                prop_assert!(old.iter().all(|name| new.contains(name)), "nobody loses its name");
                prop_assert!(after.lines().count() <= before.lines().count() + 1);
            }
        }
    }

    #[test]
    fn removing_takes_one_machine_and_nothing_else(
        form in forms(),
        control in wish("cp"),
        workers in wish("lin"),
        choice in any::<proptest::sample::Index>(),
    ) {
        let before = write(form, &[control, workers.clone()]);
        let old = names(&before);
        let old: Vec<_> = old.into_iter().filter(|name| name.starts_with("lin")).collect();
        if old.is_empty() {
            return Ok(());
        }
        let gone = choice.get(&old);
        match remove(&before, gone) {
            Err(EditError::LastAddress { .. }) => prop_assert_eq!(workers.addresses, 1),
            result => {
                let after = result.map_err(|error| TestCaseError::fail(format!("{error}\n{before}")))?;
                check(&before, &after, "lin")?;
                let mut left = old.clone();
                left.retain(|name| name != gone);
                let new: Vec<_> = names(&after).into_iter().filter(|name| name.starts_with("lin")).collect();
                prop_assert_eq!(new, left);
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(machines: )?[\\PC\\n\\t]{0,80}") {
        let _ = add(&text, "lin", 1);
        let _ = remove(&text, "lin1");
    }
}
