//! The numbers of usage in a response, and what they become in the measure of another window.
//!
//! A whole is scaled as what fills the window, its parts as differences of scaled sums. So the parts
//! of the scaled input add up to the scaled input, none is negative, and zero stays zero.
pub mod events;
mod frames;
pub mod runs;
pub mod scale;
pub mod sse;
mod table;

use crate::json::{Kind, Value};
use crate::usage::scale::Scale;
use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use table::{FIELD_COUNT, Field, List, Name, table};

/// Where an element of a list has its number.
const ELEMENT_NUMBERS: [&str; 4] = ["tokenCount", "token_count", "inputTokens", "tokens"];

/// Reasoning that is above the output by no more is in it: a host of Kimi counts it one higher.
const SLIP_PERCENT: u64 = 1;

/// Most usage objects have no more.
const USUAL_NUMBERS: usize = 12;

/// One number of usage and what it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where its digits are in the text.
    pub range: Range<usize>,
    /// Its names in the usage object, joined by dots; empty for an element of a list.
    pub path: &'static str,
    /// As it was.
    pub real: u64,
    /// As it will be.
    pub scaled: u64,
}

/// The state of a response before its next number is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSoFar {
    /// All input, real: where the output begins if one factor does not hold for all numbers.
    pub input_tokens: u64,
    /// Real input for `message_start`, if the provider says 0 there.
    pub first_input_tokens: Option<u64>,
}

/// The changes to the usage in the response or event `root`, in the order of the text.
///
/// Linear in the document. What is not written as an integer of 64 bits stays.
pub fn response_changes(root: Value<'_>, scale: &Scale, input: &mut InputSoFar) -> Vec<Change> {
    let is_start = |first: &u64| *first > 0 && has_type(root, "message_start");
    let first_input_tokens = input.first_input_tokens.filter(is_start);
    let mut changes = Vec::new();
    in_places(root, &table().places, &mut |usage| {
        let reading = Reading::new(usage, input, first_input_tokens);
        reading.append_changes(scale, &mut changes);
    });
    changes.sort_unstable_by_key(|change| change.range.start);
    changes
}

fn has_type(root: Value<'_>, kind: &str) -> bool {
    root.get("type").and_then(Value::as_str) == Some(kind)
}

/// Calls `work` with each object that stands where usage may be.
fn in_places<'d>(value: Value<'d>, places: &Name, work: &mut impl FnMut(Value<'d>)) {
    for (key, member) in value.members() {
        if let Some(place) = places.members.get(key) {
            if place.is_place && member.kind() == Kind::Object {
                work(member);
            }
            in_places(member, place, work);
        }
    }
}

/// The changes to `root`, the answer of an endpoint that counts tokens.
pub fn count_changes(root: Value<'_>, scale: &Scale) -> Vec<Change> {
    let mut changes = Vec::new();
    Reading::new(root, &mut InputSoFar::default(), None).append_changes(scale, &mut changes);
    let context = root.get("context_management");
    let original = context.and_then(|context| context.get("original_input_tokens"));
    if let Some((range, real)) = original.and_then(digits) {
        let (path, scaled) = (
            "context_management.original_input_tokens",
            scale.tokens(real),
        );
        changes.push(Change {
            range,
            path,
            real,
            scaled,
        });
    }
    changes.sort_by_key(|change| change.range.start);
    changes
}

/// `bytes` as text in which every ASCII character is where it was.
pub fn readable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let ascii = |&byte: &u8| if byte.is_ascii() { byte.into() } else { '?' };
    Cow::Owned(bytes.iter().map(ascii).collect())
}

/// `text` with the digits of each change replaced; `changes` are in the order of the text.
pub fn spliced(text: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 4 * changes.len());
    let mut copied = 0;
    for change in changes {
        out.extend_from_slice(&text[copied..change.range.start]);
        let _ = write!(out, "{}", change.scaled); // to memory: never fails
        copied = change.range.end;
    }
    out.extend_from_slice(&text[copied..]);
    out
}

/// A number as it stands in a usage object.
struct Found {
    field: Field,
    rank: usize,
    path: &'static str,
    range: Range<usize>,
    number: u64,
}

/// A usage object for which it is known which number is part of which.
struct Reading<'d> {
    found: Vec<Found>,
    /// The number of the first path of each field that has one.
    numbers: [Option<u64>; FIELD_COUNT],
    lists: Vec<(List, Value<'d>)>,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
    audio_beside: u64,
    is_cache_beside: bool,
    is_reasoning_beside: bool,
    /// All input of the window; of an event before, if this one has none.
    window_tokens: u64,
    first_input_tokens: Option<u64>,
}

impl<'d> Reading<'d> {
    fn new(
        usage: Value<'d>,
        so_far: &mut InputSoFar,
        first_input_tokens: Option<u64>,
    ) -> Reading<'d> {
        let (mut found, mut lists) = (Vec::with_capacity(USUAL_NUMBERS), Vec::new());
        collect(usage, &table().names, &mut found, &mut lists);
        let mut ranks = [usize::MAX; FIELD_COUNT];
        let mut numbers = [None; FIELD_COUNT];
        for found in &found {
            let field = found.field as usize;
            if found.rank < ranks[field] {
                (ranks[field], numbers[field]) = (found.rank, Some(found.number));
            }
        }
        let mut reading = Reading {
            found,
            numbers,
            lists,
            cache_read: 0,
            cache_write: 0,
            reasoning: 0,
            audio_beside: 0,
            is_cache_beside: false,
            is_reasoning_beside: false,
            window_tokens: 0,
            first_input_tokens: None,
        };
        reading.ask_names();
        reading.ask_total();
        if reading.all_input() == 0 {
            reading.first_input_tokens = first_input_tokens;
        }
        let input = reading.first_input_tokens.unwrap_or(reading.all_input());
        if input > 0 {
            so_far.input_tokens = input;
        }
        reading.window_tokens = so_far.input_tokens;
        reading
    }

    fn get(&self, field: Field) -> Option<u64> {
        self.numbers[field as usize]
    }

    fn of(&self, field: Field) -> u64 {
        self.get(field).unwrap_or(0)
    }

    /// The number of `beside`, of `inside` if that is 0.
    fn either(&self, beside: Field, inside: Field) -> u64 {
        Some(self.of(beside))
            .filter(|&number| number > 0)
            .unwrap_or(self.of(inside))
    }

    fn ask_names(&mut self) {
        self.cache_read = self.either(Field::CacheReadBeside, Field::CacheRead);
        self.cache_write = self.either(Field::CacheWriteBeside, Field::CacheWrite);
        self.reasoning = self.either(Field::ReasoningBeside, Field::Reasoning);
        let has = |path| self.found.iter().any(|found| found.path == path);
        let (is_openai, is_cohere) = (has("prompt_tokens"), has("billed_units.input_tokens"));
        let beside = self.of(Field::CacheReadBeside) > 0 || self.of(Field::CacheWriteBeside) > 0;
        self.is_cache_beside = beside && !is_openai;
        if !self.has_total() && self.cached() > self.of(Field::Input) {
            // It cannot be inside, but for Cohere, which counts it in another measure.
            self.is_cache_beside |= !is_cohere;
        }
        let has_more = self.reasoning > self.of(Field::Output);
        self.is_reasoning_beside =
            self.get(Field::ReasoningBeside).is_some() || has_more && !self.is_slip();
    }

    fn has_total(&self) -> bool {
        let has = |field| self.get(field).is_some();
        has(Field::Input) && has(Field::Output) && has(Field::Total)
    }

    /// True if reasoning that is more than the output is all of it, counted otherwise.
    fn is_slip(&self) -> bool {
        let output = self.of(Field::Output);
        let input = self
            .all_input()
            .saturating_add(self.of(Field::ToolUsePrompt));
        let rest = self.of(Field::Total).checked_sub(input);
        self.reasoning.saturating_sub(output) <= output / 100 * SLIP_PERCENT
            || self.has_total() && rest == Some(self.reasoning)
    }

    /// The tokens of the total beyond input and output are those of the numbers beside them.
    fn ask_total(&mut self) {
        if !self.has_total() {
            return;
        }
        let beside = if self.is_reasoning_beside {
            self.reasoning
        } else {
            0
        };
        let output = self.of(Field::Output).saturating_add(beside);
        let more = self.of(Field::Total).checked_sub(self.parts(output));
        let more = more.filter(|&more| more > 0);
        let Some(more) = more else {
            return;
        };
        let unless = |is_beside, number| if is_beside { 0 } else { number };
        let cached = unless(self.is_cache_beside, self.cached());
        let reasoning = unless(self.is_reasoning_beside, self.reasoning);
        let both = cached.saturating_add(reasoning);
        if more == reasoning || more == both {
            self.is_reasoning_beside = reasoning > 0;
        }
        if more != reasoning && (more == cached || more == both) {
            self.is_cache_beside |= cached > 0;
        } else if more == self.of(Field::InputAudio) {
            self.audio_beside = more;
        }
    }

    fn cached(&self) -> u64 {
        self.cache_read.saturating_add(self.cache_write)
    }

    fn all_input(&self) -> u64 {
        let cached = if self.is_cache_beside {
            self.cached()
        } else {
            0
        };
        let input = self.of(Field::Input).saturating_add(cached);
        input.saturating_add(self.audio_beside)
    }

    fn all_output(&self) -> u64 {
        let output = self.of(Field::Output);
        match self.is_reasoning_beside {
            true => output.saturating_add(self.reasoning),
            false => output.max(self.reasoning),
        }
    }

    /// The numbers that a total with this output is made of.
    fn parts(&self, output: u64) -> u64 {
        let tool_use = self.of(Field::ToolUsePrompt);
        self.all_input()
            .saturating_add(tool_use)
            .saturating_add(output)
    }

    fn append_changes(&self, scale: &Scale, changes: &mut Vec<Change>) {
        changes.extend(self.found.iter().map(|found| Change {
            range: found.range.clone(),
            path: found.path,
            real: found.number,
            scaled: self.scaled(found, scale),
        }));
        for &(list, value) in &self.lists {
            self.append_list(list, value, scale, changes);
        }
    }

    fn scaled(&self, found: &Found, scale: &Scale) -> u64 {
        let start = self.start(found);
        match (found.field, self.first_input_tokens) {
            (Field::Input, Some(tokens)) => scale.tokens(tokens),
            (Field::Total, _) => self.scaled_total(found.number, scale),
            (Field::ToolUsePrompt, _) => scale.after(self.tool_use_start(scale), found.number),
            (field, _) if field >= Field::Output => {
                scale.after(self.output_start(scale).saturating_add(start), found.number)
            }
            _ => scale.after(start, found.number),
        }
    }

    /// The numbers before a number in the sum that it is part of.
    fn start(&self, found: &Found) -> u64 {
        let sum = |fields: &[Field]| {
            let numbers = fields.iter().map(|&field| self.of(field));
            numbers.fold(0, u64::saturating_add)
        };
        match found.field {
            Field::Input if self.is_cache_beside => self.cached(),
            Field::CacheWrite | Field::CacheWriteBeside => self.cache_read,
            Field::CacheWrite5m | Field::CacheWrite30m => self.cache_read,
            Field::CacheWrite1h => self.cache_read.saturating_add(self.of(Field::CacheWrite5m)),
            Field::CacheWrite12h => self
                .cache_read
                .saturating_add(self.of(Field::CacheWrite30m)),
            Field::Uncached => self.cached(),
            Field::InputAudio if self.audio_beside > 0 => self.all_input() - self.audio_beside,
            Field::InputAudio => sum(&[Field::InputText]),
            Field::InputImage => sum(&[Field::InputText, Field::InputAudio]),
            Field::InputVideo => sum(&[Field::InputText, Field::InputAudio, Field::InputImage]),
            Field::Reasoning | Field::ReasoningBeside if self.is_reasoning_beside => {
                self.of(Field::Output)
            }
            Field::OutputWithoutReasoning => self.reasoning,
            Field::OutputAudio => sum(&[Field::OutputText]),
            Field::OutputImage => sum(&[Field::OutputText, Field::OutputAudio]),
            _ => 0,
        }
    }

    /// Where tokens beside the input begin: at 0 if one factor holds for all, so that each whole is
    /// scaled by itself, else behind the input.
    fn tool_use_start(&self, scale: &Scale) -> u64 {
        if scale.is_linear() {
            0
        } else {
            self.window_tokens
        }
    }

    fn output_start(&self, scale: &Scale) -> u64 {
        let tool_use = self.of(Field::ToolUsePrompt);
        if scale.is_linear() {
            0
        } else {
            self.window_tokens.saturating_add(tool_use)
        }
    }

    /// The sum of the scaled parts, and what a total has beside them scaled by itself.
    fn scaled_total(&self, total: u64, scale: &Scale) -> u64 {
        let Some(rest) = total.checked_sub(self.parts(self.all_output())) else {
            return scale.tokens(total);
        };
        let tool_use = scale.after(self.tool_use_start(scale), self.of(Field::ToolUsePrompt));
        let output = scale.after(self.output_start(scale), self.all_output());
        let parts = [
            scale.tokens(self.all_input()),
            tool_use,
            output,
            scale.tokens(rest),
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    fn append_list(&self, list: List, value: Value<'d>, scale: &Scale, changes: &mut Vec<Change>) {
        let mut before = match list {
            List::Usages => return append_usages(value, scale, changes),
            List::InputByModality | List::CacheByModality => 0,
            List::CacheWriteByTtl => self.cache_read,
            List::ToolUseByModality => self.tool_use_start(scale),
            List::OutputByModality => self.output_start(scale),
        };
        for element in value.items() {
            let mut numbers = ELEMENT_NUMBERS.iter().filter_map(|name| element.get(name));
            if let Some((range, real)) = numbers.find_map(digits) {
                let scaled = scale.after(before, real);
                changes.push(Change {
                    range,
                    path: "",
                    real,
                    scaled,
                });
                before = before.saturating_add(real);
            }
        }
    }
}

/// Usage inside of usage: what single calls to a model took.
fn append_usages(value: Value<'_>, scale: &Scale, changes: &mut Vec<Change>) {
    let alone = Some(value).filter(|value| value.kind() == Kind::Object);
    for usage in alone.into_iter().chain(value.items()) {
        let mut reading = Reading::new(usage, &mut InputSoFar::default(), None);
        reading.lists.retain(|(list, _)| *list != List::Usages);
        let from = changes.len();
        reading.append_changes(scale, changes);
        changes[from..]
            .iter_mut()
            .for_each(|change| change.path = "");
    }
}

fn collect<'d>(
    value: Value<'d>,
    names: &Name,
    found: &mut Vec<Found>,
    lists: &mut Vec<(List, Value<'d>)>,
) {
    for (key, member) in value.members() {
        let Some(name) = names.members.get(key) else {
            continue;
        };
        if let (Some((field, rank, path)), Some((range, number))) = (name.field, digits(member)) {
            found.push(Found {
                field,
                rank,
                path,
                range,
                number,
            });
        }
        if let Some(list) = name.list {
            lists.push((list, member));
        }
        collect(member, name, found, lists);
    }
}

/// A number of plain digits and where they are.
fn digits(value: Value<'_>) -> Option<(Range<usize>, u64)> {
    value.number_range().zip(value.as_u64())
}
