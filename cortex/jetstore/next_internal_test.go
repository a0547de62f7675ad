package jetstore

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestNextMessageIsBehind checks that an answer of the server that is before what was asked for is an error: who erases what follows would never end.
func TestNextMessageIsBehind(t *testing.T) {
	ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	defer ns.Shutdown()
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var says uint64
	if _, err := nc.Subscribe("api.STREAM.MSG.GET.S", func(m *nats.Msg) {
		_ = m.Respond(fmt.Appendf(nil, `{"message":{"subject":"a","seq":%d}}`, says))
	}); err != nil {
		t.Fatal(err)
	}
	s := &Store{nc: nc, api: "api.", timeout: 10 * time.Second}
	for seq, wrong := range map[uint64]string{1: "message 1 to a request for what follows 2", 2: "", 9: "", math.MaxUint64: "what follows 2"} {
		says = seq
		m, err := s.getFromLeader(t.Context(), "S", msgGet{Seq: 2, Next: "a"})
		if wrong == "" && (err != nil || m.seq != seq) || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("an answer with message %d: %v, want %q", seq, err, wrong)
		}
	}
	says = 7
	if m, err := s.getFromLeader(t.Context(), "S", msgGet{Last: "a"}); err != nil || m.seq != 7 {
		t.Errorf("the last message: %d, %v", m.seq, err)
	}
}
