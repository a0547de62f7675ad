package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/home"
)

// storeDir is the folder of the embedded server's store.
func storeDir(data string) string { return filepath.Join(data, "nats") }

// folder is that folder as the home sees it.
func (s *settings) folder() home.Folder { return s.program.Home.Folder(storeDir(s.data)) }

// jetstore returns Cortex's own store; nil when the conversations are in another one.
func (n *node) jetstore() *jetstore.Store {
	store, _ := n.store.(*jetstore.Store)
	return store
}

// damage says what of the store is damaged, a line for each kind, for who asks whether the node is ready.
func (n *node) damage() []string {
	var lines []string
	if store := n.jetstore(); store != nil {
		if damaged := len(store.Damaged()); damaged > 0 {
			lines = append(lines, fmt.Sprintf("damaged: %d of the conversations; `cortex doctor` names them", damaged))
		}
	}
	if n.server != nil {
		lines = append(lines, n.server.Damage()...)
	}
	return lines
}

// whyBroken says what it means that the server has given up its store.
func whyBroken(err error) error {
	text := err.Error()
	if !strings.Contains(text, "corrupt") {
		return err
	}
	return fmt.Errorf("the store was damaged while the server had it open: start again, what is damaged is set aside then: %s", text[max(0, strings.Index(text, "JetStream")):])
}

// left takes in what was left when files were looked at. Nobody needs it where the store is elsewhere.
func (n *node) left(loose []erase.Loose) {
	if n.server != nil {
		n.server.Left(loose)
	}
}
