//! Gemma's vocabulary as one of bytes; only build.rs compiles it.
//!
//! First come the bytes, then what characters begin with, then the characters: so each is joined before all
//! else. Behind them are runs of white space, then the pieces in the order of their joins.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// Longest run of white space that is a token.
const RUN: usize = 31;

/// The tokens by rank, and the characters that are not ASCII among them.
pub(crate) fn read(root: &Path) -> (Vec<(Vec<u8>, u32)>, Vec<char>) {
    let file = fs::read(root.join("src/bpe/gemma/gemma_vocabulary.z")).expect("the vocabulary");
    let text = miniz_oxide::inflate::decompress_to_vec_zlib(&file).expect("deflated pieces");
    let text = String::from_utf8(text).expect("pieces of characters");
    let (words, lone): (Vec<&str>, Vec<&str>) = text
        .split('\n')
        .filter(|piece| piece.len() > 1)
        .partition(|piece| piece.chars().count() > 1);
    let known: Vec<char> = lone.iter().flat_map(|piece| piece.chars()).collect();
    let starts: BTreeSet<(usize, &[u8])> = lone
        .iter()
        .flat_map(|piece| (2..piece.len()).map(|length| (length, &piece.as_bytes()[..length])))
        .collect();
    let lone: BTreeSet<(usize, &[u8])> = lone.iter().map(|it| (it.len(), it.as_bytes())).collect();
    let runs = [b"\n", b"\t", b" "].map(|byte| (2..=RUN).map(|length| byte.repeat(length)));
    let tokens = (0..=u8::MAX)
        .map(|byte| vec![byte])
        .chain(starts.iter().map(|(_, start)| start.to_vec()))
        .chain(lone.iter().map(|(_, piece)| piece.to_vec()))
        .chain(runs.into_iter().flatten())
        .chain(words.iter().map(|piece| piece.as_bytes().to_vec()));
    (tokens.zip(0..).collect(), known)
}

/// A bit for each code point, in blocks of 256; an index tells the block.
pub(crate) fn write_known(known: &[char], out: &Path) {
    let mut bits = vec![[0_u8; 32]; 0x11_0000 / 256];
    for code in known.iter().map(|&character| character as usize) {
        bits[code / 256][code % 256 / 8] |= 1 << (code % 8);
    }
    let (mut numbers, mut blocks, mut index) = (HashMap::new(), Vec::new(), Vec::new());
    for block in bits {
        let next = u16::try_from(numbers.len()).expect("few blocks");
        let number = *numbers.entry(block).or_insert_with(|| {
            blocks.extend(block);
            next
        });
        index.extend(number.to_le_bytes());
    }
    fs::write(out.join("gemma.known_index"), index).expect("OUT_DIR is writable");
    fs::write(out.join("gemma.known"), blocks).expect("OUT_DIR is writable");
}
