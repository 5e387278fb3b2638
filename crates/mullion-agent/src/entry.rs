//! What of a request stands in the event log of Windows: whoever looks after the machine finds there when it was changed,
//! and what did not work.

use mullion_wire::{Event, Request};

use crate::system::LogEntry;

/// The entry for a request that changes something, by the event that it ended with.
pub(crate) fn entry(request: &Request, end: &Event) -> Option<(LogEntry, String)> {
    let asked = match request {
        Request::Facts
        | Request::Missing { .. }
        | Request::Compare { .. }
        | Request::MissingImages { .. }
        | Request::KubeletLog => return None,
        Request::Import { .. } => "images".to_owned(),
        Request::Enable { features } => {
            let names: Vec<_> = features.iter().map(String::as_str).collect();
            format!("features {}", names.join(", "))
        }
        Request::Apply { blueprint, .. } => format!("the blueprint of {}", blueprint.machine),
        Request::Kubeadm { .. } => "kubeadm".to_owned(),
        Request::Run { .. } => "the user's commands".to_owned(),
        _ => "putting everything back".to_owned(),
    };
    match (request, end) {
        (_, Event::Failed { words, causes, .. }) => {
            let lines: Vec<_> = [format!("Failed: {asked}."), words.clone()]
                .into_iter()
                .chain(causes.iter().cloned())
                .collect();
            Some((LogEntry::Failed, lines.join("\r\n")))
        }
        (Request::Apply { .. } | Request::Enable { .. }, Event::Done { changed, reboot }) => {
            let mut words = format!("Applied: {asked}. Changed: {changed}.");
            if let Some(why) = reboot {
                words.push_str("\r\nThe machine has to be started anew, and what needs that follows after it: ");
                words.push_str(why);
            }
            Some((LogEntry::Applied, words))
        }
        (Request::Revert, Event::Done { changed, .. }) => {
            let words = format!("Everything that was applied is put back. Changed: {changed}.");
            Some((LogEntry::PutBack, words))
        }
        _ => None,
    }
}
