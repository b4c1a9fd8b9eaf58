//! Special tokens: texts that stand for one token each, with numbers outside of the vocabulary.
//!
//! A text is only text unless the caller says otherwise, so counting never looks here.

use memchr::memmem;

const OPEN: &str = "<|";
const CLOSE: &str = "|>";
/// Longer than any special token of an encoding in the package.
const MAX_BYTES: usize = 24;

const END_OF_TEXT: &str = "<|endoftext|>";
const END_OF_PROMPT: &str = "<|endofprompt|>";
const FILL_IN: [&str; 3] = ["<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"];

/// The special tokens of an encoding.
#[derive(Debug)]
pub(crate) struct Specials {
    named: &'static [(&'static str, u32)],
    /// Numbers of `<|reserved_N|>`.
    reserved: &'static [(u32, u32)],
}

pub(crate) static R50K: Specials = Specials {
    named: &[(END_OF_TEXT, 50_256)],
    reserved: &[],
};
/// Those of a vendor who is not OpenAI: they are left out.
pub(crate) static UNTOLD: Specials = Specials {
    named: &[],
    reserved: &[],
};
pub(crate) static P50K_EDIT: Specials = Specials {
    named: &[
        (END_OF_TEXT, 50_256),
        (FILL_IN[0], 50_281),
        (FILL_IN[1], 50_282),
        (FILL_IN[2], 50_283),
    ],
    reserved: &[],
};
pub(crate) static CL100K: Specials = Specials {
    named: &[
        (END_OF_TEXT, 100_257),
        (FILL_IN[0], 100_258),
        (FILL_IN[1], 100_259),
        (FILL_IN[2], 100_260),
        (END_OF_PROMPT, 100_276),
    ],
    reserved: &[],
};
pub(crate) static O200K: Specials = Specials {
    named: &[(END_OF_TEXT, 199_999), (END_OF_PROMPT, 200_018)],
    reserved: &[],
};
pub(crate) static HARMONY: Specials = Specials {
    named: &[
        (END_OF_TEXT, 199_999),
        (END_OF_PROMPT, 200_018),
        ("<|startoftext|>", 199_998),
        ("<|return|>", 200_002),
        ("<|constrain|>", 200_003),
        ("<|channel|>", 200_005),
        ("<|start|>", 200_006),
        ("<|end|>", 200_007),
        ("<|message|>", 200_008),
        ("<|call|>", 200_012),
    ],
    reserved: &[
        (200_000, 200_001),
        (200_004, 200_004),
        (200_009, 200_011),
        (200_013, 201_087),
    ],
};

impl Specials {
    /// All of them, each with its number. One number may have two texts.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, u32)> {
        let named = self
            .named
            .iter()
            .map(|&(text, number)| (text.to_owned(), number));
        let reserved = self.reserved.iter().flat_map(|&(first, last)| first..=last);
        named.chain(reserved.map(|number| (reserved_text(number), number)))
    }

    /// The number of the special token that is `text`.
    pub(crate) fn number(&self, text: &str) -> Option<u32> {
        let named = self.named.iter().find(|(name, _)| *name == text);
        named.map(|&(_, number)| number).or_else(|| {
            let number = text.strip_prefix("<|reserved_")?.strip_suffix(CLOSE)?;
            let number = number.parse().ok().filter(|&it| self.is_reserved(it))?;
            (reserved_text(number) == text).then_some(number)
        })
    }

    /// The text of the special token that has this number.
    pub(crate) fn text(&self, number: u32) -> Option<String> {
        let named = self.named.iter().find(|(_, it)| *it == number);
        let named = named.map(|&(text, _)| text.to_owned());
        named.or_else(|| self.is_reserved(number).then(|| reserved_text(number)))
    }

    /// The first special token in `text` from byte `from` on that is asked for, with its place and
    /// number. Linear up to where it stands.
    pub(crate) fn find<'t>(
        &self,
        text: &'t str,
        from: usize,
        is_asked_for: impl Fn(&str) -> bool,
    ) -> Option<(usize, &'t str, u32)> {
        memmem::find_iter(&text.as_bytes()[from..], OPEN).find_map(|place| {
            let start = from + place;
            let end = text.len().min(start + MAX_BYTES);
            let head = &text.as_bytes()[start..end];
            let length = OPEN.len() + memmem::find(head.get(OPEN.len()..)?, CLOSE.as_bytes())?;
            let token = text.get(start..start + length + CLOSE.len())?;
            let number = self.number(token).filter(|_| is_asked_for(token))?;
            Some((start, token, number))
        })
    }

    fn is_reserved(&self, number: u32) -> bool {
        let mut ranges = self.reserved.iter();
        ranges.any(|&(first, last)| (first..=last).contains(&number))
    }
}

fn reserved_text(number: u32) -> String {
    format!("<|reserved_{number}|>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_its_text_lead_to_each_other() {
        for specials in [&R50K, &P50K_EDIT, &CL100K, &O200K, &HARMONY] {
            for (text, number) in specials.all() {
                assert_eq!(specials.number(&text), Some(number));
                let back = specials.text(number).expect("a special token");
                assert_eq!(specials.number(&back), Some(number));
                assert!(text.len() <= MAX_BYTES);
                assert_eq!(specials.find(&text, 0, |_| true), Some((0, &*text, number)));
            }
        }
    }

    #[test]
    fn what_only_begins_like_one_is_none() {
        let find = |text| HARMONY.find(text, 0, |_| true).map(|(start, ..)| start);
        for text in [
            "<|",
            "<|é|>",
            "<|end",
            "<|reserved_0200000|>",
            "<|reserved_200002|>",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
        assert_eq!(find("<|<|end|>|>"), Some(2));
        assert_eq!(find("é<|a|><|end|>"), Some(7));
    }
}
