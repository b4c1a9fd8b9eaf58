//! Which dialect a body is written in: evidence is weighed, in one table for counter and converter.
//!
//! The rows are in `dialects.json` and in the column `marks` of `parts.json`. Rows of a place that say the
//! same count once, however often they are met, so that a marker in each of a hundred messages does not
//! outweigh one message that no other dialect has. All messages are looked at: what tells a dialect is not at the end alone.
//!
//! A body that is read without what is known of it is told as the whole, if all that was left out speaks for its
//! dialect alone, or was met in the rest too ([`Clues`]).
use super::field::{array, first, is_truthy, object, present, string};
use super::kind::Dialect;
use super::part::{Fields, PartKind};
use crate::json::{Document, Kind, Limits, Value};
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../python/tokenctx/data/dialects.json");
const PARTS: &str = super::part::TABLE;

/// A dialect of the converter alone.
#[cfg(any(test, feature = "python"))]
const AI_SDK: &str = "ai-sdk";

/// Two dialects are not told apart by less, if the other has at least as much.
const LEAST_LEAD: i32 = 2;

/// One for each of [`Dialect::ALL`], and `ai-sdk`.
type Weights = [i32; Dialect::ALL.len() + 1];

/// Who asks: not all dialects are for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The counter, which takes the AI SDK's messages for those of the nearest other.
    Counter,
    /// The converter, which does not know Bedrock Converse.
    #[cfg(feature = "python")]
    Converter,
}

/// Kinds of evidence, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clues(u128);

impl Clues {
    /// These and `others`.
    pub(crate) fn with(self, others: Clues) -> Clues {
        Clues(self.0 | others.0)
    }

    /// Those that are not among `others`.
    pub(crate) fn without(self, others: Clues) -> Clues {
        Clues(self.0 & !others.0)
    }

    /// True if none speaks against `dialect` or for another one: then whoever was told that it is this one, and not
    /// just about, is told the same with them.
    pub(crate) fn speak_for(self, dialect: Dialect) -> bool {
        let is_for = |says: Weights| {
            let mut others = Dialect::ALL.into_iter().filter(|it| *it != dialect);
            says[dialect as usize] >= 0 && others.all(|it| says[it as usize] <= 0)
        };
        self.says().all(is_for)
    }

    fn says(self) -> impl Iterator<Item = Weights> {
        let kinds = table().kinds.iter().enumerate();
        kinds
            .filter(move |(index, _)| self.0 >> index & 1 == 1)
            .map(|(_, (_, says))| *says)
    }
}

/// Evidence in a request for its dialect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// All that was met.
    pub all: Clues,
    /// The evidence in each element of `messages`; none if there is no such list.
    pub messages: Vec<Clues>,
}

/// The dialect that the evidence speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Detected {
    /// Index among [`Dialect::ALL`]; one more is `ai-sdk`.
    index: usize,
    /// True if another dialect is as likely.
    pub(super) is_close: bool,
    pub(super) evidence: Evidence,
}

impl Detected {
    /// The dialect; the AI SDK's messages are read as those of OpenAI Chat.
    pub(super) fn dialect(&self) -> Dialect {
        let found = Dialect::ALL.get(self.index);
        found.copied().unwrap_or(Dialect::OpenAiChat)
    }

    /// Its name.
    #[cfg(feature = "python")]
    fn name(&self) -> &'static str {
        Dialect::ALL.get(self.index).map_or(AI_SDK, |it| it.name())
    }
}

/// The dialect that the evidence in `body` tells; OpenAI Chat when nothing speaks against it.
pub(super) fn detect_dialect(body: Value<'_>, asker: Asker) -> Detected {
    let mut evidence = Evidence::default();
    match body.kind() {
        Kind::Object => evidence.body(body),
        _ => evidence.messages(body),
    }
    let mut weights = table().base;
    for says in evidence.all.says() {
        let sums = weights.iter_mut().zip(says);
        sums.for_each(|(sum, weight)| *sum += weight);
    }
    let is_asked = |index: &usize| match asker {
        Asker::Counter => *index < Dialect::ALL.len(),
        #[cfg(feature = "python")]
        Asker::Converter => !matches!(Dialect::ALL.get(*index), Some(Dialect::BedrockConverse)),
    };
    let asked = || (0..weights.len()).filter(is_asked);
    let heavier = |best: usize, next: usize| match weights[next] > weights[best] {
        true => next,
        false => best,
    };
    let index = asked().fold(0, heavier);
    let is_rival = |other: &usize| *other != index && weights[*other] >= LEAST_LEAD;
    let is_close = asked()
        .filter(is_rival)
        .any(|other| weights[index] - weights[other] < LEAST_LEAD);
    Detected {
        index,
        is_close,
        evidence,
    }
}

/// The name of the dialect that `body` is converted from, and whether another is as likely.
#[cfg(feature = "python")]
pub(crate) fn converted_dialect(document: &Document<'_>) -> (&'static str, bool) {
    let found = detect_dialect(document.root(), Asker::Converter);
    (found.name(), found.is_close)
}

/// The Converse request in a body of Bedrock's endpoint that counts.
pub(super) fn counted_request(body: Value<'_>) -> Option<Value<'_>> {
    object(object(body.get("input"))?.get("converse"))
}

/// True if `value` is a number that is written without fraction and exponent.
pub(super) fn is_integer(value: Value<'_>) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'-';
    value
        .as_number_text()
        .is_some_and(|text| text.bytes().all(is_digit))
}

impl Clues {
    fn meet(&mut self, row: &Row) {
        self.0 |= row.bit;
    }

    /// Meets the rows of `place` for the members of `object`.
    fn members(&mut self, place: &Place, object: Value<'_>) {
        for (name, value) in object.members() {
            if let Some(row) = place.row(name).filter(|row| row.is.holds(value)) {
                self.meet(row);
            }
        }
    }

    fn message(&mut self, message: Value<'_>) {
        let table = table();
        self.members(&table.message, message);
        let role = present(message.get("role"));
        match role.and_then(Value::as_str) {
            Some(role) => {
                if let Some(row) = table.role.row(role) {
                    self.meet(row);
                }
            }
            None if role.is_none() => {
                self.members(&table.item, message);
                self.step(message);
            }
            None => {}
        }
        let parts = message.get("parts").into_iter().flat_map(Value::items);
        for part in parts {
            self.members(&table.part, part);
            self.members(&table.untyped, part);
        }
        let blocks = message.get("content").into_iter().flat_map(Value::items);
        for block in blocks {
            self.block(block);
        }
    }

    /// Meets an item of `input`.
    fn item(&mut self, item: Value<'_>) {
        self.members(&table().input, item);
        self.step(item);
    }

    /// Meets an item by its type.
    fn step(&mut self, item: Value<'_>) {
        let kind = item.get("type").and_then(Value::as_str);
        if let Some(row) = kind.and_then(|kind| table().step.row(kind)) {
            self.meet(row);
        }
    }

    fn block(&mut self, block: Value<'_>) {
        let table = table();
        self.members(&table.block, block);
        let Some(kind) = block.get("type").and_then(Value::as_str) else {
            self.members(&table.untyped, block);
            return self.members(&table.field, block);
        };
        // Mistral and Cohere have a list where Anthropic has the text of its reasoning.
        let Some(row) = table.kind.row(kind) else {
            return;
        };
        let text = row.text.and_then(|name| block.get(name));
        if text.is_none_or(|text| text.kind() == Kind::String) {
            self.meet(row);
        }
    }
}

impl Evidence {
    fn body(&mut self, body: Value<'_>) {
        let table = table();
        if counted_request(body).is_some() {
            self.all.meet(&table.counted);
        }
        let model = string(first(body, &["model", "modelId"]));
        let own = model.rsplit('/').next().unwrap_or_default();
        // Who puts a path before Claude's name is a gateway, which speaks as OpenAI does.
        let is_own = |row: &&Row| match row.says[Dialect::Anthropic as usize] {
            0 => own.starts_with(row.name),
            _ => model.starts_with(row.name),
        };
        let models = table.model.rows.iter();
        models.filter(is_own).for_each(|row| self.all.meet(row));
        self.all.members(&table.body, body);
        let tools = array(body.get("tools")).into_iter().flat_map(Value::items);
        tools.for_each(|tool| self.all.members(&table.tool, tool));
        if let Some(messages) = array(body.get("messages")) {
            self.messages(messages);
        } else if let Some(items) = array(body.get("input")) {
            self.each(items, Clues::item);
        }
    }

    fn messages(&mut self, messages: Value<'_>) {
        self.each(messages, Clues::message);
    }

    /// Meets the evidence that `meet` finds in each of `messages`.
    fn each(&mut self, messages: Value<'_>, meet: fn(&mut Clues, Value<'_>)) {
        self.messages = Vec::with_capacity(messages.len());
        for message in messages.items() {
            let mut met = Clues::default();
            meet(&mut met, message);
            self.all = self.all.with(met);
            self.messages.push(met);
        }
    }
}

/// A condition on a value.
#[derive(Clone, Copy, Debug, Default)]
enum Is {
    #[default]
    Any,
    Text,
    List,
    Object,
    Whole,
    Some,
}

impl Is {
    fn named(name: &str) -> Is {
        match name {
            "text" => Is::Text,
            "list" => Is::List,
            "object" => Is::Object,
            "whole" => Is::Whole,
            "some" => Is::Some,
            _ => Is::Any,
        }
    }

    fn holds(self, value: Value<'_>) -> bool {
        match self {
            Is::Any => !value.is_null(),
            Is::Text => value.kind() == Kind::String,
            Is::List => value.kind() == Kind::Array,
            Is::Object => value.kind() == Kind::Object,
            Is::Whole => is_integer(value),
            Is::Some => is_truthy(value),
        }
    }
}

/// A piece of evidence.
#[derive(Debug, Default)]
struct Row {
    name: &'static str,
    is: Is,
    says: Weights,
    bit: u128,
    /// The field that has to be text, if it is there.
    text: Option<&'static str>,
}

/// The evidence at one place.
#[derive(Debug, Default)]
struct Place {
    names: Fields,
    rows: Vec<Row>,
}

impl Place {
    fn row(&self, name: &str) -> Option<&Row> {
        let index = self.names.position(name, usize::MAX)?;
        self.rows.get(index)
    }

    fn add(&mut self, row: Row) {
        let is_new = self.row(row.name).is_none();
        debug_assert!(is_new, "{row:?} stands twice at its place");
        self.names.add(row.name);
        self.rows.push(row);
    }
}

#[derive(Debug, Default)]
struct Table {
    /// A request in a body of the endpoint that counts.
    counted: Row,
    model: Place,
    body: Place,
    tool: Place,
    role: Place,
    message: Place,
    item: Place,
    input: Place,
    block: Place,
    untyped: Place,
    part: Place,
    /// Parts by their type, and by the field that holds them; items by their type.
    kind: Place,
    field: Place,
    step: Place,
    base: Weights,
    /// The kinds of evidence: a place and what its rows say.
    kinds: Vec<(&'static str, Weights)>,
}

impl Table {
    fn place(&mut self, name: &str) -> Option<&mut Place> {
        Some(match name {
            "model" => &mut self.model,
            "body" => &mut self.body,
            "tool" => &mut self.tool,
            "role" => &mut self.role,
            "message" => &mut self.message,
            "item" => &mut self.item,
            "input" => &mut self.input,
            "block" => &mut self.block,
            "untyped" => &mut self.untyped,
            "part" => &mut self.part,
            _ => return None,
        })
    }

    /// The bit of what rows at `place` say.
    fn bit(&mut self, place: &'static str, says: Weights) -> u128 {
        let kind = (place, says);
        let known = self.kinds.iter().position(|it| *it == kind);
        let index = known.unwrap_or(self.kinds.len());
        if index == self.kinds.len() {
            self.kinds.push(kind);
        }
        1 << (index % u128::BITS as usize)
    }

    /// A row of `dialects.json`.
    fn add_evidence(&mut self, row: Value<'static>) {
        let text = |column| string(row.get(column));
        let says = weights(row.get("says"));
        let row = Row {
            name: text("name"),
            is: Is::named(text("is")),
            says,
            bit: self.bit(text("place"), says),
            text: None,
        };
        if let Some(place) = self.place(text("place")) {
            place.add(row);
        }
    }

    /// A row of `parts.json`, if it marks its dialect.
    fn add_part(&mut self, dialect: &str, row: Value<'static>) {
        let Some(weight) = row.get("marks").map(weight_of) else {
            return;
        };
        let text = |column| row.get(column).and_then(Value::as_str);
        let mut says = Weights::default();
        says[index_of(dialect)] = weight;
        let is_reasoning = PartKind::named(text("kind").unwrap_or_default()) == PartKind::Reasoning;
        for name in ["type", "also"].into_iter().filter_map(text) {
            let place_name = match text("place") {
                Some("field") => "field",
                Some("item") => "step",
                _ => "kind",
            };
            let bit = self.bit(place_name, says);
            let place = match place_name {
                "field" => &mut self.field,
                "step" => &mut self.step,
                _ => &mut self.kind,
            };
            place.add(Row {
                name,
                is: Is::Any,
                says,
                bit,
                text: text("content").filter(|_| is_reasoning),
            });
        }
    }
}

fn index_of(dialect: &str) -> usize {
    let mut all = Dialect::ALL.into_iter();
    all.position(|it| it.name() == dialect)
        .unwrap_or(Dialect::ALL.len())
}

fn weights(says: Option<Value<'_>>) -> Weights {
    let mut all = Weights::default();
    for (dialect, weight) in says.into_iter().flat_map(Value::members) {
        all[index_of(dialect)] = weight_of(weight);
    }
    all
}

fn weight_of(value: Value<'_>) -> i32 {
    let text = value.as_number_text().unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Reads the table, once in a process.
pub(super) fn read_table() {
    table();
}

/// The table, read on first use.
fn table() -> &'static Table {
    static CELL: OnceLock<Table> = OnceLock::new();
    CELL.get_or_init(|| {
        let mut table = Table {
            base: weights(parsed(TABLE).get("base")),
            ..Table::default()
        };
        table.counted.says[Dialect::BedrockConverse as usize] = 64;
        table.counted.bit = table.bit("counted", table.counted.says);
        let rows = parsed(TABLE).get("evidence").into_iter();
        rows.flat_map(Value::items)
            .for_each(|row| table.add_evidence(row));
        let dialects = parsed(PARTS).get("dialects").into_iter();
        for (dialect, about) in dialects.flat_map(Value::members) {
            let parts = about.get("parts").into_iter().flat_map(Value::items);
            parts.for_each(|row| table.add_part(dialect, row));
        }
        table
    })
}

fn parsed(table: &'static str) -> Value<'static> {
    let document = Document::parse(table, &Limits::default());
    let document: &'static _ = Box::leak(Box::new(document.expect("the table is JSON")));
    document.root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_place_and_a_dialect_and_every_kind_a_bit() {
        let mut table = Table::default();
        for row in parsed(TABLE).get("evidence").expect("it is there").items() {
            assert!(table.place(string(row.get("place"))).is_some(), "{row:?}");
            for (dialect, weight) in row.get("says").expect("it is there").members() {
                assert!(Dialect::named(dialect).is_some() || dialect == AI_SDK);
                assert_ne!(weight_of(weight), 0, "{row:?}");
            }
        }
        assert!(super::table().kinds.len() <= u128::BITS as usize);
    }
}
