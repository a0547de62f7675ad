package nats

import (
	"fmt"
	"math"
	"strings"
	"testing"

	natsgo "github.com/nats-io/nats.go"
)

// TestMessageIsTheNextOne checks that an answer of the server that is before what was asked for is an error: who reads on behind it would never end.
func TestMessageIsTheNextOne(t *testing.T) {
	nc, err := natsgo.Connect("", natsgo.InProcessServer(bareServer(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var says uint64
	if _, err := nc.Subscribe(jsAPI+"STREAM.MSG.GET.S", func(m *natsgo.Msg) {
		_ = m.Respond(fmt.Appendf(nil, `{"message":{"subject":"a","seq":%d}}`, says))
	}); err != nil {
		t.Fatal(err)
	}
	b := &Bus{nc: &conn{Conn: nc}, conn: t.Context()}
	for seq, wrong := range map[uint64]string{1: "message 1 to a request for what follows 2", 2: "", 9: "", math.MaxUint64: "what follows 2"} {
		says = seq
		m, err := b.message(t.Context(), "S", "a", 2)
		if wrong == "" && (err != nil || m.Sequence != seq) || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("an answer with message %d: %v, want %q", seq, err, wrong)
		}
	}
}
