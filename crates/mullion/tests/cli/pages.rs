//! Every command that the README and the pages under `docs/` show is run, and its output compared.
//!
//! A page shows commands in blocks marked `console`: a line that begins with `$` is run, a line `? CODE`
//! behind it names its exit code, and what follows is its output, where `...` stands for any lines and
//! `[..]` for anything within a line. A block marked `yaml` whose first line is `# NAME.yaml` is written
//! to that file first.

use std::path::{Path, PathBuf};

use crate::Bench;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn is_yaml(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "yaml")
}

struct Block<'a> {
    language: &'a str,
    text: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text = lines.by_ref().take_while(|line| *line != "```").fold(
                String::new(),
                |mut text, line| {
                    text.push_str(line);
                    text.push('\n');
                    text
                },
            );
            blocks.push(Block { language, text });
        }
    }
    blocks
}

struct Shown {
    arguments: Vec<String>,
    code: String,
    output: String,
}

fn commands(text: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            shown.push(Shown {
                arguments: command.split_whitespace().map(Into::into).collect(),
                code: "0".into(),
                output: String::new(),
            });
        } else if let Some(last) = shown.last_mut() {
            match line.strip_prefix("? ") {
                Some(code) if last.output.is_empty() => last.code = code.into(),
                _ => {
                    last.output.push_str(line);
                    last.output.push('\n');
                }
            }
        }
    }
    shown
}

#[test]
fn what_the_pages_show_is_what_happens() {
    let mut found = vec![
        repository().join("README.md"),
        repository().join("CONTRIBUTING.md"),
    ];
    pages(&repository().join("docs"), &mut found);
    let mut run = 0;
    for page in found {
        let bench = Bench::new();
        let text = fs_err::read_to_string(&page).unwrap();
        for block in blocks(&text) {
            match block.language {
                "yaml" => {
                    let first = block.text.lines().next().unwrap_or_default();
                    if let Some(name) = first.strip_prefix("# ").filter(|name| is_yaml(name)) {
                        bench.write(name, &block.text);
                    }
                }
                "console" => {
                    for shown in commands(&block.text) {
                        assert_eq!(shown.arguments[0], "mullion", "{}", page.display());
                        let arguments: Vec<_> =
                            shown.arguments[1..].iter().map(String::as_str).collect();
                        let ran = bench.run(&arguments);
                        let output = format!("{}{}", ran.err, ran.out);
                        if shown.code != "[..]" {
                            assert_eq!(
                                ran.code.to_string(),
                                shown.code,
                                "{}: {arguments:?}\n{output}",
                                page.display()
                            );
                        }
                        let expected = shown.output.trim_end();
                        snapbox::assert_data_eq!(output.trim_end(), expected.to_owned());
                        run += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(run >= 5, "the README shows commands: {run}");
}
