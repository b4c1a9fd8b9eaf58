//! What is known of one prefix: numbers, and their packed form.

/// Length of a packed total.
pub(crate) const TOTAL_BYTES: usize = 17;

/// Largest numbers that a packed total holds; larger ones are kept as these.
const MAX_TOKENS: u64 = (1 << 48) - 1;
const MAX_DERIVED_TOKENS: u64 = (1 << 24) - 1;
const MAX_OPTION_TOKENS: i64 = (1 << 23) - 1;

/// Input tokens of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownTotal {
    /// How many.
    pub tokens: u64,
    /// How many of them are the output of the call before, not yet billed as input; 0 if the
    /// provider has billed them all.
    pub derived_tokens: u64,
    /// The options that the request was sent with.
    pub options: KnownOptions,
}

/// Options of a request: tool choice, output schema, thinking. They are billed and may change from
/// turn to turn, so they are no part of the prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownOptions {
    /// Their identity, 40 bits; 0 if there are none.
    pub digest: u64,
    /// What they were counted as; negative where they save tokens.
    pub tokens: i64,
}

impl KnownTotal {
    /// Whether the provider has billed all of it as input.
    pub fn is_billed(self) -> bool {
        self.derived_tokens == 0
    }

    /// Tokens (6 bytes), derived tokens (3), identity (5) and tokens (3) of the options, low
    /// bytes first.
    pub(crate) fn pack(self) -> [u8; TOTAL_BYTES] {
        let options = self.options;
        let option_tokens = options.tokens.clamp(-MAX_OPTION_TOKENS, MAX_OPTION_TOKENS);
        let derived_tokens = self.derived_tokens.min(MAX_DERIVED_TOKENS);
        let mut packed = [0; TOTAL_BYTES];
        packed[..6].copy_from_slice(&self.tokens.min(MAX_TOKENS).to_le_bytes()[..6]);
        packed[6..9].copy_from_slice(&derived_tokens.to_le_bytes()[..3]);
        packed[9..14].copy_from_slice(&options.digest.to_le_bytes()[..5]);
        packed[14..].copy_from_slice(&option_tokens.to_le_bytes()[..3]);
        packed
    }

    /// What [`KnownTotal::pack`] gave.
    pub(crate) fn unpack(packed: &[u8; TOTAL_BYTES]) -> KnownTotal {
        let number = |bytes: &[u8]| {
            let digits = bytes.iter().rev();
            digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let sign = match packed[TOTAL_BYTES - 1] {
            ..0x80 => 0,
            _ => -1 << 24,
        };
        KnownTotal {
            tokens: number(&packed[..6]),
            derived_tokens: number(&packed[6..9]),
            options: KnownOptions {
                digest: number(&packed[9..14]),
                tokens: number(&packed[14..]).cast_signed() | sign,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(tokens: u64, option_tokens: i64) -> KnownTotal {
        KnownTotal {
            tokens,
            derived_tokens: tokens / 3,
            options: KnownOptions {
                digest: 0x12_3456_789a,
                tokens: option_tokens,
            },
        }
    }

    #[test]
    fn what_is_packed_comes_back() {
        for (tokens, option_tokens) in [(0, 0), (1, -1), (5_000_000, -346), (70_000, 8_388_607)] {
            let total = total(tokens, option_tokens);
            assert_eq!(KnownTotal::unpack(&total.pack()), total);
        }
        let most = KnownTotal::unpack(&total(u64::MAX, i64::MIN).pack());
        assert_eq!(most.tokens, MAX_TOKENS);
        assert_eq!(most.derived_tokens, MAX_DERIVED_TOKENS);
        assert_eq!(most.options.tokens, -MAX_OPTION_TOKENS);
    }
}
