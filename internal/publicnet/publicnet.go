// Package publicnet tells addresses of the public internet from all others. It is for programs that go to an address which a stranger has named: they
// check each address that a name is resolved to, when they dial it, since a name may lead elsewhere the next time.
package publicnet

import (
	"net/netip"
	"slices"
)

// nat64 are addresses of IPv6 by which hosts without IPv4 reach those of IPv4: the last four bytes are the address (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// global are the addresses of IPv6 that are given out for the internet (RFC 4291).
var global = netip.MustParsePrefix("2000::/3")

// special are addresses that look public and are not: IANA's registries of special-purpose addresses, and those that hold another address, of which
// nobody knows where it leads.
var special = func() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// Is reports whether an address is one of the public internet. An address of IPv4 written as one of IPv6 counts as what it is; one with a zone is of a
// local network.
func Is(ip netip.Addr) bool {
	if ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Is6() && !global.Contains(ip) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// IsLoopback reports whether a host, a name or an address without a port, is this machine to itself.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
