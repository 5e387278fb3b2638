//! Figures beside their limits, as a table.

use std::time::Duration;

use super::cases::Bytes;
use crate::table::{self, Align};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Thousandths of a second.
    Milliseconds,
    /// Millions of bytes.
    Megabytes,
    /// How many times one figure holds another.
    Times,
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::Milliseconds if figure >= 1e3 => format!("{:.1} s", figure / 1e3),
            Self::Milliseconds => format!("{figure:.2} ms"),
            Self::Megabytes => format!("{figure:.1} MB"),
            Self::Times => format!("{figure:.2} times"),
        }
    }
}

/// One figure and the most it may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// What was measured.
    pub name: String,
    /// The figure, or nothing where this computer cannot give it.
    pub figure: Option<f64>,
    /// What figure and limit count.
    pub unit: Unit,
    /// The most that is accepted.
    pub limit: f64,
}

impl Measure {
    /// A time.
    pub fn time(name: &str, time: Option<Duration>, limit: Duration) -> Self {
        let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
        Self {
            name: format!("{name}: time"),
            figure: time.map(milliseconds),
            unit: Unit::Milliseconds,
            limit: milliseconds(limit),
        }
    }

    /// An amount of memory.
    pub fn peak(name: &str, peak_bytes: Option<u64>, limit: Bytes) -> Self {
        Self {
            name: format!("{name}: peak memory"),
            figure: peak_bytes.map(megabytes),
            unit: Unit::Megabytes,
            limit: megabytes(limit.0),
        }
    }

    /// How many times longer `to` takes than `from`.
    pub fn growth(
        from: &str,
        to: &str,
        from_time: Option<Duration>,
        to_time: Option<Duration>,
        limit: f64,
    ) -> Self {
        let figure = from_time
            .zip(to_time)
            .and_then(|(from, to)| ratio(from, to));
        Self {
            name: format!("{from} to {to}: growth"),
            figure,
            unit: Unit::Times,
            limit,
        }
    }

    /// Which part of the peer's time ours is.
    pub fn share(
        peer: &str,
        ours: &str,
        peer_time: Option<Duration>,
        our_time: Option<Duration>,
        limit: f64,
    ) -> Self {
        Self {
            name: format!("{ours} beside {peer}: share"),
            ..Self::growth(peer, ours, peer_time, our_time, limit)
        }
    }

    /// Whether the figure is above its limit. What was not measured is not.
    pub fn is_over(&self) -> bool {
        self.figure.is_some_and(|figure| figure > self.limit)
    }

    fn row(&self) -> Vec<String> {
        let (figure, verdict) = match self.figure {
            None => ("not measured".into(), ""),
            Some(figure) if self.is_over() => (self.unit.show(figure), "over"),
            Some(figure) => (self.unit.show(figure), "within"),
        };
        vec![
            self.name.clone(),
            figure,
            self.unit.show(self.limit),
            verdict.into(),
        ]
    }
}

/// The table of all figures.
pub fn table(measures: &[Measure]) -> String {
    let heading = ["measured", "figure", "limit", ""]
        .map(String::from)
        .to_vec();
    let rows: Vec<_> = std::iter::once(heading)
        .chain(measures.iter().map(Measure::row))
        .collect();
    table::render(
        &[Align::Left, Align::Right, Align::Right, Align::Left],
        &rows,
    )
}

/// How many times `to` holds `from`; nothing when `from` is too short for the clock.
fn ratio(from: Duration, to: Duration) -> Option<f64> {
    (!from.is_zero()).then(|| to.as_secs_f64() / from.as_secs_f64())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact below nine petabytes, and shown with one digit"
)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn the_table_shows_figures_limits_and_verdicts() {
        let measures = [
            Measure::time("plan 1000", Some(Duration::from_micros(42_120)), ms(100)),
            Measure::peak("plan 1000", Some(120_400_000), Bytes::mega(100)),
            Measure::growth("plan 1000", "plan 10000", Some(ms(42)), Some(ms(504)), 12.0),
            Measure::peak("plan 10000", None, Bytes::mega(900)),
            Measure::share("by hand", "ours", Some(ms(40_000)), Some(ms(18_000)), 0.75),
            Measure::time("ours", Some(ms(18_040)), ms(20_000)),
        ];
        assert_eq!(
            table(&measures),
            "\x20 measured                               figure        limit\n\
             \x20 plan 1000: time                      42.12 ms    100.00 ms  within\n\
             \x20 plan 1000: peak memory               120.4 MB     100.0 MB  over\n\
             \x20 plan 1000 to plan 10000: growth   12.00 times  12.00 times  within\n\
             \x20 plan 10000: peak memory          not measured     900.0 MB\n\
             \x20 ours beside by hand: share         0.45 times   0.75 times  within\n\
             \x20 ours: time                             18.0 s       20.0 s  within\n"
        );
    }

    #[test]
    fn only_a_figure_above_its_limit_is_over() {
        assert!(!Measure::time("a", Some(ms(10)), ms(10)).is_over());
        assert!(Measure::time("a", Some(ms(11)), ms(10)).is_over());
        assert!(!Measure::time("a", None, ms(10)).is_over());
    }

    #[test]
    fn growth_from_nothing_is_not_measured() {
        assert_eq!(ratio(ms(4), ms(10)), Some(2.5));
        assert_eq!(ratio(Duration::ZERO, ms(10)), None);
        assert_eq!(
            Measure::growth("a", "b", None, Some(ms(1)), 12.0).figure,
            None
        );
    }
}
