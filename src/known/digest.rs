//! Identity of messages: one digest per message, one keyed chain per request.
//!
//! The canonical form is what the provider sees, not the JSON text: every field is its tag, its
//! length in bytes (64 bit, little endian) and its content, so that no two different messages
//! share their bytes. Call ids, cache markers and signatures never reach it. A message digest is
//! BLAKE3 of that form under a key; a prefix digest is BLAKE3 of the prefix before and the
//! message, so a prefix of k messages is known by 16 bytes whatever its size.
//!
//! BLAKE3 idles on messages of a kilobyte: 0.98 ms for 478 messages one by one against 0.09 ms
//! in one pass. Accepted here: the remedy is to hash less, not a weaker hash.
use crate::interrupt;
use crate::known::fingerprint::{Kind, Pieces, Words};
pub use crate::known::identity::Digest;
use crate::known::key::Key;
use crate::known::memo::{remember, remembered};
use crate::media;
use crate::request::{Content, Data, Media, MediaHasher, Message, Part, Request, Tool, ToolChoice};

/// BLAKE3 key derivation context; it changes with every change of the canonical form.
const CONTEXT: &str = "tokenctx 2026-11-21 message and prefix digests";

const TENANT_CONTEXT: &str = "tokenctx 2026-11-21 digests of a tenant";

const EXPORT_CONTEXT: &str = "tokenctx 2026-11-21 export of known prefixes";

/// BLAKE3 of a shorter form takes no longer than its fingerprint.
const MIN_REMEMBERED_BYTES: usize = 128;

/// To copy a text that is shorter takes no longer than to hash its sums.
const MIN_SUMMED_BYTES: usize = 1024;

/// In the tag of what is left as it stands.
const UNREAD: u8 = 0x80;

/// In all tags, but for those of texts whose sums stand in place of them.
const NO_SUMS: u8 = 0x40;

/// Makes digests under one secret; those of another secret never match.
#[derive(Clone)]
pub struct Digester {
    key: Key,
    words: Words,
}

impl Digester {
    /// A digester whose key is derived from `secret`.
    pub fn new(secret: &[u8]) -> Digester {
        let key = Key::derived(CONTEXT, &[secret]);
        let words = Words::new(&key);
        Digester { key, words }
    }

    /// A digester whose digests match those of no other `tenant`, nor of none. Its key is made of
    /// this one's, so what another tenant recorded is looked up under digests that were never
    /// recorded: a foreign conversation is an unknown one, in answer and in time.
    pub fn of_tenant(&self, tenant: &[u8]) -> Digester {
        Digester {
            key: Key::derived(TENANT_CONTEXT, &[self.key.bytes(), tenant]),
            words: self.words.clone(),
        }
    }

    /// The key of the MAC of an export.
    pub(crate) fn export_key(&self) -> Key {
        Key::derived(EXPORT_CONTEXT, &[self.key.bytes()])
    }

    /// The fingerprint of `bytes`, which finds what was made of equal ones before.
    pub(crate) fn fingerprint(&self, kind: Kind, bytes: &[u8]) -> Digest {
        self.words.of(&self.key, kind, bytes)
    }

    /// The fingerprint of bytes that come in pieces.
    pub(crate) fn fingerprint_in_pieces(&self, kind: Kind) -> Pieces<'_> {
        self.words.in_pieces(&self.key, kind)
    }

    /// Identity of each of `messages`: role, name and parts. Linear in their size.
    pub fn messages(&self, messages: &[Message<'_>]) -> impl ExactSizeIterator<Item = Digest> {
        let mut form = Form::new(self);
        messages
            .iter()
            .map(move |message| self.message(&mut form, message))
    }

    /// Identity of each of `messages`, but for those that are `known` by their places.
    pub(crate) fn messages_but(
        &self,
        messages: &[Message<'_>],
        known: impl Fn(usize) -> Option<Digest>,
    ) -> Vec<Digest> {
        let mut form = Form::new(self);
        let digest =
            |(index, message)| known(index).unwrap_or_else(|| self.message(&mut form, message));
        messages.iter().enumerate().map(digest).collect()
    }

    fn message<'k>(&'k self, form: &mut Form<'k>, message: &Message<'_>) -> Digest {
        self.remembered(form, |form| form.message(message))
    }

    /// The digest of what `write` writes. What is remembered is found by a draft, so that arguments need not be
    /// read, nor schemas be sorted, nor long texts be copied.
    fn remembered<'k>(&'k self, form: &mut Form<'k>, write: impl Fn(&mut Form<'k>)) -> Digest {
        form.begin(true);
        write(form);
        let is_canonical = !form.has_unread && !form.has_sums;
        if is_canonical && form.bytes.len() < MIN_REMEMBERED_BYTES {
            return self.digest(&form.bytes);
        }
        // Sums come from the words of the fingerprint, which are for what does not depend on them.
        let fingerprint = match form.has_sums {
            true => self.digest(&form.bytes),
            false => self.fingerprint(Kind::Form, &form.bytes),
        };
        if let Some((digest, _)) = remembered(fingerprint) {
            return digest;
        }
        if !is_canonical {
            form.begin(false);
            write(form);
        }
        let digest = self.digest(&form.bytes);
        remember(fingerprint, digest, 0);
        digest
    }

    /// Identity of all that stands before the messages: `family`, system prompt and tool set.
    pub fn context(&self, family: &str, request: &Request<'_>) -> Digest {
        let mut form = Form::new(self);
        self.remembered(&mut form, |form| form.context(family, request))
    }

    /// Identity of the options, which may change from turn to turn, 40 bits: tool
    /// choice, output schema, thinking, tools that messages load or hide; 0 if none.
    pub fn options(&self, request: &Request<'_>, hides_tools: bool) -> u64 {
        if !request.has_options() && !hides_tools {
            return 0;
        }
        let mut form = Form::new(self);
        let (kind, name) = match &request.tool_choice {
            ToolChoice::Free => ("", ""),
            ToolChoice::None => ("none", ""),
            ToolChoice::Required => ("required", ""),
            ToolChoice::Tool(name) => ("tool", &**name),
        };
        form.field(b'c', kind);
        form.field(b'n', name);
        if let Some(schema) = &request.response_schema {
            form.field(b'j', schema.compact().as_bytes());
            form.field(b'n', request.schema_name.as_bytes());
            form.field(b'd', request.schema_description.as_bytes());
        }
        form.field(
            b'h',
            [request.has_thinking, request.is_pro, hides_tools].map(u8::from),
        );
        if request.has_thinking_off {
            form.field(b'o', [1]);
        }
        if request.later_tools().next().is_some() {
            let later = request.later_tools();
            form.nested(b'l', |form| later.for_each(|tool| form.tool(tool)));
        }
        form.unread(&request.unread);
        let digest = self.digest(&form.bytes);
        digest
            .0
            .iter()
            .take(5)
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    /// Identity of the context (index 0) and of the first k messages (index k).
    pub fn prefixes(&self, family: &str, request: &Request<'_>) -> Vec<Digest> {
        self.chain(
            self.context(family, request),
            self.messages(&request.messages),
        )
    }

    /// `prefix`, and `prefix` with one, two, ... of `messages` after it.
    pub fn chain(
        &self,
        mut prefix: Digest,
        messages: impl ExactSizeIterator<Item = Digest>,
    ) -> Vec<Digest> {
        let mut prefixes = Vec::with_capacity(messages.len() + 1);
        prefixes.push(prefix);
        for message in messages {
            prefix = self.link(prefix, message);
            prefixes.push(prefix);
        }
        prefixes
    }

    /// Identity of `prefix` and the message after it.
    pub fn link(&self, prefix: Digest, message: Digest) -> Digest {
        let mut link = [b'p'; 33];
        link[1..17].copy_from_slice(&prefix.0);
        link[17..].copy_from_slice(&message.0);
        self.digest(&link)
    }

    /// Identity of bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Digest {
        self.digest(bytes)
    }

    /// Makes the identity of bytes that come in pieces, and of each of their beginnings.
    pub(crate) fn bytes_in_pieces(&self) -> BytesDigester {
        BytesDigester(blake3::Hasher::new_keyed(self.key.bytes()))
    }

    /// Hashes media on reading: what is remembered is base64, and is neither looked at nor decoded again.
    pub(crate) fn media_hasher(&self) -> MediaHasher {
        let digester = self.clone();
        MediaHasher(Box::new(move |text| {
            let fingerprints = digester.media_fingerprints(text);
            remembered_hash(fingerprints)
                .or_else(|| media::is_base64(text).then(|| decoded_hash(text, fingerprints)))
        }))
    }

    /// BLAKE3 of the bytes in `text`, which are not decoded if it is remembered.
    fn base64_hash(&self, text: &str) -> [u8; 32] {
        let fingerprints = self.media_fingerprints(text);
        remembered_hash(fingerprints).unwrap_or_else(|| decoded_hash(text, fingerprints))
    }

    fn media_fingerprints(&self, text: &str) -> [Digest; 2] {
        let head = self.fingerprint(Kind::MediaHead, text.as_bytes());
        [head, self.fingerprint(Kind::MediaTail, &head.0)]
    }

    fn digest(&self, content: &[u8]) -> Digest {
        Digest::of(&blake3::keyed_hash(self.key.bytes(), content))
    }
}

/// BLAKE3 that is remembered in two halves.
fn remembered_hash(fingerprints: [Digest; 2]) -> Option<[u8; 32]> {
    let [head, tail] = fingerprints.map(remembered);
    let mut hash = [0; 32];
    hash[..16].copy_from_slice(&head?.0.0);
    hash[16..].copy_from_slice(&tail?.0.0);
    Some(hash)
}

/// BLAKE3 of the bytes in base64 `text`, which is remembered from now on.
fn decoded_hash(text: &str, fingerprints: [Digest; 2]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    media::decode_base64_chunks(text, |chunk| {
        hasher.update(chunk);
    });
    let hash = *hasher.finalize().as_bytes();
    for (fingerprint, half) in fingerprints.into_iter().zip(hash.as_chunks().0) {
        remember(fingerprint, Digest(*half), 0);
    }
    hash
}

/// See [`Digester::bytes_in_pieces`].
pub(crate) struct BytesDigester(blake3::Hasher);

impl BytesDigester {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all that was pushed so far, as [`Digester::bytes`] has it.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&self.0.finalize())
    }
}

impl std::fmt::Debug for Digester {
    /// Never the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digester(..)")
    }
}

/// The canonical form while it is written.
struct Form<'k> {
    digester: &'k Digester,
    bytes: Vec<u8>,
    /// Kept for its memory.
    json: String,
    nodes: Vec<u8>,
    /// True if arguments and schemas are left as they stand, and sums take the place of long texts, under tags of
    /// their own; and whether there were some.
    is_draft: bool,
    has_unread: bool,
    has_sums: bool,
}

impl<'k> Form<'k> {
    fn new(digester: &'k Digester) -> Form<'k> {
        Form {
            digester,
            bytes: Vec::new(),
            json: String::new(),
            nodes: Vec::new(),
            is_draft: false,
            has_unread: false,
            has_sums: false,
        }
    }

    fn begin(&mut self, is_draft: bool) {
        self.bytes.clear();
        (self.is_draft, self.has_unread, self.has_sums) = (is_draft, false, false);
    }

    fn field(&mut self, tag: u8, content: impl AsRef<[u8]>) {
        let content = content.as_ref();
        let is_summed = self.is_draft && content.len() >= MIN_SUMMED_BYTES;
        self.bytes
            .push(if is_summed { tag & !NO_SUMS } else { tag });
        self.bytes.extend((content.len() as u64).to_le_bytes());
        match is_summed {
            true => self.digester.words.write_sums(content, &mut self.bytes),
            false => self.bytes.extend_from_slice(content),
        }
        self.has_sums |= is_summed;
    }

    /// A field whose content `write` appends.
    fn nested(&mut self, tag: u8, write: impl FnOnce(&mut Form<'k>)) {
        self.field(tag, []);
        let start = self.bytes.len();
        write(self);
        let length = (self.bytes.len() - start) as u64;
        self.bytes[start - 8..start].copy_from_slice(&length.to_le_bytes());
    }

    fn context(&mut self, family: &str, request: &Request<'_>) {
        self.field(b'f', family);
        self.nested(b's', |form| form.parts(&request.system));
        self.nested(b'x', |form| {
            request.first_tools().for_each(|tool| form.tool(tool));
        });
        if !request.deferred_tools.is_empty() {
            let deferred = request.deferred_tools.iter();
            self.nested(b'l', |form| deferred.for_each(|tool| form.tool(tool)));
        }
    }

    fn message(&mut self, message: &Message<'_>) {
        interrupt::poll();
        self.field(b'r', message.role.as_bytes());
        if !message.name.is_empty() {
            self.field(b'n', message.name.as_bytes());
        }
        self.parts(&message.parts);
        self.unread(&message.unread);
    }

    /// Fields that nobody counts: their order says nothing.
    fn unread(&mut self, unread: &[Data<'_>]) {
        let mut texts: Vec<_> = unread.iter().map(Data::canonical).collect();
        texts.sort_unstable();
        texts.iter().for_each(|text| self.field(b'u', text));
    }

    fn parts(&mut self, parts: &[Part<'_>]) {
        parts.iter().for_each(|part| self.part(part));
    }

    fn part(&mut self, part: &Part<'_>) {
        match part {
            Part::Text(text) => self.field(b'T', text.as_bytes()),
            Part::Data(data) => self.data(b'D', data),
            Part::Media(media) => self.media(media),
            Part::ToolCall(call) => self.nested(b'C', |form| {
                form.field(b'n', call.name.as_bytes());
                form.data(b'a', &call.arguments);
            }),
            Part::ToolResult(result) => self.nested(b'R', |form| {
                form.field(b'n', result.name.as_bytes());
                form.field(b'e', if result.is_error { &[1][..] } else { &[] });
                form.parts(&result.parts);
            }),
            Part::Reasoning { text, opaque } => self.nested(b'S', |form| {
                form.field(b'T', text.as_bytes());
                form.field(b'o', opaque.as_bytes());
            }),
            Part::Summary { text, opaque } => self.nested(b'Z', |form| {
                form.field(b'T', text.as_bytes());
                form.field(b'o', opaque.as_bytes());
            }),
        }
    }

    fn data(&mut self, tag: u8, data: &Data<'_>) {
        if let Some(text) = data.as_text().filter(|_| self.is_draft) {
            self.has_unread = true;
            return self.field(tag | UNREAD, text);
        }
        self.json.clear();
        data.write_canonical(&mut self.json);
        let json = std::mem::take(&mut self.json);
        self.field(tag, &json);
        self.json = json;
    }

    /// MIME type and the hash of the bytes, however they are written, or where they are.
    fn media(&mut self, media: &Media<'_>) {
        self.nested(b'M', |form| {
            form.field(b'k', media.kind.name());
            form.field(b'm', media.mime.as_bytes());
            form.field(b'd', media.detail.as_bytes());
            form.content(&media.content);
        });
    }

    fn content(&mut self, content: &Content<'_>) {
        let mut hasher = blake3::Hasher::new();
        match content {
            Content::Remote(place) => return self.field(b'u', place.as_bytes()),
            Content::Malformed(text) => return self.field(b'w', text),
            Content::Bytes(bytes) => {
                hasher.update(bytes);
            }
            Content::Base64(_, Some(hash)) => return self.field(b'h', **hash),
            Content::Base64(text, None) => {
                let hash = self.digester.base64_hash(text);
                return self.field(b'h', hash);
            }
            Content::Percent(text) => {
                hasher.update(&media::percent_decode_head(text, text.len()));
            }
        }
        self.field(b'h', hasher.finalize().as_bytes());
    }

    fn tool(&mut self, tool: &Tool<'_>) {
        if let Some(schema) = tool.plain_schema().filter(|_| self.is_draft) {
            self.has_unread = true;
            self.field(b'n' | UNREAD, tool.name.as_bytes());
            self.field(b'd' | UNREAD, tool.description.as_bytes());
            let mut nodes = std::mem::take(&mut self.nodes);
            nodes.clear();
            schema.write_nodes(&mut nodes);
            self.field(b't' | UNREAD, &nodes);
            self.nodes = nodes;
            return;
        }
        self.field(
            if tool.builtin.is_some() { b'b' } else { b't' },
            tool.canonical(),
        );
    }
}
