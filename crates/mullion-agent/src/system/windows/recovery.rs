//! What a service's recovery is in the registry: `FailureActions`, five numbers and then two for each action.

use mullion_wire::Recovery;

/// The number of the action that starts the service again.
const RESTART: u32 = 1;
/// How far the actions are from the beginning.
const HEADER: usize = 20;

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
    let numbers = |bytes: &[u8]| -> Vec<u32> {
        bytes
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect()
    };
    let (Some(header), Some(actions)) = (bytes.get(..HEADER), bytes.get(HEADER..)) else {
        return Recovery::default();
    };
    let (header, actions) = (numbers(header), numbers(actions));
    let restart_after_ms: Vec<_> = actions
        .chunks_exact(2)
        .take(header[3] as usize)
        .filter(|action| action[0] == RESTART)
        .map(|action| action[1])
        .collect();
    Recovery {
        reset_after_s: header[0],
        restart_after_ms,
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
    }
}
