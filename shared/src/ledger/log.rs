//! What operators did, written before they do it.

use super::{Item, Ledger, item};
use crate::clock::Millis;

/// One thing that an operator is about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// A word or two, such as `erase` or `reconcile.repair`.
    pub what: &'static str,
    /// The identity of AWS that does it.
    pub who: String,
    pub why: String,
    /// What was selected, in the words of the command.
    pub selection: String,
    /// How many events it is about.
    pub count: usize,
}

impl Ledger {
    /// Writes it down. It stays for as long as the table.
    pub async fn log(&self, deed: &Deed, now: Millis) -> anyhow::Result<()> {
        let mut random = [0; 4];
        crate::chance::fill(&mut random)?;
        let entry = Item::from([
            (
                "pk".to_owned(),
                item::s(format!("LOG#{}", &now.hour()[..6])),
            ),
            (
                "sk".to_owned(),
                item::s(format!("{:013}#{}", now.0, hex::encode(random))),
            ),
            ("what".to_owned(), item::s(deed.what)),
            ("who".to_owned(), item::s(&deed.who)),
            ("why".to_owned(), item::s(&deed.why)),
            ("sel".to_owned(), item::s(&deed.selection)),
            ("n".to_owned(), item::n(deed.count)),
            ("at".to_owned(), item::ms(now)),
        ]);
        self.put("write down what is done", entry, None).await?;
        Ok(())
    }
}
