//! A JSON document as a flat list of nodes.
