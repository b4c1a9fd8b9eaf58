//! The reader of JSON: what it takes it can write again, and what finds members without reading them agrees.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenctx::json::{Document, Limits, Value, array_items, decode_body, object_members};

fn compact(value: Value<'_>) -> String {
    let mut text = String::new();
    value.write_compact(&mut text);
    text
}

fuzz_target!(|input: &[u8]| {
    let limits = Limits::default();
    let _ = decode_body(input);
    let members = object_members(input);
    let items = array_items(input);
    let Ok(document) = Document::from_bytes(input, &limits) else {
        return;
    };
    let root = document.root();
    let text = compact(root);
    let again = Document::parse(&text, &limits).expect("what was written is JSON");
    assert_eq!(compact(again.root()), text);
    let mut canonical = String::new();
    root.write_canonical(&mut canonical);
    let canonical = Document::parse(&canonical, &limits).expect("what was written is JSON");
    assert_eq!(canonical.root().len(), root.len());
    if let (true, Some(members)) = (root.is_object(), members) {
        assert!(members.len() >= root.members().count());
    }
    if let (Some(items), false) = (items, root.is_object()) {
        assert_eq!(items.len(), root.items().count());
    }
});
