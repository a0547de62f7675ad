package repl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Message returns a message with text and with c.Files.
func (c Config) Message(ctx context.Context, contextID, text string) (*client.Message, error) {
	m := client.Text(contextID, text)
	m.To, m.ReplyTo = c.To, c.ReplyTo
	if err := CheckFiles(len(c.Files)); err != nil {
		return nil, err
	}
	if len(c.Files) > 0 { // which are uploaded one by one
		whole := *m
		whole.Parts = append(slices.Clone(m.Parts), &a2a.Part{Content: a2a.Raw("a file")})
		if err := c.Client.Check(&whole); err != nil {
			return nil, err
		}
	}
	for _, path := range c.Files {
		p, err := client.Attach(ctx, c.Client, contextID, path, c.MaxFile)
		if err != nil {
			client.Detach(ctx, c.Client, m.Parts)
			return nil, err
		}
		m.Parts = append(m.Parts, p)
	}
	return m, nil
}

// CheckFiles returns an error when a message cannot have n files.
func CheckFiles(n int) error {
	if n > transport.MaxFiles {
		return fmt.Errorf("at most %d files go with a message", transport.MaxFiles)
	}
	return nil
}

// Keep writes the files of an answer into c.Output, or lists them on Stderr. It returns the paths of the written files.
func (c Config) Keep(ctx context.Context, m *a2a.Message) ([]string, error) {
	c = c.withDefaults()
	files := transport.FilesOf(m.Parts)
	if c.Output == "" {
		for _, p := range files {
			_, _ = fmt.Fprintf(c.Stderr, "file: %s (--output DIR writes it)\n", client.Describe(ctx, c.Client.Transport, c.Client.Tenant, p))
		}
		return nil, nil
	}
	saved, err := client.Save(ctx, c.Client.Transport, c.Client.Tenant, c.Output, files)
	for _, path := range saved {
		_, _ = fmt.Fprintf(c.Stderr, "wrote %s\n", oneName(path))
	}
	if err != nil {
		return saved, fmt.Errorf("the files of the answer are not all written: %w", err)
	}
	return saved, nil
}

// attach adds a file to the next message.
func (c *chat) attach(_ context.Context, path string) error {
	switch {
	case len(c.Files) == 0 && (path == "" || path == "none"):
		return errors.New("nothing is attached; which file? /attach report.pdf")
	case path == "":
		for _, f := range c.Files {
			c.ui.Say(oneName(f)+" goes with your next message", lookDim)
		}
		c.ui.Say("/attach FILE adds one; /attach none takes all back", lookDim)
		return nil
	case path == "none": // a file of this name is ./none
		c.Files = nil
		c.ui.Say("nothing goes with your next message any more", lookDim)
		return nil
	}
	path = atHome(path)
	info, err := client.CheckFile(path, c.MaxFile)
	if err != nil {
		return err
	}
	if err := CheckFiles(len(c.Files) + 1); err != nil {
		return err
	}
	c.Files = append(c.Files, path)
	c.ui.Say(fmt.Sprintf("%s, %s: it goes with your next message; /attach none takes it back", oneName(filepath.Base(path)), transport.SizeText(info.Size())), lookDim)
	return nil
}

// remind prints which files will go with the next message.
func (c *chat) remind() {
	if len(c.Files) == 0 {
		return
	}
	line := oneName(filepath.Base(c.Files[0])) + " is still attached: it goes with your next message; /attach none takes it back"
	if more := len(c.Files) - 1; more > 0 {
		line = fmt.Sprintf("%s and %d more are still attached: they go with your next message; /attach none takes them back",
			oneName(filepath.Base(c.Files[0])), more)
	}
	c.ui.Say(line, lookDim)
}

// save writes a file of an answer to disk.
func (c *chat) save(ctx context.Context, args string) error {
	number, path, _ := strings.Cut(args, " ")
	n, err := strconv.Atoi(number)
	c.files.Lock()
	all := slices.Clone(c.got)
	c.files.Unlock()
	switch {
	case len(all) == 0:
		return errors.New("no answer has brought a file yet")
	case err != nil || n < 1 || n > len(all):
		return fmt.Errorf("which one? the files are numbered from 1 to %d: /save 1", len(all))
	}
	if path = strings.TrimSpace(path); path == "" {
		path = "."
	}
	path = atHome(path)
	got := all[n-1]
	p := got.part
	if transport.IsForgotten(p) {
		if p, err = c.again(ctx, got); err != nil {
			return err
		}
	}
	path, err = client.SaveAs(ctx, c.Client.Transport, c.Client.Tenant, path, p)
	if err != nil {
		return err
	}
	c.ui.Say("wrote "+oneName(path), lookDim)
	return nil
}

// gotFile is a file of an answer.
type gotFile struct {
	part      *a2a.Part
	contextID string
	answer    string // the id of its message
	index     int    // of the file among those of the answer
}

// maxGot bounds the bytes of files that a chat holds in memory. Those of older answers are read again when needed.
const maxGot = 16 << 20

// brought shows the files of an answer.
func (c *chat) brought(ctx context.Context, contextID, answer string, files []*a2a.Part) {
	for _, line := range c.number(ctx, contextID, answer, files) {
		c.ui.Say(line, lookDim)
	}
}

// number assigns the files of an answer the numbers that /save takes, and returns a line for each.
func (c *chat) number(ctx context.Context, contextID, answer string, files []*a2a.Part) (lines []string) {
	c.files.Lock()
	defer c.files.Unlock()
	for i, p := range files {
		c.got = append(c.got, gotFile{p, contextID, answer, i})
		lines = append(lines, fmt.Sprintf("file %d: %s (/save %[1]d)", len(c.got), client.Describe(ctx, c.Client.Transport, c.Client.Tenant, p)))
	}
	room := maxGot
	for i, got := range slices.Backward(c.got) {
		raw, inline := got.part.Content.(a2a.Raw)
		if room -= len(raw); inline && room < 0 {
			c.got[i].part = transport.ForgottenFile(got.part)
		}
	}
	return lines
}

// again reads a file from its conversation, when it is no longer in memory.
func (c *chat) again(ctx context.Context, got gotFile) (*a2a.Part, error) {
	if c.Backend.History == nil {
		return got.part, nil
	}
	for line, err := range c.Backend.History(ctx, got.contextID) {
		if err != nil {
			return nil, fmt.Errorf("read the answer that it is of: %w", err)
		}
		if line.Kind == client.LineAnswer && line.ID == got.answer && got.index < len(line.Files) {
			return line.Files[got.index], nil
		}
	}
	return got.part, nil
}
