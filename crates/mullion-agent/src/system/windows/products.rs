//! What the licensing service tells of products, read as a licence.

use mullion_wire::{Licence, LicenceState};

const MINUTES_A_DAY: u32 = 24 * 60;

/// The licence that counts among those of all products, each told by its state and the minutes that are left of it.
///
/// Many can be installed, and those without a key are only unlicensed. One that has a licence counts before all others;
/// where none has, what Windows complains of most is what people have to hear of.
pub(super) fn counted(products: impl IntoIterator<Item = (i32, u32)>) -> Option<Licence> {
    products
        .into_iter()
        .filter_map(|(state, minutes_left)| licence(state, minutes_left))
        .max_by_key(|licence| (licence.state == LicenceState::Licensed, licence.state))
}

fn licence(state: i32, minutes_left: u32) -> Option<Licence> {
    // `SLLICENSINGSTATUS`.
    let state = match state {
        0 => LicenceState::Unlicensed,
        1 => LicenceState::Licensed,
        2 => LicenceState::Grace,
        3 => LicenceState::Notification,
        _ => return None,
    };
    let days_left = (minutes_left > 0).then_some(minutes_left / MINUTES_A_DAY);
    Some(Licence { state, days_left })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_licence_that_counts_is_told() {
        let (unlicensed, licensed, grace, notification) = (0, 1, 2, 3);
        let day = MINUTES_A_DAY;
        for (products, expected) in [
            (vec![], None),
            // None that anybody knows.
            (vec![(4, 0), (-1, day)], None),
            (
                vec![(unlicensed, 0)],
                Some((LicenceState::Unlicensed, None)),
            ),
            (vec![(licensed, 0)], Some((LicenceState::Licensed, None))),
            // An evaluation: its days are whole ones.
            (
                vec![(licensed, 180 * day - 1)],
                Some((LicenceState::Licensed, Some(179))),
            ),
            // Its last day.
            (vec![(licensed, 1)], Some((LicenceState::Licensed, Some(0)))),
            (
                vec![(grace, 10 * day)],
                Some((LicenceState::Grace, Some(10))),
            ),
            // The order in which products are told does not count.
            (
                vec![(unlicensed, 0), (licensed, 0), (notification, 0)],
                Some((LicenceState::Licensed, None)),
            ),
            (
                vec![(notification, 0), (licensed, 0), (unlicensed, 0)],
                Some((LicenceState::Licensed, None)),
            ),
            (
                vec![(notification, 0), (unlicensed, 0)],
                Some((LicenceState::Notification, None)),
            ),
            (
                vec![(unlicensed, 0), (grace, day), (9, 0)],
                Some((LicenceState::Grace, Some(1))),
            ),
        ] {
            let found = counted(products.clone());
            let found = found.map(|licence| (licence.state, licence.days_left));
            assert_eq!(found, expected, "{products:?}");
        }
    }
}
