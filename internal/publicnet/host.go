package publicnet

import (
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
