//! The steps of a `tokenizer.json` before a text is split: added tokens are taken out, and what is left
//! may be brought into normal form C.
//!
//! As the package tokenizers does it where special tokens are text: of the added tokens that start first, the
//! longest is found, and a special one is then text. Those that are looked for in the text as it came are
//! found before those that are looked for in its normal form.

use std::borrow::Cow;
use std::iter::once;

use memchr::{memchr, memchr2, memchr3};
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc, is_nfc_quick};

use crate::bpe::split::unicode::character_at;
use crate::interrupt::Steps;

/// A token beside those of the model.
pub(in crate::bpe) struct Added {
    pub(in crate::bpe) text: String,
    pub(in crate::bpe) number: u32,
    pub(in crate::bpe) is_special: bool,
    pub(in crate::bpe) is_normalized: bool,
}

/// A part of a prepared text.
pub(in crate::bpe) enum Part<'t> {
    Text(&'t str),
    Token(u32),
}

/// See the [module](self).
pub(in crate::bpe) struct Preparation {
    before: AddedTokens,
    after: AddedTokens,
    /// If there is a normal form: see [`plain_characters`].
    plain: Option<Vec<u64>>,
}

impl Preparation {
    /// Nothing if a token is empty, is there twice, or has another normal form.
    pub(in crate::bpe) fn new(added: Vec<Added>, is_normal_form: bool) -> Option<Preparation> {
        let is_lost = |it: &Added| is_normal_form && it.is_normalized && !is_nfc(&it.text);
        if added.iter().any(is_lost) {
            return None;
        }
        let (after, before) = added.into_iter().partition(|it| it.is_normalized);
        Some(Preparation {
            before: AddedTokens::new(before)?,
            after: AddedTokens::new(after)?,
            plain: is_normal_form.then(plain_characters),
        })
    }

    /// True if every text is one part, as it came.
    pub(in crate::bpe) fn does_nothing(&self) -> bool {
        let has_none = |it: &AddedTokens| it.tokens.is_empty();
        self.plain.is_none() && has_none(&self.before) && has_none(&self.after)
    }

    /// Gives the parts of `text` to `take` until it answers false. Linear, but n log n in a run of marks.
    pub(in crate::bpe) fn each(&self, text: &str, mut take: impl FnMut(Part<'_>) -> bool) {
        self.before.each(text, &mut |part| match part {
            Part::Text(text) => {
                let (normal, mut more) = (self.normal(text), true);
                self.after.each(&normal, &mut |part| {
                    more = take(part);
                    more
                });
                more
            }
            token => take(token),
        });
    }

    /// The normal form of `text`. A plain character depends on none before it: what is looked at are those that are
    /// not plain, from the plain one before them on.
    fn normal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(plain) = &self.plain else {
            return Cow::Borrowed(text);
        };
        let (mut normal, mut done, mut at) = (String::new(), 0, 0);
        let mut steps = Steps::default();
        while let Some(odd) = next_unstable(plain, text.as_bytes(), at) {
            steps.step();
            let before = text[at..odd].chars().next_back();
            let start = odd - before.map_or(0, char::len_utf8);
            let end = text[odd..].find(|it: char| is_plain(plain, it.into()));
            at = end.map_or(text.len(), |end| odd + end);
            let stretch = &text[start..at];
            if !is_nfc(stretch) {
                normal.push_str(&text[done..start]);
                normal.extend(stretch.nfc().inspect(|_| steps.step()));
                done = at;
            }
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        normal.push_str(&text[done..]);
        Cow::Owned(normal)
    }
}

#[inline(always)]
fn is_plain(plain: &[u64], code: u32) -> bool {
    let word = plain.get(code as usize / 64);
    word.is_some_and(|word| word >> (code % 64) & 1 != 0)
}

/// The first character from `at` on that is not plain.
fn next_unstable(plain: &[u64], text: &[u8], mut at: usize) -> Option<usize> {
    while let Some(byte) = text.get(at) {
        if byte.is_ascii() {
            let chunk = text[at..].first_chunk::<16>();
            at += chunk.filter(|it| it.is_ascii()).map_or(1, |it| it.len());
        } else {
            let (code, length) = character_at(text, at);
            if !is_plain(plain, code) {
                return Some(at);
            }
            at += length;
        }
    }
    None
}

/// Bit set of the characters of the first two planes whose texts are all in normal form: they are no marks, and
/// combine with none.
fn plain_characters() -> Vec<u64> {
    let is_plain = |character: char| {
        canonical_combining_class(character) == 0
            && is_nfc_quick(once(character)) == IsNormalized::Yes
    };
    let word = |first: u32| {
        let characters = (0..64).map(|bit| char::from_u32(first + bit));
        characters.rev().fold(0, |word, it| {
            word << 1 | u64::from(it.is_some_and(is_plain))
        })
    };
    (0..0x2_0000).step_by(64).map(word).collect()
}

/// Added tokens that are looked for together.
struct AddedTokens {
    /// By their bytes; none if all of them are special, and so text.
    tokens: Vec<Added>,
    /// The first bytes of all.
    firsts: Vec<u8>,
}

impl AddedTokens {
    fn new(mut tokens: Vec<Added>) -> Option<AddedTokens> {
        if tokens.iter().all(|it| it.is_special) {
            tokens.clear();
        }
        tokens.sort_unstable_by(|left, right| left.text.cmp(&right.text));
        let is_repeated = tokens.windows(2).any(|pair| pair[0].text == pair[1].text);
        let firsts = tokens.iter().map(|it| it.text.bytes().next());
        let mut firsts: Vec<u8> = firsts.collect::<Option<_>>()?;
        firsts.dedup();
        (!is_repeated).then_some(AddedTokens { tokens, firsts })
    }

    fn each(&self, text: &str, take: &mut dyn FnMut(Part<'_>) -> bool) {
        let (bytes, mut done, mut from, mut steps) = (text.as_bytes(), 0, 0, Steps::default());
        while let Some(start) = self.next_first(&bytes[from..]).map(|at| from + at) {
            steps.step();
            let Some(token) = self.longest(&bytes[start..]) else {
                from = start + 1;
                continue;
            };
            from = start + token.text.len();
            if !token.is_special {
                let is_wanted = done == start || take(Part::Text(&text[done..start]));
                if !is_wanted || !take(Part::Token(token.number)) {
                    return;
                }
                done = from;
            }
        }
        if done < text.len() {
            take(Part::Text(&text[done..]));
        }
    }

    /// Where a token may start.
    fn next_first(&self, text: &[u8]) -> Option<usize> {
        match self.firsts[..] {
            [] => None,
            [first] => memchr(first, text),
            [first, second] => memchr2(first, second, text),
            [first, second, third] => memchr3(first, second, third, text),
            _ => text.iter().position(|it| self.firsts.contains(it)),
        }
    }

    /// The longest token that `text` starts with. The tokens that have its first bytes stand side by side.
    fn longest(&self, text: &[u8]) -> Option<&Added> {
        let (mut tokens, mut found) = (&self.tokens[..], None);
        for (at, byte) in text.iter().enumerate() {
            let own = |it: &Added| it.text.as_bytes().get(at).copied();
            let from = tokens.partition_point(|it| own(it) < Some(*byte));
            let to = tokens.partition_point(|it| own(it) <= Some(*byte));
            tokens = &tokens[from..to];
            match tokens.first() {
                None => break,
                Some(first) if first.text.len() == at + 1 => found = Some(first),
                Some(_) => {}
            }
        }
        found
    }
}
