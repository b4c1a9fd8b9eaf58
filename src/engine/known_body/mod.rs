//! What was read of a body before.
pub(super) mod beginning;
pub(super) mod note;
pub(super) mod omitted;
pub(super) mod tools;
