package cli_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/internal/home/nats"
	"github.com/cortex-orchestrator/cortex/transport"
)

// serveWith runs a service with roles until the test ends, or stop is called.
func serveWith(t *testing.T, roles []role.Role, args ...string) (stderr *output, stop func() int) {
	t.Helper()
	stderr = new(output)
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	p := &cli.Program{Home: nats.Home{}, Roles: roles}
	args = append([]string{"serve", "--data", t.TempDir(), "--http", "127.0.0.1:0"}, args...)
	go func() { code <- p.Run(ctx, args, strings.NewReader(""), io.Discard, stderr) }()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { stop() })
	return stderr, stop
}

// TestServiceWaitsForRoles runs a service with two roles. It is not ready before both are; then one asks Cortex for the work of the other's agent,
// and its failure is reported while Cortex continues.
func TestServiceWaitsForRoles(t *testing.T) {
	begin, fail, asked := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	barge := &a2a.AgentCard{Name: "barge", Description: "Carries", Version: "1", Skills: []a2a.AgentSkill{{ID: "carry", Name: "Carry", Description: "Carries", Tags: []string{"carry"}}}}
	var named string
	roles := []role.Role{
		{Name: "ferry", About: "carries", Open: func(f *flag.FlagSet) role.Run {
			f.StringVar(&named, "ferry", "", "`NAME` of the ferry")
			return func(ctx context.Context, at *role.Site) error {
				<-begin
				h, err := at.Host("harbor", nil)
				if err == nil {
					err = h.Add(ctx, barge, agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) {
						return agents.Text("carried by " + named), nil
					}))
				}
				if err != nil {
					return err
				}
				at.Ready()
				return h.Serve(ctx)
			}
		}},
		{Name: "pier", About: "asks", Open: func(*flag.FlagSet) role.Run {
			first := true
			return func(ctx context.Context, at *role.Site) error {
				if !first {
					<-ctx.Done()
					return nil
				}
				first = false
				at.Ready()
				for look := time.NewTicker(10 * time.Millisecond); len(at.Agents()) == 0; {
					select {
					case <-look.C:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				if !at.Leads() {
					return transport.Permanent(errors.New("the only process of its server does not lead"))
				}
				m := client.Text("quay", "@barge carry it")
				m.From = "user:pier"
				turn, err := at.Client.Send(ctx, m)
				if err != nil {
					return err
				}
				answer, err := at.Client.Answer(ctx, turn)
				if err != nil {
					return err
				}
				asked <- answer.Parts[0].Text()
				<-fail
				return errors.New("the pier is gone")
			}
		}},
	}
	stderr, stop := serveWith(t, roles, "--agents", "none", "--ferry", "Charon")
	var url string
	eventually(t, "it has a health endpoint", func() bool {
		url = readyURL.FindString(stderr.String())
		return url != ""
	})
	eventually(t, "it waits for the ferry", func() bool {
		code, body := status(t, url)
		return code == http.StatusServiceUnavailable && body == "role ferry: it is starting\n"
	})
	close(begin)
	eventually(t, "it is ready", func() bool {
		code, body := status(t, url)
		return code == http.StatusOK && !strings.Contains(body, "role")
	})
	if got := <-asked; got != "carried by Charon" {
		t.Errorf("the answer is %q", got)
	}
	close(fail)
	eventually(t, "it tells that the pier is gone", func() bool {
		code, body := status(t, url)
		return code == http.StatusOK && strings.Contains(body, "\nrole pier: it has failed and is run again: the pier is gone\n")
	})
	if code := stop(); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, stderr)
	}
}

// TestRoleThatCannotRun checks that a role's permanent failure ends the service.
func TestRoleThatCannotRun(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	pier := role.Role{Name: "pier", About: "asks", Open: func(*flag.FlagSet) role.Run {
		return func(ctx context.Context, at *role.Site) error {
			_, err := at.Listen(ctx, taken.Addr().String())
			return err
		}
	}}
	stderr, _ := serveWith(t, []role.Role{pier})
	eventually(t, "it ends", func() bool {
		return strings.Contains(stderr.String(), fmt.Sprintf("cortex: pier: %s: the port is in use: choose another\n", taken.Addr()))
	})
}
