//! The way through a text, by the best instructions of the machine.
#![allow(
    unsafe_code,
    reason = "calls what was compiled for the machine that this is"
)]

use super::marker::Marker;
use crate::bpe::split::Base;
#[cfg(target_arch = "x86_64")]
use crate::bpe::split::simd::Avx2;

/// Number of tokens of the text, or a number above `limit` if that is where it leads.
pub(super) fn count(marker: Marker, limit: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if Avx2::is_detected() {
        // SAFETY: the machine has what the function needs.
        unsafe { count_avx2(marker, limit) }
    } else {
        marker.count::<Base>(limit)
    }
    #[cfg(not(target_arch = "x86_64"))]
    marker.count::<Base>(limit)
}

/// Compiled for machines with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_avx2(marker: Marker, limit: u64) -> u64 {
    marker.count::<Avx2>(limit)
}

/// True if the text has more than `limit` tokens, whatever comes after it.
pub(super) fn exceeds(marker: Marker, limit: u64) -> bool {
    marker.exceeds::<Base>(limit)
}

#[cfg(test)]
mod tests {
    use super::super::family::ClaudeFamily;
    use super::*;
    use crate::bpe::MemoKey;
    use crate::bpe::random_texts::random_texts;
    use crate::bpe::split::block::Portable;

    /// Atoms of all that blocks and cells look at: all classes, all cases, and the long runs that leave a block.
    const ATOMS: &[&str] = &[
        "a",
        "the",
        "Word",
        "UPPER",
        "lM",
        "Xyzzy",
        "QWRTZP",
        "internationalisation",
        "Supercalifragilisticexpialidociously",
        "1",
        "22",
        "4567",
        " ",
        "  ",
        "    ",
        "\t",
        "\n",
        "\n\n",
        "'s",
        "'S",
        "'ll",
        "'",
        "''",
        " 'tis",
        "5's",
        "!",
        "==",
        "/",
        "_",
        ". ",
        ", ",
        " (",
        "\"}},",
        "é",
        "Éa",
        "中文",
        "。",
        "\u{301}",
        "\u{3000}",
        "—",
        " — ",
        "\u{662}",
        "½",
        "Ⓐ",
        "#\u{fe0f}",
        "привет",
        "Слово",
        "👍",
        "\n        ",
        "                   ",
        "\n                                                                  \n",
        "---------------------------------------------------------------------",
    ];

    fn check(family: ClaudeFamily, text: &str) {
        let marker = || Marker::new(family, MemoKey::default(), text.as_bytes());
        let expected = marker().forgetful().count_plainly();
        let made = [
            marker().forgetful().count::<Portable>(u64::MAX),
            marker().forgetful().count::<Base>(u64::MAX),
            count(marker().forgetful(), u64::MAX),
            count(marker(), u64::MAX),
        ];
        assert!(
            made.iter().all(|&made| made == expected),
            "{family:?}: {made:?}, not {expected}: {text:?}"
        );
        for limit in [0, expected / 2, expected.saturating_sub(1)] {
            let beyond = exceeds(marker(), limit);
            assert!(!beyond || expected > limit, "{family:?} {limit} {text:?}");
        }
        assert!(!exceeds(marker(), expected), "{family:?} {text:?}");
    }

    #[test]
    fn test_every_way_counts_the_same() {
        for text in random_texts(ATOMS, 11, 1_500) {
            for family in ClaudeFamily::ALL {
                check(family, &text);
            }
        }
    }
}
