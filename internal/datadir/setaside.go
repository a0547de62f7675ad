package datadir

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
	// AsideLayout is the name of a folder with everything that one repair set aside.
	AsideLayout = "20060102T150405.000Z"

	maxAsideFiles = 10_000    // files that it looks at
	maxAsideRead  = 256 << 20 // bytes of a conversation's file
)

// AsideDir is the folder for damaged parts of a store.
func AsideDir(data string) string { return filepath.Join(Store(data), "damaged") }

// Aside is a file of damaged data, which exists until somebody removes it.
type Aside struct {
	File  string    `json:"file"`
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"`
	What  string    `json:"what,omitempty"` // the file of the store

	Tenant    string `json:"tenant,omitempty"`
	ContextID string `json:"context_id,omitempty"` // the conversation whose entries after the last good one are in the file
	Entries   int    `json:"entries,omitempty"`
}

var errEnough = errors.New("enough")

// ListAside returns what was set aside in a data folder and still exists, the oldest first. It leaves out what cannot be read.
func ListAside(data string) (all []Aside, more bool) {
	root := AsideDir(data)
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
		a := Aside{File: path, Bytes: info.Size(), At: info.ModTime().UTC()}
		if at, err := time.Parse(AsideLayout, folder); err == nil {
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

// conversation fills in the conversation and the number of entries, from the first line of a file that `cortex doctor` wrote.
func (a *Aside) conversation(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(io.LimitReader(f, maxAsideRead))
	for lines := 0; ; lines++ {
		line, err := r.ReadSlice('\n')
		whole := err == nil
		var head struct {
			Tenant    string `json:"tenant"`
			ContextID string `json:"context_id"`
		}
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

// Unnamed returns those of all that are not within places, which were named already.
func Unnamed(all []Aside, places []string) []Aside {
	return slices.DeleteFunc(all, func(a Aside) bool {
		return slices.ContainsFunc(places, func(place string) bool {
			return a.File == place || strings.HasPrefix(a.File, place+string(filepath.Separator))
		})
	})
}

// AsideSpeaks reports whether something was set aside that may have spoken of files: anything but what a consumer has delivered, which names no file
// and whose messages are in the store still.
func AsideSpeaks(data string) bool {
	root := AsideDir(data)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		// The time, the account, the stream, and the file in the stream's folder.
		if in := strings.SplitN(filepath.ToSlash(rel), "/", 4); len(in) < 4 || !strings.HasPrefix(in[3], "obs/") {
			return errEnough
		}
		return nil
	})
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}
