package nats

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestOlderBuildsAreTold checks that programs that publish to the partitions of builds before 0.1.0 get an error at once, with keys and without, and
// that the log mentions each of them once: no stream stores such events.
func TestOlderBuildsAreTold(t *testing.T) {
	for name, keyed := range map[string]bool{"without keys": false, "with keys": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var log bytes.Buffer
			o := ServerOptions{}
			if keyed {
				o.Auth = keys(t, "")
			}
			n := newNode(t, o)
			b := n.dial(t, &Options{Logger: slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				return log.Write(p)
			}), nil))})
			inbox := transport.Inbox("", transport.Cortex)
			came := make(chan string, 10)
			for range 2 { // the second subscription must not answer too
				serveTopic(t, b, inbox, nil, func(e *transport.Event) error {
					came <- text(e)
					return nil
				})
			}
			for _, from := range []string{"user:ada", "user:bob"} {
				old := n.dial(t, nil)
				if keyed {
					old = n.dial(t, &Options{Creds: userCreds(t, o.Auth, "", strings.TrimPrefix(from, "user:"))})
				}
				say := func(partition int) error {
					e := message(inbox, "c1", "hello")
					e.From = from
					m, err := encode(inboxSubject(inboxAddress{to: transport.Cortex, context: "c1", from: from}), e, true)
					if err != nil {
						t.Fatal(err)
					}
					token := strings.Split(m.Subject, ".")
					token[5] = strconv.Itoa(partition)
					m.Subject = strings.Join(token, ".")
					return old.store(t.Context(), m)
				}
				for _, p := range []int{transport.Partitions, oldPartitions - 1} {
					if err := say(p); !errors.Is(err, transport.ErrInvalid) || !strings.Contains(err.Error(), "a build before 0.1.0") {
						t.Errorf("%s is told of partition %d: %v, want that the build is too old", from, p, err)
					}
				}
				if err := say(transport.Partition("", "c1")); err != nil {
					t.Errorf("where older builds and this one agree: %v", err)
				}
				if got := receive(t, came); got != "hello" {
					t.Errorf("%q came", got)
				}
				if !keyed {
					continue // other subjects have no responder
				}
				if err := say(oldPartitions); !errors.Is(err, transport.ErrForbidden) || strings.Contains(err.Error(), "build") {
					t.Errorf("a partition that there never was: %v, want ErrForbidden", err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, from := range []string{"from=user:ada", "from=user:bob"} {
				if got := strings.Count(log.String(), from); got != 1 && !keyed {
					t.Errorf("%d lines are %s:\n%s", got, from, &log)
				}
			}
		})
	}
}
