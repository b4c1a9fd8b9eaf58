//! Tables of facts: those of the release, or newer ones of profiles, limits and bounds.
use super::bounds;
use crate::bpe;
use crate::profile::{limits, table};
use crate::{media, request};

/// Reads what an estimate looks into, once in a process, and has the memory made of what it remembers: 2 ms that the first
/// request need not wait for.
pub(super) fn read_tables() {
    limits::table();
    bounds::read_table();
    request::read_tables();
    media::read_table();
    bpe::table::make_ready();
}

/// Takes over newer tables, by name: `profiles`, `limits`, `bounds`; each as JSON. All of them or none.
///
/// Fails for what is no such table, and after the first engine, which has read those of the release. The
/// message says what is wrong.
///
/// ```
/// let error = tokenctx::replace_tables(&[("limits", "{}")]).unwrap_err();
/// assert_eq!(error, "limits: it has no rows");
/// ```
pub fn replace_tables(newer: &[(&str, &str)]) -> Result<(), String> {
    let mut checked = Vec::new();
    for &(name, text) in newer {
        let (table, fault) = match name {
            "profiles" => (&table::DATA, table::fault(text)),
            "limits" => (&limits::DATA, limits::fault(text)),
            "bounds" => (&bounds::DATA, bounds::fault(text)),
            _ => {
                return Err(format!(
                    "{name}: it must be one of profiles, limits, bounds"
                ));
            }
        };
        if let Some(fault) = fault {
            return Err(format!("{name}: {fault}"));
        }
        if !table.is_open() {
            return Err(format!(
                "{name}: it is in use already; load newer tables before the first estimator is made"
            ));
        }
        checked.push((table, text));
    }
    for (table, text) in checked {
        table.replace(text.to_owned());
    }
    Ok(())
}
