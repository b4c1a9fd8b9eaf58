//! Random texts, for tests.

/// Atoms of all that the algebra of blocks looks at: all classes, and the long runs that leave a block.
pub(in crate::bpe) const ATOMS: &[&str] = &[
    "a",
    "bc",
    "Word",
    "UPPER",
    "lM",
    "1",
    "22",
    "4567",
    " ",
    "  ",
    "    ",
    "\t",
    "\n",
    "\r\n",
    "\n\n",
    "'s",
    "'S",
    "'ll",
    "'Re",
    "'",
    "''",
    "'\u{17f}",
    "!",
    "==",
    "/",
    "_",
    "\0",
    "\u{7f}",
    "é",
    "中文",
    "\u{301}",
    "\u{3000}",
    "\u{85}",
    "—",
    "“x”",
    "👍",
    "Привет",
    "ПРИВЕТ",
    "Straße",
    "ǅ",
    "ʰ",
    "ไทย",
    "हिन्दी",
    "한국어",
    "\u{640}",
    "١٢٣",
    "４",
    "Ⅷ",
    "²",
    "\u{a0}",
    "\u{2028}",
    "𝐀",
    "𐐨",
    "𠀀",
    "\n        ",
    "\n \n",
    "                                                  ",
    "!\n\n/",
    "\n                                                                  \n",
    "> </",
    ">",
    "\t\t\t",
    "\r",
];

/// Texts of up to 40 of the `atoms`.
pub(crate) fn random_texts(
    atoms: &[&str],
    mut seed: u64,
    count: u32,
) -> impl Iterator<Item = String> {
    (0..count).map(move |_| {
        let mut text = String::new();
        for _ in 0..40 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(atoms[(seed >> 33) as usize % atoms.len()]);
            if seed >> 60 == 0 {
                break;
            }
        }
        text
    })
}
