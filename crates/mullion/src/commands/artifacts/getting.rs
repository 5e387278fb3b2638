//! Getting many things at once: what may begin, and what is heard of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mullion_artifacts::{Item, SupplyError};
use mullion_plan::{Attend, News, PartKind, Unit};

/// So many go on at once.
const AT_ONCE: usize = 4;
/// Of those, so many may be compiled: a compiler keeps every processor busy by itself.
const BUILDS: usize = 2;
/// How often an amount is told.
const PAUSE: Duration = Duration::from_secs(10);

/// What is heard while things are got.
#[derive(Debug)]
pub(super) enum Heard {
    /// A line of what is going on.
    Line(Item, String),
    /// So much of it is done after that time.
    Amount(Item, String, Duration),
    /// It came to its end.
    Ended(Item, Duration, Option<Box<SupplyError>>),
}

/// Gets everything, and hands what is heard to `tell`; comes back when nothing goes on any more.
///
/// Images wait for programs, of which some are made. After `off` was set nothing new is begun.
pub(super) fn get_all(
    items: &[Item],
    off: &AtomicBool,
    get: &(dyn Fn(&Item, &dyn Attend) -> Result<(), SupplyError> + Sync),
    tell: &mut dyn FnMut(Heard),
) {
    let queue = Queue::new(items);
    let (sender, heard) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(items.len()) {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                while let Some(item) = queue.take(off) {
                    let attendant = Attendant {
                        item: &item,
                        off,
                        sender: Mutex::new(sender.clone()),
                        begun: Instant::now(),
                        told: Mutex::new(Instant::now()),
                    };
                    let result = get(&item, &attendant);
                    let took = attendant.begun.elapsed();
                    queue.end(&item);
                    let error = result.err().map(Box::new);
                    // Nobody listens any more: there is nothing left to tell.
                    let _ = sender.send(Heard::Ended(item, took, error));
                }
            });
        }
        drop(sender);
        for news in heard {
            tell(news);
        }
    });
}

/// What is still to be got.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<usize, Item>,
    busy: Vec<Item>,
}

fn is_program(item: &Item) -> bool {
    item.part()
        .is_some_and(|part| part.kind == PartKind::Program)
}

fn is_image(item: &Item) -> bool {
    item.part().is_some_and(|part| part.kind == PartKind::Image)
}

impl State {
    /// The first that may begin.
    fn ready(&self) -> Option<usize> {
        let programs = self.busy.iter().filter(|item| is_program(item)).count();
        let is_building = programs > 0 || self.waiting.values().any(is_program);
        let may_begin = |item: &Item| match item {
            item if is_program(item) => programs < BUILDS,
            item if is_image(item) => !is_building,
            _ => true,
        };
        let mut waiting = self.waiting.iter();
        waiting.find(|(_, item)| may_begin(item)).map(|(at, _)| *at)
    }
}

impl Queue {
    fn new(items: &[Item]) -> Self {
        let waiting = items.iter().cloned().enumerate().collect();
        Self {
            state: Mutex::new(State {
                waiting,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one, once one may begin; none where nothing is left, or everything was called off.
    fn take(&self, off: &AtomicBool) -> Option<Item> {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() || off.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(item) = state.ready().and_then(|at| state.waiting.remove(&at)) {
                state.busy.push(item.clone());
                return Some(item);
            }
            // Not for ever: the one who calls off wakes nobody.
            let waited = self.changed.wait_timeout(state, Duration::from_millis(200));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn end(&self, item: &Item) {
        self.lock().busy.retain(|busy| busy != item);
        self.changed.notify_all();
    }
}

/// Hears of one thing.
struct Attendant<'a> {
    item: &'a Item,
    off: &'a AtomicBool,
    sender: Mutex<Sender<Heard>>,
    begun: Instant,
    told: Mutex<Instant>,
}

impl Attendant<'_> {
    fn send(&self, heard: Heard) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = sender.send(heard);
    }
}

impl Attend for Attendant<'_> {
    fn hear(&self, news: News) {
        match news {
            News::Line(line) => self.send(Heard::Line(self.item.clone(), line)),
            News::Amount { done, total, unit } => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                if told.elapsed() >= PAUSE {
                    *told = Instant::now();
                    let amount = amount(done, total, unit);
                    self.send(Heard::Amount(
                        self.item.clone(),
                        amount,
                        self.begun.elapsed(),
                    ));
                }
            }
            _ => {}
        }
    }

    fn is_called_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }
}

fn amount(done: u64, total: Option<u64>, unit: Unit) -> String {
    let number = |count: u64| match unit {
        Unit::Bytes => crate::views::artifacts::length(count),
        Unit::Packages => count.to_string(),
    };
    let noun = match unit {
        Unit::Bytes => "",
        Unit::Packages => " packages",
    };
    match total {
        Some(total) => format!("{} of {}{noun}", number(done), number(total)),
        None => format!("{}{noun}", number(done)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use mullion_plan::Part;
    use mullion_spec::words::Os;

    use super::*;

    fn item(kind: PartKind, name: &str) -> Item {
        Item::Part(Part {
            name: name.into(),
            os: Os::Linux,
            kind,
            version: "1".into(),
        })
    }

    #[test]
    fn few_are_built_at_once_and_images_come_after_programs() {
        let items: Vec<_> = (0..6)
            .flat_map(|number| {
                let name = number.to_string();
                [
                    item(PartKind::Image, &name),
                    item(PartKind::Program, &name),
                    item(PartKind::Archive, &name),
                ]
            })
            .collect();
        let (building, most, programs) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        let mut ended = Vec::new();
        get_all(
            &items,
            &AtomicBool::new(false),
            &|item, attendant| {
                attendant.hear(News::Line("working".into()));
                if is_program(item) {
                    let now = building.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    building.fetch_sub(1, Ordering::SeqCst);
                    programs.fetch_add(1, Ordering::SeqCst);
                } else if is_image(item) {
                    assert_eq!(
                        programs.load(Ordering::SeqCst),
                        6,
                        "an image before its program"
                    );
                }
                Ok(())
            },
            &mut |heard| {
                if let Heard::Ended(item, _, error) = heard {
                    assert!(error.is_none());
                    ended.push(item);
                }
            },
        );
        assert!(most.load(Ordering::SeqCst) <= BUILDS);
        ended.sort();
        let mut all = items;
        all.sort();
        assert_eq!(ended, all, "each once");
    }

    #[test]
    fn a_failure_stops_nobody_else_and_calling_off_stops_all() {
        let items: Vec<_> = (0..20)
            .map(|number| item(PartKind::Program, &number.to_string()))
            .collect();
        let failures = |off: &AtomicBool| {
            let (mut ended, mut failed) = (0, 0);
            get_all(
                &items,
                off,
                &|item, _| match item.part().map(|part| part.name.as_str()) {
                    Some("3") => {
                        if off.load(Ordering::SeqCst) {
                            Ok(())
                        } else {
                            Err(SupplyError::CalledOff)
                        }
                    }
                    _ => Ok(()),
                },
                &mut |heard| {
                    if let Heard::Ended(_, _, error) = heard {
                        ended += 1;
                        failed += usize::from(error.is_some());
                    }
                },
            );
            (ended, failed)
        };
        assert_eq!(failures(&AtomicBool::new(false)), (20, 1));
        assert_eq!(failures(&AtomicBool::new(true)), (0, 0));
        get_all(&[], &AtomicBool::new(false), &|_, _| Ok(()), &mut |_| {
            panic!("nothing is heard")
        });
    }
}
