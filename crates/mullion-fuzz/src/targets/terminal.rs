//! Text on its way to a terminal.

use std::io::Write as _;

use mullion::guard::Guard;
use mullion_spec::render::Colour;
use mullion_wire::text::{is_hostile, one_line, visible, without_controls};

pub(super) fn terminal_text(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let clean = without_controls(&text);
    assert!(!clean.contains(is_hostile), "{clean:?}");
    assert_eq!(
        without_controls(&clean),
        clean,
        "what is clean stays as it is"
    );
    let line = one_line(&text);
    assert!(
        !line.contains(is_hostile) && !line.contains('\n'),
        "{line:?}"
    );
    let shown = visible(&text);
    assert!(
        !shown.contains(|letter: char| letter.is_control() || is_hostile(letter)),
        "{shown:?}"
    );
    if shown != text {
        assert!(
            shown.starts_with("$'") && shown.ends_with('\''),
            "{shown:?}"
        );
    }
    for colour in [Colour::Styled, Colour::Plain] {
        let mut out = Vec::new();
        let mut guard = Guard::new(&mut out, colour);
        for piece in bytes.chunks(7) {
            guard.write_all(piece).map_err(|error| error.to_string())?;
        }
        let mut out = String::from_utf8_lossy(&out).into_owned();
        if colour == Colour::Styled {
            out = without_colours(&out);
        }
        assert!(!out.contains(is_hostile), "{out:?}");
    }
    Ok(())
}

/// The text without sequences that set colours.
fn without_colours(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let parameters =
            after.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
        if let Some(behind) = parameters.strip_prefix('m') {
            rest = behind;
        } else {
            out.push('\u{1b}');
            rest = after;
        }
    }
    out + rest
}
