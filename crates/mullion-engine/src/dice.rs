//! Seeded chance for the in-memory world: the same seed gives the same run, on every computer.

/// `SplitMix64`: small, fast, and good enough to shake a test.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The dice of that seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to one below `sides`; 0 when there are no sides.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        mixed.checked_rem(sides).unwrap_or(0)
    }

    /// A position in a list of that length; 0 when it is empty.
    pub fn pick(&mut self, length: usize) -> usize {
        let sides = u64::try_from(length).unwrap_or(u64::MAX);
        usize::try_from(self.roll(sides)).unwrap_or(0)
    }
}
