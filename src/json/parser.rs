//! The parser: one loop over the values, no recursion.
use super::builder::Builder;
use super::decode::decode_body;
use super::document::Document;
use super::limits::{Anomalies, Limits};
use super::quotes::quote_or_backslash;
use super::tape::{Span, Tape};
use crate::Error;
use crate::interrupt::Steps;
use std::borrow::Cow;

impl<'a> Document<'a> {
    /// The document in `body`, which may have a byte order mark and may be invalid UTF-8.
    ///
    /// Linear in the body. Fails if it is not one JSON value, if it is UTF-16 or UTF-32, or
    /// beyond a limit.
    pub fn from_bytes(body: &'a [u8], limits: &Limits) -> Result<Document<'a>, Error> {
        check_size(body.len(), limits)?;
        let (text, anomalies) = decode_body(body)?;
        Document::from_text(text, anomalies, limits)
    }

    /// The document in `text`; see [`from_bytes`](Document::from_bytes).
    pub fn parse(text: &'a str, limits: &Limits) -> Result<Document<'a>, Error> {
        check_size(text.len(), limits)?;
        Document::from_text(Cow::Borrowed(text), Anomalies::default(), limits)
    }

    /// The document in `text`, of which `anomalies` are known from decoding it.
    fn from_text(
        text: Cow<'a, str>,
        anomalies: Anomalies,
        limits: &Limits,
    ) -> Result<Document<'a>, Error> {
        let (bytes, limit) = (text.len(), Span::MAX);
        if bytes > limit {
            return Err(Error::TooLarge { bytes, limit });
        }
        let mut tape = parse(&text, limits)?;
        tape.anomalies |= anomalies;
        Ok(Document::new(text, tape))
    }
}

fn check_size(bytes: usize, limits: &Limits) -> Result<(), Error> {
    let limit = limits.max_bytes;
    match bytes > limit {
        true => Err(Error::TooLarge { bytes, limit }),
        false => Ok(()),
    }
}

/// The document in `text`, less the text itself.
fn parse(text: &str, limits: &Limits) -> Result<Tape, Error> {
    // Spans of the text cost nothing; what is unescaped is never longer than the text, and
    // canonical numbers are at most five times as long.
    let limits = Limits {
        max_bytes: Span::MAX,
        ..*limits
    };
    let mut parser = Parser {
        text,
        bytes: text.as_bytes(),
        at: 0,
        builder: Builder::over(text, &limits),
        steps: Steps::default(),
    };
    match parser.document() {
        Ok(()) => Ok(parser.builder.into_tape()),
        Err(error) => Err(error.at(parser.at)),
    }
}

struct Parser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// The next byte to read.
    at: usize,
    builder: Builder<'t>,
    steps: Steps,
}

/// The token that comes next.
#[derive(PartialEq, Eq)]
enum Next {
    /// A value.
    Value,
    /// Whatever follows a value.
    Behind,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<(), Error> {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
            self.builder.flag(Anomalies::BYTE_ORDER_MARK);
        }
        if self.peek().is_none() {
            return Err(Error::EmptyBody);
        }
        while self.value()? == Next::Value || self.behind_value()? == Next::Value {}
        match self.peek() {
            None => Ok(()),
            Some(0) => Err(Error::NulByte { offset: self.at }),
            Some(b'/') => Err(Error::Comment { offset: self.at }),
            Some(_) => Err(Error::TrailingData { offset: self.at }),
        }
    }

    /// Reads a value, of a container that is not empty only up to its first value.
    fn value(&mut self) -> Result<Next, Error> {
        self.steps.step();
        match self.peek() {
            Some(b'"') => {
                let span = self.string()?;
                self.builder.string_span(span)?;
            }
            Some(b'{') => return self.object(),
            Some(b'[') => return self.array(),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true", |b| b.bool(true))?,
            Some(b'f') => self.literal("false", |b| b.bool(false))?,
            Some(b'n') => self.literal("null", |b| b.null())?,
            Some(b'N') => self.literal("NaN", |b| b.float(f64::NAN))?,
            Some(b'I') => self.literal("Infinity", |b| b.float(f64::INFINITY))?,
            _ => return Err(self.unexpected("a value")),
        }
        Ok(Next::Behind)
    }

    fn object(&mut self) -> Result<Next, Error> {
        self.builder.begin_object()?;
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            self.builder.end();
            return Ok(Next::Behind);
        }
        self.key()?;
        Ok(Next::Value)
    }

    fn array(&mut self) -> Result<Next, Error> {
        self.builder.begin_array()?;
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            self.builder.end();
            return Ok(Next::Behind);
        }
        Ok(Next::Value)
    }

    fn key(&mut self) -> Result<(), Error> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key in double quotes"));
        }
        let span = self.string()?;
        self.builder.key_span(span)?;
        if self.peek() != Some(b':') {
            return Err(self.unexpected("a colon"));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads closing brackets and up to the next value; `Behind` when nothing is open.
    fn behind_value(&mut self) -> Result<Next, Error> {
        while self.builder.depth() > 0 {
            let in_object = self.builder.in_object();
            match (self.peek(), in_object) {
                (Some(b','), _) => {
                    self.at += 1;
                    self.behind_comma(in_object)?;
                    return Ok(Next::Value);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    self.at += 1;
                    self.builder.end();
                }
                (_, true) => return Err(self.unexpected("a comma or `}`")),
                (_, false) => return Err(self.unexpected("a comma or `]`")),
            }
        }
        Ok(Next::Behind)
    }

    fn behind_comma(&mut self, in_object: bool) -> Result<(), Error> {
        match self.peek() {
            Some(b'}' | b']') => Err(Error::TrailingComma { offset: self.at }),
            _ if in_object => self.key(),
            _ => Ok(()),
        }
    }

    fn literal(
        &mut self,
        word: &'static str,
        add: impl FnOnce(&mut Builder<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.word(word)?;
        add(&mut self.builder)
    }

    /// Skips `word`.
    fn word(&mut self, word: &'static str) -> Result<(), Error> {
        for &byte in word.as_bytes() {
            if self.bytes.get(self.at) != Some(&byte) {
                return Err(self.unexpected(word));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Error> {
        let start = self.at;
        let is_negative = self.skip_byte(b'-');
        if is_negative && self.bytes.get(self.at) == Some(&b'I') {
            return self.literal("Infinity", |b| b.float(f64::NEG_INFINITY));
        }
        if !self.skip_byte(b'0') {
            self.digits()?;
        }
        let integer_end = self.at;
        if self.skip_byte(b'.') {
            self.digits()?;
        }
        if self.skip_byte(b'e') || self.skip_byte(b'E') {
            let _ = self.skip_byte(b'+') || self.skip_byte(b'-');
            self.digits()?;
        }
        match &self.text[start..self.at] {
            // Python has one integer zero.
            "-0" => self.builder.number("0"),
            text if self.at == integer_end => {
                let span = Span::new(start, text.len());
                self.builder.number_span(span)
            }
            text => self.float(text),
        }
    }

    fn float(&mut self, text: &str) -> Result<(), Error> {
        // Every number of JSON's grammar parses; one that is too large becomes infinite.
        let number = text.parse().unwrap_or(f64::NAN);
        self.builder.float(number)
    }

    fn digits(&mut self) -> Result<(), Error> {
        let rest = &self.bytes[self.at..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return Err(self.unexpected("a digit"));
        }
        self.at += digits;
        Ok(())
    }

    fn skip_byte(&mut self, byte: u8) -> bool {
        let is_next = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads a string from its opening quote on.
    fn string(&mut self) -> Result<Span, Error> {
        self.at += 1;
        let start = self.at;
        self.at = self.quote_or_backslash()?;
        if self.bytes[self.at] == b'"' {
            let span = Span::new(start, self.at - start);
            self.at += 1;
            return Ok(span);
        }
        self.escaped_string(start)
    }

    /// Reads the rest of a string that began at `start`, from its first backslash on.
    fn escaped_string(&mut self, start: usize) -> Result<Span, Error> {
        let in_arena = self.builder.arena().len();
        let mut plain = start;
        loop {
            let piece = &self.text[plain..self.at];
            self.builder.arena().push_str(piece);
            self.at += 1;
            if self.bytes[self.at - 1] == b'"' {
                return self.builder.copied_since(in_arena);
            }
            let unescaped = self.escape()?;
            self.builder.arena().push(unescaped);
            plain = self.at;
            self.at = self.quote_or_backslash()?;
        }
    }

    /// Where the next quote or backslash is.
    #[inline(always)]
    fn quote_or_backslash(&self) -> Result<usize, Error> {
        let offset = self.bytes.len();
        let place = quote_or_backslash(&self.bytes[self.at..]);
        place.map_or(
            Err(Error::Truncated { offset }),
            |place| Ok(self.at + place),
        )
    }

    /// Reads an escape from behind its backslash on.
    fn escape(&mut self) -> Result<char, Error> {
        self.steps.step();
        let unescaped = match self.bytes.get(self.at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.unexpected("an escape")),
        };
        self.at += 1;
        Ok(unescaped)
    }

    /// Reads `uXXXX`, with the low surrogate behind a high one; half a pair is U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, Error> {
        self.at += 1;
        let unit = self.hex4()?;
        let low = self.low_surrogate_ahead();
        let mut units = char::decode_utf16([unit].into_iter().chain(low));
        match units.next() {
            Some(Ok(character)) => {
                self.at += 6 * (character.len_utf16() - 1);
                Ok(character)
            }
            _ => {
                self.builder.flag(Anomalies::LONE_SURROGATE);
                Ok(char::REPLACEMENT_CHARACTER)
            }
        }
    }

    /// The unit of the escape that comes next, if it is the low half of a pair.
    fn low_surrogate_ahead(&self) -> Option<u16> {
        let escape = self.bytes.get(self.at..self.at + 6)?;
        let digits = escape.strip_prefix(b"\\u")?;
        let unit = digits
            .iter()
            .try_fold(0, |unit, &b| Some(unit << 4 | hex(b)?));
        unit.filter(|unit| (0xdc00..0xe000).contains(unit))
    }

    fn hex4(&mut self) -> Result<u16, Error> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.bytes.get(self.at).copied().and_then(hex) else {
                return Err(self.unexpected("a hexadecimal digit"));
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Why the byte here is refused, where JSON allows only what is `expected`.
    fn unexpected(&self, expected: &'static str) -> Error {
        let offset = self.at;
        match self.bytes.get(offset) {
            None => Error::Truncated { offset },
            Some(0) => Error::NulByte { offset },
            Some(b'/') => Error::Comment { offset },
            Some(_) => Error::Syntax { offset, expected },
        }
    }
}

fn hex(digit: u8) -> Option<u16> {
    char::from(digit)
        .to_digit(16)
        .and_then(|d| u16::try_from(d).ok())
}
