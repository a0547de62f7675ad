package rtfs

import (
	"context"
	"errors"
	"flag"
	"net/url"
	"strings"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/webhook"
)

// Role returns the role of `cortex serve` by which RTFS agents register with Cortex and find its agents.
func Role() role.Role {
	return role.Role{Name: "rtfs", About: "Agents of RTFS register with Cortex, and find and call its agents (--rtfs).", Open: open}
}

// options are the role's flags.
type options struct {
	address, prefix string
	public          string   // URL; "": that of the request
	hosts           []string // that may have private addresses
}

// open adds the flags.
func open(f *flag.FlagSet) role.Run {
	o := &options{}
	kit.AddressFlag(f, "rtfs", &o.address, "127.0.0.1:8430", "`ADDRESS`: where Cortex is a registry of RTFS agents, such as 127.0.0.1:8430")
	kit.WordFlag(f, "rtfs-prefix", &o.prefix, "`TEXT`: what the ids of RTFS agents begin with in Cortex, such as rtfs.")
	f.Func("rtfs-public-url", "`URL`: under which others reach --rtfs, where it is not the address", o.setPublic)
	f.Func("rtfs-host", "`HOSTS`: of RTFS agents in this network, such as 10.0.0.7:8080, beside those with public addresses", func(text string) error {
		for host := range strings.SplitSeq(text, ",") {
			if host = strings.TrimSpace(host); host == "" {
				continue
			}
			if err := webhook.CheckHost(host); err != nil {
				return err
			}
			o.hosts = append(o.hosts, host)
		}
		return nil
	})
	return o.run
}

func (o *options) setPublic(text string) error {
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return errors.New("want a URL such as https://cortex.example.com/rtfs")
	}
	o.public = strings.TrimRight(text, "/")
	return nil
}

func (o *options) run(ctx context.Context, at *role.Site) error {
	if o.address == "" {
		return nil
	}
	b, err := newBridge(at, o, usual)
	if err != nil {
		return err
	}
	return b.run(ctx, func(ctx context.Context) error {
		l, err := at.Listen(ctx, o.address)
		if err != nil {
			return err
		}
		at.Logger.Info("RTFS registry", "url", "http://"+l.Addr().String()+"/rtfs")
		if !kit.IsLoopback(l.Addr().String()) {
			at.Logger.Warn("RTFS has no keys: whoever reaches this address can call Cortex's agents, and be one of them", "address", l.Addr().String())
		}
		at.Ready()
		return at.Serve(ctx, l, b.handler())
	})
}
