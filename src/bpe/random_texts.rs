//! Random texts, for tests.

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
