//! Classes of 64 bytes of text at once, as one bit per byte.
//!
//! The bits are found by the vector instructions of the machine: AVX-512 or AVX2 if it is there, else
//! SSE2, which every x86-64 machine has, or NEON, which every aarch64 machine has; elsewhere they are found
//! byte by byte. Of characters that are not
//! ASCII only AVX-512 finds the class; then there is one bit per character. The oracle of what is
//! computed from them is the scalar rule of [`split`](crate::bpe::split).

/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;

/// The bytes of a block.
pub(crate) type BlockBytes = [u8; BLOCK];

/// Members of each class among the bytes of a block: bit `n` stands for byte `n`, or for character `n` once
/// [`Lanes::characters`] was asked.
///
/// Bytes past the end of the text are in no class.
pub(crate) struct Block {
    /// Bytes of the text, or whole characters.
    pub(crate) text: u64,
    /// True if the text ends in this block.
    pub(crate) last: bool,
    /// Bytes in none of the classes below: bytes of characters that are not ASCII, or what is behind the last whole
    /// character.
    pub(crate) wide: u64,
    /// The bytes that the lowest bits stand for, one after the other.
    pub(crate) firsts: u64,
    pub(crate) upper: u64,
    pub(crate) lower: u64,
    /// Letters without case.
    pub(crate) caseless: u64,
    /// Combining marks; they are in `other` too.
    pub(crate) mark: u64,
    pub(crate) digit: u64,
    /// The space alone.
    pub(crate) space: u64,
    /// `\n` and `\r`.
    pub(crate) newline: u64,
    /// All white space, line ends too.
    pub(crate) white: u64,
    /// Everything else.
    pub(crate) other: u64,
    pub(crate) quote: u64,
    pub(crate) slash: u64,
}

/// Equal parts of a block.
pub(crate) trait Lanes: Copy {
    /// Bytes of a part.
    const WIDTH: usize;
    fn load(bytes: &BlockBytes, part: usize) -> Self;
    /// Bits of the bytes above 0x7F.
    fn wide(self) -> u64;
    /// Bits of the bytes that are `byte`.
    fn equal(self, byte: u8) -> u64;
    /// Bits of the bytes from `first` to `last`, which are ASCII.
    fn within(self, first: u8, last: u8) -> u64;
    /// True if these instructions find the classes of characters that are not ASCII.
    const CHARACTERS: bool = false;
    /// Makes the bits of the block those of its whole characters, each with its class.
    #[inline(always)]
    fn characters(_bytes: &BlockBytes, _block: &mut Block) {}
    /// Those of the bits of `places` that the lowest bits of `bits` stand for, one after the other.
    #[inline(always)]
    fn spread(bits: u64, _places: u64) -> u64 {
        bits
    }
    /// Writes the places behind those of a bit set, from `start` on, and whatever after them.
    #[inline(always)]
    fn places(start: usize, bits: u64, places: &mut [usize; BLOCK]) {
        self::places(start, bits, places);
    }
}

/// Sixteen bytes, on any machine.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[derive(Clone, Copy)]
pub(crate) struct Portable([u8; 16]);

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Portable {
    #[inline(always)]
    fn bits(self, belongs: impl Fn(u8) -> bool) -> u64 {
        let bits = self.0.iter().rev();
        bits.fold(0, |bits, &byte| bits << 1 | u64::from(belongs(byte)))
    }
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Lanes for Portable {
    const WIDTH: usize = 16;

    #[inline(always)]
    fn load(bytes: &BlockBytes, part: usize) -> Portable {
        Portable(bytes.as_chunks().0[part])
    }

    #[inline(always)]
    fn wide(self) -> u64 {
        self.bits(|byte| !byte.is_ascii())
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u64 {
        self.bits(|other| other == byte)
    }

    #[inline(always)]
    fn within(self, first: u8, last: u8) -> u64 {
        self.bits(|byte| (first..=last).contains(&byte))
    }
}

impl Block {
    /// The classes of the first bytes of a text of `length` bytes, at least one.
    #[inline(always)]
    pub(crate) fn new<L: Lanes>(bytes: &BlockBytes, length: usize) -> Block {
        let mut block = Block {
            text: u64::MAX >> (BLOCK - length.min(BLOCK)),
            last: length <= BLOCK,
            wide: 0,
            firsts: u64::MAX,
            upper: 0,
            lower: 0,
            caseless: 0,
            mark: 0,
            digit: 0,
            space: 0,
            newline: 0,
            white: 0,
            other: 0,
            quote: 0,
            slash: 0,
        };
        for part in 0..BLOCK / L::WIDTH {
            let (lanes, shift) = (L::load(bytes, part), part * L::WIDTH);
            block.wide |= lanes.wide() << shift;
            block.upper |= lanes.within(b'A', b'Z') << shift;
            block.lower |= lanes.within(b'a', b'z') << shift;
            block.digit |= lanes.within(b'0', b'9') << shift;
            block.space |= lanes.equal(b' ') << shift;
            block.newline |= (lanes.equal(b'\n') | lanes.equal(b'\r')) << shift;
            block.white |= lanes.within(b'\t', b'\r') << shift;
            block.quote |= lanes.equal(b'\'') << shift;
            block.slash |= lanes.equal(b'/') << shift;
        }
        block.white |= block.space;
        block.other = block.unnamed();
        block
    }

    /// Characters in no class.
    #[inline(always)]
    pub(in crate::bpe) fn unnamed(&self) -> u64 {
        self.text & !(self.wide | self.letter() | self.digit | self.white)
    }

    #[inline(always)]
    pub(crate) fn letter(&self) -> u64 {
        self.upper | self.lower | self.caseless
    }

    /// White space without line ends.
    #[inline(always)]
    pub(crate) fn blank(&self) -> u64 {
        self.white & !self.newline
    }
}

/// Places that are written at once; most blocks have fewer.
const AT_ONCE: usize = 16;

#[inline(always)]
fn places(start: usize, mut bits: u64, places: &mut [usize; BLOCK]) {
    for places in places.as_chunks_mut::<AT_ONCE>().0 {
        for place in places {
            *place = start + bits.trailing_zeros() as usize + 1;
            bits &= bits.wrapping_sub(1);
        }
        if bits == 0 {
            break;
        }
    }
}

/// `rest`, which is shorter than a block, and zeros.
#[inline(never)]
pub(crate) fn padded(rest: &[u8]) -> BlockBytes {
    let mut bytes = [0; BLOCK];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}
