//! The knowledge of one prefix: numbers, and their packed form.

/// Length of a packed total: 12 bytes of numbers, 5 of the identity of the options.
pub(crate) const TOTAL_BYTES: usize = 17;
const NUMBER_BYTES: usize = 12;

/// Bits of the numbers, low ones first; a larger number is kept as the largest.
const TOKEN_BITS: u32 = 41;
const REASONING_BITS: u32 = 15;
const DERIVED_BITS: u32 = 20;
const OPTION_BITS: u32 = 20;
const _: () = assert!(TOKEN_BITS + REASONING_BITS + DERIVED_BITS + OPTION_BITS == 96);

/// Reasoning is packed in steps of this number of tokens; some reasoning never becomes 0.
const REASONING_STEP: u64 = 8;

/// The derived tokens of a prefix whose end was counted here and confirmed by the bill of the output.
pub(crate) const COUNTED: u64 = 1;

/// Input tokens of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownTotal {
    /// How many.
    pub tokens: u64,
    /// How many of them are the output of the call before, not yet billed as input; 0 if the
    /// provider has billed them all, [`COUNTED`] if that output was counted and its bill confirms the count.
    pub derived_tokens: u64,
    /// How many of them are reasoning that the next turn of the user drops; 0 if there is none,
    /// or if it is not known how much.
    pub reasoning_tokens: u64,
    /// The options that the request was sent with.
    pub options: KnownOptions,
}

/// Options of a request: tool choice, output schema, thinking. They are billed and may change from
/// turn to turn, so they are no part of the prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownOptions {
    /// Their identity, 40 bits; 0 if there are none.
    pub digest: u64,
    /// Their count; negative where they save tokens.
    pub tokens: i64,
}

impl KnownTotal {
    /// True if the provider has billed all of it as input.
    pub fn is_billed(self) -> bool {
        self.derived_tokens == 0
    }

    /// True if its end is an answer that was counted, and billed as output with that count.
    pub(crate) fn is_counted(self) -> bool {
        self.derived_tokens == COUNTED
    }

    /// The numbers, then the identity of the options, low bytes first.
    pub(crate) fn pack(self) -> [u8; TOTAL_BYTES] {
        let most = 1 << (OPTION_BITS - 1);
        let option_tokens = self.options.tokens.clamp(1 - most, most - 1) + most;
        let steps = (self.reasoning_tokens.saturating_add(REASONING_STEP / 2)) / REASONING_STEP;
        let steps = steps.max(u64::from(self.reasoning_tokens > 0));
        let mut bits = 0_u128;
        for (number, width) in [
            (option_tokens.cast_unsigned(), OPTION_BITS),
            (self.derived_tokens, DERIVED_BITS),
            (steps, REASONING_BITS),
            (self.tokens, TOKEN_BITS),
        ] {
            bits = bits << width | u128::from(number.min((1 << width) - 1));
        }
        let mut packed = [0; TOTAL_BYTES];
        packed[..NUMBER_BYTES].copy_from_slice(&bits.to_le_bytes()[..NUMBER_BYTES]);
        packed[NUMBER_BYTES..].copy_from_slice(&self.options.digest.to_le_bytes()[..5]);
        packed
    }

    /// The total that [`KnownTotal::pack`] gave the bytes of.
    pub(crate) fn unpack(packed: &[u8; TOTAL_BYTES]) -> KnownTotal {
        let number = |bytes: &[u8]| {
            let digits = bytes.iter().rev();
            digits.fold(0, |number: u128, byte| number << 8 | u128::from(*byte))
        };
        let mut bits = number(&packed[..NUMBER_BYTES]);
        let mut next = |width: u32| {
            let number = bits & ((1 << width) - 1);
            bits >>= width;
            u64::try_from(number).unwrap_or(u64::MAX)
        };
        let (tokens, steps) = (next(TOKEN_BITS), next(REASONING_BITS));
        let (derived_tokens, option_tokens) = (next(DERIVED_BITS), next(OPTION_BITS));
        KnownTotal {
            tokens,
            derived_tokens,
            reasoning_tokens: steps * REASONING_STEP,
            options: KnownOptions {
                digest: u64::try_from(number(&packed[NUMBER_BYTES..])).unwrap_or(u64::MAX),
                tokens: option_tokens.cast_signed() - (1 << (OPTION_BITS - 1)),
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
            reasoning_tokens: tokens / 16 * REASONING_STEP,
            options: KnownOptions {
                digest: 0x12_3456_789a,
                tokens: option_tokens,
            },
        }
    }

    #[test]
    fn what_is_packed_comes_back() {
        for (tokens, option_tokens) in [(0, 0), (1, -1), (500_000, -346), (70_000, 524_287)] {
            let total = total(tokens, option_tokens);
            assert_eq!(KnownTotal::unpack(&total.pack()), total);
        }
        let most = KnownTotal::unpack(&total(u64::MAX, i64::MIN).pack());
        assert_eq!(most.tokens, (1 << 41) - 1);
        assert_eq!(most.derived_tokens, (1 << 20) - 1);
        assert_eq!(most.options.tokens, -524_287);
    }

    #[test]
    fn reasoning_is_kept_within_four_tokens_and_never_lost() {
        for reasoning_tokens in (0..200).chain([262_000]) {
            let total = KnownTotal {
                reasoning_tokens,
                ..KnownTotal::default()
            };
            let kept = KnownTotal::unpack(&total.pack()).reasoning_tokens;
            assert_eq!(kept == 0, reasoning_tokens == 0);
            assert!(
                kept.abs_diff(reasoning_tokens) <= 7
                    && (reasoning_tokens < 4 || kept.abs_diff(reasoning_tokens) <= 4)
            );
        }
    }
}
