//! Encodings: counting text, and the tokens for looking at.
use super::document::detached;
use super::errors::guard;
use super::object::{Name, as_bytes};
use super::text::{attached, items, on_text, on_texts};
use super::tokens::{SpecialSet, list, token_number, token_numbers};
use crate::bpe::{RankEncoding, SimdLevel, SplitRule};
use crate::encoding::Encoding;
use crate::profile::table::Table;
use crate::request::Dialect;
use pyo3::exceptions::{
    PyKeyError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyType};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The encoding of this name.
pub(super) fn named(name: &str) -> PyResult<Encoding> {
    Encoding::named(name).ok_or_else(|| {
        let known: Vec<_> = Encoding::names().collect();
        let known = known.join(", ");
        if Table::bundled()
            .resolve(name, Dialect::OpenAiChat, None)
            .is_known_model
        {
            return PyValueError::new_err(format!(
                "no encoding is called {name:?}, which is a model: encoding_for_model({name:?}) or \
                 count_tokens(text, model={name:?}); known encodings are {known}"
            ));
        }
        PyValueError::new_err(format!("no encoding is called {name:?}; known are {known}"))
    })
}

fn without_tokens(name: &str) -> PyErr {
    PyNotImplementedError::new_err(format!(
        "{name} counts tokens but has none to show: only their number is known"
    ))
}

fn unknown_split(split: &str) -> PyErr {
    let names: Vec<_> = SplitRule::names().collect();
    let names = names.join(", ");
    PyValueError::new_err(format!(
        "no split rule is called {split:?} or has that pattern; known are {names}; \
         for another, load the tokenizer.json"
    ))
}

/// Number of tokens of `text`.
#[pyfunction]
#[pyo3(signature = (text, model = None, *, encoding = None))]
pub(super) fn count_tokens(
    text: &Bound<'_, PyAny>,
    model: Option<Name>,
    encoding: Option<&str>,
) -> PyResult<u64> {
    let encoding = match (encoding, &model) {
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err(
                "encoding and model are given; a model has an encoding: leave one of them out",
            ));
        }
        (None, Some(model)) => of_model(&model.0)?,
        (encoding, None) => named(encoding.unwrap_or("o200k_base"))?,
    };
    guard(|| on_text(text, |text| encoding.count(text)))
}

/// Number of tokens of each text.
#[pyfunction]
#[pyo3(signature = (texts, *, encoding = "o200k_base"))]
pub(super) fn count_tokens_batch(texts: &Bound<'_, PyAny>, encoding: &str) -> PyResult<Vec<u64>> {
    let encoding = named(encoding)?;
    guard(|| on_texts(texts, |text| encoding.count(text)))
}

/// Tokens of `text`, for looking at.
#[pyfunction]
#[pyo3(signature = (text, *, encoding = "o200k_base"))]
pub(super) fn encode<'py>(
    text: &Bound<'py, PyAny>,
    encoding: &str,
) -> PyResult<Bound<'py, PyList>> {
    PyEncoding::new(encoding)?.encode(text, None, None)
}

/// The vocabulary as a `.tiktoken` file.
#[pyfunction]
pub(super) fn rank_file<'py>(py: Python<'py>, encoding: &str) -> PyResult<Bound<'py, PyBytes>> {
    match named(encoding)? {
        Encoding::Bpe(encoding) => guard(|| Ok(PyBytes::new(py, &encoding.rank_file()))),
        _ => Err(without_tokens(encoding)),
    }
}

/// The split rule as a regular expression.
#[pyfunction]
pub(super) fn split_pattern(encoding: &str) -> PyResult<&'static str> {
    named(encoding)?;
    SplitRule::pattern(encoding).ok_or_else(|| without_tokens(encoding))
}

/// The SIMD level that texts are counted with.
#[pyfunction]
pub(super) fn simd_level() -> &'static str {
    SimdLevel::used().name()
}

/// The SIMD levels that this machine has, the lowest first.
#[pyfunction]
pub(super) fn simd_levels() -> Vec<&'static str> {
    let all = SimdLevel::ALL.into_iter();
    all.filter(|level| level.is_available())
        .map(SimdLevel::name)
        .collect()
}

/// Counts with no higher SIMD level from now on, in the whole process.
#[pyfunction(name = "_choose_simd_level")]
pub(super) fn choose_simd_level(name: &str) -> PyResult<()> {
    let level = SimdLevel::ALL.into_iter().find(|it| it.name() == name);
    match level.is_some_and(SimdLevel::choose) {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "the SIMD level (TOKENCTX_LEVEL) is {name:?}; this machine has {}",
            simd_levels().join(", ")
        ))),
    }
}

/// Names of the encodings in the package.
#[pyfunction]
pub(super) fn list_encodings() -> Vec<&'static str> {
    Encoding::names().collect()
}

/// The encoding of this name.
#[pyfunction]
pub(super) fn get_encoding(name: &str) -> PyResult<PyEncoding> {
    PyEncoding::new(name)
}

/// Builds the tables of these encodings that are not there yet; of all, if none is named.
#[pyfunction]
#[pyo3(signature = (*names))]
pub(super) fn preload_encodings(py: Python<'_>, names: Vec<String>) -> PyResult<()> {
    let encodings: Vec<Encoding> = match names.is_empty() {
        true => Encoding::names().map(named).collect::<PyResult<_>>()?,
        false => names
            .iter()
            .map(|name| named(name))
            .collect::<PyResult<_>>()?,
    };
    guard(|| {
        py.detach(|| encodings.iter().for_each(Encoding::preload));
        Ok(())
    })
}

/// Runs `work` while the interpreter serves other threads, whether this one is attached to it or not.
pub(super) fn aside(work: &mut (dyn FnMut() + Send)) {
    let mut work = Some(work);
    let done = Python::try_attach(|py| py.detach(|| work.take().map(|work| work())));
    // An interpreter that ends has no other threads.
    if let (None, Some(work)) = (done, work) {
        work();
    }
}

/// The encoding that text for this model is counted with.
#[pyfunction]
pub(super) fn encoding_for_model(model: Name) -> PyResult<PyEncoding> {
    PyEncoding::new(encoding_name(&model.0)?.as_str())
}

/// The name of the encoding of a model.
fn encoding_name(model: &str) -> PyResult<String> {
    let resolved = Table::bundled().resolve(model, Dialect::OpenAiChat, None);
    match resolved.is_known_model {
        true => Ok(resolved.profile.encoding.as_str().to_owned()),
        false => Err(PyValueError::new_err(format!(
            "no profile knows the model {model:?}; choose an encoding by get_encoding"
        ))),
    }
}

/// The encoding of a model.
pub(super) fn of_model(model: &str) -> PyResult<Encoding> {
    named(&encoding_name(model)?)
}

/// The name of the encoding that text for this model is counted with.
#[pyfunction]
pub(super) fn encoding_name_for_model(model: Name) -> PyResult<String> {
    Ok(encoding_for_model(model)?.name)
}

/// Gives the module that reads vocabulary files.
static FILES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// From now on vocabulary files are read by the module that `module` gives when one is met. The package says so when it
/// is imported, since it stands above this.
#[pyfunction(name = "_read_files_by")]
pub(super) fn read_files_by(py: Python<'_>, module: Py<PyAny>) {
    FILES.get_or_init(py, || module);
}

fn files(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let module = FILES.get(py).ok_or_else(|| {
        PyRuntimeError::new_err("import tokenctx first: it says what reads vocabulary files")
    })?;
    module.bind(py).call0()
}

/// A vocabulary with its split rule.
#[pyclass(name = "Encoding", module = "tokenctx", frozen)]
pub(super) struct PyEncoding {
    name: String,
    fingerprint: Option<String>,
    kind: Kind,
}

/// The counter of an encoding.
pub(super) enum Kind {
    Core(Encoding),
    /// The result of `load_tokenizer_json` of the module of [`read_files_by`].
    Tokenizer(Py<PyAny>),
}

impl PyEncoding {
    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    fn from_file(name: String, fingerprint: String, kind: Kind) -> PyEncoding {
        PyEncoding {
            name,
            fingerprint: Some(fingerprint),
            kind,
        }
    }
}

#[pymethods]
impl PyEncoding {
    #[new]
    fn new(name: &str) -> PyResult<PyEncoding> {
        Ok(PyEncoding {
            name: name.to_owned(),
            fingerprint: None,
            kind: Kind::Core(named(name)?),
        })
    }

    #[staticmethod]
    #[pyo3(signature = (path, *, split, name = None))]
    fn from_tiktoken(
        path: &Bound<'_, PyAny>,
        split: &str,
        name: Option<String>,
    ) -> PyResult<PyEncoding> {
        let rule = SplitRule::named(split).ok_or_else(|| unknown_split(split))?;
        let (content, name, fingerprint): (Bound<'_, PyBytes>, String, String) = files(path.py())?
            .call_method1("read_file", (path, name))?
            .extract()?;
        let content = content.as_bytes();
        let ranked = guard(|| {
            let read = || RankEncoding::read(name.clone(), rule, content);
            detached(path.py(), content.len(), read)
                .map_err(|error| PyValueError::new_err(format!("{name}: {error}")))
        })?;
        let kind = Kind::Core(Encoding::Ranked(Arc::new(ranked)));
        Ok(PyEncoding::from_file(name, fingerprint, kind))
    }

    #[staticmethod]
    #[pyo3(signature = (path, *, name = None))]
    fn from_tokenizer_json(path: &Bound<'_, PyAny>, name: Option<String>) -> PyResult<PyEncoding> {
        let files = files(path.py())?;
        let (content, name, fingerprint): (Bound<'_, PyBytes>, String, String) =
            files.call_method1("read_file", (path, name))?.extract()?;
        let bytes = content.as_bytes();
        let read = || RankEncoding::read_tokenizer(name.clone(), bytes);
        let ranked = guard(|| Ok(detached(path.py(), bytes.len(), read)))?;
        let kind = match ranked {
            Some(ranked) => Kind::Core(Encoding::Ranked(Arc::new(ranked))),
            None => {
                let loaded = files.call_method1("load_tokenizer_json", (&content, &name))?;
                Kind::Tokenizer(loaded.unbind())
            }
        };
        Ok(PyEncoding::from_file(name, fingerprint, kind))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    #[getter]
    fn counted_by(&self) -> &'static str {
        match self.kind {
            Kind::Core(_) => "core",
            Kind::Tokenizer(_) => "tokenizers",
        }
    }

    fn count(&self, text: &Bound<'_, PyAny>) -> PyResult<u64> {
        guard(|| match &self.kind {
            Kind::Core(encoding) => on_text(text, |text| encoding.count(text)),
            Kind::Tokenizer(tokenizer) => attached(text, |text_| {
                let count = tokenizer.bind(text.py()).call_method1("count", (text_,))?;
                count.extract()
            }),
        })
    }

    fn count_batch(&self, texts: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        guard(|| match &self.kind {
            Kind::Core(encoding) => on_texts(texts, |text| encoding.count(text)),
            Kind::Tokenizer(_) => items(texts)?.map(|text| self.count(&text?)).collect(),
        })
    }

    fn count_at_most(&self, text: &Bound<'_, PyAny>, limit: u64) -> PyResult<u64> {
        guard(|| match &self.kind {
            Kind::Core(encoding) => on_text(text, |text| encoding.count_at_most(text, limit)),
            Kind::Tokenizer(_) => Ok(self.count(text)?.min(limit.saturating_add(1))),
        })
    }

    fn exceeds(&self, text: &Bound<'_, PyAny>, limit: i64) -> PyResult<bool> {
        let count = self.count_at_most(text, limit.max(0).unsigned_abs())?;
        Ok(i64::try_from(count).is_ok_and(|count| count > limit))
    }

    #[pyo3(signature = (text, *, allowed_special = None, disallowed_special = None))]
    fn encode<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        allowed_special: Option<&Bound<'_, PyAny>>,
        disallowed_special: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let tokens = self.tokens(text, allowed_special, disallowed_special)?;
        list(text.py(), tokens)
    }

    #[pyo3(signature = (text, *, allowed_special = None, disallowed_special = None))]
    fn encode_to_buffer<'py>(
        &self,
        text: &Bound<'py, PyAny>,
        allowed_special: Option<&Bound<'_, PyAny>>,
        disallowed_special: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = text.py();
        let tokens = self.tokens(text, allowed_special, disallowed_special)?;
        let bytes = PyBytes::new_with(py, tokens.len() * 4, |bytes| {
            let places = bytes.as_chunks_mut().0.iter_mut();
            places
                .zip(tokens)
                .for_each(|(place, token)| *place = token.to_ne_bytes());
            Ok(())
        })?;
        PyMemoryView::from(&bytes)?.call_method1("cast", ("I",))
    }

    fn encode_ordinary<'py>(&self, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        self.encode(text, None, None)
    }

    #[pyo3(signature = (texts, *, allowed_special = None, disallowed_special = None))]
    fn encode_batch<'py>(
        &self,
        texts: &Bound<'py, PyAny>,
        allowed_special: Option<&Bound<'_, PyAny>>,
        disallowed_special: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        // To make all lists first and free them when a signal comes would take long.
        let all: Vec<_> = items(texts)?
            .map(|text| self.tokens(&text?, allowed_special, disallowed_special))
            .collect::<PyResult<_>>()?;
        let lists = all.into_iter().map(|tokens| list(texts.py(), tokens));
        lists.collect()
    }

    fn encode_ordinary_batch<'py>(
        &self,
        texts: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        self.encode_batch(texts, None, None)
    }

    fn encode_single_token(&self, text_or_bytes: &Bound<'_, PyAny>) -> PyResult<u32> {
        let encoding = self.with_tokens()?;
        let find = |bytes: &[u8]| {
            encoding.token(bytes).ok_or_else(|| {
                let length = bytes.len();
                PyKeyError::new_err(format!(
                    "a text of {length} bytes is no token of {}",
                    self.name
                ))
            })
        };
        match as_bytes(text_or_bytes)? {
            Some(bytes) => find(bytes.as_bytes()),
            None => attached(text_or_bytes, |text| find(text.as_bytes())),
        }
    }

    #[pyo3(signature = (tokens, errors = "replace"))]
    fn decode(&self, tokens: &Bound<'_, PyAny>, errors: &str) -> PyResult<String> {
        match &self.kind {
            Kind::Core(_) => {
                let bytes = self.each_bytes(tokens)?.concat();
                let bytes = PyBytes::new(tokens.py(), &bytes);
                bytes.call_method1("decode", ("utf-8", errors))?.extract()
            }
            Kind::Tokenizer(tokenizer) => {
                let numbers = token_numbers(tokens)?;
                let tokenizer = tokenizer.bind(tokens.py());
                tokenizer.call_method1("decode", (numbers,))?.extract()
            }
        }
    }

    fn decode_bytes<'py>(&self, tokens: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = match &self.kind {
            Kind::Core(_) => self.each_bytes(tokens)?.concat(),
            Kind::Tokenizer(_) => self.decode(tokens, "replace")?.into_bytes(),
        };
        Ok(PyBytes::new(tokens.py(), &bytes))
    }

    #[pyo3(signature = (batch, *, errors = "replace"))]
    fn decode_batch(&self, batch: &Bound<'_, PyAny>, errors: &str) -> PyResult<Vec<String>> {
        let decoded = batch.try_iter()?.map(|it| self.decode(&it?, errors));
        decoded.collect()
    }

    fn decode_bytes_batch<'py>(
        &self,
        batch: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        batch
            .try_iter()?
            .map(|it| self.decode_bytes(&it?))
            .collect()
    }

    fn decode_single_token_bytes<'py>(
        &self,
        token: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let number = token_number(token)?;
        let no_token = || PyKeyError::new_err(format!("{number} is no token of {}", self.name));
        let bytes = self.with_tokens()?.decode(number).ok_or_else(no_token)?;
        Ok(PyBytes::new(token.py(), &bytes))
    }

    fn decode_tokens_bytes<'py>(
        &self,
        tokens: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let bytes = self.each_bytes(tokens)?.into_iter();
        Ok(bytes.map(|it| PyBytes::new(tokens.py(), &it)).collect())
    }

    fn decode_with_offsets(&self, tokens: &Bound<'_, PyAny>) -> PyResult<(String, Vec<usize>)> {
        let continues = |byte: &u8| (0x80..0xC0).contains(byte);
        let (mut offsets, mut characters) = (Vec::new(), 0_usize);
        for token in self.each_bytes(tokens)? {
            let is_inside = token.first().is_some_and(continues);
            offsets.push(characters.saturating_sub(usize::from(is_inside)));
            characters += token.iter().filter(|&byte| !continues(byte)).count();
        }
        Ok((self.decode(tokens, "strict")?, offsets))
    }

    fn token_byte_values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let tokens = self.with_tokens()?.tokens().unwrap_or_default();
        Ok(tokens.into_iter().map(|it| PyBytes::new(py, it)).collect())
    }

    #[getter]
    fn special_tokens_set(&self) -> PyResult<HashSet<String>> {
        let special = self.with_tokens()?.special_tokens().into_iter();
        Ok(special.map(|(text, _)| text).collect())
    }

    fn is_special_token(&self, token: &Bound<'_, PyAny>) -> PyResult<bool> {
        let number = token_number(token)?;
        let mut special = self.with_tokens()?.special_tokens().into_iter();
        Ok(special.any(|(_, it)| it == number))
    }

    #[getter]
    fn eot_token(&self) -> PyResult<u32> {
        let number = self.with_tokens()?.special("<|endoftext|>");
        number.ok_or_else(|| {
            let message = format!("{} has no <|endoftext|>", self.name);
            PyKeyError::new_err(message)
        })
    }

    #[getter]
    fn max_token_value(&self) -> PyResult<u32> {
        Ok(self.with_tokens()?.max_token().unwrap_or_default())
    }

    #[getter]
    fn n_vocab(&self) -> PyResult<u64> {
        Ok(u64::from(self.max_token_value()?) + 1)
    }

    fn __repr__(&self) -> String {
        match &self.fingerprint {
            None => format!("Encoding({:?})", self.name),
            Some(hash) => format!("<Encoding {:?} sha256={}>", self.name, &hash[..16]),
        }
    }

    fn __eq__(&self, other: &PyEncoding) -> bool {
        (&self.name, &self.fingerprint) == (&other.name, &other.fingerprint)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.fingerprint).hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (&str,))> {
        match self.fingerprint {
            None => Ok((py.get_type::<PyEncoding>(), (&self.name,))),
            Some(_) => Err(PyTypeError::new_err(format!(
                "cannot pickle the encoding {:?}: load its file again",
                self.name
            ))),
        }
    }
}

impl PyEncoding {
    /// The tokens of `text`; signals end it.
    fn tokens(
        &self,
        text: &Bound<'_, PyAny>,
        allowed_special: Option<&Bound<'_, PyAny>>,
        disallowed_special: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<u32>> {
        guard(|| match &self.kind {
            Kind::Core(encoding) => {
                let choice = SpecialChoice::read(encoding, allowed_special, disallowed_special)?;
                on_text(text, |text| choice.encode(encoding, text))??
                    .ok_or_else(|| without_tokens(&self.name))
            }
            Kind::Tokenizer(tokenizer) => {
                if allowed_special.or(disallowed_special).is_some() {
                    return Err(self.ask_tokenizers());
                }
                attached(text, |text_| {
                    let tokens = tokenizer.bind(text.py()).call_method1("encode", (text_,))?;
                    tokens.extract()
                })
            }
        })
    }

    /// The encoding, if it has tokens to show.
    fn with_tokens(&self) -> PyResult<&Encoding> {
        match &self.kind {
            Kind::Core(Encoding::Claude(_) | Encoding::Gemma) => Err(without_tokens(&self.name)),
            Kind::Core(encoding) => Ok(encoding),
            Kind::Tokenizer(_) => Err(self.ask_tokenizers()),
        }
    }

    fn ask_tokenizers(&self) -> PyErr {
        PyNotImplementedError::new_err(format!(
            "{} comes from a tokenizer.json: load it with the package tokenizers for this",
            self.name
        ))
    }

    /// The bytes of each of `tokens`.
    fn each_bytes(&self, tokens: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
        let encoding = self.with_tokens()?;
        let no_token =
            |token| PyValueError::new_err(format!("{token} is no token of {}", self.name));
        let numbers = token_numbers(tokens)?.into_iter();
        numbers
            .map(|token| encoding.decode(token).ok_or_else(|| no_token(token)))
            .collect()
    }
}

/// The treatment of special tokens in a text.
struct SpecialChoice {
    allowed: SpecialSet,
    disallowed: SpecialSet,
}

impl SpecialChoice {
    fn read(
        encoding: &Encoding,
        allowed: Option<&Bound<'_, PyAny>>,
        disallowed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SpecialChoice> {
        Ok(SpecialChoice {
            allowed: SpecialSet::read(allowed, "allowed_special", encoding)?,
            disallowed: SpecialSet::read(disallowed, "disallowed_special", encoding)?,
        })
    }

    /// The tokens of `text`; none if only their number is known.
    fn encode(&self, encoding: &Encoding, text: &str) -> PyResult<Option<Vec<u32>>> {
        let is_all = matches!(self.disallowed, SpecialSet::All);
        let is_disallowed = |it: &str| self.disallowed.has(it) && !(is_all && self.allowed.has(it));
        match encoding.special_in(text, is_disallowed) {
            Some(special) => Err(PyValueError::new_err(format!(
                "the text has the special token {special:?}, which is disallowed; in \
                 allowed_special it is one token, in neither it is plain text"
            ))),
            None if self.allowed.is_empty() => Ok(encoding.encode(text)),
            None => Ok(encoding.encode_with_special(text, |it| self.allowed.has(it))),
        }
    }
}
