//! Compiles the data files into the tables that `vocabulary.rs` and `character.rs` use in place.
//!
//! Only `build.rs` includes this file. Everything that the run time relies on is checked here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::key::{self, Key};
use super::place;

#[path = "kind.rs"]
#[allow(dead_code, reason = "some parts serve the run time only")]
mod kind;

#[path = "layout.rs"]
mod layout;

use layout::{BOW, CAPS, EOW, LADDER, SHIFT, SUFFIXES};

const FAMILIES: [&str; 2] = ["v3", "v4_7"];

/// The white space of `kind::SPACE`, in the order of the ladders.
const SPACES: [char; 4] = [' ', '\n', '\t', '\u{3000}'];

/// Stretches of a space, line feed or tab of up to this length are one token (`ascii.rs`).
const LEVEL_BYTES: usize = 16;

/// Bits of a state that number its mask.
const MASK_BITS: u32 = u64::BITS - layout::MASK_SHIFT;

/// Base of a node without children: no node has its slots.
const NO_CHILDREN: usize = 1;

/// A vocabulary: pieces as bytes, with markers as the bytes that no UTF-8 has.
struct Pieces {
    family: usize,
    all: HashSet<Vec<u8>>,
    prefixes: HashSet<Vec<u8>>,
    longest: usize,
}

/// Writes every table of Claude's count model.
pub(super) fn write(root: &Path, out: &Path) {
    let file = |name: &str| -> Value {
        let path = root.join("src/claude").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).expect("a file of the repository");
        serde_json::from_str(&text).expect("valid JSON")
    };
    let vocabularies = file("claude_vocabulary.json");
    let pieces: Vec<Pieces> = (0..FAMILIES.len())
        .map(|family| Pieces::read(family, &vocabularies[FAMILIES[family]]))
        .collect();
    let kinds = kinds(&file("claude_characters.json"), &pieces);
    for pieces in &pieces {
        validate(pieces, &kinds);
        write_automaton(out, pieces, &kinds);
        write_ladders(out, pieces);
    }
    write_kinds(out, &kinds);
    write_entries(out, &pieces, &kinds);
}

impl Pieces {
    fn read(family: usize, data: &Value) -> Pieces {
        let strings = |value: &Value| -> Vec<String> {
            let list = value.as_array().expect("a list");
            let text = |item: &Value| item.as_str().expect("a string").to_owned();
            list.iter().map(text).collect()
        };
        let mut all = HashSet::new();
        let groups = data["pieces"].as_object().expect("groups");
        let measured = data["measured"].as_object().into_iter().flatten();
        for (around, texts) in groups.iter().chain(measured) {
            let (head, tail): (&[u8], &[u8]) = match around.as_str() {
                "none" => (&[], &[]),
                "bow" => (&[BOW], &[]),
                "eow" => (&[], &[EOW]),
                "bow eow" => (&[BOW], &[EOW]),
                "shift bow eow" => (&[SHIFT, BOW], &[EOW]),
                "caps bow eow" => (&[CAPS, BOW], &[EOW]),
                _ => panic!("pieces with the markers {around}"),
            };
            all.extend(
                strings(texts)
                    .iter()
                    .map(|text| [head, text.as_bytes(), tail].concat()),
            );
        }
        let byte = |hex: &[u8]| {
            let digits = std::str::from_utf8(hex).expect("ASCII");
            u8::from_str_radix(digits, 16).expect("a byte")
        };
        let prefixes: HashSet<Vec<u8>> = strings(&data["byte_prefixes"])
            .iter()
            .map(|hex| hex.as_bytes().chunks(2).map(byte).collect())
            .collect();
        assert!(prefixes.iter().all(|prefix| prefix[0] >= 0xC0));
        let longest = all.iter().map(Vec::len).max().expect("pieces");
        assert!(longest <= layout::MAX_PIECE_BYTES);
        Pieces {
            family,
            all,
            prefixes,
            longest,
        }
    }

    fn has(&self, parts: &[&[u8]]) -> bool {
        self.all.contains(&parts.concat())
    }

    /// Tokens of one character: itself, or its bytes with the longest known prefix as one.
    fn character_cost(&self, character: char) -> usize {
        let text = character.to_string().into_bytes();
        if self.all.contains(&text) {
            return 1;
        }
        let prefix = (2..text.len())
            .rev()
            .find(|&end| self.prefixes.contains(&text[..end]));
        prefix.map_or(text.len(), |end| text.len() - end + 1)
    }

    /// Tokens of a marked text, by the definition.
    fn cost(&self, marked: &[u8]) -> usize {
        let mut best = vec![usize::MAX; marked.len() + 1];
        best[0] = 0;
        for end in 1..=marked.len() {
            // No piece ends inside of a character.
            if marked.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
                continue;
            }
            for start in (end.saturating_sub(self.longest)..end).rev() {
                if best[start] == usize::MAX {
                    continue;
                }
                let segment = &marked[start..end];
                // A segment is one token as a piece or as a marker; one character alone may be
                // several; anything else is no token.
                if self.all.contains(segment) {
                    best[end] = best[end].min(best[start] + 1);
                } else if let [marker] = segment {
                    assert!(*marker >= CAPS || *marker < 0x80);
                    best[end] = best[end].min(best[start] + 1);
                } else if let Ok(text) = std::str::from_utf8(segment) {
                    let mut characters = text.chars();
                    if let (Some(character), None) = (characters.next(), characters.next()) {
                        let cost = self.character_cost(character);
                        best[end] = best[end].min(best[start] + cost);
                    }
                }
            }
        }
        best[marked.len()]
    }
}

/// The text of a piece, without its markers.
fn text_of(piece: &[u8]) -> &str {
    let is_text = |byte: &u8| *byte < CAPS;
    let start = piece.iter().position(is_text).expect("a text");
    let end = piece.iter().rposition(is_text).expect("a text") + 1;
    std::str::from_utf8(&piece[start..end]).expect("UTF-8")
}

/// Panics unless pieces respect the cells that `marker.rs` cuts the marked text into.
fn validate(pieces: &Pieces, kinds: &[u32]) {
    for piece in &pieces.all {
        let text = text_of(piece);
        // What one character of a piece is decides which others it may stand with.
        let bits: Vec<u32> = text.chars().map(|c| kinds[c as usize]).collect();
        let any = bits.iter().fold(0, |any, bits| any | bits);
        let unmarked = text.len() == piece.len();
        if bits.len() > 1 {
            assert!(any & kind::IDEOGRAPH == 0, "ideographs are alone: {text:?}");
        }
        if any & kind::SPACE != 0 {
            let first = text.chars().next();
            let uniform = text.chars().all(|c| Some(c) == first);
            assert!(uniform && unmarked, "white space is alone: {text:?}");
        }
        if any & kind::DIGIT != 0 {
            let digits = bits.iter().all(|bits| bits & kind::DIGIT != 0);
            assert!(
                digits && unmarked && text.len() <= 3,
                "digits are alone: {text:?}"
            );
        }
        let word = bits.iter().all(|bits| bits & kind::WORD != 0);
        if any & kind::WORD != 0 && !word {
            let suffix = text.strip_prefix('\'').expect("only an apostrophe");
            assert!(SUFFIXES.contains(&suffix.as_bytes()) && matches!(piece[0], b'\''));
        }
        assert!(
            word || piece[0] < CAPS || piece[0] == BOW,
            "only words have case"
        );
    }
    // Digits are cut into threes before anything is looked up, so each of these must be a token.
    for number in 0..1000 {
        for digits in 1..=3 {
            let text = format!("{number:0digits$}");
            assert!(
                pieces.has(&[text.as_bytes()]),
                "every {digits} digits are a piece"
            );
        }
    }
}

/// Bits of every code point.
fn kinds(data: &Value, pieces: &[Pieces]) -> Vec<u32> {
    let names: HashMap<&str, u32> = [
        ("word", kind::WORD),
        ("ideograph", kind::IDEOGRAPH),
        ("symbol", kind::SYMBOL),
        ("number", kind::NUMBER),
        ("decimal", kind::DECIMAL),
        ("digit", kind::DIGIT),
        ("border_digit", kind::BORDER_DIGIT),
        ("punctuation", kind::PUNCTUATION),
        ("space", kind::SPACE),
        ("selector", kind::SELECTOR),
        ("stray", kind::STRAY),
        ("upper", kind::UPPER),
        ("lower", kind::LOWER),
        ("lowers", kind::LOWERS),
        ("caseless", kind::CASELESS),
        ("symbolic", kind::SYMBOLIC),
        ("control", kind::CONTROL),
        ("private", kind::PRIVATE),
        ("blank", kind::BLANK),
        ("combining", kind::COMBINING),
        ("composing", kind::COMPOSING),
        ("unassigned", kind::UNASSIGNED),
    ]
    .into();
    let mut kinds = vec![0; 0x11_0000];
    for (words, ranges) in data.as_object().expect("an object") {
        if words == "about" {
            continue;
        }
        let bits = words.split(' ').fold(0, |bits, word| bits | names[word]);
        for range in ranges.as_array().expect("ranges") {
            let code = |at: usize| {
                usize::try_from(range[at].as_u64().expect("a number")).expect("a code point")
            };
            kinds[code(0)..=code(1)].fill(bits);
        }
    }
    for quote in ['\u{2018}', '\u{2019}', '\u{201C}', '\u{201D}'] {
        kinds[quote as usize] |= kind::QUOTE;
    }
    kinds[0x0E4D] |= kind::NIKHAHIT;
    // What a character costs alone stands above its bits, once for each family.
    for (code, bits) in (0..).zip(&mut kinds) {
        let Some(character) = char::from_u32(code) else {
            continue;
        };
        for (pieces, shift) in pieces.iter().zip(kind::COST_SHIFTS) {
            let cost = pieces.character_cost(character);
            *bits |= u32::try_from(cost).expect("at most 4") << shift;
        }
    }
    kinds
}

fn write_kinds(out: &Path, kinds: &[u32]) {
    // Three tables: the bits of each kind, the kinds of 128 code points, and which such block a code
    // point is in. Most blocks are equal, so that 1.1 million code points take 40 KB.
    let distinct: BTreeSet<u32> = kinds.iter().copied().collect();
    let numbers: BTreeMap<u32, u8> = distinct
        .iter()
        .enumerate()
        .map(|(number, bits)| (*bits, u8::try_from(number).expect("at most 256 kinds")))
        .collect();
    let numbered: Vec<u8> = kinds.iter().map(|bits| numbers[bits]).collect();
    let mut found = HashMap::new();
    let (mut index, mut blocks) = (Vec::new(), Vec::new());
    for block in numbered.chunks(kind::BLOCK) {
        let next = found.len();
        let number = *found.entry(block).or_insert_with(|| {
            blocks.extend_from_slice(block);
            u16::try_from(next).expect("few different blocks")
        });
        index.extend_from_slice(&number.to_le_bytes());
    }
    let mut bits: Vec<u8> = distinct
        .iter()
        .flat_map(|bits| bits.to_le_bytes())
        .collect();
    bits.resize(256 * 4, 0);
    write_table(out, "claude.kinds", &bits);
    write_table(out, "claude.index", &index);
    write_table(out, "claude.blocks", &blocks);
}

fn write_table(out: &Path, name: &str, data: &[u8]) {
    fs::write(out.join(name), data).expect("OUT_DIR is writable");
}

/// Writes the least number of tokens of every run of one white space character.
///
/// From some length on, one more of the longest piece is always best: a tiling with as many other
/// pieces as the longest is long has some whose lengths sum up to a multiple of it. So what holds
/// up to the square of the longest holds for ever.
fn write_ladders(out: &Path, pieces: &Pieces) {
    let mut table = Vec::new();
    for space in SPACES {
        let lengths: Vec<usize> = (1..=layout::MAX_PIECE_BYTES)
            .filter(|&length| {
                let run: String = std::iter::repeat_n(space, length).collect();
                pieces.has(&[run.as_bytes()])
            })
            .collect();
        let level = lengths.iter().take(LEVEL_BYTES);
        assert!(space == '\u{3000}' || level.eq(&(1..=LEVEL_BYTES).collect::<Vec<_>>()));
        let longest = *lengths.last().expect("a piece");
        // The least number of tokens of each length, by the last piece of the run.
        let mut costs = vec![0_u16];
        for length in 1..=longest * longest + 2 * LADDER {
            let steps = lengths.iter().filter(|&&step| step <= length);
            costs.push(
                1 + steps
                    .map(|step| costs[length - step])
                    .min()
                    .expect("a step"),
            );
        }
        // Beyond the table a run is as good as one that is shorter by the longest piece, plus one.
        for length in LADDER..costs.len() {
            assert_eq!(
                costs[length],
                costs[length - longest] + 1,
                "LADDER is too short"
            );
        }
        table.extend_from_slice(&u16::try_from(longest).expect("small").to_le_bytes());
        for cost in &costs[1..LADDER] {
            table.extend_from_slice(&cost.to_le_bytes());
        }
    }
    let name = format!("claude_{}.ladders", FAMILIES[pieces.family]);
    write_table(out, &name, &table);
}

/// Writes the table of texts whose tokens are known: words and punctuation of up to 13 bytes.
fn write_entries(out: &Path, pieces: &[Pieces], kinds: &[u32]) {
    // Only texts that are a whole cell by themselves: words, and runs of punctuation.
    let mut texts = BTreeSet::new();
    for piece in pieces.iter().flat_map(|pieces| &pieces.all) {
        let text = text_of(piece);
        let all = |bit: u32| text.chars().all(|c| kinds[c as usize] & bit != 0);
        let word = all(kind::WORD) && (piece[0] >= CAPS);
        if text.len() <= key::SHORT_BYTES && (word || all(kind::PUNCTUATION)) {
            texts.insert(text);
        }
    }
    let keyed: Vec<(u64, [u64; 2])> = texts
        .iter()
        .map(|text| {
            let first = text.chars().next().expect("not empty");
            let text = text.as_bytes();
            let value = if kinds[first as usize] & kind::WORD != 0 {
                word_value(pieces, text)
            } else {
                punctuation_value(pieces, text)
            };
            // The value stands above the key in the second word, as a rank does in the tables of bytes.
            let mut padded = [0; 16];
            padded[..text.len()].copy_from_slice(text);
            let key = Key::new(&padded, text.len());
            assert!(value < 1 << (u64::BITS - key::RANK_SHIFT));
            let high = key.high | u64::from(value) << key::RANK_SHIFT;
            (key.hash(), [key.low, high])
        })
        .collect();
    let (slots, pilots) = place(&keyed);
    let entries: Vec<u8> = slots
        .iter()
        .flat_map(|slot| slot.unwrap_or_default().map(u64::to_le_bytes))
        .flatten()
        .collect();
    let pilots: Vec<u8> = pilots
        .iter()
        .flat_map(|pilot| pilot.to_le_bytes())
        .collect();
    write_table(out, "claude.entries", &entries);
    write_table(out, "claude.pilots", &pilots);
}

/// Tokens of a word as it stands, and whether it is one token with each case marker.
fn word_value(pieces: &[Pieces], text: &[u8]) -> u32 {
    let mut value = 0;
    for (pieces, layout) in pieces.iter().zip(layout::WORD_VALUES) {
        let cost = pieces.cost(&[&[BOW], text, &[EOW]].concat());
        let cost = u32::try_from(cost).expect("small");
        assert!(cost <= layout::WORD_COST_MASK);
        value |= cost << layout.cost_shift;
        value |= u32::from(pieces.has(&[&[SHIFT, BOW], text, &[EOW]])) << layout.title_shift;
        value |= u32::from(pieces.has(&[&[CAPS, BOW], text, &[EOW]])) << layout.caps_shift;
    }
    value
}

/// Tokens of punctuation without and with the markers; 0 if they are too many for the table.
fn punctuation_value(pieces: &[Pieces], text: &[u8]) -> u32 {
    let mut value = 0;
    for pieces in pieces {
        for (bow, eow) in [(false, false), (true, false), (false, true), (true, true)] {
            let head: &[u8] = if bow { &[BOW] } else { &[] };
            let tail: &[u8] = if eow { &[EOW] } else { &[] };
            let cost = pieces.cost(&[head, text, tail].concat());
            let cost = u32::try_from(cost).expect("small");
            if cost > layout::PUNCTUATION_COST_MASK {
                continue;
            }
            value |= cost << layout::punctuation_shift(pieces.family, bow, eow);
        }
    }
    value
}

#[derive(Default)]
struct Node {
    children: BTreeMap<u8, usize>,
    lengths: u128,
    fail: usize,
}

/// Writes the automaton that tells which pieces end at each position of a marked text.
fn write_automaton(out: &Path, pieces: &Pieces, kinds: &[u32]) {
    // A state is one word: where its children are, where a failure leads, and which pieces end there.
    let nodes = trie(pieces, kinds);
    let (slots, bases) = double_array(&nodes);
    let distinct: BTreeSet<u128> = nodes.iter().map(|node| node.lengths).collect();
    // In order: those of long pieces have the highest numbers.
    let masks: Vec<u128> = distinct.into_iter().collect();
    assert!(masks[0] == 0 && masks.len() < 1 << MASK_BITS);
    let slot_count = slots.iter().max().expect("the root") / 256 * 256 + 256;
    let mut states = vec![None; slot_count];
    for (node, entry) in nodes.iter().enumerate() {
        let number = masks.binary_search(&entry.lengths).expect("a mask") as u64;
        let state = (bases[node] as u64) << layout::BASE_SHIFT
            | (slots[entry.fail] as u64) << layout::FAIL_SHIFT
            | number << layout::MASK_SHIFT;
        states[slots[node]] = Some(state);
        for (&byte, &child) in &entry.children {
            assert_eq!(slots[child], bases[node] ^ usize::from(byte));
        }
    }
    let mut labels = vec![None; slot_count];
    for entry in &nodes {
        for (&byte, &child) in &entry.children {
            labels[slots[child]] = Some(byte);
        }
    }
    let used: HashSet<usize> = bases.iter().copied().collect();
    let table: Vec<u8> = (0..slot_count)
        .flat_map(|slot| {
            // No base leads to an empty slot, or to the root, by the label written there.
            let label = labels[slot].unwrap_or_else(|| {
                (0..=u8::MAX)
                    .find(|&label| !used.contains(&(slot ^ usize::from(label))))
                    .expect("fewer bases than slots in a block")
            });
            (states[slot].unwrap_or(0) | u64::from(label)).to_le_bytes()
        })
        .collect();
    // The states after the root stand in a table of their own: most bytes of a text begin anew.
    let root = |byte: u8| {
        nodes[0]
            .children
            .get(&byte)
            .map_or(0, |&child| slots[child])
    };
    let roots: Vec<u8> = (0..=u8::MAX)
        .flat_map(|byte| table.as_chunks::<8>().0[root(byte)])
        .collect();
    // A mask once more as bytes, for the tiling of several texts: 1 where a piece ends, else more
    // than any count.
    let lanes: Vec<u8> = masks
        .iter()
        .flat_map(|mask| (0..layout::LANES).map(move |length| mask >> length & 1))
        .map(|ends| if ends == 1 { 1 } else { u8::MAX })
        .collect();
    let masks: Vec<u8> = masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
    let family = FAMILIES[pieces.family];
    write_table(out, &format!("claude_{family}.states"), &table);
    write_table(out, &format!("claude_{family}.roots"), &roots);
    write_table(out, &format!("claude_{family}.masks"), &masks);
    write_table(out, &format!("claude_{family}.lanes"), &lanes);
}

/// Trie with failure links; bit `n - 1` of `lengths` says that a piece of `n` bytes ends here.
///
/// It lacks what never decides: white space, ASCII digits, single characters, and whole words that
/// the table of entries knows.
fn trie(pieces: &Pieces, kinds: &[u32]) -> Vec<Node> {
    let mut nodes = vec![Node::default()];
    let mut sorted: Vec<&Vec<u8>> = pieces.all.iter().collect();
    sorted.sort();
    for piece in sorted {
        let text = text_of(piece);
        let first = text.chars().next().expect("not empty");
        let alone = piece.len() == first.len_utf8();
        let spaces = SPACES.contains(&first) || first.is_ascii_digit();
        let whole = piece[0] >= CAPS
            && piece[piece.len() - 1] == EOW
            && kinds[first as usize] & kind::WORD != 0
            && text.len() <= key::SHORT_BYTES;
        if alone || spaces || whole {
            continue;
        }
        // The path of the piece, made as far as it is not there.
        let mut at = 0;
        for &byte in piece {
            at = match nodes[at].children.get(&byte) {
                Some(&child) => child,
                None => {
                    nodes.push(Node::default());
                    let child = nodes.len() - 1;
                    nodes[at].children.insert(byte, child);
                    child
                }
            };
        }
        nodes[at].lengths |= 1 << (piece.len() - 1);
    }
    // Breadth first: the longest ending of a node that is a beginning of a piece is shorter than the
    // node, so its own failure is known.
    let mut queue: VecDeque<usize> = [0].into();
    while let Some(node) = queue.pop_front() {
        let children: Vec<(u8, usize)> =
            nodes[node].children.iter().map(|(b, c)| (*b, *c)).collect();
        for (byte, child) in children {
            let mut from = node;
            let fail = loop {
                if from == 0 {
                    break 0;
                }
                from = nodes[from].fail;
                if let Some(&next) = nodes[from].children.get(&byte) {
                    break next;
                }
            };
            nodes[child].fail = fail;
            // Pieces that end at the failure end here too.
            nodes[child].lengths |= nodes[fail].lengths;
            queue.push_back(child);
        }
    }
    nodes
}

/// Slot and base of every node: the child by `byte` is in slot `base ^ byte`; bases are unique.
fn double_array(nodes: &[Node]) -> (Vec<usize>, Vec<usize>) {
    let (mut slots, mut bases) = (vec![0; nodes.len()], vec![NO_CHILDREN; nodes.len()]);
    let mut taken = vec![true];
    let mut used: HashSet<usize> = [NO_CHILDREN].into();
    let mut first_free = 1;
    let mut queue: VecDeque<usize> = [0].into();
    while let Some(node) = queue.pop_front() {
        let children = &nodes[node].children;
        let Some(&first) = children.keys().next() else {
            continue;
        };
        while taken.get(first_free) == Some(&true) {
            first_free += 1;
        }
        let free = |slot: usize| taken.get(slot) != Some(&true);
        let base = (first_free..)
            .filter(|&slot| free(slot))
            .map(|slot| slot ^ usize::from(first))
            .find(|&base| {
                !used.contains(&base) && children.keys().all(|&b| free(base ^ usize::from(b)))
            })
            .expect("slots without end");
        assert!(base < 1 << layout::BASE_BITS);
        used.insert(base);
        bases[node] = base;
        for (&byte, &child) in children {
            let slot = base ^ usize::from(byte);
            taken.resize(taken.len().max(slot + 1), false);
            taken[slot] = true;
            slots[child] = slot;
            queue.push_back(child);
        }
    }
    (slots, bases)
}
