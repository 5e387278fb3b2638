//! Makes inputs out of other inputs, by a seed.

/// The longest input.
pub const LONGEST: usize = 64 << 10;

/// Numbers that follow from a seed alone (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        // The remainder is below `end`, which is a `usize`.
        usize::try_from(self.number() % (end.max(1) as u64)).unwrap_or(0)
    }

    /// A length below two to the power of `most`, of which short ones are as many as long ones.
    fn length(&mut self, most: usize) -> usize {
        let end = 1 << self.below(most);
        self.below(end)
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

/// Text that readers of many formats stumble over.
const HOSTILE: &[&str] = &[
    "",
    "\0",
    "\n",
    "\r\n",
    "\u{1b}[2J",
    "\u{1b}]0;x\u{7}",
    "\u{9b}0m",
    "\u{202e}",
    "\u{feff}",
    "é",
    "日本",
    "\u{10ffff}",
    "..",
    "../../../etc/passwd",
    "/etc/shadow",
    "C:\\",
    "\\\\?\\C:\\x",
    "\\\\.\\pipe\\x",
    "CON",
    "NUL.txt",
    "-1",
    "0",
    "255",
    "256",
    "65536",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e999",
    "-0.0",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":",
    "&a [*a, *a]",
    "&a {b: *a}",
    "<<: *a",
    "!!binary x",
    "---\n",
    "...\n",
    "? ",
    "- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - ",
    "%TAG ! x\n",
    "${HOME}",
    "$(id)",
    "`id`",
    "%s%n",
    "' OR 1=1",
    "\"; rm -rf /; \"",
    "<script>",
    "-----BEGIN CERTIFICATE-----\n",
    "-----END CERTIFICATE-----\n",
];

/// An input that was made of one of the corpus, or of two.
pub fn mutated(rng: &mut Rng, corpus: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut bytes = rng.of(corpus).cloned().unwrap_or_default();
    // Mostly few changes: what is changed everywhere is refused at its first byte.
    let changes = 1 + rng.below(4) * rng.below(3);
    for _ in 0..changes {
        change(rng, &mut bytes, corpus, words);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str]) {
    let at = rng.below(bytes.len() + 1);
    let end = (at + 1 + rng.length(10)).min(bytes.len());
    match rng.below(12) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = u8::try_from(rng.below(256)).unwrap_or(0);
            }
        }
        2 => bytes.truncate(at),
        3 if at < end => {
            bytes.drain(at..end);
        }
        // The same once more, or many times.
        4 if at < end => {
            let piece = bytes[at..end].to_vec();
            let times = 1 + rng.length(8);
            let room = (LONGEST.saturating_sub(bytes.len())) / piece.len();
            let copies = piece.repeat(times.min(room));
            bytes.splice(at..at, copies);
        }
        // A piece of another input.
        5 | 6 => {
            let Some(other) = rng.of(corpus) else { return };
            let from = rng.below(other.len() + 1);
            let to = (from + rng.length(12)).min(other.len());
            let replaced = if rng.below(2) == 0 { at } else { end.max(at) };
            bytes.splice(at..replaced, other[from..to].iter().copied());
        }
        // A word of the format, or a hostile one, between others or in their place.
        7..=9 => {
            let list = if rng.below(2) == 0 && !words.is_empty() {
                words
            } else {
                HOSTILE
            };
            let Some(word) = rng.of(list) else { return };
            let replaced = if rng.below(3) == 0 { end.max(at) } else { at };
            bytes.splice(at..replaced, word.bytes());
        }
        // Another number where one stands.
        10 => number(rng, bytes, at),
        _ => {
            let size = rng.below(16);
            let random: Vec<_> = (0..size).map(|_| rng.number().to_le_bytes()[0]).collect();
            bytes.splice(at..at, random);
        }
    }
}

/// Puts another number into the place of the digits at or behind `at`.
fn number(rng: &mut Rng, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = at + start;
    let length = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let number = match rng.below(4) {
        0 => rng.number(),
        1 => u64::MAX >> rng.below(64),
        2 => 1 << rng.below(64),
        _ => rng.number() % 300,
    };
    bytes.splice(start..start + length, number.to_string().into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_none_is_too_long() {
        let corpus = vec![b"a: [1, 2]\n".to_vec(), vec![b'x'; LONGEST]];
        let made = |seed| {
            let mut rng = Rng::new(seed);
            (0..2_000)
                .map(|_| mutated(&mut rng, &corpus, &["a:"]))
                .collect::<Vec<_>>()
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
        assert!(made(9).iter().all(|input| input.len() <= LONGEST));
    }

    #[test]
    fn nothing_can_be_made_into_something() {
        let mut rng = Rng::new(1);
        let made = (0..1_000).map(|_| mutated(&mut rng, &[], &[]));
        assert!(made.into_iter().any(|input| input.len() > 8));
    }
}
