//! Whom the per-client limits count a connection for.

use std::net::{IpAddr, Ipv6Addr};

/// A client: an IPv4 address, or the /64 network of an IPv6 address, because one subscriber usually
/// has all addresses of such a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client(IpAddr);

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Client {
        match address.to_canonical() {
            IpAddr::V6(v6) => Client(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into()),
            v4 => Client(v4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_subscriber_are_one_client() {
        let client = |address: &str| Client::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:10.0.0.1"), client("10.0.0.1"));
        assert_ne!(client("10.0.0.1"), client("10.0.0.2"));
    }
}
