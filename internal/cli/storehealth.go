package cli

import (
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/home"
)

// folder returns that folder as an object of package home.
func (s *settings) folder() home.Folder { return s.program.Home.Folder(datadir.Store(s.data)) }

// jetstore returns Cortex's own store; nil when the conversations are in another one.
func (n *node) jetstore() *jetstore.Store {
	store, _ := n.store.(*jetstore.Store)
	return store
}

// damage returns a line for each kind of damage in the store, for the readiness check.
func (n *node) damage() []string {
	var lines []string
	if store := n.jetstore(); store != nil {
		if damaged := len(store.Damaged()); damaged > 0 {
			lines = append(lines, fmt.Sprintf("damaged: %d of the conversations; `cortex doctor` names them", damaged))
		}
		if line := store.LostEnd(); line != "" {
			lines = append(lines, line)
		}
	}
	if n.server != nil {
		lines = append(lines, n.server.Damage()...)
	}
	return lines
}

// troubleSpend returns a line when what was spent on a day could not be read.
func (n *node) troubleSpend() []string {
	if store := n.jetstore(); store != nil && store.SpendTrouble() != "" {
		return []string{store.SpendTrouble()}
	}
	return nil
}

// whyBroken explains the error with which the server has given up its store.
func whyBroken(err error) error {
	text := err.Error()
	if !strings.Contains(text, "corrupt") {
		return err
	}
	return fmt.Errorf("the store was damaged while the server had it open: start again, what is damaged is set aside then: %s", text[max(0, strings.Index(text, "JetStream")):])
}

// left records the files that a sweep has left. Only an embedded server needs it.
func (n *node) left(loose []erase.Loose) {
	if n.server != nil {
		n.server.Left(loose)
	}
}

// lacks reports whether stored data that may speak of files is missing, or was set aside and still is.
func (n *node) lacks(data string) bool {
	if len(n.damage()) > 0 {
		return true
	}
	if n.server == nil {
		return false
	}
	return datadir.AsideSpeaks(data)
}
