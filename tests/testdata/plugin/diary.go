package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// diary is a store that keeps conversations in a file, a line for each entry, and all of them in memory. It can do no more than each store has
// to, so nothing is learned, and nothing can be deleted. It is for one process at a time: with the loft, only one has the data folder.
type diary struct {
	storage.Store // what the file says

	mu   sync.Mutex
	file *os.File
	err  error // the file does not end with a whole line
}

// page is a line of the file.
type page struct {
	Tenant    string               `json:"tenant,omitempty"`
	ContextID string               `json:"context_id"`
	After     conversation.Version `json:"after"`
	Entry     *conversation.Entry  `json:"entry"`
}

// openDiary opens the diary in the data folder.
func openDiary(ctx context.Context, at *app.Target) (storage.Store, error) {
	file, err := os.OpenFile(filepath.Join(at.Data, "diary.jsonl"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	d := &diary{Store: memstore.New(), file: file}
	if err := d.read(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file.Name(), err), file.Close())
	}
	return d, nil
}

// read puts what the file says into the store. The versions are those of before, since they count all entries in their order. A line that has
// no end was being written when the process was killed: nobody was told that it is kept.
func (d *diary) read(ctx context.Context) error {
	whole, lines := int64(0), bufio.NewReader(d.file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		var p page
		if err == nil {
			err = json.Unmarshal(line, &p)
		}
		if err == nil {
			_, err = d.Store.Append(ctx, p.Tenant, p.ContextID, p.After, p.Entry)
		}
		if err != nil {
			return fmt.Errorf("behind byte %d: %w", whole, err)
		}
		whole += int64(len(line))
	}
	if err := d.file.Truncate(whole); err != nil {
		return err
	}
	_, err := d.file.Seek(whole, io.SeekStart)
	return err
}

// Append implements [storage.Store]. What cannot be written stays in memory: the next one who opens the file knows whether it is kept.
func (d *diary) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return 0, d.err
	}
	v, err := d.Store.Append(ctx, tenant, contextID, after, e)
	if err != nil {
		return 0, err
	}
	line, err := json.Marshal(page{tenant, contextID, after, e})
	if err == nil {
		_, err = d.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = d.file.Sync()
	}
	if d.err = err; err != nil {
		return 0, err
	}
	return v, nil
}

// Close implements [io.Closer].
func (d *diary) Close() error { return d.file.Close() }
