package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// asideLayout is the name of a folder of what was set aside at once.
	asideLayout = "20060102T150405.000Z"

	maxAsideNamed = 20        // files that the doctor names
	maxAsideFiles = 10_000    // that it looks at
	maxAsideRead  = 256 << 20 // bytes of one of a conversation
)

// asideDir is where what is damaged in a store is put.
func asideDir(data string) string { return filepath.Join(storeDir(data), "damaged") }

// setAside is a file of what was damaged, which is there until somebody removes it.
type setAside struct {
	File  string    `json:"file"`
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"`
	What  string    `json:"what,omitempty"` // file of the store

	Tenant    string `json:"tenant,omitempty"`
	ContextID string `json:"context_id,omitempty"` // a conversation, of which it has what was behind the last good entry
	Entries   int    `json:"entries,omitempty"`
}

var errEnough = errors.New("enough")

// listAside returns what was set aside in a data folder and is still there, the oldest first. What cannot be read is left out.
func listAside(data string) (all []setAside, more bool) {
	root := asideDir(data)
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if seen++; seen > maxAsideFiles {
			return errEnough
		}
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		info, ierr := d.Info()
		if err != nil || ierr != nil {
			return nil
		}
		folder, file, _ := strings.Cut(filepath.ToSlash(rel), "/")
		a := setAside{File: path, Bytes: info.Size(), At: info.ModTime().UTC()}
		if at, err := time.Parse(asideLayout, folder); err == nil {
			a.At = at
		}
		if strings.HasPrefix(file, "conversation-") && strings.HasSuffix(file, ".jsonl") {
			a.conversation(path)
		} else if a.What = file; strings.Count(file, "/") > 0 {
			_, a.What, _ = strings.Cut(file, "/") // without the account
		}
		all = append(all, a)
		return nil
	})
	return all, errors.Is(err, errEnough)
}

// conversation takes from a file which conversation it is of, and how many entries are in there, as [repairOne] has written it.
func (a *setAside) conversation(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(io.LimitReader(f, maxAsideRead))
	for lines := 0; ; lines++ {
		line, err := r.ReadSlice('\n')
		whole := err == nil
		var head repaired
		if lines == 0 && json.Unmarshal(line, &head) == nil {
			a.Tenant, a.ContextID = head.Tenant, head.ContextID
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
			whole = err == nil
		}
		if lines > 0 && whole {
			a.Entries++
		}
		if err != nil {
			return
		}
	}
}

// unnamed returns what of all is in none of the places that are named already.
func unnamed(all []setAside, places []string) []setAside {
	return slices.DeleteFunc(all, func(a setAside) bool {
		return slices.ContainsFunc(places, func(place string) bool {
			return a.File == place || strings.HasPrefix(a.File, place+string(filepath.Separator))
		})
	})
}
