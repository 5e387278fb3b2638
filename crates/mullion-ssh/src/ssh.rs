//! SSH: one runtime for all connections, hidden behind calls that block.

mod channel;
mod guard;
mod leave;
mod link;
mod replace;
mod session;
mod stream;
mod upload;
mod windows;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error::TransportError;
use crate::limits;
use crate::login::Login;
use link::Link;
pub use replace::ASIDE;
pub use session::Session;

/// Makes connections. Cheap to clone; its threads end with its last session.
#[derive(Clone)]
pub struct Ssh {
    engine: Arc<Engine>,
}

/// The threads, and the machines that others are reached through.
pub(crate) struct Engine {
    /// Taken when the engine is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
    /// One connection serves all machines behind it.
    jumps: Mutex<Vec<(Login, Arc<Jump>)>>,
}

/// A connection that others go through, while anybody does. Locked while it is made, so that it is made once.
type Jump = tokio::sync::Mutex<Weak<Link>>;

impl Ssh {
    /// Starts the threads.
    pub fn new() -> Result<Self, TransportError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(
                std::thread::available_parallelism()
                    .map_or(2, |found| found.get().clamp(2, limits::THREADS)),
            )
            .thread_name("mullion-ssh")
            .enable_all()
            .build()
            .map_err(|source| TransportError::Threads { source })?;
        let engine = Engine {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            jumps: Mutex::default(),
        };
        Ok(Self {
            engine: Arc::new(engine),
        })
    }

    /// Logs in. Nothing is sent to a machine that does not show the pinned host key.
    pub fn connect(&self, login: &Login) -> Result<Session, TransportError> {
        let link = self.engine.wait(link::connect(&self.engine, login))?;
        Ok(Session::new(self.engine.clone(), link, login))
    }
}

impl Engine {
    /// Waits for a future on this thread.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Lets a future go on by itself.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// The connection to a machine that others are reached through: the one that is there, or a new one.
    pub(crate) async fn jump(&self, login: &Login) -> Result<Arc<Link>, TransportError> {
        let jump = {
            let mut jumps = self.jumps.lock().unwrap_or_else(PoisonError::into_inner);
            let known = jumps.iter().find(|(known, _)| known == login);
            if let Some((_, jump)) = known {
                jump.clone()
            } else {
                let jump = Arc::<Jump>::default();
                jumps.push((login.clone(), jump.clone()));
                jump
            }
        };
        let mut place = jump.lock().await;
        if let Some(link) = place.upgrade().filter(|link| link.is_open()) {
            return Ok(link);
        }
        // Boxed: the machine may itself be reached through another one.
        let link = Box::pin(link::connect(self, login)).await?;
        *place = Arc::downgrade(&link);
        Ok(link)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Connections end by being dropped; nobody waits for them.
            runtime.shutdown_background();
        }
    }
}
