package kit

import (
	"net/netip"
	"strings"
)

// Local reports whether a call, which comes from an address and a port with these headers, comes from this machine, and not by way of a proxy that says
// so.
func Local(from string, headers map[string][]string) bool {
	for name := range headers {
		switch name = strings.ToLower(name); {
		case name == "forwarded", name == "via", name == "x-real-ip", strings.HasPrefix(name, "x-forwarded-"), strings.HasPrefix(name, "x-envoy-"):
			return false
		}
	}
	at, err := netip.ParseAddrPort(from)
	return err == nil && at.Addr().Unmap().IsLoopback()
}
