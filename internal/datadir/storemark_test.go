package datadir

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/home/nats"

	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// TestMarkStore checks that another store than before is recognised.
func TestMarkStore(t *testing.T) {
	var log bytes.Buffer
	data := t.TempDir()
	store := nats.Home{}.Folder(Store(data))
	mark := func() {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(Store(data), "jetstream", "$G", "streams", "CORTEX_LOG"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := MissingStore(data, store); err != nil {
			t.Fatal(err)
		}
		MarkStore(data, slog.New(slog.NewTextHandler(&log, nil)))
	}
	mark()
	mark()
	if log.Len() > 0 {
		t.Errorf("the log has %s, want nothing", &log)
	}
	if err := os.Truncate(markFile(data), 0); err != nil {
		t.Fatal(err)
	}
	mark()
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "was damaged: it is written again") || !strings.Contains(got, "it is empty") {
		t.Errorf("the log has %s, want that the mark was damaged", got)
	}
	log.Reset()
	mark()
	if log.Len() > 0 {
		t.Errorf("the log has %s, want nothing: the mark is written again", &log)
	}
	if err := os.RemoveAll(Store(data)); err != nil {
		t.Fatal(err)
	}
	if err := MissingStore(data, store); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("missingStore = %v, want that it is not there", err)
	}
	mark()
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "is another one than the last time") {
		t.Errorf("the log has %s, want that it is another one", got)
	}
}

// TestEmptyStore removes the store from its folder, with different remaining traces of it.
func TestEmptyStore(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data [1]")
	store := nats.Home{}.Folder(Store(data))
	for _, dir := range []string{"jetstream/$G/streams/CORTEX_LOG", "jetstream/ACCOUNT"} {
		if err := os.MkdirAll(filepath.Join(Store(data), dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := Leave(LastFile(data), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	MarkStore(data, slog.New(slog.DiscardHandler))
	check := func(when string, missing bool, gone string) {
		t.Helper()
		if err := MissingStore(data, store); (err != nil) != missing {
			t.Errorf("%s: missingStore = %v", when, err)
		}
		if got := GoneStore(data, store); got == "" != (gone == "") || !strings.HasSuffix(got, gone+" is left") && gone != "" {
			t.Errorf("%s: goneStore = %q, want that %q is left", when, got, gone)
		}
	}
	remove := func(path string) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	check("a store", false, "")
	remove(filepath.Join(Store(data), "jetstream", "$G", "streams", "CORTEX_LOG"))
	check("no stream", true, storeIDFile(data))
	remove(filepath.Join(Store(data), "jetstream", "$G"))
	check("no account", true, storeIDFile(data))
	remove(markFile(data))
	check("no mark", false, storeIDFile(data))
	remove(storeIDFile(data))
	check("no id", false, LastFile(data))
	remove(LastFile(data))
	check("nothing", false, "")
	MarkStore(data, slog.New(slog.DiscardHandler))
	if err := Leave(filepath.Join(Store(data), "remembered.json"), []byte("damaged")); err != nil {
		t.Fatal(err)
	}
	check("damaged memory", true, storeIDFile(data))
	if err := new(storecheck.Memory).Write(filepath.Join(Store(data), "remembered.json")); err != nil {
		t.Fatal(err)
	}
	check("what is remembered tells it", false, "")
	none := filepath.Join(t.TempDir(), "none")
	if err := MissingStore(none, nats.Home{}.Folder(Store(none))); err != nil {
		t.Errorf("missingStore of a new folder = %v", err)
	}
}
