//! Tokens of many texts.
use crate::batch::fault::Fault;
use crate::batch::split::Threads;
use crate::encoding::Encoding;

/// Tokens of each of `texts`; what is not UTF-8 counts as U+FFFD. Linear in them.
///
/// ```
/// use tokenctx::Encoding;
/// use tokenctx::batch::{Fault, Threads, counts};
///
/// let encoding = Encoding::named("o200k_base").expect("an encoding of the crate");
/// let texts = [Ok(&b"hello world"[..]), Err(Fault::Null)];
/// assert_eq!(counts(&encoding, &texts, Threads::all()), [Ok(2), Err(Fault::Null)]);
/// ```
pub fn counts<T: AsRef<[u8]> + Sync>(
    encoding: &Encoding,
    texts: &[Result<T, Fault>],
    threads: Threads,
) -> Vec<Result<u64, Fault>> {
    let bytes = texts.iter().flatten().map(|it| it.as_ref().len()).sum();
    threads.run((texts.len(), bytes), |row| {
        let text = texts[row].as_ref().map_err(|fault| *fault)?.as_ref();
        Ok(encoding.count(&String::from_utf8_lossy(text)))
    })
}
