package persona

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/weighed"
)

// Bounds of the tools for files.
const (
	maxRead    = 2 << 20   // bytes of a file that is read, written or searched
	maxFound   = 200       // files or lines that are found
	maxVisited = 100_000   // files that are looked at
	maxLine    = 500       // bytes of a line that is found
	maxWritten = 1 << 20   // bytes of a file that is written
	maxEditing = 512 << 10 // bytes of a replacement

	maxInstructions = 1000      // of a regular expression: matching a larger one could take hours
	maxPattern      = 512 << 10 // its weight
	maxMatched      = 4 << 10   // bytes of a line that is matched without a look at the context
	checkEach       = 256       // runes of a longer line, between two looks at the context
)

// fileTools returns the tools for the files in the folder of Options.Root, with the names of Claude Code's. Links that leave the folder are errors
// ([os.Root]).
func (a *Agent) fileTools() []*tool {
	root := a.o.Root
	if root == nil {
		return nil
	}
	confirm := !a.p.EditFreely && !a.p.Unconfirmed
	write := newTool(toolWrite, "Write a text file; a file that exists is replaced.", repeatable,
		`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}`,
		func(_ context.Context, _ *work, in *input) (string, error) {
			if len(in.Content) > maxWritten {
				return "", fmt.Errorf("it has %d bytes: at most %d are allowed", len(in.Content), maxWritten)
			}
			name := local(in.Path)
			a.editing.Lock()
			defer a.editing.Unlock()
			if dir := path.Dir(name); dir != "." {
				if err := root.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
					return "", plainError(err)
				}
			}
			if err := replace(root, name, []byte(in.Content)); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s has %d bytes now", name, len(in.Content)), nil
		})
	edit := newTool(toolEdit, "Replace old_string, which has to occur once, with new_string in a text file; replace_all replaces all that occur.", writes,
		`{"type":"object","properties":{"path":{"type":"string"},"old_string":{"type":"string","minLength":1},"new_string":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["path","old_string","new_string"],"additionalProperties":false}`,
		func(ctx context.Context, _ *work, in *input) (string, error) {
			if len(in.New) > maxEditing {
				return "", fmt.Errorf("the replacement has %d bytes: at most %d are allowed", len(in.New), maxEditing)
			}
			name := local(in.Path)
			a.editing.Lock() // or what another task has changed since would be lost
			defer a.editing.Unlock()
			text, err := readIn(ctx, root, name)
			if err != nil {
				return "", err
			}
			n := strings.Count(text, in.Old)
			switch {
			case n == 0:
				return "", errors.New("old_string does not occur in it")
			case n > 1 && !in.All:
				return "", fmt.Errorf("old_string occurs %d times: give more of the text around it, or replace_all", n)
			case len(text)+n*(len(in.New)-len(in.Old)) > maxWritten:
				return "", fmt.Errorf("the file would have more than %d bytes", maxWritten)
			}
			if err := replace(root, name, []byte(strings.ReplaceAll(text, in.Old, in.New))); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s: replaced %d times", name, n), nil
		})
	write.confirm, edit.confirm = confirm, confirm
	return []*tool{
		write, edit,
		newTool(toolRead, "Read a text file; of a long one the first lines are shown, and read_result shows the others.", readOnly,
			`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`,
			func(ctx context.Context, _ *work, in *input) (string, error) { return readIn(ctx, root, in.Path) }),
		newTool(toolGlob, `List the files whose path matches a pattern, such as "docs/*.md", or "**/*.go" for all folders.`, readOnly,
			`{"type":"object","properties":{"pattern":{"type":"string"}},"required":["pattern"],"additionalProperties":false}`,
			func(ctx context.Context, _ *work, in *input) (string, error) { return glob(ctx, root, in.Pattern) }),
		newTool(toolGrep, "Find the lines of text files that match a regular expression (RE2); path is a folder or a file.", readOnly,
			`{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},"required":["pattern"],"additionalProperties":false}`,
			func(ctx context.Context, _ *work, in *input) (string, error) {
				return grep(ctx, root, in.Pattern, in.Path)
			}),
	}
}

// local returns a path within the root.
func local(name string) string {
	name = path.Clean(filepath.ToSlash(name))
	return strings.TrimPrefix(strings.TrimPrefix(name, "/"), "./")
}

// plainError returns an error without the path of the machine.
func plainError(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", filepath.ToSlash(of.Path), of.Err)
	}
	return err
}

// readIn reads a text file.
func readIn(ctx context.Context, root *os.Root, name string) (string, error) {
	name = local(name)
	f, err := document.OpenRegularIn(ctx, root, filepath.FromSlash(name))
	if err != nil {
		return "", plainError(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	switch {
	case err != nil:
		return "", plainError(err)
	case len(b) > maxRead:
		return "", fmt.Errorf("%s has more than %d bytes: look for what is needed with Grep", name, maxRead)
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s is no text file", name)
	}
	return string(b), nil
}

// replace writes a file so that it is never half written, whoever else writes it at the same time. A file that exists keeps its permissions.
func replace(root *os.Root, name string, b []byte) error {
	mode := fs.FileMode(0o644)
	is, err := root.Lstat(filepath.FromSlash(name))
	switch {
	case err == nil && !is.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", name)
	case err == nil:
		mode = is.Mode().Perm()
	}
	part := filepath.FromSlash(name + "." + strings.ToLower(rand.Text()[:8]) + ".cortex-part")
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return plainError(err)
	}
	if is != nil {
		err = f.Chmod(mode) // without the process's mask, and before anything is in it
	}
	if err == nil {
		_, err = f.Write(b)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(part, filepath.FromSlash(name))
	}
	if err != nil {
		return plainError(errors.Join(err, root.Remove(part)))
	}
	return nil
}

// unseen counts what a search has not looked at. Who searches takes what is not found for what is not there, so they are told.
type unseen struct {
	closed int    // files and folders that cannot be read
	long   int    // files of which only the first maxRead bytes were searched
	longs  string // the first of them
	many   bool   // there are more than maxVisited files
}

// note returns a line about it, or none.
func (u *unseen) note() []string {
	var all []string
	if u.many {
		all = append(all, fmt.Sprintf("only the first %d files and folders were looked at: name a folder to search in", maxVisited))
	}
	if u.long > 0 {
		all = append(all, fmt.Sprintf("of %d files, such as %s, only the first %d bytes were searched", u.long, u.longs, maxRead))
	}
	if u.closed > 0 {
		all = append(all, fmt.Sprintf("%d files or folders could not be read", u.closed))
	}
	if len(all) == 0 {
		return nil
	}
	return []string{"[" + strings.Join(all, "; ") + "]"}
}

// walk calls f for each regular file below dir, without hidden folders, until f returns false.
func walk(ctx context.Context, root *os.Root, dir string, not *unseen, f func(name string) bool) error {
	visited := 0
	err := fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch visited++; {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == dir:
			return err
		case err != nil:
			not.closed++
			return nil
		case d.IsDir() && name != dir && strings.HasPrefix(d.Name(), "."), d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case visited > maxVisited:
			not.many = true
			return fs.SkipAll
		case d.Type().IsRegular() && !f(name):
			return fs.SkipAll
		}
		return nil
	})
	return plainError(err)
}

// glob lists files.
func glob(ctx context.Context, root *os.Root, pattern string) (string, error) {
	re, err := globPattern(local(pattern))
	if err != nil {
		return "", err
	}
	var found []string
	var not unseen
	err = walk(ctx, root, ".", &not, func(name string) bool {
		if re.MatchString(name) {
			found = append(found, name)
		}
		return len(found) < maxFound
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		found = []string{"no file matches"}
	case len(found) == maxFound:
		found = append(found, "[there may be more]")
	}
	return strings.Join(append(found, not.note()...), "\n"), nil
}

// globPattern translates a pattern: ** is any number of folders, * and ? stand for characters of a name.
func globPattern(pattern string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString("(?:[^/]+/)*")
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return regexp.Compile(b.String() + "$")
}

// grep lists lines.
func grep(ctx context.Context, root *os.Root, pattern, dir string) (string, error) {
	compiled, err := weighed.Compile(pattern, maxInstructions, maxPattern)
	if err != nil {
		return "", fmt.Errorf("the pattern cannot be used: %w", err)
	}
	re := compiled.Regexp
	if dir = local(dir); dir == "" {
		dir = "."
	}
	var found []string
	var not unseen
	err = walk(ctx, root, dir, &not, func(name string) bool {
		f, err := document.OpenRegularIn(ctx, root, filepath.FromSlash(name))
		if err != nil {
			not.closed++
			return true
		}
		defer f.Close() //nolint:errcheck // it was only read
		b, err := io.ReadAll(io.LimitReader(f, maxRead+1))
		switch {
		case err != nil:
			not.closed++
			return true
		case bytes.IndexByte(b[:min(len(b), 8<<10)], 0) >= 0:
			return true // no text
		case len(b) > maxRead:
			b = b[:maxRead]
			not.long++
			not.longs = cmp.Or(not.longs, name)
		}
		n := 0
		for line := range strings.Lines(string(b)) {
			n++
			if ctx.Err() != nil {
				return false
			}
			if line = strings.TrimRight(line, "\r\n"); matches(ctx, re, line) {
				found = append(found, fmt.Sprintf("%s:%d: %s", name, n, strings.ToValidUTF8(line[:min(len(line), maxLine)], "")))
				if len(found) == maxFound {
					return false
				}
			}
		}
		return true
	})
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case len(found) == 0:
		found = []string{"no line matches"}
	case len(found) == maxFound:
		found = append(found, "[there may be more]")
	}
	return strings.Join(append(found, not.note()...), "\n"), nil
}

// matches reports whether a line matches, or false when ctx ends. A long line can keep a pattern busy for minutes, so it is read rune by rune, and its end
// comes early then; that is slower than [regexp.Regexp.MatchString].
func matches(ctx context.Context, re *regexp.Regexp, line string) bool {
	if len(line) <= maxMatched {
		return re.MatchString(line)
	}
	return re.MatchReader(&runes{ctx: ctx, text: strings.NewReader(line)}) && ctx.Err() == nil
}

// runes reads a text until ctx ends.
type runes struct {
	ctx  context.Context //nolint:containedctx // of one call
	text *strings.Reader
	n    int
}

// ReadRune implements [io.RuneReader].
func (r *runes) ReadRune() (rune, int, error) {
	if r.n++; r.n%checkEach == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return r.text.ReadRune()
}
