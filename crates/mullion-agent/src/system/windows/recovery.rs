//! What a service's recovery is in the registry: `FailureActions`, five numbers and then two for each action.

use mullion_wire::Recovery;

/// The number of the action that starts the service again.
const RESTART: u32 = 1;
/// How far the actions are from the beginning.
const HEADER: usize = 20;

/// Everything that is done when a service fails.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Actions {
    /// After so many seconds without a failure they count as none.
    pub(super) reset_after_s: u32,
    /// What is done the first time, the second, …, by Windows' numbers, and after how many milliseconds.
    pub(super) each: Vec<(u32, u32)>,
}

impl From<&Recovery> for Actions {
    fn from(recovery: &Recovery) -> Self {
        let delays = recovery.restart_after_ms.iter();
        Self {
            reset_after_s: recovery.reset_after_s,
            each: delays.map(|delay| (RESTART, *delay)).collect(),
        }
    }
}

/// The bytes of a recovery.
pub(super) fn write(recovery: &Recovery) -> Vec<u8> {
    let count = u32::try_from(recovery.restart_after_ms.len()).unwrap_or(u32::MAX);
    let header = [recovery.reset_after_s, 0, 0, count, 20];
    let actions = recovery.restart_after_ms.iter();
    header
        .into_iter()
        .chain(actions.flat_map(|delay| [RESTART, *delay]))
        .flat_map(u32::to_le_bytes)
        .collect()
}

/// The recovery in bytes; none where there are none, or where they do something else than start the service again.
pub(super) fn read(bytes: &[u8]) -> Recovery {
    let actions = actions(bytes);
    let restarts = actions.each.iter().filter(|(kind, _)| *kind == RESTART);
    Recovery {
        reset_after_s: actions.reset_after_s,
        restart_after_ms: restarts.map(|(_, delay)| *delay).collect(),
    }
}

/// All that is done, by bytes; nothing where there are none.
pub(super) fn actions(bytes: &[u8]) -> Actions {
    let numbers = |bytes: &[u8]| -> Vec<u32> {
        bytes
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect()
    };
    let (Some(header), Some(actions)) = (bytes.get(..HEADER), bytes.get(HEADER..)) else {
        return Actions::default();
    };
    let (header, actions) = (numbers(header), numbers(actions));
    let each = actions.chunks_exact(2).take(header[3] as usize);
    Actions {
        reset_after_s: header[0],
        each: each.map(|action| (action[0], action[1])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_survives_the_registry() {
        let recovery = Recovery {
            restart_after_ms: vec![15_000, 60_000],
            reset_after_s: 86_400,
        };
        let bytes = write(&recovery);
        assert_eq!(bytes.len(), 36);
        assert_eq!(bytes[..4], [0x80, 0x51, 1, 0]);
        assert_eq!(bytes[12..24], [2, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(read(&bytes), recovery);
        assert_eq!(actions(&bytes), Actions::from(&recovery));
        assert_eq!(read(&write(&Recovery::default())), Recovery::default());
    }

    #[test]
    fn what_is_no_recovery_is_none() {
        assert_eq!(read(&[]), Recovery::default());
        assert_eq!(read(&[1; 19]), Recovery::default());
        // A reboot is none of ours.
        let mut reboot = write(&Recovery {
            restart_after_ms: vec![1],
            reset_after_s: 0,
        });
        reboot[20] = 2;
        assert_eq!(read(&reboot), Recovery::default());
        // It is put back all the same where somebody else had it so.
        assert_eq!(actions(&reboot).each, [(2, 1)]);
    }
}
