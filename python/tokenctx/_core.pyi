"""The Rust core of tokenctx. The public names are those of the package, not of this module."""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from types import ModuleType
from typing import Any, Final, Literal, Protocol, final

from tokenctx._results.errors import RequestError
from tokenctx._results.estimates import (
    ConversationLookupResult,
    CountOnlyName,
    Dialect,
    EncodingName,
    Estimate,
    KnownConversationState,
    ModelLimits,
    ReplyReason,
    RequestCount,
    TextCounter,
)

__all__ = [
    "_WRAPPERS",
    "Alike",
    "CacheMark",
    "CachePoints",
    "CachedPrefix",
    "CallContext",
    "Column",
    "CountedLines",
    "Documents",
    "DriftRow",
    "Encoding",
    "Engine",
    "HeadCount",
    "PartCounts",
    "Recorded",
    "ResultCount",
    "Rewriter",
    "Scale",
    "ToolCount",
    "Tracker",
    "Wanted",
    "__version__",
    "_apportioned",
    "_arrow_rows",
    "_choose_simd_level",
    "_convert_plain",
    "_converted_dialect",
    "_count_batch",
    "_count_lines",
    "_debug_build",
    "_estimate_batch",
    "_is_json",
    "_json_anomalies",
    "_json_canonical",
    "_json_compact",
    "_json_members",
    "_outline",
    "_panic",
    "_read_files_by",
    "_reply_view",
    "_request_view",
    "_set_framework_reader",
    "_table_capsules",
    "_text_lengths",
    "_unique_batch",
    "count_tokens",
    "count_tokens_batch",
    "encode",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "image_size",
    "image_tokens",
    "limits_of_model",
    "list_encodings",
    "model_name",
    "preload_encodings",
    "profile_of_model",
    "profiles",
    "rank_file",
    "replace_tables",
    "simd_level",
    "simd_levels",
    "split_pattern",
]

__version__: Final[str]
_WRAPPERS: Final[list[str]]
"""Version of the crate, which is the version of the package."""

_debug_build: Final[bool]
"""True if the core was compiled without optimisation."""

class _Usage(Protocol):
    """The numbers of a `Usage` that a record takes."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def reasoning_tokens(self) -> int: ...

@final
class CallContext:
    """Who calls an engine, and for what: made once, and passed on by value."""

    def __new__(
        cls,
        model: str | None = None,
        dialect: str | None = None,
        provider: str | None = None,
        tenant: bytes | None = None,
        *,
        wants_cache_points: bool = False,
        wants_entries: bool = False,
    ) -> CallContext: ...
    @property
    def dialect(self) -> Dialect | None: ...
    @property
    def provider(self) -> str | None: ...

@final
class Column(Sequence[Any]):
    """A column of numbers or words, in which a row may be null.

    `numpy.asarray(column)` is int64, or float64 with NaN where a row is null; `pyarrow.array`,
    `polars.Series` and others take it by `__arrow_c_array__`. `kind` is `int` or `str`.
    """

    def __new__(cls, kind: Literal["int", "str"], values: Sequence[Any]) -> Column: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: int, /) -> Any: ...  # type: ignore[override]
    @property
    def null_count(self) -> int:
        """Rows that are null."""

    def sum(self) -> int:
        """The sum of the numbers that are there. TypeError for a column of words."""

    def tolist(self) -> list[Any]:
        """The values; None for null."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __eq__(self, value: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

_EstimateColumns = tuple[
    tuple[Column, Column, Column, Column],
    tuple[Column, Column, Column, Column, Column],
    Column,
]

def _estimate_batch(
    secret: bytes,
    bodies: object,
    call: CallContext,
    threads: int | None = None,
    *,
    method: str = "profile",
    profile_rows: str | None = None,
) -> _EstimateColumns:
    """The estimates of requests: numbers, words, and why a row has none."""

def _count_batch(
    texts: object,
    encoding: str | None = None,
    model: str | None = None,
    threads: int | None = None,
) -> tuple[Column, Column]:
    """The tokens of texts, and why a row has none."""

def _unique_batch(
    secret: bytes, bodies: object, call: CallContext, threads: int | None = None
) -> tuple[Column, Column]:
    """The tokens of requests that none before them had, and why a row has none."""

def _arrow_rows(column: object) -> list[bytes | None] | None:
    """The rows of a column of Arrow; None for what is none."""

def _table_capsules(columns: list[tuple[str, Column]]) -> tuple[object, object]:
    """The capsules of a table of these columns."""

@final
class Recorded:
    """A recorded call: the estimate before it, and more."""

    @property
    def estimate(self) -> Estimate: ...
    @property
    def reply_fault(self) -> ReplyReason | None: ...
    @property
    def entries(self) -> list[tuple[bytes, bytes, bytes]]: ...
    @property
    def drift(self) -> DriftRow | None: ...
    @property
    def cache_points(self) -> CachePoints | None: ...
    @property
    def doubt(self) -> Any: ...
    @property
    def is_refused(self) -> bool: ...

@final
class Wanted:
    """The question for others, who may know more than this process."""

    @property
    def root(self) -> bytes: ...
    @property
    def prefixes(self) -> list[bytes]: ...
    @property
    def points(self) -> list[bytes]: ...
    @property
    def learned(self) -> bytes | None: ...

@final
class DriftRow:
    """A change in how a provider counts."""

    @property
    def profile(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def since_unix_seconds(self) -> int: ...
    @property
    def told_unix_seconds(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def permille(self) -> int: ...
    @property
    def bills(self) -> int: ...

@final
class CachePoints:
    """The places in a request where the provider may have cached it."""

    @property
    def points(self) -> Sequence[tuple[bytes, int, int]]: ...
    @property
    def marks(self) -> tuple[CacheMark, ...]: ...
    @property
    def tokens_after_mark(self) -> int: ...
    @property
    def contexts(self) -> list[tuple[bytes, int]]: ...
    @property
    def model(self) -> str: ...
    @property
    def vendor(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def has_cached_content(self) -> bool: ...
    @property
    def retention_seconds(self) -> int | None: ...
    @property
    def reply(self) -> bytes | None: ...

@final
class CacheMark:
    """A place up to which a request asks to be cached."""

    @property
    def message_count(self) -> int: ...
    @property
    def block_count(self) -> int: ...
    @property
    def is_at_end(self) -> bool: ...
    @property
    def is_in_tools(self) -> bool: ...
    @property
    def lifetime_seconds(self) -> int | None: ...
    @property
    def blocks(self) -> int: ...

@final
class CachedPrefix:
    """A prefix that a provider has cached, from another process."""

    @property
    def tokens(self) -> int: ...
    @property
    def tail_tokens(self) -> int: ...
    @property
    def lifetime_seconds(self) -> int: ...
    @property
    def used_seconds(self) -> int: ...

@final
class PartCounts:
    """A request counted part by part, whose messages are in the caller's order.

    Attributes:
        message_tokens: Of each message.
        is_system: 1 for each message that the system says, else 0.
        is_turn: 1 where a turn of the user begins.
        is_safe: 1 before each message, and behind the last, where a conversation may be cut.
        categories: Tokens of messages by category, if they were wanted.
        results: Results of tools, if they were wanted.
        head: The parts around the messages, if categories were wanted.
    """

    @property
    def message_tokens(self) -> tuple[int, ...]: ...
    @property
    def is_system(self) -> bytes: ...
    @property
    def is_turn(self) -> bytes: ...
    @property
    def is_safe(self) -> bytes: ...
    @property
    def categories(self) -> list[tuple[Any, int]]: ...
    @property
    def results(self) -> list[ResultCount]: ...
    @property
    def head(self) -> HeadCount | None: ...

@final
class ResultCount:
    """A result of a tool; `saved_tokens` is what a placeholder in its place would save."""

    @property
    def message(self) -> int: ...
    @property
    def part(self) -> int: ...
    @property
    def tool(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def saved_tokens(self) -> int: ...

@final
class HeadCount:
    """The parts of a request around the messages, in tokens."""

    @property
    def system(self) -> int: ...
    @property
    def tools(self) -> int: ...
    @property
    def framing(self) -> int: ...
    @property
    def items(self) -> list[ToolCount]: ...

@final
class ToolCount:
    """A definition of a tool; `server` is the one that it says it is of."""

    @property
    def name(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def server(self) -> str: ...
    @property
    def is_deferred(self) -> bool: ...

@final
class CountedLines:
    """The counts of some lines as JSON, and where the rest begins."""

    @property
    def text(self) -> str: ...
    @property
    def faults(self) -> list[tuple[int, RequestError]]: ...
    @property
    def start(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def is_left(self) -> bool: ...

@final
class Engine:
    """The engine of `HybridTokenEstimator`; the caller brings the secret and the time."""

    def __new__(
        cls,
        secret: bytes,
        capacity_bytes: int,
        ttl_seconds: float,
        method: str,
        milli_characters_per_token: int,
        milli_by_provider: dict[str, int],
        factor_permille: int,
        named_vocabularies: list[tuple[str, TextCounter]],
        profile_rows: str | None = None,
        *,
        is_learning: bool,
    ) -> Engine: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def estimate(
        self, body: object, call: CallContext, now_seconds: float, wanted: int = 0
    ) -> Estimate | tuple[Estimate, CachePoints] | Wanted: ...
    def record(
        self,
        body: object,
        call: CallContext,
        usage: _Usage,
        reply: object | None,
        now_seconds: float,
        unix_seconds: int,
    ) -> Recorded | None: ...
    def new_byte_count(self, body: bytes, call: CallContext) -> int: ...
    def note(self, reason: str) -> bool: ...
    def insert(
        self,
        digest: bytes,
        sealed: bytes,
        call: CallContext,
        now_seconds: float,
        unix_seconds: int,
    ) -> bool: ...
    def insert_learned(self, name: bytes, sealed: bytes) -> bool: ...
    def uncertain(self, body: object, call: CallContext) -> tuple[str, list[tuple[str, int]]]: ...
    def count(self, body: object, call: CallContext) -> RequestCount: ...
    def count_and_estimate(
        self, body: object, call: CallContext, now_seconds: float
    ) -> tuple[RequestCount, Estimate]: ...
    def estimate_and_fixed(
        self, body: object, call: CallContext, now_seconds: float, least_tokens: int
    ) -> tuple[Estimate, int | None]: ...
    def count_parts(
        self,
        body: object,
        call: CallContext,
        now_seconds: float,
        *,
        wants_estimate: bool,
        wants_categories: bool,
        placeholder: str | None = None,
    ) -> tuple[RequestCount, Estimate | None, PartCounts]: ...
    def seal_cached(
        self,
        digest: bytes,
        tokens: int,
        tail_tokens: int,
        lifetime_seconds: int,
        used_seconds: int,
    ) -> bytes: ...
    def open_cached(self, digest: bytes, sealed: bytes) -> CachedPrefix | None: ...
    def stats(self) -> list[tuple[str, int]]: ...
    def export_known(self, now_seconds: float) -> bytes: ...
    def import_known(self, data: bytes, now_seconds: float) -> int: ...
    def drifts(self) -> list[DriftRow]: ...
    def learned(self) -> list[tuple[str, dict[str, Any]]]: ...
    def set_learned(self, model: str, calls: int, wins: int, numbers: list[float]) -> bool: ...

@final
class Tracker:
    """The engine of `ConversationStateTracker`; the caller brings the secret and the time."""

    def __new__(cls, secret: bytes, capacity_bytes: int, ttl_seconds: float) -> Tracker: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def record_actual(
        self,
        messages: object,
        model_family: str,
        actual_tokens: int,
        timestamp: float,
        now_seconds: float,
    ) -> KnownConversationState | None: ...
    def lookup(
        self, messages: object, model_family: str, now_seconds: float
    ) -> ConversationLookupResult: ...

@final
class Encoding:
    """A vocabulary with its split rule: counts the tokens of text.

    `Encoding(name)` is one of those in the package, see `list_encodings`; ValueError, which lists
    them, for any other name. Others come from files.
    Frozen, comparable, hashable and safe to share between threads; those in the package can be
    pickled. Text is only text: special-token spellings are ordinary characters. Bytes are read as
    UTF-8; what is no UTF-8, and each lone surrogate of a str, is U+FFFD. No content of a text
    raises, anything but text is a TypeError.

    What the core counts (`counted_by`) takes linear time, and above 2 KiB other threads run
    meanwhile. Any other takes what the package tokenizers takes.
    """

    def __new__(cls, name: str) -> Encoding: ...
    @staticmethod
    def from_tiktoken(
        path: str | os.PathLike[str], *, split: str, name: str | None = None
    ) -> Encoding:
        """The encoding of a `.tiktoken` file of ranks, as that of Llama 3 or Qwen.

        `split` is the split rule: `o200k_base`, `cl100k_base`, `r50k_base`, `gpt2`, `llama3`,
        `glm`, `qwen`, `mistral_v3`, `kimi_k2` or `deepseek_v3`, or the `pat_str` of one of
        these. Equal to tiktoken with these ranks on every input, and as fast as the encodings in
        the package. Of 262,143 tokens and more, or with a token above 256 bytes: in n log n, and
        with up to 32 bytes of memory for each byte of the longest piece.

        For files that you trust, at start-up. Raises OSError if the file cannot be read, ValueError
        if it is above 256 MiB, is no file of ranks, lacks a byte, or the rule is not known.
        """

    @staticmethod
    def from_tokenizer_json(path: str | os.PathLike[str], *, name: str | None = None) -> Encoding:
        """The encoding of a Hugging Face `tokenizer.json`.

        A byte-level BPE with a split rule of `from_tiktoken` and normal form C or none, as of
        Llama 3, Qwen, Mistral and DeepSeek, is counted as fast as the encodings in the package;
        any other needs the extra `tokenizers`, which then counts. `counted_by` says which.
        Nothing is added to a text (`add_special_tokens=False`) or cut off; special tokens are
        text, other added tokens are tokens. For files that you trust, at start-up: reading one
        takes up to seconds. Raises OSError if it cannot be read,
        ValueError if it is above 256 MiB or no tokenizer, ImportError without the extra.
        """

    @property
    def name(self) -> str:
        """Name of the encoding; of a file, if none was given."""

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the file it comes from, in hex; None for those in the package."""

    @property
    def counted_by(self) -> Literal["core", "tokenizers"]:
        """The package that counts: this one or, for some files of Hugging Face, tokenizers."""

    def count(self, text: str | bytes) -> int:
        """Number of tokens of `text`."""

    def count_batch(self, texts: Iterable[str | bytes]) -> list[int]:
        """Number of tokens of each text, in one call.

        Other threads run meanwhile if the texts have 2 KiB together.
        """

    def count_at_most(self, text: str | bytes, limit: int) -> int:
        """Number of tokens of `text` if it is at most `limit`, else `limit + 1`.

        Stops as soon as the answer is known, unless the encoding is that of a `tokenizer.json`.
        `limit` is 0 to 2**64 - 1, else OverflowError.
        """

    def exceeds(self, text: str | bytes, limit: int) -> bool:
        """True if `text` has more than `limit` tokens; stops as soon as that is known.

        A negative `limit` is always exceeded.
        """

    def encode(
        self,
        text: str | bytes,
        *,
        allowed_special: Literal["all"] | Collection[str] | None = None,
        disallowed_special: Literal["all"] | Collection[str] | None = None,
    ) -> list[int]:
        """Tokens of `text`, for looking at: `count` is faster.

        A special token in `text` is plain text by default, so no text raises. One that is in
        `allowed_special` is one token; one that is in `disallowed_special` (of `"all"`, those that
        are not allowed) raises ValueError, as does a name in either that is no special token.

        Raises NotImplementedError for the `claude_` encodings, of which only counts are known, as
        do all methods below; for a `tokenizer.json` those that ask for special or single tokens.
        """

    def encode_to_buffer(
        self,
        text: str | bytes,
        *,
        allowed_special: Literal["all"] | Collection[str] | None = None,
        disallowed_special: Literal["all"] | Collection[str] | None = None,
    ) -> memoryview:
        """As `encode`, as 32-bit numbers side by side, format `"I"`: no int is made for each.

        `numpy.asarray` and `array.array` take it, numpy without a copy; it is read-only.
        """

    def encode_ordinary(self, text: str | bytes) -> list[int]:
        """Tokens of `text`, in which special tokens are plain text."""

    def encode_batch(
        self,
        texts: Iterable[str | bytes],
        *,
        allowed_special: Literal["all"] | Collection[str] | None = None,
        disallowed_special: Literal["all"] | Collection[str] | None = None,
    ) -> list[list[int]]:
        """Tokens of each text, as `encode`."""

    def encode_ordinary_batch(self, texts: Iterable[str | bytes]) -> list[list[int]]:
        """Tokens of each text, as `encode_ordinary`."""

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The number of the ordinary or special token that is this text; KeyError if none is."""

    def decode(self, tokens: Iterable[int], errors: str = "replace") -> str:
        """The text of `tokens`, special ones too.

        `errors` says what becomes of bytes that are no UTF-8, as in `bytes.decode`: `"strict"`
        raises UnicodeDecodeError. Raises ValueError for a number that is no token.
        """

    def decode_bytes(self, tokens: Iterable[int]) -> bytes:
        """The bytes of `tokens`, which may cut a character; raises as `decode`."""

    def decode_batch(self, batch: Iterable[Iterable[int]], *, errors: str = "replace") -> list[str]:
        """The text of each list of tokens, as `decode`."""

    def decode_bytes_batch(self, batch: Iterable[Iterable[int]]) -> list[bytes]:
        """The bytes of each list of tokens, as `decode_bytes`."""

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of one token, ordinary or special; KeyError if it is none."""

    def decode_tokens_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """The bytes of each of `tokens`; raises as `decode`."""

    def decode_with_offsets(self, tokens: Iterable[int]) -> tuple[str, list[int]]:
        """The text of `tokens`, and the character in it at which each of them begins.

        A token that begins inside of a character has the place of that character. Raises
        UnicodeDecodeError if the tokens are no whole text, and as `decode`.
        """

    def token_byte_values(self) -> list[bytes]:
        """The bytes of all ordinary tokens, in the order of their numbers."""

    @property
    def special_tokens_set(self) -> set[str]:
        """The special tokens; none of a file of ranks."""

    def is_special_token(self, token: int) -> bool:
        """True if the number is that of a special token."""

    @property
    def eot_token(self) -> int:
        """The number of `<|endoftext|>`; KeyError if there is none, as in a file of ranks."""

    @property
    def max_token_value(self) -> int:
        """The largest number of a token, ordinary or special."""

    @property
    def n_vocab(self) -> int:
        """One more than `max_token_value`."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Scale:
    """The scale of `ContextWindowScaler`: a line through points (real, scaled) from (0, 0) on.

    Numbers changed are (path in the usage object, real, scaled).
    """

    def __new__(cls, points: Sequence[tuple[int, int]], rounding: str) -> Scale: ...
    @property
    def is_linear(self) -> bool: ...
    def tokens(self, tokens: int) -> int: ...
    def body(self, body: bytes, *, is_count: bool) -> tuple[bytes, list[tuple[str, int, int]]]: ...
    def stream(self, first_input_tokens: int | None = None) -> Rewriter: ...

@final
class Rewriter:
    """Rewrites one stream of server-sent events; made by `Scale.stream`."""

    def push(self, chunk: bytes) -> bytes: ...
    def finish(self) -> bytes: ...
    def numbers(self) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]: ...
    @property
    def long_event_count(self) -> int: ...

@final
class Alike:
    """The fields that may differ between events of a stream that are read as one."""

    def __new__(
        cls,
        *,
        joined: Sequence[str] = ...,
        ignored: Sequence[str] = ...,
        latest: Sequence[str] = ...,
        absent: Sequence[str] = ...,
    ) -> Alike: ...

@final
class Documents:
    """The documents of one stream: the data of server-sent events, or objects of JSON."""

    def __new__(cls) -> Documents: ...
    def push(self, chunk: bytes) -> str | None: ...
    def next(self) -> str | None: ...
    def finish(self) -> str | None: ...
    def join(self, alike: Alike) -> None: ...
    def kept(self) -> str | None: ...
    @property
    def document_bytes(self) -> int: ...
    @property
    def has_lost(self) -> bool: ...

def count_tokens(
    text: str | bytes,
    model: str | None = None,
    *,
    encoding: EncodingName | CountOnlyName | None = None,
) -> int:
    """Number of tokens of `text`; special-token spellings count as plain text.

    They are those of `encoding`, or of the one that text for `model` is counted with, as
    `encoding_for_model` gives it; without both, of o200k_base. Bytes are read as UTF-8. What is no
    UTF-8, and each lone surrogate of a str, counts as U+FFFD. Linear in the text; above 2 KiB other
    threads run meanwhile. Raises ValueError for an unknown encoding or model, or for both together,
    TypeError for anything but text. Equal to tiktoken's `encode_ordinary` on every input.

    A `claude_` name is a family of Claude's count model, a reconstruction that counts tokens but
    knows none: what `text` adds to the frame of a message, `ctok.token_count` less the frame of 7
    (claude_v3), 11 (claude_v4_7) or 6 tokens (claude_v4_8). `gemma` is the vocabulary of Gemma 3
    and 4 and of Gemini: its count is that of SentencePiece, markers of turns as plain text.
    """

def count_tokens_batch(
    texts: Iterable[str | bytes], *, encoding: EncodingName | CountOnlyName = "o200k_base"
) -> list[int]:
    """Number of tokens of each text, in one call; see `count_tokens`."""

def encode(text: str | bytes, *, encoding: EncodingName = "o200k_base") -> list[int]:
    """Tokens of `text`, for looking at; see `count_tokens`, which is faster."""

def get_encoding(name: str) -> Encoding:
    """`Encoding(name)`."""

def encoding_name_for_model(model: str) -> str:
    """The name of the encoding that `encoding_for_model` gives; raises as it does."""

def encoding_for_model(model: str) -> Encoding:
    """The encoding in the package that text for `model` is counted with.

    Models whose vocabulary is not in the package have a stand-in, whose counts their profile
    scales. Raises ValueError if no profile knows the name.
    """

def list_encodings() -> list[str]:
    """Names of the encodings in the package."""

def _read_files_by(module: Callable[[], ModuleType]) -> None:
    """Reads vocabulary files by the module that `module` gives when one is met."""

def preload_encodings(*names: EncodingName | CountOnlyName) -> None:
    """Builds the tables of these encodings that are not there yet; of all if none is named.

    The first count builds them too: `o200k_base`, `o200k_harmony`, `cl100k_base` and Claude's are
    always there, the others take 20 to 120 ms, once a process. What a process has built before it
    forks, its children share. Other threads run meanwhile. Raises ValueError if a name is unknown,
    as `get_encoding` does.
    """

def simd_level() -> str:
    """The SIMD level that texts are counted with: the best of this machine.

    `"sse2"`, `"avx2"` or `"avx512"`; on aarch64 `"neon"`; elsewhere `"portable"`. Counts are the
    same on each. For tests and support the variable TOKENCTX_LEVEL chooses a lower one when the
    package is imported.
    """

def simd_levels() -> list[str]:
    """The SIMD levels that this machine has, the lowest first."""

def _apportioned(total: int, weights: Sequence[int]) -> list[int]: ...
def _choose_simd_level(name: str) -> None: ...
def _set_framework_reader(reader: Callable[[Any], Any]) -> None: ...
def image_tokens(rule: str, width_px: int, height_px: int, detail: str = "auto") -> int:
    """Input tokens of an image of `width_px` by `height_px` under the rule of this name.

    The rules and their sources are in `image_rules.json`. Raises ValueError for an unknown rule or
    detail and for a side outside of 1 to 4,294,967,295 px.
    """

def image_size(head: bytes) -> tuple[int, int, str] | None:
    """Width and height in px and the format that the header states; None if it is no image.

    `head` is the beginning of the file; at most 64 KiB are looked at, no pixel is decoded.
    """

def rank_file(encoding: EncodingName) -> bytes:
    """The vocabulary as a `.tiktoken` file: base64 of a token, a space, its rank, line by line."""

def split_pattern(encoding: EncodingName) -> str:
    """The split rule as the regular expression that its vendor publishes, tiktoken's `pat_str`."""

def replace_tables(tables: dict[str, str]) -> None: ...
def profiles(rows: str | None = None) -> str:
    """Every profile as a JSON object by name: its layout, its fields, its models and its source.

    `rows` are profiles of the user's own, a JSON list in the shape of `profiles.json`, which change
    those of the package or stand beside them. Raises TypeError or ValueError for a row that is no
    profile; the message names profile, field and what is allowed.
    """

def profile_of_model(
    model: str, dialect: str, provider: str | None = None, rows: str | None = None
) -> tuple[str, bool]:
    """Name of the profile that `model` is counted with, and whether its name is known.

    If not, it is that of the nearest family. `rows` as for `profiles`. Raises ValueError for an
    unknown dialect.
    """

def limits_of_model(model: str) -> ModelLimits:
    """The limits of `model`, as an estimate without profiles of the user has them."""

def model_name(model: str) -> str:
    """The own name of `model` in lower case: no provider, path, region, vendor, fine-tune, tag."""

def _json_anomalies(body: object) -> list[str]: ...
def _json_canonical(body: object) -> str: ...
def _json_compact(body: object) -> str: ...
def _json_members(body: bytes) -> list[tuple[str, int, int]] | None: ...
def _panic() -> None: ...
def _converted_dialect(body: object) -> tuple[str, bool]: ...
def _count_lines(
    engine: Engine,
    call: CallContext,
    content: bytes,
    start: int,
    number: int,
    name: str,
    now_seconds: float,
) -> CountedLines: ...
def _convert_plain(
    messages: list[Any], source: str, rules: object
) -> tuple[int, list[Any], list[tuple[int, int]], list[tuple[int, int]]] | None: ...
def _is_json(value: object) -> bool: ...
def _outline(
    body: object,
) -> list[tuple[str, list[tuple[str, str | None, str, int | None]]]]: ...
def _reply_view(body: object) -> str: ...
def _request_view(body: object, *, model: str | None = None, dialect: str | None = None) -> str: ...
def _text_lengths(body: object, around: Sequence[str]) -> tuple[list[int], int]: ...
