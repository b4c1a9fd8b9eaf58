//! Which of several layouts: those of a vendor change with generations of models, calls differ by template.

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

/// How a linear profile shows a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallText {
    /// Its name, and its arguments as JSON.
    #[default]
    Json,
    /// Its name twice, and its arguments as JSON.
    JsonTwice,
    /// Its name, and an element for each argument: texts as they are, the rest with Python's separators.
    Elements,
    /// Its name, and its arguments with Python's separators: Mistral's from the tokenizer v13 on.
    Spaced,
    /// An object with its id in a list, results too: Mistral's tokenizer v3. The id is counted with
    /// the result, twice, for a call has none here.
    MistralList,
    /// Nothing of it is billed.
    Free,
}
