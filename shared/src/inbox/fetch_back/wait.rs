//! An object that waits for a fetch, and the network of the first notice that named it.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use super::pk;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};

/// An object that waits for a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub object: String,
    /// Whether the object was fetched before. The catcher acknowledges the notices about a known
    /// object, so backup-sync must fetch the object again.
    pub known: bool,
    /// The time of the first notice.
    pub at: UnixMillis,
    pub network: Network,
    /// The number of calls for the wanted revision.
    pub tries: u32,
    pub tried_at: Option<UnixMillis>,
    /// The reason why the last call failed.
    pub error: Option<String>,
    pub(super) wanted: u64,
    pub(super) called: u64,
}

impl Wait {
    /// Returns the wait for an object for which no call has begun.
    pub fn new(object: &str, known: bool, network: Network, at: UnixMillis) -> Self {
        Self {
            object: object.to_owned(),
            known,
            at,
            network,
            tries: 0,
            tried_at: None,
            error: None,
            // The first revision is the time of the notice, so it differs from the revisions of an
            // earlier row. A slow call for the earlier row then cannot end this wait.
            wanted: u64::try_from(at.0).unwrap_or(0).max(1),
            called: 0,
        }
    }

    pub(super) fn sk(&self) -> String {
        format!("W#{}", self.object)
    }

    pub(super) fn to_item(&self, source: &str) -> Item {
        Item::from([
            ("pk".to_owned(), item::s(pk(source))),
            ("sk".to_owned(), item::s(self.sk())),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("w".to_owned(), item::n(self.wanted)),
            ("s".to_owned(), item::n(self.called)),
            ("n".to_owned(), item::n(self.tries)),
            ("kn".to_owned(), item::n(u8::from(self.known))),
            ("net".to_owned(), item::n(self.network.0)),
            ("at".to_owned(), item::ms(self.at)),
        ])
    }

    /// Uses default values for missing attributes, so that backup-sync still fetches the object.
    pub(super) fn from_item(stored: &Item) -> Option<Self> {
        Some(Self {
            object: item::text(stored, "sk")?.strip_prefix("W#")?.to_owned(),
            known: item::number::<u8>(stored, "kn") == Some(1),
            at: item::time(stored, "at").unwrap_or(UnixMillis(0)),
            network: Network(item::number(stored, "net").unwrap_or(0)),
            tries: item::number(stored, "n").unwrap_or(0),
            tried_at: item::time(stored, "try"),
            error: item::text(stored, "err").map(str::to_owned),
            wanted: item::number(stored, "w")?,
            called: item::number(stored, "s").unwrap_or(0),
        })
    }
}

/// The number of groups of networks.
pub const GROUPS: u16 = 16;

/// The hash of the network of a notice's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(u16);

impl Network {
    /// Returns the network of an address: the first 24 bits of an IPv4 address, or the first 48
    /// bits of an IPv6 address.
    pub fn of(address: &str) -> Self {
        let hash = |bytes: &[u8]| {
            let digest = Sha256::digest(bytes);
            Self(u16::from_be_bytes([digest[0], digest[1]]))
        };
        match address.trim().parse() {
            Ok(IpAddr::V4(v4)) => hash(&v4.octets()[..3]),
            Ok(IpAddr::V6(v6)) => hash(&v6.octets()[..6]),
            Err(_) => Self(0),
        }
    }

    pub(super) fn group(self) -> u16 {
        self.0 % GROUPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_many_addresses_and_one_group() {
        let of = Network::of;
        assert_eq!(of("203.0.113.9"), of("203.0.113.250"));
        assert_ne!(of("203.0.113.9"), of("203.0.114.9"));
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::9"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_eq!(of("nowhere"), of(""));
        assert!(of("203.0.113.9").group() < GROUPS);
    }

    #[test]
    fn a_wait_is_read_back_as_it_was_written() {
        let at = UnixMillis(1_795_169_681_000);
        let wait = Wait::new("tr_1", true, Network::of("203.0.113.9"), at);
        assert_eq!(Wait::from_item(&wait.to_item("s")), Some(wait));
        assert_eq!(Wait::from_item(&Item::new()), None);
    }
}
