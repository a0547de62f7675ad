package jetstore_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
)

// TestErasedIsNotLost erases a conversation: of the missing sequences that the server's files do not mention any more, only those of other
// conversations are lost.
func TestErasedIsNotLost(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 3) // versions 1 to 3
	if err := s.Erase(t.Context(), "", "c"); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstore.Stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), "cortex.v1.log.erased")
	if err != nil {
		t.Fatalf("nothing says what was erased: %v", err)
	}
	a := jetstore.NewAudit(0)
	a.Message(m.Sequence, m.Subject, nil, m.Data)
	a.Gone(m.Sequence + 3) // the two before it are missing
	if found := a.End(); found.Lost != 2 || found.Conversations != 0 {
		t.Errorf("the audit finds %+v, want two messages that are lost and no conversation", found)
	}
}
