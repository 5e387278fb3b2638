//! Windows paths: read as Windows reads them, shown as the two sides want them.
//!
//! Everything is on drive `C:`, which is a folder of the machine. `.` and `..` are worked out on the text alone, as
//! Windows does before it asks its file system, and `..` above the drive stays on the drive. What cannot be a file of
//! the drive (another drive, a share, a named pipe, a device) is refused by a name that a user knows it by.

use std::fmt::Write as _;

use thiserror::Error;

/// The longest path that Windows takes, in characters.
const LONGEST: usize = 32_767;

/// Why a text is not a path on the drive.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathError {
    /// There is nothing.
    #[error("the path is empty")]
    Empty,
    /// `\\.\pipe\…`
    #[error("`{0}` is a named pipe: the stand-in has none")]
    Pipe(String),
    /// `\\server\share\…`
    #[error("`{0}` is a share or a device: the stand-in has its drive C: only")]
    Share(String),
    /// `D:\…`
    #[error("`{0}` is on another drive: the stand-in has its drive C: only")]
    OtherDrive(String),
    /// Neither a drive nor a slash at its beginning.
    #[error("`{0}` does not begin at the drive")]
    Relative(String),
    /// It would be above the folder that it begins in.
    #[error("`{0}` leaves its folder")]
    Leaves(String),
    /// What no name on Windows may hold.
    #[error("`{path}` holds {character:?}, which no Windows name does")]
    Character {
        /// The path.
        path: String,
        /// The first such character.
        character: char,
    },
    /// Longer than Windows takes.
    #[error("the path has {0} characters, and Windows takes {LONGEST}")]
    TooLong(usize),
    /// It leads out of the drive by a link.
    #[error("`{0}` leads out of the drive")]
    LinkOut(String),
    /// The drive could not be read.
    #[error("`{path}` cannot be looked up: {cause}")]
    Unreadable {
        /// The path.
        path: String,
        /// What the system said.
        cause: String,
    },
}

/// A path on the drive: its parts, none of which is empty, `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrivePath {
    parts: Vec<String>,
}

impl DrivePath {
    /// The drive itself.
    pub fn root() -> Self {
        Self { parts: Vec::new() }
    }

    /// Reads a path that begins at the drive: `C:\x`, `c:/x`, `\x`, `/x`, in any mixture of slashes.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        check_length(text)?;
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if starts_with_two_slashes(text) {
            let shown = shortened(text);
            let is_pipe = is_pipe(text);
            return Err(if is_pipe {
                PathError::Pipe(shown)
            } else {
                PathError::Share(shown)
            });
        }
        let rest = match drive_of(text) {
            Some((letter, rest)) if letter.eq_ignore_ascii_case(&'c') => rest,
            Some(_) => return Err(PathError::OtherDrive(shortened(text))),
            None => text,
        };
        if !rest.is_empty() && !rest.starts_with(is_slash) {
            return Err(PathError::Relative(shortened(text)));
        }
        let mut path = Self::root();
        path.walk(text, rest)?;
        Ok(path)
    }

    /// Reads a path as SFTP writes it: as [`DrivePath::parse`], with a slash before the drive (`/C:/x`), or relative
    /// to a folder.
    pub fn parse_sftp(text: &str, home: &Self) -> Result<Self, PathError> {
        check_length(text)?;
        let behind_slash = text
            .strip_prefix('/')
            .filter(|rest| drive_of(rest).is_some());
        match Self::parse(behind_slash.unwrap_or(text)) {
            Err(PathError::Relative(_)) if drive_of(text).is_none() => {
                let mut path = home.clone();
                path.walk(text, text)?;
                Ok(path)
            }
            Err(PathError::Empty) => Ok(home.clone()),
            other => other,
        }
    }

    /// The same with further parts. `..` goes up, at most to the drive.
    fn walk(&mut self, whole: &str, rest: &str) -> Result<(), PathError> {
        for part in rest.split(is_slash) {
            match part {
                "" | "." => {}
                ".." => {
                    self.parts.pop();
                }
                part => {
                    check_name(whole, part)?;
                    self.parts.push(part.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Its parts, from the drive on.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// `C:\x\y`
    pub fn windows(&self) -> String {
        format!("C:\\{}", self.parts.join("\\"))
    }

    /// `/C:/x/y`
    pub fn sftp(&self) -> String {
        format!("/C:/{}", self.parts.join("/"))
    }

    /// The path of a Linux container that has the drive as its root: `/x/y`.
    pub fn linux(&self) -> String {
        format!("/{}", self.parts.join("/"))
    }

    /// Below a folder of the machine, as the text says.
    pub fn below(&self, drive: &str) -> String {
        let mut path = drive.trim_end_matches('/').to_owned();
        for part in &self.parts {
            let _ = write!(path, "/{part}");
        }
        path
    }

    /// The path on the drive that a path of the machine is, if the drive holds it.
    pub fn from_machine(drive: &str, path: &str) -> Option<Self> {
        let rest = path.strip_prefix(drive.trim_end_matches('/'))?;
        let is_below = rest.is_empty() || rest.starts_with('/');
        is_below.then(|| Self::from_linux(rest))
    }

    /// The path on the drive that a path inside a Linux container stands for.
    pub fn from_linux(path: &str) -> Self {
        let parts = path.split('/').filter(|part| !part.is_empty());
        Self {
            parts: parts.map(str::to_owned).collect(),
        }
    }
}

/// A path below a folder, with Linux slashes: a container's log below its pod's. It may not go up.
pub fn relative(text: &str) -> Result<String, PathError> {
    check_length(text)?;
    let is_rooted = text.starts_with(is_slash) || drive_of(text).is_some();
    let mut parts = Vec::new();
    for part in text.split(is_slash) {
        match part {
            "" | "." => {}
            ".." => return Err(PathError::Leaves(shortened(text))),
            part => {
                check_name(text, part)?;
                parts.push(part);
            }
        }
    }
    if is_rooted {
        return Err(PathError::Leaves(shortened(text)));
    }
    Ok(parts.join("/"))
}

fn is_slash(letter: char) -> bool {
    letter == '\\' || letter == '/'
}

/// The drive's letter, and what is behind its colon.
fn drive_of(text: &str) -> Option<(char, &str)> {
    let mut letters = text.chars();
    let letter = letters.next().filter(char::is_ascii_alphabetic)?;
    letters.next().filter(|colon| *colon == ':')?;
    Some((letter, letters.as_str()))
}

fn starts_with_two_slashes(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(is_slash) && letters.next().is_some_and(is_slash)
}

fn is_pipe(text: &str) -> bool {
    let parts: Vec<_> = text.split(is_slash).skip(2).take(2).collect();
    matches!(parts[..], [_, pipe] if pipe.eq_ignore_ascii_case("pipe"))
}

fn check_length(text: &str) -> Result<(), PathError> {
    let length = text.chars().count();
    if length > LONGEST {
        return Err(PathError::TooLong(length));
    }
    Ok(())
}

fn check_name(path: &str, name: &str) -> Result<(), PathError> {
    let refused = |letter: &char| letter.is_control() || "<>:\"|?*".contains(*letter);
    match name.chars().find(refused) {
        Some(character) => Err(PathError::Character {
            path: shortened(path),
            character,
        }),
        None => Ok(()),
    }
}

/// A path for a message: whole unless it is absurd.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 200;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let mut shown: String = text.chars().take(SHOWN).collect();
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windows(text: &str) -> Result<String, PathError> {
        DrivePath::parse(text).map(|path| path.windows())
    }

    #[test]
    fn a_path_is_read_however_its_slashes_are_mixed() {
        for (text, expected) in [
            (r"C:\var\log\pods", r"C:\var\log\pods"),
            ("c:/var/log/pods", r"C:\var\log\pods"),
            (r"C:\var/log\\pods\", r"C:\var\log\pods"),
            (r"\var\log", r"C:\var\log"),
            ("/var/log", r"C:\var\log"),
            ("C:", r"C:\"),
            (r"C:\", r"C:\"),
            ("/", r"C:\"),
            (r"C:\.\a\.\b", r"C:\a\b"),
            (r"C:\Füße\語 with blank", r"C:\Füße\語 with blank"),
            (r"C:\a\..\b", r"C:\b"),
            (r"C:\..\..\Windows", r"C:\Windows"),
            (r"C:/a/../../../b/..", r"C:\"),
            (r"C:\...\a", r"C:\...\a"),
        ] {
            assert_eq!(windows(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_on_the_drive_is_refused_by_its_name() {
        let told = |text: &str| windows(text).unwrap_err().to_string();
        assert_eq!(told(""), "the path is empty");
        for pipe in [
            r"\\.\pipe\containerd-containerd",
            "//./pipe/docker",
            r"\\server\PIPE\x",
        ] {
            assert_eq!(
                told(pipe),
                format!("`{pipe}` is a named pipe: the stand-in has none")
            );
        }
        for share in [r"\\server\share\x", r"\\?\C:\x", "//server/share", r"\\"] {
            assert!(told(share).contains("is a share or a device"), "{share}");
        }
        for other in [r"D:\data", "z:/", "E:"] {
            assert!(told(other).contains("is on another drive"), "{other}");
        }
        for beside in ["C:data", "data", r".\data", "..", "c"] {
            assert!(
                told(beside).contains("does not begin at the drive"),
                "{beside}"
            );
        }
        for held in [
            "C:\\a\0b",
            "C:\\a:stream",
            "C:\\a|b",
            "C:\\what?",
            "C:\\a\nb",
            "/1:/x",
        ] {
            assert!(
                told(held).contains("which no Windows name does"),
                "{held:?}"
            );
        }
        let long = format!("C:\\{}", "x\\".repeat(20_000));
        assert_eq!(
            told(&long),
            "the path has 40003 characters, and Windows takes 32767"
        );
        assert!(told(&format!("D:\\{}", "x".repeat(9000))).chars().count() < 300);
    }

    #[test]
    fn sftp_writes_a_slash_before_the_drive_or_begins_at_home() {
        let home = DrivePath::parse(r"C:\Users\Administrator").unwrap();
        for (text, expected) in [
            ("/C:/k/a.exe", "/C:/k/a.exe"),
            ("/c:/k", "/C:/k"),
            (r"C:\k", "/C:/k"),
            ("C:/k", "/C:/k"),
            ("/k", "/C:/k"),
            ("/", "/C:/"),
            ("/C:", "/C:/"),
            (".", "/C:/Users/Administrator"),
            ("", "/C:/Users/Administrator"),
            ("a/b", "/C:/Users/Administrator/a/b"),
            ("..", "/C:/Users"),
            ("../../../../etc", "/C:/etc"),
        ] {
            let read = DrivePath::parse_sftp(text, &home).map(|path| path.sftp());
            assert_eq!(read.as_deref(), Ok(expected), "{text}");
        }
        for refused in ["/D:/x", "D:x", "C:x", "//server/share"] {
            assert!(DrivePath::parse_sftp(refused, &home).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_path_of_the_machine_is_given_back_only_from_the_drive() {
        let back = |path: &str| DrivePath::from_machine("/srv/c", path).map(|path| path.windows());
        assert_eq!(back("/srv/c/var/log"), Some(r"C:\var\log".into()));
        assert_eq!(back("/srv/c"), Some(r"C:\".into()));
        assert_eq!(back("/srv/cd/var"), None);
        assert_eq!(back("/etc/passwd"), None);
    }

    #[test]
    fn a_log_stays_below_its_folder() {
        assert_eq!(relative(r"web\0.log").as_deref(), Ok("web/0.log"));
        assert_eq!(relative("web//0.log").as_deref(), Ok("web/0.log"));
        assert_eq!(relative("").as_deref(), Ok(""));
        for refused in [r"..\0.log", "a/../../b", r"C:\x", "/x", r"\x", "a\0", "C:x"] {
            assert!(relative(refused).is_err(), "{refused}");
        }
    }

    proptest! {
        /// Whatever is sent: no panic, nothing above the drive, and what was read is read again as the same.
        #[test]
        fn no_text_leaves_the_drive(text in r"(C:|c:|D:|/C:)?([\\/]|\.\.|\.|[a-zé:*]){0,40}") {
            let home = DrivePath::root();
            for path in [DrivePath::parse(&text), DrivePath::parse_sftp(&text, &home)].into_iter().flatten() {
                prop_assert!(path.parts().iter().all(|part| part != ".." && part != "." && !part.is_empty()));
                prop_assert_eq!(DrivePath::parse(&path.windows()), Ok(path.clone()));
                prop_assert_eq!(DrivePath::parse_sftp(&path.sftp(), &home), Ok(path.clone()));
                prop_assert_eq!(DrivePath::from_machine("/d", &path.below("/d/")), Some(path.clone()));
            }
            if let Ok(path) = relative(&text) {
                prop_assert!(!path.starts_with('/') && path.split('/').all(|part| part != ".."));
            }
        }
    }
}
