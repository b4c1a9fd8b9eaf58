//! Generations of Claude's tokenizer, and how they differ.

use super::vocabulary::{self, Vocabulary};

/// Copy handle to a generation of Claude's tokenizer.
///
/// ```
/// use tokenctx::claude::ClaudeFamily;
///
/// let family = ClaudeFamily::named("claude_v3").expect("a known name");
/// assert_eq!(family.count("hello, world"), 3);
/// assert_eq!(family.count("hello, world") + family.frame_tokens(), 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaudeFamily {
    /// Claude 3 to Opus 4.6.
    V3,
    /// Opus 4.7.
    V4_7,
    /// Opus 4.8, Sonnet 5 and later: the vocabulary of 4.7 in another frame.
    V4_8,
}

impl ClaudeFamily {
    /// All families, the oldest first.
    pub const ALL: [ClaudeFamily; 3] = [ClaudeFamily::V3, ClaudeFamily::V4_7, ClaudeFamily::V4_8];

    /// The family of that name: `claude_v3`, `claude_v4_7` or `claude_v4_8`.
    pub fn named(name: &str) -> Option<ClaudeFamily> {
        ClaudeFamily::ALL
            .into_iter()
            .find(|family| family.name() == name)
    }

    /// Name of the family.
    pub fn name(self) -> &'static str {
        match self {
            ClaudeFamily::V3 => "claude_v3",
            ClaudeFamily::V4_7 => "claude_v4_7",
            ClaudeFamily::V4_8 => "claude_v4_8",
        }
    }

    /// Number of tokens of one user message without its content, as measured: 7, 11 or 6.
    pub fn frame_tokens(self) -> u64 {
        match self {
            ClaudeFamily::V3 => 7,
            ClaudeFamily::V4_7 => 11,
            ClaudeFamily::V4_8 => 6,
        }
    }

    pub(super) fn vocabulary(self) -> &'static Vocabulary {
        match self {
            ClaudeFamily::V3 => &vocabulary::V3,
            ClaudeFamily::V4_7 | ClaudeFamily::V4_8 => &vocabulary::V4_7,
        }
    }

    /// True if the frame before a message ends in the marker that begins a word.
    pub(super) fn absorbs_space(self) -> bool {
        self != ClaudeFamily::V4_8
    }

    /// True if words in capitals of four characters or more are written in lower case.
    pub(super) fn marks_capitals(self) -> bool {
        self == ClaudeFamily::V3
    }

    /// True if typographic quotes count as plain ones.
    pub(super) fn folds_quotes(self) -> bool {
        self == ClaudeFamily::V3
    }
}
