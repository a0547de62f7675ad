package nats

import (
	"fmt"
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// TestPeopleReadOutlines checks that people with keys list conversations by their outlines, without reading the conversations, and that they can
// read no keys of notes but those of outlines.
func TestPeopleReadOutlines(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	_, s, _ := startService(t, n)
	const conversations = 40
	for i := range conversations {
		id := fmt.Sprint("c", i)
		begin(t, s, id)
		for e, err := range s.Load(t.Context(), "", id, 0) {
			if err == nil {
				err = s.PutOutline(t.Context(), "", id, storage.Outline{Version: e.Version, Entries: 1, Updated: e.Time, Owner: "user:" + id})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.PutNote(t.Context(), "", storage.NoteEvidence, storage.Note{Key: "victim", Value: []byte(`[]`)}); err != nil {
		t.Fatal(err)
	}
	creds := userCreds(t, dir, "", "bob")
	b := n.dial(t, &Options{Creds: creds})
	bob := stores(t, b)
	listed := 0
	for info, err := range bob.Contexts(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
		if info.Outline == nil || info.Outline.Owner != "user:"+info.ContextID || info.Title != "hello" {
			t.Errorf("%s is listed as %+v with the outline %+v", info.ContextID, info, info.Outline)
		}
	}
	if listed != conversations {
		t.Errorf("%d conversations are listed, want %d", listed, conversations)
	}
	for _, err := range bob.Notes(t.Context(), "", storage.NoteEvidence) {
		if err == nil {
			t.Error("a person reads what was learned about an agent")
		}
	}
	w := &town{node: n, dir: dir}
	eve := w.intruder(t, userCreds(t, dir, "", "eve"))
	for _, request := range []string{
		`{"seq":1}`, `{"seq":1,"batch":10}`, `{"seq":1,"next_by_subj":"cortex.v1.key.>","batch":10}`, `{"seq":1,"next_by_subj":"cortex.v1.key._.*.*","batch":10}`,
		`{"seq":1,"next_by_subj":"cortex.v1.key._.evidence.*","batch":10}`, `{"last_by_subj":"cortex.v1.key._.evidence.victim"}`,
		`{"multi_last":["cortex.v1.key._.evidence.victim"],"batch":10}`, `{"seq":1,"next_by_subj":"cortex.v1.key.acme.outline.*","batch":10}`,
		`{"seq":1,"next_by_subj":"cortex.v1.key._.outline.*","multi_last":["cortex.v1.key._.evidence.victim"],"batch":10}`,
		`{"seq":1,"next_by_subj":"cortex.v1.key._.outline.*","last_by_subj":"cortex.v1.key._.evidence.victim"}`,
	} {
		eve.wantRefused(t, jsAPI+"DIRECT.GET.CORTEX_KEYS", &natsgo.Msg{Data: []byte(request)})
		eve.wantRefused(t, jsAPI+"STREAM.MSG.GET.CORTEX_KEYS", &natsgo.Msg{Data: []byte(request)})
	}
	for _, subject := range []string{"DIRECT.GET.CORTEX_KEYS.cortex.v1.key._.evidence.victim", "STREAM.INFO.CORTEX_KEYS", "STREAM.MSG.DELETE.CORTEX_KEYS"} {
		eve.wantRefused(t, jsAPI+subject, &natsgo.Msg{Data: []byte(`{"seq":1}`)})
	}
	thief := w.intruder(t, agentCreds(t, dir, "", "thief"))
	thief.wantRefused(t, jsAPI+"DIRECT.GET.CORTEX_KEYS", &natsgo.Msg{Data: []byte(`{"seq":1,"next_by_subj":"cortex.v1.key._.outline.*","batch":10}`)})
}
