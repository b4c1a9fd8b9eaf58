//! A `tokenizer.json` with a byte-level BPE, as of Llama 3, Qwen, Mistral and DeepSeek, if it can be counted by
//! tables.
//!
//! Such a file names its merges, pair by pair, and the earliest in its list goes first; a rank file knows tokens
//! alone, and the join whose bytes are the lowest token goes first. By either, a token is made by merges exactly
//! if its own text merges to it, and always by the same last join ([`last_joins`]). So the tables of the tokens
//! that the merges make count as the merges do, with the tokens' numbers as ranks, if the last joins come in the
//! order of these numbers: neighbours whose bytes are such a token are its last join. Another token is a piece
//! as a whole if the file says `ignore_merges`, and must then be one by its rank too; else it is in no text.

use std::collections::HashMap;

use crate::bpe::prepare::{Added, Preparation};
use crate::bpe::split::rule::SplitRule;
use crate::bpe::table::joins::last_joins;
use crate::bpe::table::made::{SLOTS_PERCENT, Tables};
use crate::bpe::table::ranks::{BuiltTables, Ranks};
use crate::json::{Anomalies, Document, Limits, Value};

/// The content of a `tokenizer.json`.
pub(in crate::bpe) struct TokenizerFile {
    pub(in crate::bpe) ranks: Ranks,
    pub(in crate::bpe) made: BuiltTables,
    pub(in crate::bpe) rule: SplitRule,
    pub(in crate::bpe) preparation: Preparation,
    /// Number and text of each token that no bytes of a text are, by number.
    pub(in crate::bpe) named: Vec<(u32, String)>,
}

impl TokenizerFile {
    /// Nothing if the file is no tokenizer, or one of another kind. Linear in its content.
    pub(in crate::bpe) fn read(content: &[u8]) -> Option<TokenizerFile> {
        let document = Document::from_bytes(content, &Limits::default()).ok()?;
        // The last of two values with one key wins here: who knows which one was meant?
        if document.anomalies() != Anomalies::default() {
            return None;
        }
        let (root, model) = (document.root(), document.root().get("model")?);
        let added = added_tokens(root)?;
        let (tokens, mut named) = vocabulary(model)?;
        named.extend(added.iter().map(|it| (it.number, it.text.clone())));
        named.sort_unstable();
        named.dedup_by_key(|(number, _)| *number);
        let ranks = Ranks::new(|add| {
            let mut lines = tokens.iter().zip(1..);
            lines.try_for_each(|((text, rank), line)| add(line, text, *rank))
        });
        let ranks = ranks.ok()?;
        Some(TokenizerFile {
            rule: split_rule(root.get("pre_tokenizer")?)?,
            preparation: Preparation::new(added, is_nfc(root.get("normalizer"))?)?,
            made: tables(model, &ranks)?,
            ranks,
            named,
        })
    }
}

/// Bytes and number of each token, and those that are none of bytes; nothing if the model is another one.
#[allow(clippy::type_complexity, reason = "two lists that are read at once")]
fn vocabulary(model: Value<'_>) -> Option<(Vec<(Vec<u8>, u32)>, Vec<(u32, String)>)> {
    let is_none = |name: &str| {
        let value = model.get(name);
        value.is_none_or(|it| it.is_null() || it.as_str() == Some(""))
    };
    let is_bpe = model.get("type")?.as_str() == Some("BPE");
    let is_plain = ["dropout", "continuing_subword_prefix", "end_of_word_suffix"]
        .into_iter()
        .all(is_none);
    if !is_bpe || !is_plain {
        return None;
    }
    let (mut tokens, mut named) = (Vec::new(), Vec::new());
    for (text, number) in model.get("vocab")?.members() {
        let number = u32::try_from(number.as_u64()?).ok()?;
        match bytes_of(text) {
            Some(bytes) => tokens.push((bytes, number)),
            None => named.push((number, text.to_owned())),
        }
    }
    Some((tokens, named))
}

/// The tables, if the merges are what the ranks of the tokens say.
fn tables(model: Value<'_>, ranks: &Ranks) -> Option<BuiltTables> {
    let rank = |text: &[u8]| ranks.rank(text, 0, text.len());
    let mut merges: HashMap<(u32, u32), u32> = HashMap::new();
    for (merge, place) in model.get("merges")?.items().zip(0..) {
        let (left, right) = pair(merge)?;
        rank(&[&left[..], &right].concat())?;
        merges.insert((rank(&left)?, rank(&right)?), place);
    }
    let place = |text: &[u8], at: usize| {
        rank(text)?;
        let (left, right) = text.split_at(at);
        merges.get(&(rank(left)?, rank(right)?)).copied()
    };
    let mut ranked: Vec<(&[u8], u32)> = ranks.ranked().collect();
    let (joins, mut exceptions) = last_joins(&ranked, rank, place)?;
    let made = joins.iter().flatten();
    if !made.is_sorted_by_key(|it| merges.get(&(it.left(), it.right()))) {
        return None;
    }
    if model.get("ignore_merges").and_then(Value::as_bool) != Some(true) {
        ranked.retain(|(text, rank)| text.len() == 1 || joins[*rank as usize].is_some());
        exceptions.has_wholes = false;
    } else if exceptions.has_wholes {
        // The bytes of a token that no merge makes must not be joined either.
        let (by_rank, _) = last_joins(&ranked, rank, |text, _| rank(text))?;
        if by_rank != joins {
            return None;
        }
    }
    Some((Tables::new(&ranked, &joins, SLOTS_PERCENT)?, exceptions))
}

/// The two texts of a merge: `["a", "b"]` or, in older files, `"a b"`.
fn pair(merge: Value<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut items = merge.items().filter_map(Value::as_str);
    let (left, right) = match merge.as_str() {
        Some(text) => text.split_once(' ')?,
        None => (items.next()?, items.next()?),
    };
    Some((bytes_of(left)?, bytes_of(right)?))
}

/// The bytes that the characters of `text` stand for; nothing if one stands for none.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte_of).collect()
}

/// The byte that a character stands for in GPT-2's alphabet: a visible one for itself, the others are moved up.
fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    let byte = match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// The tokens beside the model's; nothing if one of them takes white space or whole words only.
fn added_tokens(root: Value<'_>) -> Option<Vec<Added>> {
    let tokens = root.get("added_tokens").into_iter().flat_map(Value::items);
    let added = tokens.map(|token| {
        let is = |name: &str| token.get(name).and_then(Value::as_bool);
        let is_special = is("special")?;
        let is_odd = ["single_word", "lstrip", "rstrip"]
            .into_iter()
            .any(|it| is(it) == Some(true));
        if is_odd && !is_special {
            return None;
        }
        Some(Added {
            text: token.get("content")?.as_str()?.to_owned(),
            number: u32::try_from(token.get("id")?.as_u64()?).ok()?,
            is_special,
            is_normalized: is("normalized")?,
        })
    });
    added.collect()
}

/// True if the normal form is NFC, false if there is none; nothing if it is another one.
fn is_nfc(normalizer: Option<Value<'_>>) -> Option<bool> {
    let Some(normalizer) = normalizer.filter(|it| !it.is_null()) else {
        return Some(false);
    };
    match normalizer.get("type")?.as_str()? {
        "NFC" => Some(true),
        "Sequence" => {
            let all = normalizer.get("normalizers")?.items();
            all.map(|it| is_nfc(Some(it)))
                .try_fold(false, |before, it| Some(before | it?))
        }
        _ => None,
    }
}

/// DeepSeek's expressions, one after the other.
const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
        "|[^\r\n",
        r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[",
        "\r\n",
        r"]*|\s*[",
        "\r\n",
        r"]+|\s+(?!\S)|\s+",
    ),
];

/// The rule that the steps of a pre-tokenizer are, if it is one of ours, followed by the bytes' alphabet.
fn split_rule(pre_tokenizer: Value<'_>) -> Option<SplitRule> {
    let is = |step: Value<'_>, name: &str| step.get(name).and_then(Value::as_bool);
    let steps: Vec<Value<'_>> = match pre_tokenizer.get("type")?.as_str()? {
        "Sequence" => pre_tokenizer.get("pretokenizers")?.items().collect(),
        _ => vec![pre_tokenizer],
    };
    let (&bytes, splits) = steps.split_last()?;
    if bytes.get("type")?.as_str() != Some("ByteLevel") || is(bytes, "add_prefix_space")? {
        return None;
    }
    // It cuts by the rule of GPT-2 unless told otherwise.
    if is(bytes, "use_regex").unwrap_or(true) {
        return splits.is_empty().then_some(SplitRule::R50k);
    }
    let patterns: Vec<&str> = splits.iter().copied().map(pattern).collect::<Option<_>>()?;
    match patterns[..] {
        [pattern] => SplitRule::of_pattern(pattern),
        _ => (patterns == DEEPSEEK).then_some(SplitRule::DeepSeek),
    }
}

/// The regular expression whose matches, and what is between them, are the pieces of this step.
fn pattern(split: Value<'_>) -> Option<&str> {
    let is_split = split.get("type")?.as_str() == Some("Split");
    let is_isolated = split.get("behavior")?.as_str() == Some("Isolated");
    let pattern = split.get("pattern")?.get("Regex")?.as_str();
    pattern.filter(|_| is_split && is_isolated)
}
