//! Lines of vendors' batch files, which wrap a request.
use crate::engine::Body;
use crate::json::object_members;

/// The members that have the request: of OpenAI, Anthropic, Google and Bedrock. Python has them as `_core._WRAPPERS`.
pub(crate) const WRAPPERS: [&str; 4] = ["body", "params", "request", "modelInput"];

/// The request in `body`, which is none itself; `None` if there is none in it either. `body` must be valid JSON.
pub(super) fn inside<'b>(body: &'b Body<'_>) -> Option<Body<'b>> {
    let text = match body {
        Body::Bytes(bytes) => bytes,
        Body::Text(text, _) => text.as_bytes(),
        Body::Document(_) => return None,
    };
    let members = object_members(text)?.into_iter();
    let mut inner = members.filter(|(key, _)| WRAPPERS.iter().any(|it| it.as_bytes() == *key));
    let inner = inner.find_map(|(_, range)| text.get(range).filter(|it| it.starts_with(b"{")));
    inner.map(Body::Bytes)
}
