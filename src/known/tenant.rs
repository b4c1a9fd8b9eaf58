//! The tenants of a gateway: none finds what another has recorded, nor what another has counted.
use crate::bpe::MemoKey;
use crate::known::digest::Digester;

/// One tenant, or all who name none. Neither prefixes nor what was learned is shared by two.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Makes its digests.
    pub(crate) digester: Digester,
    /// The number that its entries are tallied under; few tenants share a number.
    pub(crate) number: u8,
    /// Behind the names of its models where something is learned; empty for those who name none.
    pub(crate) suffix: String,
    /// The key under which the counts of its texts are remembered.
    pub(crate) memo_key: MemoKey,
}

impl Tenant {
    /// The tenant of this name; the key of its digests is made of that of `digester` and the name.
    pub fn new(digester: &Digester, name: Option<&[u8]>) -> Tenant {
        let Some(name) = name else {
            return Tenant {
                digester: digester.clone(),
                number: 0,
                suffix: String::new(),
                memo_key: memo_key(digester),
            };
        };
        let digester = digester.of_tenant(name);
        let public = digester.bytes(b"name").0;
        let digits: String = public[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Tenant {
            memo_key: memo_key(&digester),
            digester,
            number: public[8],
            suffix: format!("@{digits}"),
        }
    }
}

/// The key of counts of texts, made of that of `digester`, so that it is of one estimator and one tenant.
fn memo_key(digester: &Digester) -> MemoKey {
    let digest = digester.bytes(b"counts of texts").0;
    let (halves, _) = digest.as_chunks();
    MemoKey([0, 1].map(|half: usize| u64::from_le_bytes(halves[half])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_remembered_by_estimator_and_tenant() {
        let [one, other] = [&b"a secret"[..], b"another"].map(Digester::new);
        let names = [None, Some(&b""[..]), Some(b"alice"), Some(b"mallory")];
        let keys = [&one, &other].map(|it| names.map(|name| Tenant::new(it, name).memo_key.0));
        let all = keys.concat();
        for (nth, key) in all.iter().enumerate() {
            assert!(!all[..nth].contains(key) && *key != [0; 2]);
        }
        assert_eq!(Tenant::new(&one, names[2]).memo_key.0, all[2]);
    }
}
