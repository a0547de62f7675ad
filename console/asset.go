package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"
)

// assets serves the style sheet and the modules. They may change with the program, so a browser asks each time whether its copy still holds.
func (c *Console) assets() http.Handler {
	type asset struct {
		name, tag string
		body      []byte
	}
	all := make(map[string]asset)
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := static.ReadFile(name)
		sum := sha256.Sum256(b)
		all["/"+name] = asset{path.Base(name), fmt.Sprintf(`"%s"`, hex.EncodeToString(sum[:12])), b}
		return err
	})
	if err != nil {
		panic(err) // they are embedded
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := all[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", a.tag)
		http.ServeContent(w, r, a.name, time.Time{}, bytes.NewReader(a.body))
	})
}
