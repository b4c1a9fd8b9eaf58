//! Tokens that a log has seen for the first time.
use crate::batch::estimates::{Row, byte_count};
use crate::batch::fault::Fault;
use crate::batch::split::Threads;
use crate::batch::wrapped::inside;
use crate::engine::{Alone, Call, CountedPrefix, Engine};
use crate::known::digest::Digest;
use std::collections::HashSet;

/// The prefixes of the requests of a log so far.
///
/// ```
/// use tokenctx::batch::{SeenPrefixes, Threads, engine};
/// use tokenctx::{Body, Call, Settings};
///
/// let engine = engine(b"a secret of 16 bytes or more", Settings::default());
/// let body = br#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#;
/// let rows = [Ok(Body::Bytes(body)), Ok(Body::Bytes(body))];
/// let mut seen = SeenPrefixes::default();
/// assert_eq!(seen.unique(&engine, &rows, &Call::default(), Threads::all()), [Ok(8), Ok(0)]);
/// ```
#[derive(Debug, Default)]
pub struct SeenPrefixes(HashSet<Digest>);

impl SeenPrefixes {
    /// The tokens of each of `bodies`, in the order of time, that stand behind the deepest prefix which a request
    /// before it had too. From here on its prefixes are seen: 16 bytes for each new one. Linear in the bodies.
    pub fn unique(
        &mut self,
        engine: &Engine,
        bodies: &[Row<'_>],
        call: &Call<'_>,
        threads: Threads,
    ) -> Vec<Result<u64, Fault>> {
        let counted = threads.run((bodies.len(), byte_count(bodies)), |row| {
            let body = bodies[row].as_ref().map_err(|fault| *fault)?;
            let found = engine.count_prefixes(body, call, &Alone)?;
            // What has no messages may be a line of a vendor's batch file.
            let inner = (found.len() < 2).then(|| inside(body)).flatten();
            let inner = inner.and_then(|it| engine.count_prefixes(&it, call, &Alone).ok());
            Ok(inner.filter(|it| it.len() > 1).unwrap_or(found))
        });
        let rows = counted.into_iter();
        rows.map(|row| Ok(self.new_tokens(&row?))).collect()
    }

    fn new_tokens(&mut self, prefixes: &[CountedPrefix]) -> u64 {
        let all = prefixes.last().map_or(0, |it| it.tokens);
        // A prefix is seen only with all before it, so the new ones are at the end.
        let new = prefixes.iter().filter(|it| self.0.insert(it.digest));
        let known = prefixes.len() - new.count();
        all - known.checked_sub(1).map_or(0, |it| prefixes[it].tokens)
    }
}
