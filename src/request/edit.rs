//! Edits of the request that a body asks its provider for before billing: Anthropic's context editing,
//! compaction, and truncation by OpenAI's Responses.

/// One thing that the provider is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextEdit<'d> {
    /// Results of tools before the last few are cleared, once there is enough of them.
    ClearToolUses(ClearToolUses<'d>),
    /// Thinking is dropped, but for that of the last turns; `None`: of none.
    ClearThinking {
        /// How many turns keep theirs.
        kept_turns: Option<u64>,
    },
    /// The conversation is replaced by a summary, once it has more tokens than this.
    Compact {
        /// More than this.
        trigger_tokens: u64,
    },
    /// Messages are dropped from the beginning, if all do not fit the window.
    Truncate,
}

/// When results of tools are cleared, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClearToolUses<'d> {
    /// More input than this.
    pub trigger: Trigger,
    /// Calls at the end whose results stay.
    pub kept_tool_uses: u64,
    /// Less than this is not cleared.
    pub least_tokens: u64,
    /// Whose results stay.
    pub(super) excluded_tools: Vec<&'d str>,
    pub(super) inputs: Inputs<'d>,
}

/// The measure that has to be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Input tokens before anything is cleared.
    Tokens(u64),
    /// Calls of tools.
    ToolUses(u64),
}

/// Whose arguments are cleared with the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inputs<'d> {
    /// Nobody's.
    None,
    /// All.
    All,
    /// Those of these tools.
    Of(Vec<&'d str>),
}
