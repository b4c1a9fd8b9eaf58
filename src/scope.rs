//! Whose conversations a request is among.
use crate::digest::Digester;

/// One tenant, or all who name none. Neither prefixes nor what was learned is shared by two.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Makes its digests.
    pub(crate) digester: Digester,
    /// What its entries are tallied under; few tenants share a number.
    pub(crate) tenant: u8,
    /// Behind the names of its models where something is learned; empty for those who name none.
    pub(crate) suffix: String,
}

impl Scope {
    /// The scope of `tenant`, whose digests are keyed by `digester` and it.
    pub fn new(digester: &Digester, tenant: Option<&[u8]>) -> Scope {
        let Some(tenant) = tenant else {
            return Scope {
                digester: digester.clone(),
                tenant: 0,
                suffix: String::new(),
            };
        };
        let digester = digester.of_tenant(tenant);
        let name = digester.bytes(b"name").0;
        let digits: String = name[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Scope {
            digester,
            tenant: name[8],
            suffix: format!("@{digits}"),
        }
    }
}
