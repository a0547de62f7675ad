package console_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestDeadLetters replays a dead letter, which then is handled, and removes another one.
func TestDeadLetters(t *testing.T) {
	w := newWorld(t)
	w.giveUp("the ledger is closed")
	w.giveUp("the letter is damaged")
	p := newTab(t)
	p.open(w.link())
	p.open(w.url + "dead")
	p.says("the ledger is closed")
	p.picture("dead-letters")
	p.do(chromedp.Click(chromedp.CSS("section button[value=replay]")))
	p.await("document.querySelectorAll('section').length === 1 && document.readyState === 'complete'")
	p.says("the letter is damaged")
	sub, err := w.bus.Subscribe(t.Context(), transport.Inbox("", "clerk"), nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	handled := ""
	_ = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		defer cancel()
		handled = e.ID
		return nil
	})
	if handled != "letter-1" {
		t.Errorf("the clerk has handled %q, want the letter that was replayed", handled)
	}
	p.do(chromedp.Click(chromedp.CSS("section button[value=remove]")))
	p.says("Nothing was given up.")
	for letter, err := range w.bus.DeadLetters(t.Context(), "") {
		t.Errorf("letter %s is still there, %v", letter.ID, err)
	}
}

// TestForgetLessons has what was learned of an agent forgotten.
func TestForgetLessons(t *testing.T) {
	w := newWorld(t)
	lesson, err := json.Marshal([]router.Evidence{{ID: "t1", Skill: "do", Text: "water the roses", From: "user", Time: time.Now()}})
	must(t, err)
	_ = must1(w.store.PutNote(t.Context(), "", storage.NoteEvidence, storage.Note{Key: "worker", Value: lesson}))(t)
	p := newTab(t)
	p.open(w.link())
	p.open(w.url + "agents/worker")
	p.says("water the roses")
	p.do(chromedp.Click(chromedp.CSS("form[action$='/forget'] button")))
	p.await("document.body.innerText.includes('Nothing yet') && !document.body.innerText.includes('water the roses')")
	if n := must1(w.store.Note(t.Context(), "", storage.NoteEvidence, "worker"))(t); len(n.Value) > 0 {
		t.Errorf("the store still has %s", n.Value)
	}
}
