//! The Python binding: the only place that knows pyo3.
mod arrow;
mod batch;
mod call;
mod capacity;
mod column;
mod convert;
mod document;
mod encoding;
mod engine;
mod errors;
mod events;
mod lines;
mod media;
mod models;
mod object;
mod profile;
mod request;
mod results;
mod scale;
mod text;
mod tokens;
mod tracker;
mod vocabulary;

use pyo3::prelude::*;

/// How Python aligns objects: 16 where pointers have 8 bytes. pyo3 does not check it.
const OBJECT_ALIGNMENT: usize = 2 * align_of::<*const ()>();
const _: () = {
    assert!(align_of::<column::Column>() <= OBJECT_ALIGNMENT);
    assert!(align_of::<encoding::PyEncoding>() <= OBJECT_ALIGNMENT);
    assert!(align_of::<engine::PyEngine>() <= OBJECT_ALIGNMENT);
    assert!(align_of::<events::PyDocuments>() <= OBJECT_ALIGNMENT);
    assert!(align_of::<scale::PyRewriter>() <= OBJECT_ALIGNMENT);
    assert!(align_of::<scale::PyScale>() <= OBJECT_ALIGNMENT);
    assert!(align_of::<tracker::PyTracker>() <= OBJECT_ALIGNMENT);
};

/// The extension module `tokenctx._core`.
#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use batch::{arrow_rows, count_batch, estimate_batch, unique_batch};
    #[pymodule_export]
    use call::CallContext;
    #[pymodule_export]
    use column::{Column, table_capsules};
    #[pymodule_export]
    use convert::{convert_plain, is_json};
    #[pymodule_export]
    use document::{json_anomalies, json_canonical, json_compact, json_members};
    #[pymodule_export]
    use encoding::{
        PyEncoding, choose_simd_level, count_tokens, count_tokens_batch, encode,
        encoding_for_model, encoding_name_for_model, get_encoding, list_encodings,
        preload_encodings, rank_file, read_files_by, simd_level, simd_levels, split_pattern,
    };
    #[pymodule_export]
    use engine::{PyEngine, apportioned};
    #[pymodule_export]
    use errors::panic;
    #[pymodule_export]
    use events::{PyAlike, PyDocuments};
    #[pymodule_export]
    use lines::{CountedLines, count_lines};
    #[pymodule_export]
    use media::{image_size, image_tokens};
    #[pymodule_export]
    use object::set_framework_reader;
    #[pymodule_export]
    use profile::{limits_of_model, model_name, profile_of_model, profiles, replace_tables};
    #[pymodule_export]
    use request::{dialect_of_body, outline_of_body, text_lengths, view_reply, view_request};
    #[pymodule_export]
    use results::{
        CacheMark, CachePoints, CachedPrefix, DriftRow, HeadCount, PartCounts, Recorded,
        ResultCount, ToolCount, Wanted,
    };
    #[pymodule_export]
    use scale::{PyRewriter, PyScale};
    #[pymodule_export]
    use tracker::PyTracker;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::bpe::table::compact::build_aside(encoding::aside);
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("_WRAPPERS", crate::batch::WRAPPERS.to_vec())?;
        module.add("_debug_build", env!("TOKENCTX_OPT_LEVEL") == "0")
    }
}
