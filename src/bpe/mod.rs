//! Byte pair encodings: vocabulary tables, splitter, merge, count.
