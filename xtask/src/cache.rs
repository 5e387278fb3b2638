//! What the user's cache holds, as `mullion artifacts list` tells it.

use std::path::Path;
use std::process::Command;

use crate::{XtaskError, tools};

/// Puts every Linux program of the cache into one folder.
pub(crate) fn link_programs(program: &Path, folder: &Path) -> Result<(), XtaskError> {
    let mut list = Command::new(program);
    let empty = tempfile::tempdir()?;
    list.args(["artifacts", "list", "--json"])
        .current_dir(empty.path());
    let text = tools::read(&mut list)?;
    let answer = |detail: &str| XtaskError::Answer {
        command: tools::shown(&list),
        detail: detail.into(),
    };
    let listed: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| answer(&error.to_string()))?;
    let cache = listed["cache"].as_str();
    let cache = cache.ok_or_else(|| answer("it does not name the cache"))?;
    let parts = listed["artifacts"].as_array();
    let parts = parts.ok_or_else(|| answer("it lists nothing"))?;
    for part in parts {
        let text = |key: &str| part[key].as_str().unwrap_or_default();
        if (text("kind"), text("os")) == ("program", "linux") {
            let place = format!("{}@{}", text("name"), text("version"));
            let below = Path::new(cache).join("parts/linux/program").join(place);
            std::os::unix::fs::symlink(below.join(text("name")), folder.join(text("name")))?;
        }
    }
    Ok(())
}
