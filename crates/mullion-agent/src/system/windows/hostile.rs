//! Hostile answers for readers that are built on Windows alone: no change of an answer makes one panic.

use super::documents::{Network, complaint, network_of};
use super::{choice, recovery, sddl, search_path};

const ANSWERS: &[&str] = &[
    r#"{"ID":"a","Name":"flannel.4096","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.244.1.0/24"}]}]}"#,
    r#"{"HostComputeNetwork":"a","Error":"no","Policies":[{"Type":"VSID","Settings":{"IsolationId":-1}}]}"#,
    "O:BAG:DUD:PAI(A;OICIID;FA;;;SY)(A;;FA;;;BA)S:(AU;;x)",
    r"%SystemRoot%\system32;%;%%;C:\a;;relative;%Path%",
    r#""C:\k\kubelet.exe" --log-file=C:\k\kubelet.log --x "C:\a b""#,
    "\u{1}\0\0\0\0\0\0\0\0\0\0\0\u{2}\0\0\0\u{14}\0\0\0\u{1}\0\0\0\u{7f}\0\0\0",
];

/// Words that end, repeat or break what stands around them.
const PIECES: &[&str] = &[
    "(", ")", ";", "%", "\"", "\\", "{", "}", "[", ":", "O:", "D:", "S:", "ID", "é", "\u{202e}",
    "\0", "=", "--",
];

fn read(answer: &str) {
    if let Ok(network) = serde_json::from_str::<Network>(answer) {
        let _ = (network.is_of_pods(), network.fact());
    }
    let _ = (network_of(answer), complaint(answer));
    let _ = (sddl::owner(answer), sddl::access(answer));
    let _ = (
        sddl::is_of_administrators(answer),
        sddl::is_inherited(answer),
    );
    let _ = recovery::read(answer.as_bytes());
    let _ = search_path::folders(answer, r"C:\Windows", &|name| format!("%{name}%"));
    let _ = (choice::log_file(answer), choice::holds_pod(answer));
}

#[test]
fn no_change_of_an_answer_makes_a_reader_panic() {
    for answer in ANSWERS {
        read(answer);
        let places: Vec<_> = answer.char_indices().map(|(place, _)| place).collect();
        for (number, place) in places.iter().enumerate() {
            let (before, after) = answer.split_at(*place);
            read(before);
            read(after);
            let without: String = before.chars().chain(after.chars().skip(1)).collect();
            read(&without);
            for piece in PIECES {
                read(&format!("{before}{piece}{after}"));
            }
            let other = ANSWERS[number % ANSWERS.len()];
            read(&format!("{before}{other}{after}"));
        }
    }
}
