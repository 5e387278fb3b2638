//! Who may open a file, in Windows' own short writing of it.

/// Who a file of mode `0600` lets in: the system and administrators, and what its folder says does not count.
pub(super) const PRIVATE_FILE: &str = "D:P(A;;FA;;;SY)(A;;FA;;;BA)";
/// The same for a folder of mode `0700`, and everything that comes to be in it.
pub(super) const PRIVATE_FOLDER: &str = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";
/// Nothing of its own: what the folder says counts.
pub(super) const INHERITED: &str = "D:AI";

/// Who may open something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The system, administrators and its owner, and nobody else.
    Private,
    /// Whoever its folder lets in.
    Inherited,
    /// Others, by its own word.
    Other,
}

/// Reads who may open something: `O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)`.
pub(super) fn access(text: &str) -> Access {
    let owner = text
        .strip_prefix("O:")
        .and_then(|rest| rest.split("D:").next())
        .map(|owner| owner.split("G:").next().unwrap_or(owner));
    let Some((_, list)) = text.split_once("D:") else {
        return Access::Other;
    };
    let flags = list.split('(').next().unwrap_or_default();
    // Up to the rules for auditing, where there are any.
    let entries = list.split("S:").next().unwrap_or_default();
    let entries: Vec<_> = entries
        .split('(')
        .skip(1)
        .map(|entry| entry.trim_end_matches([')', ' ']))
        .collect();
    let is_trusted = |entry: &str| {
        let trustee = entry.split(';').nth(5).unwrap_or_default();
        ["SY", "BA", "S-1-5-18", "S-1-5-32-544"].contains(&trustee) || owner == Some(trustee)
    };
    let is_private = !entries.is_empty() && entries.iter().all(|entry| is_trusted(entry));
    let inherited = entries.iter().filter(|entry| is_inherited(entry)).count();
    // `P` stands alone or before the others: `P`, `PAI`.
    let is_protected = flags.starts_with('P');
    // What stands in for Windows makes the list up from a mode: it has neither word nor inheritance, and tells only who
    // is let in.
    let is_made_up = !is_protected && inherited == 0;
    if is_private && (is_protected || is_made_up) {
        Access::Private
    } else if is_made_up || (!is_protected && inherited == entries.len()) {
        Access::Inherited
    } else {
        Access::Other
    }
}

/// Whether an entry comes from the folder: `(A;OICIID;FA;;;SY)`.
pub(super) fn is_inherited(entry: &str) -> bool {
    let flags = entry.split(';').nth(1).unwrap_or_default();
    flags.as_bytes().chunks(2).any(|flag| flag == b"ID")
}

/// A list without its flags.
pub(super) fn bare(list: &str) -> &str {
    list.find('(').map_or("", |start| &list[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_set_is_what_we_read() {
        for text in [PRIVATE_FILE, PRIVATE_FOLDER] {
            assert_eq!(access(&format!("O:BAG:SY{text}")), Access::Private);
        }
        assert_eq!(access(&format!("O:BA{INHERITED}")), Access::Inherited);
    }

    #[test]
    fn anybody_else_is_seen() {
        let private =
            "O:S-1-5-21-1-2-3-500D:PAI(A;;FA;;;SY)(A;;FA;;;BA)(A;;FA;;;S-1-5-21-1-2-3-500)";
        assert_eq!(access(private), Access::Private);
        let users = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)";
        assert_eq!(access(users), Access::Other);
        let inherited = "O:BAD:AI(A;ID;FA;;;SY)(A;OICIID;0x1200a9;;;BU)";
        assert_eq!(access(inherited), Access::Inherited);
        let made_up = "O:S-1-5-21-0-0-0-1000D:(A;;FA;;;SY)(A;;FA;;;S-1-5-21-0-0-0-1000)";
        assert_eq!(access(made_up), Access::Private);
        let world = format!("{made_up}(A;;0x1200a9;;;WD)");
        assert_eq!(access(&world), Access::Inherited);
        let both = "O:BAD:AI(A;;FA;;;WD)(A;ID;FA;;;SY)";
        assert_eq!(access(both), Access::Other);
        assert_eq!(access("O:BAG:SY"), Access::Other);
        assert_eq!(access("O:BAD:P"), Access::Other);
        assert_eq!(bare("PAI(A;;FA;;;SY)"), "(A;;FA;;;SY)");
        assert_eq!(bare("AI"), "");
    }
}
