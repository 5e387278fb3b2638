//! Looks up the addresses of computers by their names, as this computer's resolver knows them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mullion_spec::draft::Addresses;

/// How long all names together may take. A name without an answer by then counts as one that is not known.
const LIMIT: Duration = Duration::from_secs(3);

/// How many names are looked up at the same time.
const THREADS: usize = 32;

/// The IPv4 addresses of each name: from the hosts file, and else from DNS.
pub(crate) fn addresses(names: &BTreeSet<String>) -> Addresses {
    collect(&begin(names, resolve), names.len(), LIMIT)
}

type Found = (String, Vec<Ipv4Addr>);

/// Starts to look up names. A call of the resolver cannot be stopped, so no one waits for these threads.
fn begin(names: &BTreeSet<String>, resolve: fn(&str) -> Vec<Ipv4Addr>) -> Receiver<Found> {
    let (sender, receiver) = channel();
    let left: Vec<_> = names.iter().rev().cloned().collect();
    let left = Arc::new(Mutex::new(left));
    for _ in 0..names.len().min(THREADS) {
        let (sender, left) = (sender.clone(), Arc::clone(&left));
        thread::spawn(move || {
            let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
            while let Some(name) = next() {
                let found = resolve(&name);
                // The receiver is gone once the time is over.
                if sender.send((name, found)).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// What is found within the limit.
fn collect(receiver: &Receiver<Found>, count: usize, limit: Duration) -> Addresses {
    let end = Instant::now() + limit;
    let next = |_| {
        let left = end.saturating_duration_since(Instant::now());
        receiver.recv_timeout(left).ok()
    };
    let found = (0..count).map_while(next);
    found
        .filter(|(_, addresses)| !addresses.is_empty())
        .collect()
}

fn resolve(name: &str) -> Vec<Ipv4Addr> {
    let found = (name, 0).to_socket_addrs().into_iter().flatten();
    let found = found.filter_map(|address| match address.ip() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_name_of_the_hosts_file_is_found() {
        let found = addresses(&names(&["localhost"]));
        assert_eq!(found["localhost"], [Ipv4Addr::LOCALHOST]);
        assert!(addresses(&names(&[])).is_empty());
    }

    #[test]
    fn a_name_without_an_answer_in_time_is_not_known() {
        let slow = |name: &str| {
            if name == "slow" {
                thread::sleep(Duration::from_mins(1));
            }
            vec![Ipv4Addr::LOCALHOST]
        };
        let names = names(&["a", "b", "slow"]);
        let began = Instant::now();
        let found = collect(&begin(&names, slow), names.len(), Duration::from_secs(1));
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn more_names_than_threads_are_all_looked_up() {
        let many: Vec<_> = (0..100).map(|number| format!("h{number}")).collect();
        let many: BTreeSet<_> = many.into_iter().collect();
        let found = collect(&begin(&many, |_| vec![Ipv4Addr::LOCALHOST]), 100, LIMIT);
        assert_eq!(found.len(), 100);
    }
}
