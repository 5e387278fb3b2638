//! Who may open a file, in Windows' own short writing of it.
//!
//! What modes are on Windows:
//!
//! | mode | | what it is |
//! |---|---|---|
//! | `0600` | file | the system and administrators alone |
//! | `0644` | file | whoever its folder lets in, and as far as that does |
//! | `0700` | folder | the system and administrators alone |
//! | `0755` | folder | everybody reads and runs; the system and administrators alone add, change and remove |
//! | `1777` | folder | everybody adds, and changes what is theirs, as in `C:\` of a Windows Server |
//!
//! What comes to be in a folder is as its folder is. What the folder above says never counts for one of ours: anybody may
//! add to a folder that is as `C:\` is, and a service of the system that finds its libraries in its own folder would run
//! what was added. Others are everybody, as in a mode of Unix: what stands in for Windows knows no other group.

/// Who a file of mode `0600` lets in: the system and administrators, and what its folder says does not count.
pub(super) const PRIVATE_FILE: &str = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)";
/// The same for a folder of mode `0700`, and everything that comes to be in it.
pub(super) const PRIVATE_FOLDER: &str = "O:BAD:PARAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";
/// A folder of mode `0755`, and everything that comes to be in it.
pub(super) const CLOSED_FOLDER: &str =
    "O:BAD:PARAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;WD)";
/// A folder of mode `1777`, and everything that comes to be in it: files are read and run, folders added to as well.
pub(super) const SHARED_FOLDER: &str = "O:BAD:PARAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)\
    (A;OICIIO;FA;;;CO)(A;OIIO;0x1200a9;;;WD)(A;CI;0x1200af;;;WD)";
/// Nothing of its own: what the folder says counts.
pub(super) const INHERITED: &str = "O:BAD:AI";

/// How Windows writes that there is no list at all: everybody may do everything.
const NO_LIST: &str = "NO_ACCESS_CONTROL";

/// The system, administrators, and the service that installs Windows itself.
const TRUSTED: [&str; 5] = [
    "SY",
    "BA",
    "S-1-5-18",
    "S-1-5-32-544",
    "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
];
/// Users of what stands in for Windows, all of which are administrators. No Windows has such a number.
const OF_STAND_IN: &str = "S-1-5-21-0-0-0-";

/// Who may open something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The system and administrators, and nobody else.
    Private,
    /// Everybody, who may not change it: a folder with a list of its own.
    Closed,
    /// Everybody, who may add to it: a folder with a list of its own.
    Shared,
    /// Whoever its folder lets in.
    Inherited,
    /// Others, by its own word.
    Other,
}

/// Whose something is: `BA` of `O:BAG:SYD:P(A;;FA;;;SY)`.
pub(super) fn owner(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("O:")?;
    let end = ["G:", "D:", "S:"].iter().filter_map(|part| rest.find(part));
    Some(&rest[..end.min().unwrap_or(rest.len())])
}

/// Whether something is of somebody who may change everything anyway.
pub(super) fn is_of_administrators(text: &str) -> bool {
    owner(text).is_some_and(|owner| TRUSTED.contains(&owner) || owner.starts_with(OF_STAND_IN))
}

/// Reads who may open something: `O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)`.
pub(super) fn access(text: &str) -> Access {
    let Some((_, list)) = text.split_once("D:") else {
        return Access::Other;
    };
    let owner = owner(text).unwrap_or_default();
    let flags = list.split('(').next().unwrap_or_default();
    if flags.contains(NO_LIST) {
        return Access::Other;
    }
    let entries = entries(list);
    // What stands in for Windows makes the list up from a mode: it has neither word nor inheritance, and tells only who
    // is let in.
    let is_made_up = owner.starts_with(OF_STAND_IN) && flags.is_empty();
    let trustee = |entry: &str| entry.split(';').nth(5).unwrap_or_default().to_owned();
    let is_trusted = |entry: &&str| {
        let trustee = trustee(entry);
        TRUSTED[..4].contains(&trustee.as_str()) || (is_made_up && trustee == owner)
    };
    let others: Vec<_> = entries.iter().filter(|entry| !is_trusted(entry)).collect();
    if is_made_up {
        return match others[..] {
            [] => Access::Private,
            [entry] if entry.split(';').nth(2) == Some("0x1200a9") => Access::Closed,
            _ => Access::Shared,
        };
    }
    // `P` stands alone or before the others: `P`, `PAI`.
    if flags.starts_with('P') {
        let is = |ours: &str| self::entries(ours.split_once("D:").unwrap_or_default().1) == entries;
        if !entries.is_empty() && others.is_empty() {
            Access::Private
        } else if is(CLOSED_FOLDER) {
            Access::Closed
        } else if is(SHARED_FOLDER) {
            Access::Shared
        } else {
            Access::Other
        }
    } else if entries.iter().all(|entry| is_inherited(entry)) {
        Access::Inherited
    } else {
        Access::Other
    }
}

/// The entries of a list, without their brackets, up to the rules for auditing where there are any.
fn entries(list: &str) -> Vec<&str> {
    let entries = list.split("S:").next().unwrap_or_default();
    entries
        .split('(')
        .skip(1)
        .map(|entry| entry.trim_end_matches([')', ' ']))
        .collect()
}

/// Whether an entry comes from the folder: `(A;OICIID;FA;;;SY)`.
pub(super) fn is_inherited(entry: &str) -> bool {
    let flags = entry.split(';').nth(1).unwrap_or_default();
    flags.as_bytes().chunks(2).any(|flag| flag == b"ID")
}

/// The flags under which a list is written that is all its own. `AI` is what lets whatever comes to be in a folder tell
/// what it has from it, and Windows takes it together with `AR` alone.
pub(super) fn own_flags(list: &str) -> &'static str {
    let flags = list.split('(').next().unwrap_or_default();
    if flags.contains("AI") { "PARAI" } else { "P" }
}

/// A list without its flags, or the word for none.
pub(super) fn bare(list: &str) -> &str {
    let start = list.find('(').or_else(|| list.find(NO_LIST));
    start.map_or("", |start| &list[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_set_is_what_we_read() {
        for (text, expected) in [
            (PRIVATE_FILE, Access::Private),
            (PRIVATE_FOLDER, Access::Private),
            (CLOSED_FOLDER, Access::Closed),
            (SHARED_FOLDER, Access::Shared),
            (INHERITED, Access::Inherited),
        ] {
            assert_eq!(access(text), expected, "{text}");
            // As Windows writes it once it was set.
            let set = text.replace("O:BAD:PARAI(", "O:BAD:P(");
            let set = set.replace("O:BAD:P(", "O:BAG:SYD:PAI(");
            assert_eq!(access(&set), expected, "{set}");
            assert!(is_of_administrators(&set));
        }
    }

    #[test]
    fn anybody_else_is_seen() {
        let users = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)";
        assert_eq!(access(users), Access::Other);
        let changes = CLOSED_FOLDER.replace("0x1200a9", "0x1301bf");
        assert_eq!(access(&changes), Access::Other);
        let inherited = "O:BAD:AI(A;ID;FA;;;SY)(A;OICIID;0x1200a9;;;BU)";
        assert_eq!(access(inherited), Access::Inherited);
        // As `C:\` has it, and what is in it.
        let drive = "O:BAD:PAI(A;OICIIO;FA;;;CO)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)\
            (A;CIIO;DC;;;BU)(A;CI;LC;;;BU)(A;OICI;0x1200a9;;;BU)";
        assert_eq!(access(drive), Access::Other);
        let both = "O:BAD:AI(A;;FA;;;WD)(A;ID;FA;;;SY)";
        assert_eq!(access(both), Access::Other);
        assert_eq!(access("O:BAG:SY"), Access::Other);
        assert_eq!(access("O:BAD:P"), Access::Other);
        assert_eq!(bare("PAI(A;;FA;;;SY)"), "(A;;FA;;;SY)");
        assert_eq!(bare("AI"), "");
    }

    #[test]
    fn what_is_in_a_folder_tells_what_it_has_from_it() {
        for folder in [PRIVATE_FOLDER, CLOSED_FOLDER, SHARED_FOLDER] {
            let (_, list) = folder.split_once("D:").unwrap();
            assert_eq!(own_flags(list), "PARAI");
        }
        // As Windows tells what it was told so, and one that is put back as it was.
        assert_eq!(own_flags("PAI(A;;FA;;;SY)"), "PARAI");
        assert_eq!(own_flags("P(A;;FA;;;SY)"), "P");
        assert_eq!(own_flags("(A;;FA;;;SY)"), "P");
    }

    #[test]
    fn something_without_a_list_is_open_to_everybody_and_not_as_its_folder_says() {
        for flags in ["", "AI", "P", "PAI"] {
            let text = format!("O:BAD:{flags}NO_ACCESS_CONTROL");
            assert_eq!(access(&text), Access::Other, "{text}");
            // So it is put back: an empty list would let nobody in.
            assert_eq!(bare(&text[5..]), "NO_ACCESS_CONTROL");
        }
    }

    #[test]
    fn a_list_that_was_made_up_from_a_mode_tells_whom_that_lets_in() {
        let private = "O:S-1-5-21-0-0-0-1000D:(A;;FA;;;SY)(A;;FA;;;S-1-5-21-0-0-0-1000)";
        assert_eq!(access(private), Access::Private);
        let closed = format!("{private}(A;;0x1200a9;;;WD)");
        assert_eq!(access(&closed), Access::Closed);
        let shared = format!("{private}(A;;FA;;;WD)");
        assert_eq!(access(&shared), Access::Shared);
        assert!(is_of_administrators(private));
    }

    #[test]
    fn an_owner_who_is_no_administrator_is_seen() {
        // Windows' SSH server takes no key from a file that its owner may open, administrator or not.
        let user = "S-1-5-21-1-2-3-1001";
        let theirs = format!("O:{user}D:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;FA;;;{user})");
        assert_eq!(access(&theirs), Access::Other);
        assert_eq!(access(&theirs.replace("D:P", "D:PAI")), Access::Other);
        assert_eq!(access(&theirs.replace("D:P", "D:")), Access::Other);
        for text in ["O:S-1-5-21-1-2-3-1001G:SYD:P(A;;FA;;;SY)", "O:BUD:P", "D:P"] {
            assert!(!is_of_administrators(text), "{text}");
        }
        assert_eq!(owner("O:BAG:SYD:P"), Some("BA"));
        assert_eq!(owner("O:SYS:AI"), Some("SY"));
        assert_eq!(owner("O:S-1-5-18"), Some("S-1-5-18"));
    }
}
