//! Sizes of images and what they cost.
use super::errors::guard;
use crate::media::{Detail, HEAD_BYTES, ImageRule, PixelSize, image_rule};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

fn rule(name: &str) -> PyResult<&'static ImageRule> {
    image_rule(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "no image rule is called {name:?}; the names stand in image_rules.json"
        ))
    })
}

fn detail(name: &str) -> PyResult<Detail> {
    Detail::from_name(name).ok_or_else(|| {
        let known: Vec<_> = Detail::ALL.iter().map(|detail| detail.name()).collect();
        let known = known.join(", ");
        PyValueError::new_err(format!("detail is {name:?}; it must be one of {known}"))
    })
}

/// A side in px; `None` if none can be that long.
fn side(px: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    match px.extract() {
        Ok(px) => Ok(Some(px)),
        Err(error) if error.is_instance_of::<PyOverflowError>(px.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Input tokens of an image of `width_px` by `height_px` under the rule of this name.
///
/// The rules and their sources are in `image_rules.json`. Raises ValueError for an unknown rule or
/// detail and for a side outside of 1 to 4,294,967,295 px.
#[pyfunction]
#[pyo3(signature = (rule, width_px, height_px, detail = "auto"))]
pub(super) fn image_tokens(
    rule: &str,
    width_px: &Bound<'_, PyAny>,
    height_px: &Bound<'_, PyAny>,
    detail: &str,
) -> PyResult<u64> {
    let size = match (side(width_px)?, side(height_px)?) {
        (Some(width_px), Some(height_px)) => PixelSize::new(width_px, height_px),
        _ => None,
    };
    let size = size.ok_or_else(|| {
        let limit = u32::MAX;
        PyValueError::new_err(format!(
            "image is {width_px} x {height_px} px; both sides must be 1 to {limit}"
        ))
    })?;
    Ok(self::rule(rule)?.tokens(size, self::detail(detail)?))
}

/// Width and height in px and the format that the header states; None if it is no image.
///
/// `head` is the beginning of the file; at most 64 KiB are looked at, no pixel is decoded.
#[pyfunction]
pub(super) fn image_size(head: &[u8]) -> PyResult<Option<(u32, u32, &'static str)>> {
    guard(|| {
        let head = &head[..head.len().min(HEAD_BYTES)];
        let found = crate::media::image_size(head);
        Ok(found.map(|(size, format)| (size.width_px(), size.height_px(), format.name())))
    })
}
