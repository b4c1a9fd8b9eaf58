//! The tenants of a gateway: none finds what another has recorded.
use crate::known::digest::Digester;

/// One tenant, or all who name none. Neither prefixes nor what was learned is shared by two.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Makes its digests.
    pub(crate) digester: Digester,
    /// What its entries are tallied under; few tenants share a number.
    pub(crate) number: u8,
    /// Behind the names of its models where something is learned; empty for those who name none.
    pub(crate) suffix: String,
}

impl Tenant {
    /// The tenant of this name; the key of its digests is made of that of `digester` and the name.
    pub fn new(digester: &Digester, name: Option<&[u8]>) -> Tenant {
        let Some(name) = name else {
            return Tenant {
                digester: digester.clone(),
                number: 0,
                suffix: String::new(),
            };
        };
        let digester = digester.of_tenant(name);
        let public = digester.bytes(b"name").0;
        let digits: String = public[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Tenant {
            digester,
            number: public[8],
            suffix: format!("@{digits}"),
        }
    }
}
