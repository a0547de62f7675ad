package publicnet

import (
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// Host returns the name of a host as HTTP looks it up, in small letters, so that two hosts are the same if their names are. The small letter of the İ of
// Turkish is a plain i, but a name with it is another host's.
func Host(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		plain, err := idna.Lookup.ToASCII(name)
		if err != nil { // nobody can reach it
			return name
		}
		name = plain
	}
	return strings.ToLower(name)
}

// Origin returns the scheme, the host and the port of a URL, in the one form of all that are the same.
func Origin(u *url.URL) string {
	host, port := Host(u.Hostname()), u.Port()
	if strings.Contains(host, ":") { // an address of IPv6
		host = "[" + host + "]"
	}
	if port != "" && !(u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80") {
		host += ":" + port
	}
	return u.Scheme + "://" + host
}
