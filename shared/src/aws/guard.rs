//! Checks whether Mitt may call a host or an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Checks hosts and addresses. It resolves names itself, so that the client connects to the address
/// that was checked.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) allow_loopback: bool,
}

impl Guard {
    /// Checks a URL before the host is resolved. If the host is an IP address, the client never
    /// resolves it, so this function also checks the address.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>().ok();
        let local = self.allow_loopback
            && (host == "localhost" || address.is_some_and(|ip| ip.is_loopback()));
        match url.scheme() {
            "https" => {}
            "http" if local => {}
            scheme => return Err(format!("the URL scheme {scheme} is not allowed; use https")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL contains a user name or a password; remove them".to_owned());
        }
        match address {
            Some(ip) if !self.allows(ip) => Err(format!(
                "{ip} is not a public address; use a public address"
            )),
            _ => Ok(()),
        }
    }

    /// Resolves a name, and checks the addresses.
    async fn addresses(&self, name: &str) -> Result<Vec<SocketAddr>, BoxError> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
        // One private address is enough to reject the name, because an attacker can mix private and
        // public addresses.
        if let Some(bad) = found.iter().find(|address| !self.allows(address.ip())) {
            let text = format!(
                "the host name resolves to {}, which is not a public address",
                bad.ip()
            );
            return Err(text.into());
        }
        Ok(found)
    }

    fn allows(&self, ip: IpAddr) -> bool {
        (self.allow_loopback && ip.is_loopback()) || is_public(ip)
    }
}

/// For the client that calls APIs and destinations.
impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let found = guard.addresses(name.as_str()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// For the client that calls the route of a trial.
impl Service<dns::Name> for Guard {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Self::Future {
        let guard = self.clone();
        Box::pin(async move { Ok(guard.addresses(name.as_str()).await?.into_iter()) })
    }
}

/// Returns whether an address belongs to the public internet.
/// <https://www.iana.org/assignments/iana-ipv4-special-registry>
/// <https://www.iana.org/assignments/iana-ipv6-special-registry>
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a == 0
        || a >= 224
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19));
    !special
}

/// Only `2000::/3` is allocated. If an address embeds an IPv4 address, the check applies to the
/// IPv4 address.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(v4) = ip.to_ipv4_mapped() {
        return is_public_v4(v4);
    }
    let embedded = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(embedded(high, low))
        }
        // Teredo and the other special blocks of 2001::/23, and 2001:db8::/32 for documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_addresses_are_refused_in_every_spelling() {
        let guard = Guard {
            allow_loopback: false,
        };
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0.0.0.0",
            "0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "169.254.170.2",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "198.18.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "[::]",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:10.0.0.1]",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::7f00:1]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:7f00:1::]",
            "[2002:a00:1::1]",
            "[fe80::1]",
            "[fc00::1]",
            "[fd00:ec2::254]",
            "[ff02::1]",
            "[2001::1]",
            "[2001:db8::1]",
            "[3fff::1]",
            "[::127.0.0.1]",
        ] {
            let url = Url::parse(&format!("https://{host}/x")).unwrap();
            assert!(guard.check(&url).is_err(), "{host}");
        }
        for url in [
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://u:p@example.com/",
        ] {
            assert!(guard.check(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
    }

    #[test]
    fn public_addresses_pass() {
        let guard = Guard {
            allow_loopback: false,
        };
        for host in [
            "example.com",
            "1.1.1.1",
            "100.63.0.1",
            "172.32.0.1",
            "[2606:4700::1111]",
            "[2002:101:101::]",
        ] {
            let url = Url::parse(&format!("https://{host}/x")).unwrap();
            assert_eq!(guard.check(&url), Ok(()), "{host}");
        }
    }

    #[test]
    fn this_machine_is_reached_only_where_it_is_allowed() {
        let url = Url::parse("http://127.0.0.1:3000/x").unwrap();
        assert!(
            Guard {
                allow_loopback: false
            }
            .check(&url)
            .is_err()
        );
        assert!(
            Guard {
                allow_loopback: true
            }
            .check(&url)
            .is_ok()
        );
        let inner = Url::parse("http://169.254.169.254/latest").unwrap();
        assert!(
            Guard {
                allow_loopback: true
            }
            .check(&inner)
            .is_err()
        );
    }

    #[tokio::test]
    async fn a_name_that_leads_inwards_is_refused_after_its_resolution() {
        let outbound = crate::aws::outbound::Outbound::new(false);
        let answer = outbound
            .get(
                "https://localhost:1/",
                &[],
                &[],
                crate::base::clock::UnixMillis(0),
            )
            .await;
        let Err(crate::aws::outbound::SendError::NotSent(text)) = answer else {
            panic!("{answer:?}")
        };
        assert!(text.contains("not a public address"), "{text}");
    }
}
