//! Encodings: counting text, and the tokens for looking at.
use super::document::detached;
use super::errors::guard;
use super::text::{attached, items, on_text, on_texts};
use crate::bpe::{Ranked, SplitRule};
use crate::encoding::Encoding;
use crate::profile::table::Table;
use crate::request::Dialect;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The encoding of this name.
fn named(name: &str) -> PyResult<Encoding> {
    Encoding::named(name).ok_or_else(|| {
        let known: Vec<_> = Encoding::names().collect();
        let known = known.join(", ");
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
#[pyo3(signature = (text, *, encoding = "o200k_base"))]
pub(super) fn count_tokens(text: &Bound<'_, PyAny>, encoding: &str) -> PyResult<u64> {
    let encoding = named(encoding)?;
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
pub(super) fn encode(text: &Bound<'_, PyAny>, encoding: &str) -> PyResult<Vec<u32>> {
    PyEncoding::new(encoding)?.encode(text)
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

/// The encoding that text for this model is counted with.
#[pyfunction]
pub(super) fn encoding_for_model(model: &str) -> PyResult<PyEncoding> {
    let resolved = Table::bundled().resolve(model, Dialect::OpenAiChat, None);
    match resolved.is_known_model {
        true => PyEncoding::new(resolved.profile.encoding.as_str()),
        false => Err(PyValueError::new_err(format!(
            "no profile knows the model {model:?}; choose an encoding by get_encoding"
        ))),
    }
}

/// A vocabulary with its split rule.
#[pyclass(name = "Encoding", module = "tokenctx", frozen)]
pub(super) struct PyEncoding {
    name: String,
    fingerprint: Option<String>,
    kind: Kind,
}

/// What counts.
pub(super) enum Kind {
    Core(Encoding),
    /// A `Tokenizer` of `tokenctx._estimate.vocabularies`.
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
        let (content, name, fingerprint): (Bound<'_, PyBytes>, String, String) = path
            .py()
            .import("tokenctx._estimate.vocabularies")?
            .call_method1("read_file", (path, name))?
            .extract()?;
        let content = content.as_bytes();
        let ranked = guard(|| {
            let read = || Ranked::read(name.clone(), rule, content);
            detached(path.py(), content.len(), read)
                .map_err(|error| PyValueError::new_err(format!("{name}: {error}")))
        })?;
        let kind = Kind::Core(Encoding::Ranked(Arc::new(ranked)));
        Ok(PyEncoding::from_file(name, fingerprint, kind))
    }

    #[staticmethod]
    #[pyo3(signature = (path, *, name = None))]
    fn from_tokenizer_json(path: &Bound<'_, PyAny>, name: Option<String>) -> PyResult<PyEncoding> {
        let loaded = path
            .py()
            .import("tokenctx._estimate.vocabularies")?
            .call_method1("load_tokenizer_json", (path, name))?;
        let (tokenizer, name, fingerprint) = loaded.extract()?;
        Ok(PyEncoding::from_file(
            name,
            fingerprint,
            Kind::Tokenizer(tokenizer),
        ))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
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

    fn encode(&self, text: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        guard(|| match &self.kind {
            Kind::Core(encoding) => on_text(text, |text| encoding.encode(text))?
                .ok_or_else(|| without_tokens(&self.name)),
            Kind::Tokenizer(tokenizer) => attached(text, |text_| {
                let tokens = tokenizer.bind(text.py()).call_method1("encode", (text_,))?;
                tokens.extract()
            }),
        })
    }

    fn decode(&self, py: Python<'_>, tokens: Vec<u32>) -> PyResult<String> {
        match &self.kind {
            Kind::Core(encoding) => {
                let bytes = self.bytes(encoding, &tokens)?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Kind::Tokenizer(tokenizer) => {
                let text = tokenizer.bind(py).call_method1("decode", (tokens,))?;
                text.extract()
            }
        }
    }

    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        tokens: Vec<u32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        match &self.kind {
            Kind::Core(encoding) => Ok(PyBytes::new(py, &self.bytes(encoding, &tokens)?)),
            Kind::Tokenizer(_) => Ok(PyBytes::new(py, self.decode(py, tokens)?.as_bytes())),
        }
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
    /// The bytes of `tokens`.
    fn bytes(&self, encoding: &Encoding, tokens: &[u32]) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        for &token in tokens {
            bytes.extend(encoding.decode(token).ok_or_else(|| match encoding {
                Encoding::Claude(_) => without_tokens(&self.name),
                _ => PyValueError::new_err(format!(
                    "{token} is no token of {}; special tokens have no text here",
                    self.name
                )),
            })?);
        }
        Ok(bytes)
    }
}
