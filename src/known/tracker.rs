//! Known conversations by model family: the lookup of RFC 029, on prefix digests.
//!
//! Differs from the RFC on purpose: many conversations of one family live side by side, order
//! matters, a repeated message is a new message, and a changed first message is another
//! conversation (the RFC's successor tolerated drift there and counted nothing for it).
use crate::known::digest::{Digest, Digester};
use crate::known::store::{Boundary, KnownPrefix, PrefixStore};
use crate::known::total::KnownTotal;
use crate::request::Request;

/// Remembers the billed total of conversations.
pub struct Tracker {
    digester: Digester,
    store: PrefixStore,
}

/// Identity of the messages of a conversation, and of its prefixes.
#[derive(Debug)]
pub struct Conversation {
    /// One for each message.
    pub messages: Vec<Digest>,
    prefixes: Vec<Digest>,
}

impl Tracker {
    /// A tracker that knows nothing.
    pub fn new(secret: &[u8], store: PrefixStore) -> Tracker {
        Tracker {
            digester: Digester::new(secret),
            store,
        }
    }

    /// The identity of `request` within `family`. Linear in the request.
    pub fn read(&self, family: &str, request: &Request<'_>) -> Conversation {
        let messages: Vec<_> = self.digester.messages(&request.messages).collect();
        let context = self.digester.context(family, request);
        let prefixes = self.digester.chain(context, messages.iter().copied());
        Conversation { messages, prefixes }
    }

    /// Remembers `tokens` for the conversation; false if it has no messages or no tokens.
    pub fn record(&self, conversation: &Conversation, tokens: u64, now_seconds: f64) -> bool {
        let Some(&digest) = conversation.prefixes.get(1..).and_then(<[Digest]>::last) else {
            return false;
        };
        if tokens > 0 {
            let total = KnownTotal {
                tokens,
                ..KnownTotal::default()
            };
            let boundary = Boundary {
                message_count: conversation.messages.len(),
                digest,
                total,
            };
            self.store
                .record(0, &conversation.prefixes, &[boundary], now_seconds);
        }
        tokens > 0
    }

    /// The deepest known prefix of the conversation.
    pub fn lookup(&self, conversation: &Conversation, now_seconds: f64) -> Option<KnownPrefix> {
        self.store.deepest(&conversation.prefixes, now_seconds)
    }

    /// What is known.
    pub fn store(&self) -> &PrefixStore {
        &self.store
    }
}

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tracker(..)")
    }
}
