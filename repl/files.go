package repl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Message returns what is said in the conversation: text, with the files that c names.
func (c Config) Message(ctx context.Context, contextID, text string) (*client.Message, error) {
	m := client.Text(contextID, text)
	m.To = c.To
	for _, path := range c.Files {
		p, err := client.Attach(ctx, c.Client, contextID, path, c.MaxFile)
		if err != nil {
			return nil, err
		}
		m.Parts = append(m.Parts, p)
	}
	return m, nil
}

// Keep writes the files of an answer into the folder that c names, and says on Stderr which there are.
func (c Config) Keep(ctx context.Context, m *a2a.Message) error {
	c = c.withDefaults()
	files := transport.FilesOf(m.Parts)
	if c.Output == "" {
		for _, p := range files {
			_, _ = fmt.Fprintf(c.Stderr, "file: %s (--output DIR writes it)\n", client.Describe(ctx, c.Client.Transport, c.Client.Tenant, p))
		}
		return nil
	}
	saved, err := client.Save(ctx, c.Client.Transport, c.Client.Tenant, c.Output, files)
	for _, path := range saved {
		_, _ = fmt.Fprintf(c.Stderr, "wrote %s\n", oneLine(path))
	}
	if err != nil {
		return fmt.Errorf("the files of the answer are not all written: %w", err)
	}
	return nil
}

// attach has a file go with the next message.
func (c *chat) attach(_ context.Context, path string) error {
	if path == "" {
		if len(c.Files) == 0 {
			return errors.New("which file? /attach report.pdf")
		}
		c.Files = nil
		c.ui.Print(c.ui.style.dim("nothing goes with your next message any more"))
		return nil
	}
	info, err := client.CheckFile(path, c.MaxFile)
	if err != nil {
		return err
	}
	if len(c.Files) >= transport.MaxFiles {
		return fmt.Errorf("at most %d files go with a message", transport.MaxFiles)
	}
	c.Files = append(c.Files, path)
	c.ui.Print(c.ui.style.dim(fmt.Sprintf("%s, %s: it goes with your next message; /attach alone takes it back", oneLine(filepath.Base(path)), transport.SizeText(info.Size()))))
	return nil
}

// save writes a file of an answer.
func (c *chat) save(ctx context.Context, args string) error {
	number, path, _ := strings.Cut(args, " ")
	n, err := strconv.Atoi(number)
	switch {
	case len(c.got) == 0:
		return errors.New("no answer has brought a file yet")
	case err != nil || n < 1 || n > len(c.got):
		return fmt.Errorf("which one? the files are numbered from 1 to %d: /save 1", len(c.got))
	}
	if path = strings.TrimSpace(path); path == "" {
		path = "."
	}
	path, err = client.SaveAs(ctx, c.Client.Transport, c.Client.Tenant, path, c.got[n-1])
	if err != nil {
		return err
	}
	c.ui.Print(c.ui.style.dim("wrote " + oneLine(path)))
	return nil
}

// brought shows the files of an answer, by the numbers that /save takes.
func (c *chat) brought(ctx context.Context, m *a2a.Message) {
	width, _ := c.ui.size()
	for _, p := range transport.FilesOf(m.Parts) {
		c.got = append(c.got, p)
		line := fmt.Sprintf("file %d: %s", len(c.got), client.Describe(ctx, c.Client.Transport, c.Client.Tenant, p))
		hint := fmt.Sprintf(" (/save %d)", len(c.got))
		c.ui.Print(c.ui.style.dim(fit(line, width-1-len(hint)) + hint))
	}
}
