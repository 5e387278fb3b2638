//! The environment variables as a page.

use std::fmt::Write as _;

use mullion::environment::VARIABLES;

pub(super) fn render() -> String {
    let mut text = String::from(
        "# Environment variables\n\nEverything that `mullion` takes from the environment.\n\n| variable | meaning |\n|---|---|\n",
    );
    for variable in VARIABLES {
        let _ = writeln!(text, "| `{}` | {} |", variable.name, variable.meaning);
    }
    text
}
