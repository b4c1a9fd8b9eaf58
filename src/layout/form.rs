//! Which of a vendor's prompt layouts: they change with generations of models.

/// A layout of OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAiForm {
    /// As of 2024 and later.
    Of2024,
    /// As of 2023.
    Of2023,
}

/// A layout of Gemini's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeminiForm {
    /// That of Vertex AI, and that of 2.0: names and texts alone.
    Names,
    /// That of 2.5: functions in Python.
    Python,
    /// That of 3: declarations between markers.
    Declarations,
}
