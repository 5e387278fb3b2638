//! Who performs the steps: threads, or the caller alone.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use mullion_plan::Perform;

use crate::clock::TICK;
use crate::desk::{Act, Answer, Desk, Job};

/// Takes jobs and gives answers.
pub(crate) trait Crew<'a> {
    /// Whether a job would be begun now.
    fn is_free(&self) -> bool;
    /// Takes a job.
    fn give(&mut self, job: Job<'a>);
    /// The next answer; none where there is none after that time, or after a moment.
    fn take(&mut self, wait: Option<Duration>) -> Option<Answer<'a>>;
}

fn attempt<'a, P: Perform>(
    desk: &Desk<'_>,
    port: &P,
    job: Job<'a>,
    answer: impl FnOnce(Answer<'a>),
) {
    let step = job.step;
    let act = Act {
        perform: &|ear| port.perform(step, ear),
        tail: &|| port.tail(step),
    };
    desk.attempt(&act, job, answer);
}

/// The caller's own thread.
pub(crate) struct Alone<'a, P> {
    desk: Desk<'a>,
    port: &'a P,
    job: Option<Job<'a>>,
}

impl<'a, P: Perform> Alone<'a, P> {
    pub(crate) const fn new(desk: Desk<'a>, port: &'a P) -> Self {
        Self {
            desk,
            port,
            job: None,
        }
    }
}

impl<'a, P: Perform> Crew<'a> for Alone<'a, P> {
    fn is_free(&self) -> bool {
        self.job.is_none()
    }

    fn give(&mut self, job: Job<'a>) {
        self.job = Some(job);
    }

    fn take(&mut self, wait: Option<Duration>) -> Option<Answer<'a>> {
        let Some(job) = self.job.take() else {
            if let Some(wait) = wait {
                self.desk.clock.sleep(wait);
            }
            return None;
        };
        let mut answer = None;
        attempt(&self.desk, self.port, job, |given| answer = Some(given));
        answer
    }
}

/// Threads, started as they are needed.
pub(crate) struct Threads<'scope, 'env, 'a, P> {
    scope: &'scope Scope<'scope, 'env>,
    desk: Desk<'a>,
    port: &'a P,
    most: usize,
    started: usize,
    busy: usize,
    jobs: Sender<Job<'a>>,
    queue: Arc<Mutex<Receiver<Job<'a>>>>,
    answers: Receiver<Answer<'a>>,
    answering: Sender<Answer<'a>>,
}

impl<'scope, 'env, 'a: 'scope, P: Perform + Sync> Threads<'scope, 'env, 'a, P> {
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        desk: Desk<'a>,
        port: &'a P,
        most: usize,
    ) -> Self {
        let (jobs, queue) = mpsc::channel();
        let (answering, answers) = mpsc::channel();
        Self {
            scope,
            desk,
            port,
            most,
            started: 0,
            busy: 0,
            jobs,
            queue: Arc::new(Mutex::new(queue)),
            answers,
            answering,
        }
    }

    /// Starts one more thread. A computer that has none left works with those that there are.
    fn start(&mut self) {
        let (desk, port) = (self.desk, self.port);
        let queue = Arc::clone(&self.queue);
        let answering = self.answering.clone();
        let work = move || {
            loop {
                let job = {
                    let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                    queue.recv()
                };
                let Ok(job) = job else { return };
                attempt(&desk, port, job, |answer| {
                    // Nobody hears it when the run has ended without this step.
                    let _ = answering.send(answer);
                });
            }
        };
        let name = format!("step-{}", self.started + 1);
        let thread = Builder::new().name(name).spawn_scoped(self.scope, work);
        self.started += usize::from(thread.is_ok());
    }
}

impl<'scope, 'a: 'scope, P: Perform + Sync> Crew<'a> for Threads<'scope, '_, 'a, P> {
    fn is_free(&self) -> bool {
        self.busy < self.most
    }

    fn give(&mut self, job: Job<'a>) {
        self.busy += 1;
        if self.busy > self.started {
            self.start();
        }
        if self.started == 0 {
            let answering = self.answering.clone();
            attempt(&self.desk, self.port, job, |answer| {
                let _ = answering.send(answer);
            });
            return;
        }
        // This run holds the other end.
        let _ = self.jobs.send(job);
    }

    fn take(&mut self, wait: Option<Duration>) -> Option<Answer<'a>> {
        // Never longer than a moment: the run may be called off.
        let wait = wait.unwrap_or(TICK).min(TICK);
        match self.answers.recv_timeout(wait) {
            Ok(answer) => {
                self.busy = self.busy.saturating_sub(1);
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}
