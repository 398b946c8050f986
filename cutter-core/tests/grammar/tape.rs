//! Choices, drawn from bytes that proptest makes and shrinks: an empty tape chooses the first
//! of everything.

pub struct Tape<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Tape<'t> {
    pub fn new(bytes: &'t [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % bound.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
