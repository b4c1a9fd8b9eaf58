//! Where the elements of one array in a JSON text stand, and the members of an object.
use memchr::{memchr, memchr2};
use std::ops::Range;

/// Byte ranges of the elements of the only array among the members `names` of the object `text`;
/// `None` if there is not exactly one such member, if it is no array or has more than `most`, or if a key
/// is escaped.
///
/// `text` must be valid JSON, else the ranges mean nothing; but if each element of the array is, so is the
/// array. Linear, nothing is built.
pub fn array_elements(text: &[u8], names: &[&[u8]], most: usize) -> Option<Vec<Range<usize>>> {
    let mut scanner = Scanner {
        most,
        ..Scanner::new(text)
    };
    scanner.expect(b'{')?;
    scanner.only_array(names, None)
}

/// The first of these elements, at most so many: what stands behind them is not read, nor is it clear whether there
/// is another such array.
pub(crate) fn first_elements(
    text: &[u8],
    names: &[&[u8]],
    most: usize,
) -> Option<Vec<Range<usize>>> {
    let mut scanner = Scanner::new(text);
    scanner.expect(b'{')?;
    while !names.contains(&scanner.key()?) {
        scanner.expect(b':')?;
        scanner.skip()?;
        scanner.comma()?;
    }
    scanner.expect(b':')?;
    scanner.expect(b'[')?;
    let mut found = Vec::new();
    while found.len() < most && scanner.peek()? != b']' {
        found.push(scanner.element()?);
        scanner.comma()?;
    }
    Some(found)
}

/// As [`array_elements`], if the first elements are `known`, and the array is the first such member.
///
/// `is_known_end` tells of a place behind the last element whether from there on there is only what is known to
/// be the rest of such an object.
pub(crate) fn more_elements(
    text: &[u8],
    names: &[&[u8]],
    known: Vec<Range<usize>>,
    most: usize,
    is_known_end: impl FnOnce(usize) -> bool,
) -> Option<Vec<Range<usize>>> {
    let at = known.last()?.end;
    let (mut scanner, mut elements) = (Scanner { text, at, most }, known);
    scanner.more_elements(&mut elements)?;
    if is_known_end(elements.last()?.end) {
        return Some(elements);
    }
    scanner.comma()?;
    scanner.only_array(names, Some(elements))
}

/// Keys of the object `text` and byte ranges of their values, in order; `None` if it is no object or
/// a key is escaped.
///
/// `text` must be valid JSON, else the ranges mean nothing. Linear, nothing is built.
pub fn object_members(text: &[u8]) -> Option<Vec<(&[u8], Range<usize>)>> {
    let mut scanner = Scanner::new(text);
    let mut found = Vec::new();
    scanner.expect(b'{')?;
    while scanner.peek()? != b'}' {
        let key = scanner.key()?;
        scanner.expect(b':')?;
        scanner.peek()?;
        let start = scanner.at;
        scanner.skip()?;
        found.push((key, start..scanner.at));
        scanner.comma()?;
    }
    Some(found)
}

/// Byte ranges of the elements of the array `text`; `None` if it is none.
///
/// `text` must be valid JSON, else the ranges mean nothing. Linear, nothing is built.
pub fn array_items(text: &[u8]) -> Option<Vec<Range<usize>>> {
    Scanner::new(text).elements()
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    /// Elements that an array may have.
    most: usize,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t [u8]) -> Scanner<'t> {
        Scanner {
            text,
            at: 0,
            most: usize::MAX,
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        Some(self.text[self.at])
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// A key without escapes.
    fn key(&mut self) -> Option<&'t [u8]> {
        self.expect(b'"')?;
        let rest = &self.text[self.at..];
        let end = memchr2(b'"', b'\\', rest)?;
        self.at += end + 1;
        (rest[end] == b'"').then(|| &rest[..end])
    }

    fn elements(&mut self) -> Option<Vec<Range<usize>>> {
        let mut elements = Vec::new();
        self.expect(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(elements);
        }
        elements.push(self.element()?);
        self.more_elements(&mut elements)?;
        Some(elements)
    }

    /// The elements behind others, up to the end of the array.
    fn more_elements(&mut self, elements: &mut Vec<Range<usize>>) -> Option<()> {
        loop {
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
            if self.peek()? == b']' || elements.len() >= self.most {
                return None;
            }
            elements.push(self.element()?);
        }
        self.at += 1;
        Some(())
    }

    /// The value that begins here.
    fn element(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        self.skip()?;
        Some(start..self.at)
    }

    /// The elements of the only array among the members `names` from here on; `found` are those of one before.
    fn only_array(
        &mut self,
        names: &[&[u8]],
        mut found: Option<Vec<Range<usize>>>,
    ) -> Option<Vec<Range<usize>>> {
        while self.peek()? != b'}' {
            let key = self.key()?;
            self.expect(b':')?;
            if !names.contains(&key) {
                self.skip()?;
            } else if found.replace(self.elements()?).is_some() {
                return None;
            }
            self.comma()?;
        }
        found
    }

    /// Goes behind a comma, if there is one.
    fn comma(&mut self) -> Option<()> {
        self.at += usize::from(self.peek()? == b',');
        Some(())
    }

    /// Goes behind the next value.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        self.peek()?;
        loop {
            match *self.text.get(self.at)? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
            if depth == 0 && self.text.get(self.at).is_none_or(ends) {
                return Some(());
            }
        }
    }

    /// From the opening quote to the closing one.
    fn skip_string(&mut self) -> Option<()> {
        loop {
            let start = self.at + 1;
            self.at = start + memchr(b'"', self.text.get(start..)?)?;
            let backslashes = self.text[start..self.at].iter().rev();
            if backslashes.take_while(|byte| **byte == b'\\').count() % 2 == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{array_elements, first_elements, more_elements, object_members};

    fn elements(text: &str) -> Option<Vec<&str>> {
        let names: [&[u8]; 2] = [b"messages", b"input"];
        let ranges = array_elements(text.as_bytes(), &names, 5)?;
        Some(ranges.into_iter().map(|range| &text[range]).collect())
    }

    #[test]
    fn finds_the_elements() {
        let text = r#" {"a":[1,{"messages":[7]}] , "messages" : [ {"x":"]\\"} ,2, "b\"", [ ] ,null],"z":1}"#;
        let found = elements(text);
        let expected = vec![r#"{"x":"]\\"}"#, "2", r#""b\"""#, "[ ]", "null"];
        assert_eq!(found, Some(expected));
        assert_eq!(elements(r#"{"input":[]}"#), Some(Vec::new()));
        assert_eq!(elements(r#"{"input":[1,2,3,4,5,6]}"#), None);
    }

    #[test]
    fn finds_the_first_elements_and_reads_no_further() {
        let text = r#"{"a":{"input":[7]}, "input" :[1, "]", {"x":[2]} ,"#;
        let first = |most| {
            let ranges = first_elements(text.as_bytes(), &[b"messages", b"input"], most)?;
            Some(Vec::from_iter(ranges.into_iter().map(|it| &text[it])))
        };
        let all = ["1", r#""]""#, r#"{"x":[2]}"#];
        for most in 0..=3 {
            assert_eq!(first(most).as_deref(), Some(&all[..most]));
        }
        assert_eq!(first(4), None);
        assert_eq!(first_elements(b"{\"a\":[]}", &[b"input"], 1), None);
        assert_eq!(
            first_elements(b"{\"input\":[]", &[b"input"], 1),
            Some(Vec::new())
        );
    }

    #[test]
    fn finds_more_elements_as_it_finds_all() {
        let names: [&[u8]; 2] = [b"messages", b"input"];
        for text in [
            r#"{"a":1,"messages":[{"x":"]"} , 2,"b"],"z":[1]}"#,
            r#"{"messages":[1,2,3]}"#,
            r#"{"messages":[1,2,3],"input":[2]}"#,
            r#"{"messages":[1,2,3],"inp\u0075t":[2]}"#,
            r#"{"messages":[1,2,3,]}"#,
            r#"{"messages":[1,2 3]}"#,
            r#"{"messages":[1,2,3"#,
        ] {
            let all = array_elements(text.as_bytes(), &names, 9);
            let start = text.find('[').map_or(0, |at| at + 1);
            let first = text[start..].find(',').map_or(0, |at| start + at);
            let first = text[..first].trim_end().len();
            let known = std::iter::once(start..first).collect();
            let more = more_elements(text.as_bytes(), &names, known, 9, |_| false);
            assert_eq!(more, all, "{text}");
        }
        let ended = |at: usize| at == r#"{"messages":[1,2"#.len();
        let known = std::iter::once(13..14).collect();
        let more = more_elements(br#"{"messages":[1,2],"#, &names, known, 9, ended);
        assert_eq!(more, Some(vec![13..14, 15..16]));
    }

    #[test]
    fn finds_the_members() {
        let text = r#" { "a" : [1,{"b":2}] ,"c":"}\"" , "d":null,"d": -1.5e3 } "#;
        let members = object_members(text.as_bytes()).expect("an object");
        let found: Vec<_> = members
            .into_iter()
            .map(|(key, range)| (key, &text[range]))
            .collect();
        let expected: [(&[u8], &str); 4] = [
            (b"a", r#"[1,{"b":2}]"#),
            (b"c", r#""}\"""#),
            (b"d", "null"),
            (b"d", "-1.5e3"),
        ];
        assert_eq!(found, expected);
        assert_eq!(object_members(b"{}"), Some(Vec::new()));
    }

    #[test]
    fn says_nothing_of_what_is_no_object_or_ends_early() {
        for text in [
            "",
            "[1]",
            "3",
            "{",
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":"b"#,
            r#"{"\u0061":1}"#,
        ] {
            assert_eq!(object_members(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn says_nothing_when_the_array_is_not_clear() {
        for text in [
            r#"{}"#,
            r#"[1]"#,
            r#"{"input":"a"}"#,
            r#"{"input":[1],"messages":[2]}"#,
            r#"{"me\u0073sages":[2]}"#,
            r#"{"messages":[1"#,
            r#"{"messages":[1,]}"#,
            r#"{"messages":[1 2]}"#,
            "",
        ] {
            assert_eq!(elements(text), None, "{text}");
        }
    }
}
