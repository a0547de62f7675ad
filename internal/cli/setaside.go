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
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// asideLayout is the name of a folder with everything that one repair set aside.
	asideLayout = "20060102T150405.000Z"

	maxAsideNamed = 20        // files that the doctor names
	maxAsideFiles = 10_000    // files that it looks at
	maxAsideRead  = 256 << 20 // bytes of a conversation's file
)

// asideDir is the folder for damaged parts of a store.
func asideDir(data string) string { return filepath.Join(storeDir(data), "damaged") }

// setAside is a file of damaged data, which exists until somebody removes it.
type setAside struct {
	File  string    `json:"file"`
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"`
	What  string    `json:"what,omitempty"` // the file of the store

	Tenant    string `json:"tenant,omitempty"`
	ContextID string `json:"context_id,omitempty"` // the conversation whose entries after the last good one are in the file
	Entries   int    `json:"entries,omitempty"`
}

var errEnough = errors.New("enough")

// listAside returns what was set aside in a data folder and still exists, the oldest first. It leaves out what cannot be read.
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

// conversation fills in the conversation and the number of entries, from a file that [repairOne] wrote.
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

// unnamed returns those of all that are not within places, which were named already.
func unnamed(all []setAside, places []string) []setAside {
	return slices.DeleteFunc(all, func(a setAside) bool {
		return slices.ContainsFunc(places, func(place string) bool {
			return a.File == place || strings.HasPrefix(a.File, place+string(filepath.Separator))
		})
	})
}

// pathText returns a path to be copied: unchanged, or quoted when it contains characters that do not belong on a terminal.
func pathText(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(path)
	}
	return path
}
