package kit

import (
	"errors"
	"flag"
	"fmt"
	"net"

	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/transport"
)

// AddressFlag adds a flag for an address host:port, such as the example. The host has to be given, so that nobody listens to a network by chance: the
// protocols of bridges have no keys. "none" and "" leave it empty.
func AddressFlag(f *flag.FlagSet, name string, to *string, example, about string) {
	f.Func(name, about, func(text string) error {
		host, _, err := net.SplitHostPort(text)
		switch {
		case text == "" || text == "none":
			*to = ""
			return nil
		case err != nil:
			return fmt.Errorf("want host:port, such as %s", example)
		case host == "":
			return fmt.Errorf("want a host as well: 127.0.0.1%s for programs on this machine, 0.0.0.0%s for all networks, without keys", text, text)
		}
		*to = text
		return nil
	})
}

// WordFlag adds a flag for a name, or a part of one.
func WordFlag(f *flag.FlagSet, name string, to *string, about string) {
	f.Func(name, about, func(text string) error {
		if err := transport.CheckID(text); text != "" && err != nil {
			return errors.New("want a word: " + err.Error())
		}
		*to = text
		return nil
	})
}

// IsLoopback reports whether only this machine reaches an address host:port.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && publicnet.IsLoopback(host)
}
