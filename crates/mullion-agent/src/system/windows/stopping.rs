//! Stopping a service so that Windows does not start it again meanwhile.

use std::collections::BTreeSet;

use mullion_wire::Recovery;

use super::super::SystemError;

/// A service that is to be stopped.
pub(super) trait Stoppable {
    fn name(&self) -> &str;
    /// What starts it again when it fails; none where nothing does, or something that could not be put back as it is.
    fn recovery(&self) -> Result<Option<Recovery>, SystemError>;
    /// Sets what starts it again.
    fn set_recovery(&self, recovery: &Recovery) -> Result<(), SystemError>;
    /// Stops it; gives back processes that had to be ended.
    fn stop(&self) -> Result<Vec<String>, SystemError>;
}

/// Stops a service.
///
/// One whose process ends before it said that it has stopped has failed, to Windows, which would start it again while
/// its files are replaced: what does that is taken away first, and put back however the stop went. Where the agent is
/// killed meanwhile, the definition is no longer as it was applied, and the next apply makes it so. That holds for
/// services that blueprints define: those of others are left as they are.
pub(super) fn stop(
    service: &impl Stoppable,
    ours: &BTreeSet<String>,
) -> Result<Vec<String>, SystemError> {
    let is_ours = |name: &String| name.eq_ignore_ascii_case(service.name());
    let recovery = if ours.iter().any(is_ours) {
        service.recovery()?
    } else {
        None
    };
    let Some(recovery) = recovery else {
        return service.stop();
    };
    let suspended = service.set_recovery(&Recovery {
        restart_after_ms: Vec::new(),
        reset_after_s: recovery.reset_after_s,
    });
    let stopped = suspended.and_then(|()| service.stop());
    let restored = service.set_recovery(&recovery);
    let ended = stopped?;
    restored?;
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Service {
        restarts: Vec<u32>,
        stops: bool,
        log: RefCell<Vec<String>>,
    }

    impl Service {
        fn new(restarts: &[u32], stops: bool) -> Self {
            Self {
                restarts: restarts.to_vec(),
                stops,
                log: RefCell::default(),
            }
        }

        /// What is done to it when it is stopped, and whether that went well.
        fn stopped(&self, ours: &[&str]) -> (Vec<String>, bool) {
            let ours = ours.iter().map(|name| (*name).to_owned()).collect();
            let is_well = stop(self, &ours).is_ok();
            (self.log.take(), is_well)
        }

        fn note(&self, words: String) {
            self.log.borrow_mut().push(words);
        }
    }

    impl Stoppable for Service {
        fn name(&self) -> &'static str {
            "kubelet"
        }

        fn recovery(&self) -> Result<Option<Recovery>, SystemError> {
            Ok((!self.restarts.is_empty()).then(|| Recovery {
                restart_after_ms: self.restarts.clone(),
                reset_after_s: 60,
            }))
        }

        fn set_recovery(&self, recovery: &Recovery) -> Result<(), SystemError> {
            assert_eq!(recovery.reset_after_s, 60);
            self.note(format!("restarts {:?}", recovery.restart_after_ms));
            Ok(())
        }

        fn stop(&self) -> Result<Vec<String>, SystemError> {
            self.note("stop".to_owned());
            if self.stops {
                Ok(Vec::new())
            } else {
                Err(SystemError::Nonsense("it does not stop".to_owned()))
            }
        }
    }

    #[test]
    fn nothing_starts_a_service_again_while_it_is_stopped() {
        let around = ["restarts []", "stop", "restarts [15, 60]"].map(str::to_owned);
        for stops in [true, false] {
            let service = Service::new(&[15, 60], stops);
            let (log, is_well) = service.stopped(&["containerd", "Kubelet"]);
            assert_eq!((log, is_well), (around.to_vec(), stops));
        }
    }

    #[test]
    fn a_service_of_others_is_stopped_and_left_as_it_is() {
        let alone = (vec!["stop".to_owned()], true);
        let service = Service::new(&[15], true);
        assert_eq!(service.stopped(&["containerd"]), alone);
        // Nor is one of ours touched that nothing starts again.
        let service = Service::new(&[], true);
        assert_eq!(service.stopped(&["kubelet"]), alone);
    }
}
